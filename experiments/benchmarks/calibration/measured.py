"""A sweep measured under a root seed in this process, with no chunk on disk.

Chunks and their generators are those of a run of the suite with that seed.
"""

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
from experiments.metrics import METRICS
from experiments.row_statistics import RowMeasurement
from experiments.sampling import Cell
from experiments.saturation import STATISTICS

Tables = dict[str, pd.DataFrame]


def measure_sweep(sweep: Sweep, seed: int, change: Callable[[Cell], Cell] = lambda cell: cell) -> Tables:
    """The tables of a measured sweep.

    Args:
        sweep: a saturation sweep with a number of trials.
        seed: the root seed.
        change: maps every cell to the cell to measure in its place; a fault is planted here.

    Returns:
        The tables of the experiment by name, before analysis.
    """
    cells = [change(cell) for cell in sweep.cells()]
    return tabulated(sweep.experiment, cells, measure_cells(cells, sweep.trials, seed))


def measure_cells(cells: Sequence[Cell], trials: int, seed: int) -> list[RowMeasurement]:
    """The measurement of every cell, merged from its chunks in order.

    Args:
        cells: of the saturation experiment.
        trials: for each cell.
        seed: the root seed.
    """
    found = []
    for cell in cells:
        measured: Iterator[Any] = (measure_chunk(chunk, seed) for chunk in chunks("saturation", cell, trials))
        found.append(reduce(RowMeasurement.merge, measured))
    return found


def quantile_bounds(cells: Sequence[Cell], measurements: Sequence[RowMeasurement]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The smallest and the largest possible value of each quantile, as two tables with the rows of the measured one."""
    rows = [
        {
            metric.name: STATISTICS.known_within(cell, measurement, scaling.name, metric)
            for metric in METRICS
            if metric.kind == "quantile"
        }
        for cell, measurement in zip(cells, measurements, strict=True)
        for scaling in cell.scaling
    ]
    bounds = pd.DataFrame(rows)
    return bounds.map(itemgetter(0)), bounds.map(itemgetter(1))


def metric_values(table: pd.DataFrame, suffix: str = "") -> npt.NDArray[np.floating]:
    """The columns METRIC + suffix of all metrics, (rows, metrics)."""
    return np.asarray(table[[f"{metric.name}{suffix}" for metric in METRICS]], dtype=float)
