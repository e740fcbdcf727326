"""A sweep measured under a root seed in this process, with no chunk on disk.

Chunks and their generators are those of a run of the suite with that seed.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.harness.grid import Sweep, chunks
from experiments.harness.measuring import measure_chunk
from experiments.harness.tabulate import tabulated
from experiments.row_statistics import RowMeasurement, RowStatistics
from experiments.sampling import AttentionCell

Tables = dict[str, pd.DataFrame]


def statistics_of(sweep: Sweep) -> RowStatistics:
    """The metrics of the experiment of a sweep, with their measurement; its module binds STATISTICS."""
    found: RowStatistics = importlib.import_module(f"experiments.{sweep.experiment}").STATISTICS
    return found


def measure_sweep(sweep: Sweep, seed: int, change: Callable[[Any], Any] = lambda cell: cell) -> Tables:
    """The tables of a measured sweep.

    Args:
        sweep: a sweep of attention rows with a number of trials.
        seed: the root seed.
        change: maps every cell to the cell to measure in its place; a fault is planted here.

    Returns:
        The tables of the experiment by name, before analysis.
    """
    cells = [change(cell) for cell in sweep.cells()]
    return tabulated(sweep.experiment, cells, measure_cells(sweep.experiment, cells, sweep.trials, seed))


def measure_cells(experiment: str, cells: Sequence[AttentionCell], trials: int, seed: int) -> list[RowMeasurement]:
    """The measurement of every cell, merged from its chunks in order.

    Args:
        experiment: its name.
        cells: of that experiment.
        trials: for each cell.
        seed: the root seed.
    """
    found = []
    for cell in cells:
        measured: Iterator[Any] = (measure_chunk(chunk, seed) for chunk in chunks(experiment, cell, trials))
        found.append(reduce(RowMeasurement.merge, measured))
    return found


def quantile_bounds(sweep: Sweep, measurements: Sequence[RowMeasurement]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The smallest and the largest possible value of each quantile, as two tables with the rows of the measured one."""
    statistics = statistics_of(sweep)
    rows = [
        {
            metric.name: statistics.known_within(cell, measurement, scaling.name, metric)
            for metric in statistics.metrics
            if metric.kind == "quantile"
        }
        for cell, measurement in zip(sweep.cells(), measurements, strict=True)
        for scaling in cell.scaling
    ]
    bounds = pd.DataFrame(rows)
    return bounds.map(itemgetter(0)), bounds.map(itemgetter(1))


def metric_values(sweep: Sweep, table: pd.DataFrame, suffix: str = "") -> npt.NDArray[np.floating]:
    """The columns METRIC + suffix of all metrics of a sweep, (rows, metrics)."""
    return np.asarray(table[[f"{metric.name}{suffix}" for metric in statistics_of(sweep).metrics]], dtype=float)
