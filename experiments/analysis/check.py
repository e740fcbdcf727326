"""A check that tables are whole: they have every column and every row of the grid, and every number is finite.

It compares tables with their declarations alone; `experiments.analysis.agreement` compares values with theory.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from experiments.analysis import columns_of
from experiments.harness.columns import names
from experiments.harness.experiment import MEASURED
from experiments.harness.grid import Sweep, axis_values
from experiments.harness.tables import TableError, as_written
from experiments.harness.wording import counted


def check_table(sweep: Sweep, tables: Mapping[str, pd.DataFrame]) -> str:
    """A line about a whole table.

    Args:
        sweep: a block of the config.
        tables: its finished tables by kind, with the main one as `measured`.

    Raises:
        TableError: a table has other columns, an empty or infinite value in a column that allows none, or the main
            table lacks a cell, has a foreign one, or has another number of rows for a cell.
    """
    experiment = sweep.experiment
    columns = columns_of(experiment)
    for kind, frame in tables.items():
        expected = names(columns.get(kind, ()))
        if list(frame.columns) != expected:
            got = ", ".join(map(str, frame.columns))
            raise TableError(f"{sweep.name}, {kind}: expected the columns {', '.join(expected)}, got {got}")
        wrong = [column.name for column in columns[kind] if not (column.may_be_empty or _is_full(frame[column.name]))]
        if wrong:
            raise TableError(f"{sweep.name}, {kind}: expected finite numbers, got other values in {', '.join(wrong)}")
    table = tables[MEASURED]
    cells = sweep.cells()
    wanted = {_point(axis_values(cell).values()): experiment.table_rows(cell, sweep.trials) for cell in cells}
    axes = list(axis_values(cells[0]))
    found = Counter(_point(point) for point in table[axes].itertuples(index=False))
    of_cells = f"for {counted(len(wanted), 'cell')}"
    if found != wanted:
        rows = counted(sum(wanted.values()), "row")
        raise TableError(f"{sweep.name}: expected {rows} {of_cells}, got {len(table)}")
    return f"checked {sweep.name}: {counted(len(table), 'row')} {of_cells}, complete and unaltered"


def _is_full(values: pd.Series) -> bool:
    """True if every field has a value, and every number is finite."""
    return bool(values.notna().all() and (values.dtype.kind not in "iuf" or np.isfinite(values).all()))


def _point(values: Iterable[object]) -> tuple[str, ...]:
    """The values of a cell's axes as written in a table."""
    return tuple(map(as_written, values))
