"""Exact values beside the measured ones, declared by the metrics and computed by `sdpa.theory`.

A measured table comes in; the finished main table comes out. Exact values come from the cell of each row, which its
axes and its scaling determine, never from measured numbers.
"""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.harness.columns import cell_of, names
from experiments.harness.experiment import Cell, Experiment
from experiments.harness.metric import Theory
from sdpa import theory

OfCell = Callable[[Theory, Cell], float]


def add_exact(experiment: Experiment, measured: pd.DataFrame) -> pd.DataFrame:
    """The finished table: every declared column in order, including NAME_exact of each metric that theory knows."""
    table, cells = measured.copy(), cells_of(experiment, measured)
    for metric in experiment.metrics:
        if metric.exact is not None:
            table[f"{metric.name}_exact"] = of_cells(metric.exact.rounded, cells)
    return table[names(experiment.table_columns)]


def cells_of(experiment: Experiment, table: pd.DataFrame) -> pd.Series:
    """The cell of each row of a table: its axes and its scaling, under the index of the row.

    Its divisor follows from the name of the scaling, not from the column `divisor`, which may hold a wrong number.
    """
    return pd.Series([cell_of(experiment.cell, row) for row in table.itertuples()], table.index, dtype=object)


def of_cells(function: OfCell, cells: Iterable[Cell]) -> npt.NDArray[np.float64]:
    """A function of theory and cell, for each cell, (cells,): a value of `Exact`; NaN where theory knows none.

    >>> from experiments.distribution import Cell
    >>> of_cells(lambda theory, cell: theory.score_variance(cell.d_k, cell.divisor), [Cell(d_k=4), Cell(d_k=9)])
    array([4., 9.])
    """
    return np.array([function(theory, cell) for cell in cells], dtype=float)
