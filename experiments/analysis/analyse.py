"""The analysis of a sweep: its exact columns, and every derived table.

The measured tables of a sweep come in; its finished main table and its derived tables go out. A
module that derives tables binds TABLES, which DERIVED_TABLES joins.
"""

from collections.abc import Mapping

import pandas as pd

from experiments.analysis import bands, crossings, depth, laws, network, slopes, verdicts
from experiments.analysis.derived import VERDICTS, add_exact
from experiments.analysis.results import Results
from experiments.config.sweep import Sweep
from experiments.measuring.columns import Column
from experiments.measuring.experiment import MEASURED, Experiment

# In the order of derivation: each table may use the earlier ones.
DERIVED_TABLES = (
    *verdicts.TABLES,
    *slopes.TABLES,
    *crossings.TABLES,
    *laws.TABLES,
    *bands.TABLES,
    *depth.TABLES,
    *network.TABLES,
)


def analyse(sweep: Sweep, measured: Mapping[str, pd.DataFrame]) -> Results:
    """The results of a sweep: its finished main table, with its exact columns, and all its derived
    tables.

    Args:
        sweep: a block of the config.
        measured: its measured tables by kind: the main one as `measured`, and those beside it.

    Returns:
        The results without empty tables and without the tables beside the main one. `few_draws` of
        the main table then also lists metrics that have too few effective draws by theory
        (`flag_few_draws`).
    """
    tables = {**measured, MEASURED: add_exact(sweep.experiment, measured[MEASURED], sweep.cells())}
    growing = Results(sweep, tables)
    for derived in DERIVED_TABLES:
        if derived.applies_to(tables):
            tables[derived.kind] = derived.derive(growing)
    if VERDICTS in tables:
        tables[MEASURED] = verdicts.flag_few_draws(tables[MEASURED], tables[VERDICTS])
    kinds = [MEASURED, *(derived.kind for derived in DERIVED_TABLES)]
    return Results(
        sweep, {kind: tables[kind] for kind in kinds if kind in tables and len(tables[kind])}
    )


def columns_of(experiment: Experiment) -> dict[str, tuple[Column, ...]]:
    """The columns of every possible table of an experiment, by kind; a sweep need not have all
    these tables.
    """
    columns = {MEASURED: {column.name for column in experiment.table_columns}, **experiment.beside}
    possible = (table for table in DERIVED_TABLES if table.source in columns)
    derived = {
        table.kind: table.columns(experiment)
        for table in possible
        if table.needs <= set(columns[table.source])
    }
    return {MEASURED: experiment.table_columns, **derived}
