"""The parts of an example: a title, its source, and its steps with the numbers that they show.

The same steps become text for the terminal (`text`), rows of a CSV file (`table`) and the input of a figure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]

ARTICLE = "the article by M. Brenndoerfer, Scaled Dot-Product Attention (2025)"
LESSON = "the lesson Softmax & Attention Output, on The cat sat down"
NOTEBOOK = "the notebook Understanding the Division by sqrt(d) in the Attention Mechanism"
QUESTIONS = "the Q&A Why divide by sqrt(d_k)?"
TEXTBOOK = "the textbook chapter Scaled Dot-Product Attention"


class ExampleError(ValueError):
    """A missing example, or matrices that are not valid inputs of attention; the message names the expectation."""


@dataclass(frozen=True)
class Matrix:
    """A matrix with names for its rows and columns.

    Attributes:
        rows: one unique name per row.
        columns: one unique name per column.
        values: the numbers, (rows, columns).
        digits: the decimals to print.
        bars: also print each row as a strip of bars; its numbers lie between 0 and 1.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Floats
    digits: int = 4
    bars: bool = False

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), len(self.columns)):
            named = f"{len(self.rows)} row names and {len(self.columns)} column names"
            raise ValueError(f"expected one value for each of {named}, got shape {self.values.shape}")
        for names in (self.rows, self.columns):
            if len(set(names)) < len(names):
                raise ValueError(f"expected unique names, got {', '.join(names)}")


@dataclass(frozen=True)
class Step:
    """A step of an example.

    Attributes:
        name: a short identifier, unique within the example, which appears in the rows of the table.
        heading: what the step computes.
        text: a sentence or two of explanation.
        matrix: the numbers, if the step has any.
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
        steps: computes its steps; called only when needed, because some take a second.
    """

    title: str
    source: str
    steps: Callable[[], Sequence[Step]]


def table(values: npt.ArrayLike, rows: Sequence[str], columns: Sequence[str], digits: int = 4) -> Matrix:
    """A matrix from any values that NumPy converts to one.

    Raises:
        ValueError: values that do not fit the names, or repeated names.

    >>> table([[1, 2]], ["query"], ["first", "second"]).values
    array([[1., 2.]])
    """
    return Matrix(tuple(rows), tuple(columns), np.asarray(values, dtype=float), digits)


def sizes(values: Floats) -> str:
    """The shape of a matrix for a heading.

    >>> sizes(np.zeros((3, 4)))
    '(3 x 4)'
    """
    return f"({' x '.join(map(str, values.shape))})"


def rounded(values: Floats) -> Floats:
    """Differences to 12 decimals, which hides the rounding errors of doubles; these differ between machines.

    >>> rounded(np.array([0.1 + 0.2 - 0.3, -1e-17, 0.25]))
    array([0.  , 0.  , 0.25])
    """
    return np.asarray(np.round(values, 12) + 0.0)
