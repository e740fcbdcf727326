"""The interface between the suite and an experiment: cells, their measurements, and rows of tables.

A folder of `experiments.kinds` declares its experiment as `EXPERIMENT = Experiment(...)`. The suite
makes cells of the config, measures them in chunks (`measure`), stores and merges the measurements
(`Measurement.merge`), and turns the result of each cell into rows (`tabulate`).
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from experiments.measuring.cells import BaseCell, Row
from experiments.measuring.columns import Column, axis_columns
from experiments.measuring.metric import Metric

MEASURED = "measured"  # the main table of an experiment

C = TypeVar("C", bound=BaseCell)


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
    # Of the main table, after those of its cell; those of metrics, too.
    columns: tuple[Column, ...]
    measure: Callable[[C, int, np.random.Generator], M]
    # The rows of a cell by table: MEASURED, and any others that analysis needs. Each row
    # begins with the `row_head` of its cell with its rule alone.
    tabulate: Callable[[C, M], Mapping[str, Iterable[Row]]]
    metrics: tuple[Metric, ...] = ()
    min_trials: int = 1

    def __reduce__(self) -> "tuple[Callable[[str], AnyExperiment], tuple[str]]":
        return load_experiment, (self.name,)

    @property
    def has_precision(self) -> bool:
        """True if a sweep may request a precision instead of a number of trials."""
        return any(metric.is_precise for metric in self.metrics)

    @property
    def table_columns(self) -> tuple[Column, ...]:
        """The columns of the main table in files: the axes of a cell, what it shows, then `columns`."""
        return (*axis_columns(self.cell), *self.cell.shows, *self.columns)


# Of the suite, which hands each experiment the cells of its own class alone.
AnyExperiment: TypeAlias = Experiment[BaseCell, Measurement]


def load_experiment(name: str) -> AnyExperiment:
    """The `EXPERIMENT` of the folder of that name.

    Raises:
        ModuleNotFoundError: no folder of `experiments.kinds` has the name.
        TypeError: its EXPERIMENT is something else, or has another name.

    >>> load_experiment("saturation").table_columns[0].name
    'd_k'
    """
    experiment: AnyExperiment = importlib.import_module(f"experiments.kinds.{name}.cell").EXPERIMENT
    if not isinstance(experiment, Experiment) or experiment.name != name:
        raise TypeError(
            f"experiments.kinds.{name}.cell.EXPERIMENT: expected an Experiment of that name, got "
            f"{experiment!r:.200}"
        )
    return experiment
