"""Cells: the points of the grid of an experiment, and the types of what is measured in them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from experiments.measuring.columns import RULES, Column
from sdpa import Scaling

Row = dict[str, object]  # the columns of a table, with their values
Floats = npt.NDArray[np.floating]
# relative, of sums in double precision and of exact values; no test resolves smaller differences
ACCURACY = 1e-8
# the columns that describe a scaling rule
RULE_COLUMNS = (
    Column(RULES, "str", "scaling rule"),
    Column(
        "exponent",
        "float",
        "p if the divisor is d_k^p; empty for any other rule",
        may_be_empty=True,
    ),
    Column("divisor", "float", "divisor of the scores"),
)


@dataclass(frozen=True)
class Cell:
    """One point of the grid of an experiment, which declares it as a frozen dataclass.

    Its fields are keys of a sweep in the config. `scaling` holds rules, which all apply to the same
    draw. Any other field is an axis: each of its values makes its own cells.
    """

    @property
    def chunk_trials(self) -> int:
        """Trials of a chunk. They follow from the axes alone, so that more trials leave earlier
        chunks unchanged.
        """
        raise NotImplementedError

    @property
    def seconds_per_trial(self) -> float:
        """Rough time of a trial, for `plan` and the order of work."""
        raise NotImplementedError

    @property
    def memory(self) -> int:
        """Bytes that a worker needs to measure one chunk."""
        raise NotImplementedError

    def table_rows(self, trials: int) -> int:  # noqa: ARG002
        """Rows of the main table of a cell of that many trials."""
        return 1

    @property
    def separate_rows(self) -> float:
        """Rows of a trial that count as independent; with fewer than 50 in all trials, error bars
        are unreliable.
        """
        return math.inf

    def problem(self) -> str | None:
        """A field whose value others exclude, as `field: expected ..., got ...`; None for a
        possible cell.
        """
        return None


C = TypeVar("C", bound=Cell)
T = TypeVar("T")


def for_cells(kind: type[C]) -> Callable[[Callable[[C], T]], Callable[[Cell], T]]:
    """Decorates a function of the cells of one class; it refuses other cells by a `TypeError`."""

    def decorate(function: Callable[[C], T]) -> Callable[[Cell], T]:
        def checked(cell: Cell) -> T:
            if not isinstance(cell, kind):
                raise TypeError(f"expected a cell of {kind}, got {cell!r}")
            return function(cell)

        return checked

    return decorate


class RowSizes(Protocol):
    """The sizes of a cell, or of cells as the columns of a table."""

    @property
    def n_keys(self) -> int | Floats:
        """Keys of a row."""
        ...

    @property
    def n_queries(self) -> int | Floats:
        """Queries of a draw."""
        ...


class Rule(TypedDict):
    """The values of `RULE_COLUMNS` of a rule in a cell."""

    scaling: str
    exponent: float
    divisor: float


class ScaledCell(Cell):
    """The part of all cells with scaling rules: frozen dataclasses with these attributes, as fields
    or properties.
    """

    d_k: int  # width of queries and keys
    n_keys: int  # length of a softmax row
    scaling: tuple[Scaling, ...]  # rules, which all divide the same scores

    @property
    def n_queries(self) -> int:
        """Rows of a draw: one for each key, unless a class says otherwise."""
        return self.n_keys

    def table_rows(self, trials: int) -> int:  # noqa: ARG002
        """As `Cell.table_rows`: one for each rule."""
        return len(self.scaling)

    def divisors(self) -> list[float]:
        """The divisor of each scaling, in order."""
        return [scaling.divisor(self.d_k, self.n_keys) for scaling in self.scaling]

    @property
    def divisor(self) -> float:
        """The divisor of a cell with one scaling, as of a row of a table."""
        (divisor,) = self.divisors()
        return divisor

    def rules(self) -> Iterator[Rule]:
        """The values of `RULE_COLUMNS` for each scaling, in order; `exponent` is NaN unless the
        divisor is a power of d_k.

        >>> from experiments.measuring.sampling import SampledCell
        >>> next(SampledCell(d_k=64, n_keys=4, scaling=(Scaling.parse("d_k^1/2"),)).rules())
        {'scaling': 'd_k^1/2', 'exponent': 0.5, 'divisor': 8.0}
        """
        for scaling, divisor in zip(self.scaling, self.divisors(), strict=True):
            exponent = math.nan if scaling.exponent is None else float(scaling.exponent)
            yield {"scaling": scaling.name, "exponent": exponent, "divisor": divisor}
