"""Cells: the points of the grid of an experiment, and the types of what is measured in them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self, TypeVar

from experiments.measuring.columns import RULES, Column, axis_values
from sdpa import Scaling
from sdpa._arrays import FloatArray

Row = dict[str, object]  # the columns of a table, with their values
CELL = "cell"  # the column of a row's cell, with the row's rule alone; no file has it
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
LAYER = Column("layer", "int", "number of the layer, from 1")  # of further tables


class Sizes(NamedTuple):
    """The sizes of softmax rows: numbers of a cell, or arrays over the rows of a table."""

    n_queries: float | FloatArray  # rows of a draw
    n_keys: float | FloatArray  # length of a row
    mass: float | FloatArray = 1.0  # largest sum of the weights of a row


@dataclass(frozen=True)
class BaseCell:
    """One point of the grid of an experiment, which declares it as a frozen dataclass.

    Its fields are keys of a sweep in the config. `scaling` holds rules, which all apply to the same
    draw. Any other field is an axis: each of its values makes its own cells.

    Attributes:
        shows: columns of its rows after the axes, each the property of that name.
    """

    shows: ClassVar[tuple[Column, ...]] = ()

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

    @property
    def sizes(self) -> Sizes:
        """The sizes of its softmax rows, from which limits of metrics follow."""
        return Sizes(1, 1)

    def by_rule(self) -> Sequence[Self]:
        """The cell with each of its rules alone, in order: the cells of the rows of its tables."""
        return (self,)

    def row_head(self) -> Row:
        """The first values of the rows of a cell of one rule: itself, its axes, and what it
        `shows`.
        """
        shown = {column.name: getattr(self, column.name) for column in self.shows}
        return {CELL: self, **axis_values(self), **shown}

    def table_rows(self, trials: int) -> int:  # noqa: ARG002
        """Rows of the main table of a cell of that many trials."""
        return len(self.by_rule())

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


C = TypeVar("C", bound=BaseCell)
T = TypeVar("T")


def for_cells(kind: type[C]) -> Callable[[Callable[[C], T]], Callable[[BaseCell], T]]:
    """Decorates a function of the cells of one class; it refuses other cells by a `TypeError`."""

    def decorate(function: Callable[[C], T]) -> Callable[[BaseCell], T]:
        def checked(cell: BaseCell) -> T:
            if not isinstance(cell, kind):
                raise TypeError(f"expected a cell of {kind}, got {cell!r}")
            return function(cell)

        return checked

    return decorate


class ScaledCell(BaseCell):
    """The part of all cells with scaling rules: frozen dataclasses with these attributes, as fields
    or properties.
    """

    d_k: int  # width of queries and keys
    n_keys: int  # length of a softmax row
    scaling: tuple[Scaling, ...]  # rules, which all divide the same scores
    shows: ClassVar[tuple[Column, ...]] = RULE_COLUMNS

    @property
    def n_queries(self) -> int:
        """Rows of a draw: one for each key, unless a class says otherwise."""
        return self.n_keys

    @property
    def sizes(self) -> Sizes:
        """As `BaseCell.sizes`."""
        return Sizes(self.n_queries, self.n_keys)

    def by_rule(self) -> Sequence[Self]:
        """As `BaseCell.by_rule`.

        >>> from experiments.measuring.sampling import SampledCell
        >>> rules = Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")
        >>> [cell.divisor for cell in SampledCell(d_k=4, n_keys=8, scaling=rules).by_rule()]
        [1.0, 2.0]
        """
        return tuple(replace(self, **{RULES: (rule,)}) for rule in self.scaling)

    def row_head(self) -> Row:
        """As `BaseCell.row_head`, with the name of the rule."""
        (rule,) = self.scaling
        return super().row_head() | {RULES: rule.name}

    def divisors(self) -> list[float]:
        """The divisor of each scaling, in order."""
        return [scaling.divisor(self.d_k, self.n_keys) for scaling in self.scaling]

    @property
    def divisor(self) -> float:
        """The divisor of a cell with one scaling, as of a row of a table."""
        (divisor,) = self.divisors()
        return divisor

    @property
    def exponent(self) -> float:
        """p if the divisor of a cell with one scaling is d_k^p; else NaN."""
        (rule,) = self.scaling
        return math.nan if rule.exponent is None else float(rule.exponent)
