"""The analysis of a sweep: its exact columns, and every derived table.

The measured tables of a sweep come in; its finished main table and its derived tables go out. A
module that derives tables binds TABLES, which DERIVED_TABLES joins.
"""

from collections.abc import Mapping

import pandas as pd

from experiments.analysis import (
    bands,
    crossings,
    freezing,
    network,
    score_counts,
    slopes,
    verdicts,
)
from experiments.analysis.derived import add_exact
from experiments.analysis.results import Results
from experiments.config.sweep import Sweep
from experiments.errors import in_part
from experiments.measuring.columns import Column, names
from experiments.measuring.experiment import MEASURED, Experiment
from experiments.paths import csv_name

# In the order of derivation: each table may use the earlier ones.
DERIVED_TABLES = (
    *verdicts.TABLES,
    *slopes.TABLES,
    *crossings.TABLES,
    *freezing.TABLES,
    *score_counts.TABLES,
    *bands.TABLES,
    *network.TABLES,
)


def analyse(sweep: Sweep, measured: Mapping[str, pd.DataFrame]) -> Results:
    """The results of a sweep: its finished main table, with its exact columns, and all its derived
    tables.

    Args:
        sweep: a block of the config.
        measured: its measured tables by kind: the main one as `measured`, and those beside it.

    Returns:
        The results without empty tables and without the tables beside the main one; `failed` has
        the error of each table that met one.
    """
    finished = add_exact(sweep.experiment, measured[MEASURED], sweep.cells)
    tables = {**measured, MEASURED: finished}
    kinds = [MEASURED]
    failed = []
    for derived in DERIVED_TABLES:
        if not derived.applies_to(tables):
            continue
        try:
            tables[derived.kind] = derived.derive(Results(sweep, tables))
            kinds.append(derived.kind)
        except Exception as error:
            failed.append(in_part(f"{csv_name(sweep.name, derived.kind)} not made", error))
    return Results(sweep, {kind: tables[kind] for kind in kinds if len(tables[kind])}, failed)


def columns_of(experiment: Experiment) -> dict[str, tuple[Column, ...]]:
    """The columns of every possible table of an experiment, by kind; a sweep need not have all
    these tables.
    """
    columns = {MEASURED: experiment.table_columns}
    sources = {MEASURED: names(experiment.table_columns), **experiment.beside}
    for derived in DERIVED_TABLES:
        if derived.applies_to(sources):
            columns[derived.kind] = derived.columns(experiment)
    return columns
