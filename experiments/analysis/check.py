"""Is a table whole: every column, every row of the grid, every number there and finite."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from experiments.analysis import table_columns
from experiments.harness.grid import Sweep, axis_values
from experiments.harness.tables import TableError


def check_table(sweep: Sweep, tables: Mapping[str, pd.DataFrame]) -> str:
    """A line that says what was found whole; `TableError` that says what is not."""
    table = tables["rows"]
    expected = [column.name for column in table_columns(sweep.experiment)]
    if list(table.columns) != expected:
        raise TableError(
            f"{sweep.name}: expected the columns {', '.join(expected)}, got {', '.join(map(str, table.columns))}"
        )
    points = {(*axis_values(cell).values(), str(scaling)) for cell in sweep.cells() for scaling in cell.scaling}
    found = set(table[[*axis_values(sweep.cells()[0]), "scaling"]].itertuples(index=False, name=None))
    if found != points:
        raise TableError(f"{sweep.name}: expected rows for {len(points)} cells and scalings, got {len(found & points)}")
    for kind, frame in tables.items():
        numbers = frame.select_dtypes("number")
        wrong = [name for name in numbers if not np.isfinite(numbers[name]).all()]
        if wrong:
            raise TableError(f"{sweep.name}, {kind}: expected finite numbers, got others in {', '.join(wrong)}")
    return f"checked {sweep.name}: {len(table)} rows for {len(points)} cells and scalings, whole and as measured"
