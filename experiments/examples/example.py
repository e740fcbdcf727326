"""The parts of an example: a title, its source, and its steps with the numbers that they show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]

ARTICLE = "article: M. Brenndoerfer, Scaled Dot-Product Attention (2025)"
LESSON = "lesson: softmax and attention output, of the cat sat down"
NOTEBOOK = "notebook: why attention divides by sqrt(d)"
QUESTIONS = "questions and answers on sqrt(d_k)"
TEXTBOOK = "textbook: a page on scaled dot-product attention"


class ExampleError(ValueError):
    """An example that does not exist, or matrices that attention cannot take; the message says what was expected."""


@dataclass(frozen=True)
class Matrix:
    """A matrix with names for its rows and columns.

    Attributes:
        rows: one name per row; no two are alike.
        columns: one name per column; no two are alike.
        values: the numbers, (rows, columns).
        digits: the decimals to print.
        bars: print each row as a strip of bars too; its numbers go from 0 to 1.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Floats
    digits: int = 4
    bars: bool = False

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), len(self.columns)):
            named = f"{len(self.rows)} names of rows and {len(self.columns)} of columns"
            raise ValueError(f"expected a value for {named}, got shape {self.values.shape}")
        for names in (self.rows, self.columns):
            if len(set(names)) < len(names):
                raise ValueError(f"expected names that differ, got {', '.join(names)}")


@dataclass(frozen=True)
class Step:
    """A step of an example.

    Attributes:
        name: a short identifier, unique within the example; the rows of the table bear it.
        heading: what the step computes.
        text: a sentence or two of explanation.
        matrix: the numbers, if the step has some.
    """

    name: str
    heading: str
    text: str
    matrix: Matrix | None = None


@dataclass(frozen=True)
class Example:
    """A worked example.

    Attributes:
        title: what it shows, in a few words.
        source: where its numbers come from.
        steps: computes its steps; called when they are needed, since some take a second.
    """

    title: str
    source: str
    steps: Callable[[], Sequence[Step]]


def table(values: npt.ArrayLike, rows: Sequence[str], columns: Sequence[str], digits: int = 4) -> Matrix:
    """A matrix of anything that NumPy reads as one."""
    return Matrix(tuple(rows), tuple(columns), np.asarray(values, dtype=float), digits)


def shape(values: Floats) -> str:
    """The shape of a matrix as it stands in a heading.

    >>> shape(np.zeros((3, 4)))
    '(3 x 4)'
    """
    return f"({' x '.join(map(str, values.shape))})"


def rounded(values: Floats) -> Floats:
    """Differences to 12 decimals, at which rounding errors of doubles, other on every machine, are zero."""
    return np.asarray(np.round(values, 12) + 0.0)
