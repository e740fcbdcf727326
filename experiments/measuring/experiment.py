"""The interface between the suite and an experiment: cells, their measurements, and rows of tables.

A folder of `experiments.kinds` declares its experiment as `EXPERIMENT = Experiment(...)`. The suite
makes cells of the config, measures them in chunks (`measure`), stores and merges the measurements
(`Measurement.merge`), and turns the result of each cell into rows (`tabulate`).
"""

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeAlias, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from experiments.measuring.columns import RULES, Column, axis_columns
from sdpa import Scaling

if TYPE_CHECKING:
    from experiments.measuring.metric import Metric

Row = dict[str, object]  # the columns of a table, with their values
Floats = npt.NDArray[np.floating]
MEASURED = "measured"  # the main table of an experiment
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


class Measurement(Protocol):
    """The result of a chunk of trials; merging the chunks of a cell in order gives the cell's.

    A dataclass of numbers, arrays and tuples of them, nested as needed, because the store writes
    and rebuilds it by its fields.
    """

    def merge(self, following: Self) -> Self:
        """The measurement of both chunks together; `following` holds the later trials."""
        ...


M = TypeVar("M", bound=Measurement)


@dataclass(frozen=True, eq=False)
class Experiment(Generic[C, M]):
    """A kind of measurement, swept over cells; it travels to other processes as its name."""

    name: str  # of its folder; it keys the random numbers
    cell: type[C]
    columns: tuple[Column, ...]  # of the main table after the axes, including those of its metrics
    measure: Callable[[C, int, np.random.Generator], M]
    # The rows of a cell, without its axes, by table: MEASURED, and any others that analysis needs.
    tabulate: Callable[[C, M], Mapping[str, Iterable[Row]]]
    metrics: "tuple[Metric, ...]" = ()
    # The columns, without the axes, of the tables beside the main one; only analysis reads them.
    side_tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    min_trials: int = 1

    def __reduce__(self) -> "tuple[Callable[[str], AnyExperiment], tuple[str]]":
        return load_experiment, (self.name,)

    @property
    def has_precision(self) -> bool:
        """True if a sweep may request a precision instead of a number of trials."""
        return any(metric.is_precise for metric in self.metrics)

    @property
    def table_columns(self) -> tuple[Column, ...]:
        """The columns of the finished main table: the axes of a cell, then `columns`."""
        return (*axis_columns(self.cell), *self.columns)


# Of the suite, which hands each experiment the cells of its own class alone.
AnyExperiment: TypeAlias = Experiment[Cell, Measurement]


def load_experiment(name: str) -> AnyExperiment:
    """The `EXPERIMENT` of the folder of that name.

    Raises:
        ModuleNotFoundError: no folder of `experiments.kinds` has the name.
        TypeError: its EXPERIMENT is something else, or has another name.

    >>> load_experiment("distribution").table_columns[0].name
    'd_k'
    """
    experiment: AnyExperiment = importlib.import_module(f"experiments.kinds.{name}.cell").EXPERIMENT
    if not isinstance(experiment, Experiment) or experiment.name != name:
        raise TypeError(
            f"experiments.kinds.{name}.cell.EXPERIMENT: expected an Experiment of that name, got "
            f"{experiment!r:.200}"
        )
    return experiment
