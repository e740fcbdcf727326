"""Rows with their cells: the main table of a sweep, as it is made and as it is read.

Each row has its cell, with the row's rule alone, in the column `CELL`. It is there from tabulation on;
no file has it. A table that is read finds the cell of a row in the sweep, by the axes and the rule of
the row. Intervals of averages are no columns of a file either, as they follow from value, standard
error, trials and limits.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from experiments.config.errors import MeasurementError, TableError
from experiments.config.sweep import Sweep
from experiments.measuring.cells import CELL, BaseCell, Row, Sizes
from experiments.measuring.columns import RULES, as_json, axis_names, describe, names, written
from experiments.measuring.experiment import MEASURED, AnyExperiment, Measurement
from experiments.measuring.intervals import mean_interval
from sdpa._arrays import FloatArray


def tabulated(
    experiment: AnyExperiment, cells: Iterable[BaseCell], measurements: Iterable[Measurement]
) -> dict[str, pd.DataFrame]:
    """The tables of cells of an experiment from the merged measurement of each, in order, by kind;
    without exact values. The function reads measurements one at a time.

    Raises:
        MeasurementError: a value of the main table is not finite.
    """
    tables: dict[str, list[Row]] = {}
    for cell, measurement in zip(cells, measurements, strict=True):
        for kind, rows in experiment.tabulate(cell, measurement).items():
            tables.setdefault(kind, []).extend(rows)
    columns = experiment.table_columns
    full = [column.name for column in columns if not column.may_be_empty]
    for row in tables[MEASURED]:
        for name in full:
            value = row[name]
            if isinstance(value, float) and not math.isfinite(value):
                expected = f"expected a finite {name}, got {value} in {row}"
                raise MeasurementError(f"cell {describe(row[CELL])}: {expected}")
    frames = {kind: pd.DataFrame(rows) for kind, rows in tables.items()}
    return frames | {MEASURED: _with_intervals(experiment, frames[MEASURED])}


def with_exact(experiment: AnyExperiment, table: pd.DataFrame) -> pd.DataFrame:
    """A main table with NAME_exact of each metric that theory knows, in the cell of each row.

    The divisor is that of the cell: the column `divisor` may hold a wrong number.
    """
    columns = {}
    for metric in experiment.metrics:
        if metric.exact and metric.name in table:
            values = table[CELL].map(metric.exact.value)
            columns[f"{metric.name}_exact"] = values.astype(float)
    return table.assign(**columns)


def with_cells(sweep: Sweep, read: pd.DataFrame) -> pd.DataFrame:
    """The main table of a sweep from its file, which may lack metrics and axes that were declared
    later, and exact values. The value of such an axis is that of the sweep.

    Raises:
        TableError: it lacks another column, or a row is of no cell of the sweep.
    """
    experiment = sweep.experiment
    axes = axis_names(experiment.cell)
    for name, values in sweep.values.items():
        if name in axes and name not in read and len(values) == 1:
            read = read.assign(**{name: as_json(values[0])})
    columns = names(experiment.table_columns)
    keys = [name for name in columns if name in (*axes, RULES)]
    for metric in experiment.metrics:
        own = names(metric.columns())
        if not {*own} - {f"{metric.name}_exact"} <= {*read}:
            columns = [name for name in columns if name not in own]
    for name in columns:
        if name not in read and not name.endswith("_exact"):
            lacks = f"expected the column {name}, got none; make all writes it"
            raise TableError(f"{sweep.name}: {lacks}")
    known = {}
    for cell in sweep.cells:
        for rule_cell in cell.by_rule():
            known[_key(rule_cell.row_head(), keys)] = rule_cell
    table = read.reindex(columns=columns)
    try:
        cells = [known[_key(row, keys)] for row in table[keys].to_dict("records")]
    except KeyError as error:
        raise TableError(f"{sweep.name}: expected rows of its cells, got {error}") from None
    return _with_intervals(experiment, table.assign(**{CELL: cells}))


def sizes_of(rows: pd.DataFrame) -> Sizes:
    """The sizes of the cells of rows."""
    sizes = [cell.sizes for cell in rows[CELL]]
    return Sizes(*np.reshape(sizes, (-1, len(Sizes._fields))).astype(float).T)


def _with_intervals(experiment: AnyExperiment, table: pd.DataFrame) -> pd.DataFrame:
    """A main table with the intervals of its means and roots."""
    sizes = sizes_of(table)
    ends: dict[str, FloatArray] = {}
    for metric in experiment.metrics:
        name = metric.name
        if metric.is_average and name in table:
            value = table[name].to_numpy()
            error = table[f"{name}_se"].to_numpy()
            trials = table["trials"].to_numpy()
            low, high = mean_interval(value, error, trials, metric.limits(sizes))
            ends[f"{name}_low"] = low
            ends[f"{name}_high"] = high
    return table.join(pd.DataFrame(ends, table.index))


def _key(row: Mapping[str, object], keys: Iterable[str]) -> tuple[str, ...]:
    """The values of a row by which it finds its cell."""
    return tuple(written(row[name]) for name in keys)
