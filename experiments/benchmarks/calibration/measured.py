"""A sweep that is measured under a root seed in this process, with no chunk kept on disk."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments import saturation
from experiments.draws import Cell
from experiments.harness.experiment import Measured
from experiments.harness.grid import Sweep, axis_values, chunks
from experiments.harness.measuring import measure_chunk
from experiments.saturation import SaturationMeasurement

METRICS = saturation.METRICS


def measure_sweep(sweep: Sweep, seed: int, change: Callable[[Cell], Cell] = lambda cell: cell) -> Measured:
    """The measured sweep; `change` makes of every cell the one that is measured in its place."""
    cells = [change(cell) for cell in sweep.cells()]
    return tabulate(cells, measure_cells(cells, sweep.trials, seed))


def measure_cells(cells: Sequence[Cell], trials: int, seed: int) -> list[SaturationMeasurement]:
    """The measurement of every cell: its chunks, merged in order."""
    found = []
    for cell in cells:
        measured: Iterator[Any] = (measure_chunk(chunk, seed) for chunk in chunks("saturation", cell, trials))
        found.append(reduce(SaturationMeasurement.merge, measured))
    return found


def tabulate(cells: Sequence[Cell], measurements: Sequence[SaturationMeasurement]) -> Measured:
    """The rows of all cells, and the estimates of each."""
    rows, details = [], []
    for cell, measurement in zip(cells, measurements, strict=True):
        rows += [{**axis_values(cell), **row} for row in saturation.tabulate(cell, measurement)]
        details.append(saturation.estimates(cell, measurement))
    return Measured(pd.DataFrame(rows), details)


def quantile_bounds(
    cells: Sequence[Cell], measurements: Sequence[SaturationMeasurement]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The least and the largest value that each quantile may have, each a table with the rows of `tabulate`."""
    rows = [
        {
            f"{norm}_{name}": measurement.norms.known_within(len(saturation.NORMS) * scaling + place, share)
            for place, norm in enumerate(saturation.NORMS)
            for name, share in saturation.QUANTILES.items()
        }
        for cell, measurement in zip(cells, measurements, strict=True)
        for scaling in range(len(cell.scaling))
    ]
    bounds = pd.DataFrame(rows)
    return bounds.map(itemgetter(0)), bounds.map(itemgetter(1))


def metric_values(table: pd.DataFrame, suffix: str = "") -> npt.NDArray[np.floating]:
    """The columns METRIC + suffix of all metrics, (rows, metrics)."""
    return np.asarray(table[[f"{metric.name}{suffix}" for metric in METRICS]], dtype=float)
