"""Exact values beside the measured ones, as the metrics declare them and `sdpa.theory` knows them."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.harness.columns import cell_of, names
from experiments.harness.experiment import Experiment
from experiments.harness.metric import Cell, Theory
from sdpa import theory

OfCell = Callable[[Theory, Cell], float]


def add_exact(experiment: Experiment, measured: pd.DataFrame) -> pd.DataFrame:
    """The finished table: every declared column in order, NAME_exact of each metric that theory knows among them."""
    table = measured.copy()
    for metric in experiment.metrics:
        if metric.exact is not None:
            table[f"{metric.name}_exact"] = by_row(experiment, table, metric.exact.value)
    return table[names(experiment.table_columns)]


def by_row(experiment: Experiment, table: pd.DataFrame, function: OfCell) -> npt.NDArray[np.float64]:
    """A function of theory and cell for each row of a table: a cell has the axes and the scaling of its row."""
    return np.array([function(theory, cell) for cell in _cells(experiment, table)], dtype=float)


def _cells(experiment: Experiment, table: pd.DataFrame) -> Iterator[Cell]:
    """The cell of each row. Its divisor follows from the name of the scaling, not from the column of that name: what
    the scores were divided by may be wrong."""
    return (cell_of(experiment.cell, row) for row in table.itertuples())
