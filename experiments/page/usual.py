"""The rows of tables that a page speaks about without naming their inputs: independent standard normal entries."""

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.analysis.crossings import of_first_map
from experiments.harness.discovery import axes_of, unusual_axes
from experiments.harness.grid import Sweep

SweepTables = Mapping[str, Mapping[str, pd.DataFrame]]  # by sweep and kind


def usual_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table whose inputs are the usual ones."""
    return table[table[axes_of(table)].apply(lambda row: not unusual_axes(row.to_dict()), axis=1)]


def widest(sweeps: Sequence[Sweep], tables: SweepTables, kind: str) -> pd.DataFrame | None:
    """The first combination of axes of the first derived table of a kind, preferably one with several n_keys.

    Only rows with independent standard normal entries count; without any, the result is None.
    """
    found = [tables[sweep.name][kind] for sweep in sweeps if kind in tables[sweep.name]]
    usual = [rows for rows in (usual_rows(table) for table in found if len(table)) if len(rows)]
    if not usual:
        return None
    return of_first_map(max(usual, key=lambda table: len(table["n_keys"].unique()) > 1))
