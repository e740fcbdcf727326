"""The interface between the suite and an experiment.

A module of `experiments.kinds` declares its experiment as `EXPERIMENT = Experiment(...)`. The suite makes cells of the
config, measures them in chunks (`measure`), stores and merges the measurements (`Measurement.merge`), and turns the
result of each cell into rows (`tabulate`).
"""

import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from experiments.measuring.columns import Column, axis_columns

if TYPE_CHECKING:
    from experiments.measuring.metric import Metric

# The experiment defines a cell as a frozen dataclass; a row maps the columns of a table to values.
Cell = Any
Row = dict[str, Any]
MEASURED = "measured"  # the main table of an experiment
ACCURACY = 1e-8  # of sums in double precision and of exact values, as far as measured


class Measurement(Protocol):
    """The result of a chunk of trials; merging the chunks of a cell in order gives the cell's.

    A dataclass of numbers, arrays and tuples of them, nested as needed, because the store writes and rebuilds it by its
    fields.
    """

    def merge(self, following: Self) -> Self:
        """The measurement of both chunks together; `following` holds the later trials."""
        ...


@dataclass(frozen=True, eq=False)
class Experiment:
    """A kind of measurement, swept over cells.

    The fields of `cell` are the keys of a sweep in the config. A field of type tuple[T, ...] holds treatments: the
    whole list applies to the same draw. Any other field is an axis: each of its values makes its own cells.

    An experiment travels to other processes as its name.
    """

    name: str  # of its module; it keys the random numbers
    cell: type[Cell]
    columns: tuple[Column, ...]  # of the main table after the axes, including those of its metrics
    chunk_trials: Callable[[Cell], int]  # from the axes alone, so that more trials leave earlier chunks unchanged
    measure: Callable[[Cell, int, np.random.Generator], Measurement]
    # The rows of a cell, without its axes, by table: MEASURED, and any others that analysis needs.
    tabulate: Callable[[Cell, Any], Mapping[str, Iterable[Row]]]
    seconds_per_trial: Callable[[Cell], float]  # rough, for `plan` and the order of work
    memory: Callable[[Cell], int]  # bytes that a worker needs to measure one chunk
    table_rows: Callable[[Cell, int], int]  # rows of a cell of that many trials
    metrics: "tuple[Metric, ...]" = ()
    # The columns, without the axes, of the tables beside the main one; only analysis reads them.
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    min_trials: int = 1
    # Relative error of measured and exact values apart from that of the draws; no test resolves smaller differences.
    accuracy: Callable[[Cell], float] = lambda _: ACCURACY
    # Rows of a trial that share nothing; with few of them in all, draws do not show their own spread.
    separate_rows: Callable[[Cell], float] = lambda _: math.inf
    # JSON values, functions and classes that the names in a cell stand for, such as rules and laws: a change of one of
    # them makes only the results that use it stale, because their modules count in no fingerprint.
    stamp: Callable[[Cell], Any] = lambda _: None
    # The field of a cell whose value other fields exclude, as `field: expected ..., got ...`; None for a possible cell.
    problem: Callable[[Cell], str | None] = lambda _: None

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return load_experiment, (self.name,)

    @property
    def has_precision(self) -> bool:
        """True if a sweep may request a precision instead of a number of trials."""
        return any(metric.is_precise for metric in self.metrics)

    @property
    def table_columns(self) -> tuple[Column, ...]:
        """The columns of the finished main table: the axes of a cell, then `columns`."""
        return (*axis_columns(self.cell), *self.columns)


def load_experiment(name: str) -> Experiment:
    """The `EXPERIMENT` of the module of that name.

    Raises:
        ModuleNotFoundError: no module of `experiments.kinds` has the name.
        TypeError: its EXPERIMENT is something else, or has another name.

    >>> load_experiment("distribution").table_columns[0].name
    'd_k'
    """
    experiment = importlib.import_module(f"experiments.kinds.{name}").EXPERIMENT
    if not isinstance(experiment, Experiment) or experiment.name != name:
        raise TypeError(
            f"experiments.kinds.{name}.EXPERIMENT: expected an Experiment of that name, got {experiment!r:.200}"
        )
    return experiment
