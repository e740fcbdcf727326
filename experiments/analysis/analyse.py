"""The analysis of a sweep: its exact columns, and every derived table.

The measured tables of a sweep come in; its finished main table and its derived tables go out. A module that derives
tables binds TABLES, which DERIVED_TABLES joins.
"""

from collections.abc import Mapping

import pandas as pd

from experiments.analysis import bands, crossings, depth, laws, slopes, verdicts
from experiments.analysis.derived import VERDICTS, add_exact
from experiments.config.sweep import Sweep
from experiments.measuring.columns import Column
from experiments.measuring.experiment import MEASURED, Experiment

# In the order of derivation: each table may use the earlier ones.
DERIVED_TABLES = (*verdicts.TABLES, *slopes.TABLES, *crossings.TABLES, *laws.TABLES, *bands.TABLES, *depth.TABLES)


def analyse(sweep: Sweep, measured: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The finished main table of a sweep, with its exact columns, and all its derived tables.

    Args:
        sweep: a block of the config.
        measured: its measured tables by kind: the main one as `measured`, and those beside it.

    Returns:
        The tables by kind, without empty ones and without the tables beside the main one. `few_draws` of the main table
        then also lists metrics that have too few effective draws by theory (`flag_few_draws`).
    """
    tables = {**measured, MEASURED: add_exact(sweep.experiment, measured[MEASURED], sweep.cells())}
    found = {}
    for derived in DERIVED_TABLES:
        if derived.source in tables and derived.needs <= set(tables[derived.source]):
            tables[derived.kind] = found[derived.kind] = derived.derive(sweep, tables)
    if VERDICTS in found:
        tables[MEASURED] = verdicts.flag_few_draws(tables[MEASURED], found[VERDICTS])
    return {kind: frame for kind, frame in {MEASURED: tables[MEASURED], **found}.items() if len(frame)}


def columns_of(experiment: Experiment) -> dict[str, tuple[Column, ...]]:
    """The columns of every possible table of an experiment, by kind; a sweep need not have all these tables."""
    columns = {MEASURED: {column.name for column in experiment.table_columns}, **experiment.beside}
    possible = (table for table in DERIVED_TABLES if table.source in columns)
    derived = {table.kind: table.columns(experiment) for table in possible if table.needs <= set(columns[table.source])}
    return {MEASURED: experiment.table_columns, **derived}
