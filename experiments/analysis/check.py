"""Is a table whole: every column, every row of the grid, every number there and finite."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from experiments.analysis import optional_columns, table_columns
from experiments.harness.experiment import load_experiment
from experiments.harness.grid import Sweep, axis_values
from experiments.harness.paths import VERDICTS
from experiments.harness.tables import DIGITS, TableError


def check_table(sweep: Sweep, tables: Mapping[str, pd.DataFrame]) -> str:
    """A line that says what was found whole; `TableError` that says what is not."""
    table = tables["measured"]
    expected = [column.name for column in table_columns(sweep.experiment)]
    if list(table.columns) != expected:
        got = ", ".join(map(str, table.columns))
        raise TableError(f"{sweep.name}: expected the columns {', '.join(expected)}, got {got}")
    experiment = load_experiment(sweep.experiment)
    cells = sweep.cells()
    wanted = {_as_written(axis_values(cell).values()): experiment.table_rows(cell, sweep.trials) for cell in cells}
    axes = list(axis_values(cells[0]))
    found = Counter(_as_written(point) for point in table[axes].itertuples(index=False))
    if found != wanted:
        rows = sum(wanted.values())
        raise TableError(f"{sweep.name}: expected {rows} rows for {len(wanted)} cells, got {len(table)}")
    for kind, frame in tables.items():
        numbers = frame.select_dtypes("number")
        # An exact value that is not known is empty, and a z-score that means nothing; all else must be there.
        empty = set(optional_columns(sweep.experiment, kind))
        empty |= {name for name in numbers if name.endswith("_exact")} if kind == "measured" else set()
        empty = set(numbers) - {"measured", "se", "exact"} if kind == VERDICTS else empty
        wrong = [name for name in numbers if not np.isfinite(numbers[name]).all() and name not in empty]
        if wrong:
            raise TableError(f"{sweep.name}, {kind}: expected finite numbers, got others in {', '.join(wrong)}")
    return f"checked {sweep.name}: {len(table)} rows for {len(wanted)} cells, whole and as measured"


def _as_written(point: Iterable[object]) -> tuple[str, ...]:
    """The values of axes with the digits that a table has."""
    return tuple(value if isinstance(value, str) else DIGITS % value for value in point)
