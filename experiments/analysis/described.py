"""The meaning of every column of every table of sweeps: the content of columns.csv.

Sweeps and the kinds of their tables come in; one row per file and column comes out.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import pandas as pd

from experiments.analysis import columns_of
from experiments.analysis.long import long_columns
from experiments.harness.columns import Column
from experiments.harness.experiment import MEASURED
from experiments.harness.grid import Sweep
from experiments.harness.paths import LONG, csv_name
from experiments.harness.tables import IDENTITY


def described(sweeps: Sequence[Sweep], kinds: Mapping[str, Collection[str]]) -> pd.DataFrame:
    """The columns of each file, in its order, and last those of long-format.csv.

    Args:
        sweeps: the sweeps that have tables.
        kinds: the kinds of tables of each sweep, by its name.

    Returns:
        One row per file and column: file (its path below the results folder), table (EXPERIMENT, EXPERIMENT/KIND or
        long-format.csv), column, type, unit, meaning and formula.
    """
    rows = [
        {
            "file": file,
            "table": table,
            "column": column.name,
            "type": column.type,
            "unit": column.unit,
            "meaning": column.meaning,
            "formula": column.formula,
        }
        for file, table, columns in _files(sweeps, kinds)
        for column in columns
    ]
    return pd.DataFrame(rows)


def _files(
    sweeps: Sequence[Sweep], kinds: Mapping[str, Collection[str]]
) -> Iterator[tuple[str, str, tuple[Column, ...]]]:
    """Each file with the name of its table and its columns."""
    for sweep in sweeps:
        columns = columns_of(sweep.experiment)
        for kind in kinds[sweep.name]:
            table = sweep.experiment.name if kind == MEASURED else f"{sweep.experiment.name}/{kind}"
            yield csv_name(sweep.name, kind), table, (*IDENTITY, *columns[kind])
    yield LONG, LONG, long_columns(sweeps)
