"""The exact values of metrics in the cell of each row of a main table."""

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from experiments.measuring.cells import Cell, ScaledCell
from experiments.measuring.columns import RULES, names
from experiments.measuring.experiment import AnyExperiment
from experiments.measuring.metric import Exact, Metric
from experiments.running.workers import count_step


def row_cells(cells: Iterable[Cell]) -> list[Cell]:
    """The cell of each row of a main table, with the row's own rule alone.

    Its divisor follows from the rule of the sweep, not from the column `divisor`, which may hold a
    wrong number.

    >>> from experiments.measuring.sampling import SampledCell
    >>> from sdpa import Scaling
    >>> cell = SampledCell(d_k=4, n_keys=8, scaling=(Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")))
    >>> [one.divisor for one in row_cells([cell])]
    [1.0, 2.0]
    """
    found: list[Cell] = []
    for cell in cells:
        if isinstance(cell, ScaledCell):
            found += [replace(cell, **{RULES: (rule,)}) for rule in cell.scaling]
        else:
            found.append(cell)
    return found


def known_metrics(experiment: AnyExperiment) -> list[tuple[Metric, Exact]]:
    """The metrics with exact values, and these."""
    return [(metric, metric.exact) for metric in experiment.metrics if metric.exact]


def add_exact(
    experiment: AnyExperiment, measured: pd.DataFrame, cells: Iterable[Cell]
) -> pd.DataFrame:
    """The finished table: every declared column in order, including NAME_exact of each metric that
    theory knows.

    Args:
        experiment: declares the metrics.
        measured: its measured main table.
        cells: of the sweep, in the order of the table.
    """
    known = known_metrics(experiment)
    found = []
    for cell in row_cells(cells):
        found.append({f"{metric.name}_exact": float(exact.value(cell)) for metric, exact in known})
        count_step()
    table = measured.assign(**pd.DataFrame(found, measured.index))
    return table[names(experiment.table_columns)]
