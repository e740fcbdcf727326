"""What an experiment is to the harness, and how one is loaded."""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    import pandas as pd  # workers measure without it

    from experiments.harness.metric import Metric

# A cell is a frozen dataclass of the experiment's own; a row is one line of its table.
Cell = Any
Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of a table: declared once, by the experiment or analysis that makes it."""

    name: str
    type: str
    unit: str
    meaning: str
    formula: str = ""


class Measurement(Protocol):
    """What a chunk of trials gave; merging the chunks of a cell in order gives the cell's."""

    def merge(self, later: Self) -> Self:
        """The measurement of both chunks together."""
        ...


@dataclass(frozen=True)
class Measured:
    """A measured sweep: its table, and for each cell, in order, what analysis needs beyond the rows."""

    table: "pd.DataFrame"
    details: list[Any]


@dataclass(frozen=True)
class Experiment:
    """A kind of measurement, swept over cells.

    The fields of `cell` are the keys of a sweep in the config. A field of type tuple[T, ...] holds treatments: the
    whole list is applied to the same draw. Any other field is an axis: each of its values makes cells of its own.
    """

    cell: type[Cell]
    columns: tuple[Column, ...]  # of the table, those of its metrics included
    chunk_trials: Callable[[Cell], int]  # from the axes alone, so that more trials leave earlier chunks as they are
    measure: Callable[[Cell, int, np.random.Generator], Measurement]
    tabulate: Callable[[Cell, Any], Iterable[Row]]
    seconds_per_trial: Callable[[Cell], float]  # rough, for `plan` and the order of work
    memory: Callable[[Cell], int]  # bytes that measuring one chunk takes in a worker
    table_rows: Callable[[Cell, int], int]  # rows of a cell of that many trials
    metrics: "tuple[Metric, ...]" = ()
    min_trials: int = 1
    # The largest relative standard error of a cell, which a sweep's `precision` bounds; None if that makes no sense.
    relative_error: Callable[[Cell, Any], float] | None = None
    detail: Callable[[Cell, Any], Any] = lambda _cell, _measurement: None  # what analysis needs beyond the rows


def load_experiment(name: str) -> Experiment:
    """The `EXPERIMENT` of the module of that name."""
    experiment = importlib.import_module(f"experiments.{name}").EXPERIMENT
    if not isinstance(experiment, Experiment):
        raise TypeError(f"experiments.{name}.EXPERIMENT: expected an Experiment, got {type(experiment).__name__}")
    return experiment
