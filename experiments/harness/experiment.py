"""The interface between the harness and an experiment."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from experiments.harness.columns import Column, axis_columns

if TYPE_CHECKING:
    from experiments.harness.metric import Metric

# A cell is a frozen dataclass that the experiment defines; a row is one line of a table, by column.
Cell = Any
Row = dict[str, Any]
MEASURED = "measured"  # the main table of an experiment


class Measurement(Protocol):
    """The result of a chunk of trials; merging the chunks of a cell in order gives the cell's."""

    def merge(self, later: Self) -> Self:
        """The measurement of both chunks together."""
        ...


@dataclass(frozen=True)
class Experiment:
    """A kind of measurement, swept over cells.

    The fields of `cell` are the keys of a sweep in the config. A field of type tuple[T, ...] holds treatments: the
    whole list is applied to the same draw. Any other field is an axis: each of its values makes cells of its own.
    """

    cell: type[Cell]
    columns: tuple[Column, ...]  # of the main table behind the axes, those of its metrics included
    chunk_trials: Callable[[Cell], int]  # from the axes alone, so that more trials leave earlier chunks as they are
    measure: Callable[[Cell, int, np.random.Generator], Measurement]
    # The rows of a cell, without its axes, by table: MEASURED, and others that analysis needs beside it.
    tabulate: Callable[[Cell, Any], Mapping[str, Iterable[Row]]]
    seconds_per_trial: Callable[[Cell], float]  # rough, for `plan` and the order of work
    memory: Callable[[Cell], int]  # bytes that measuring one chunk takes in a worker
    table_rows: Callable[[Cell, int], int]  # rows of a cell of that many trials
    metrics: "tuple[Metric, ...]" = ()
    # The columns, but for the axes, of the tables beside the main one; analysis alone reads these.
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    min_trials: int = 1
    # Parameters that are named in a config, as rules and laws are: a change of one of them makes only those results
    # stale that use it. The modules of these types count in no fingerprint; the stamp of a cell does.
    named: tuple[type, ...] = ()
    stamp: Callable[[Cell], Any] = lambda _: None  # JSON values and functions that the names of a cell stand for

    @property
    def has_precision(self) -> bool:
        """True if a sweep may ask for a precision in place of a number of trials."""
        return any(metric.is_precise for metric in self.metrics)

    @property
    def table_columns(self) -> tuple[Column, ...]:
        """The columns of the finished main table: the axes of a cell, then `columns`."""
        return (*axis_columns(self.cell), *self.columns)


def load_experiment(name: str) -> Experiment:
    """The `EXPERIMENT` of the module of that name."""
    experiment = importlib.import_module(f"experiments.{name}").EXPERIMENT
    if not isinstance(experiment, Experiment):
        raise TypeError(f"experiments.{name}.EXPERIMENT: expected an Experiment, got {type(experiment).__name__}")
    return experiment
