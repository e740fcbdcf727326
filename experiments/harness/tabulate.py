"""The tables of a sweep from its records.

A measured sweep and its store come in; the main table and those that only analysis reads come out.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from experiments.harness.columns import axis_names
from experiments.harness.experiment import MEASURED, Cell, Experiment, Measurement, Row
from experiments.harness.grid import Sweep, axis_values
from experiments.harness.problems import MeasurementError
from experiments.harness.run import cell_chunks
from experiments.harness.store import Store

if TYPE_CHECKING:
    import pandas as pd


def tabulate_sweep(store: Store, sweep: Sweep) -> "dict[str, pd.DataFrame]":
    """The tables of a measured sweep, from its records: the main one as `measured`, and those that only analysis reads.

    Raises:
        MeasurementError: a value of the main table is not finite.
        RecordError: a record is missing, damaged or stale.
    """
    cells = sweep.cells()
    try:
        return tabulated(
            sweep.experiment, cells, (store.merged(iter(cell_chunks(store, sweep, cell))) for cell in cells)
        )
    except MeasurementError as error:
        raise MeasurementError(f"sweep {sweep.name}, {error}") from None


def tabulated(
    experiment: Experiment, cells: Iterable[Cell], measurements: Iterable[Measurement]
) -> "dict[str, pd.DataFrame]":
    """The tables of cells of an experiment from the merged measurement of each, in order, by kind.

    Rows begin with the axes of their cell. The function reads measurements one at a time.

    Raises:
        MeasurementError: a value of the main table is not finite.
    """
    import pandas as pd  # not at the top: the command line loads this module for commands without tables

    full = [column.name for column in experiment.table_columns if not column.may_be_empty]
    tables: dict[str, list[Row]] = {}
    for cell, measurement in zip(cells, measurements, strict=True):
        for kind, rows in experiment.tabulate(cell, measurement).items():
            tables.setdefault(kind, []).extend({**axis_values(cell), **row} for row in rows)
    for row in tables[MEASURED]:
        for name in full:
            if isinstance(row[name], float) and not math.isfinite(row[name]):
                cell = ", ".join(f"{axis}={row[axis]}" for axis in axis_names(experiment.cell))
                raise MeasurementError(f"cell {cell}: expected a finite {name}, got {row[name]} in {row}")
    return {kind: pd.DataFrame(rows) for kind, rows in tables.items()}
