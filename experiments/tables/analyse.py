"""The analysis of a sweep: its rows, their columns of exact values, every table computed from them,
and the tests of measured against exact values.

Merged measurements come in; the finished main table and the derived tables go out. A
module that derives tables binds TABLES, which DERIVED_TABLES joins.
"""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from experiments.config.errors import MeasurementError, in_part
from experiments.config.paths import ALL_METRICS
from experiments.config.sweep import Sweep
from experiments.kinds import modules
from experiments.measuring.columns import Column, names
from experiments.measuring.experiment import MEASURED
from experiments.running.store import Store
from experiments.running.work import cell_chunks, merged
from experiments.tables import crossings, verdicts
from experiments.tables.layout import IDENTITY, summary_columns, written_columns
from experiments.tables.results import Results
from experiments.tables.rows import tabulated, with_exact
from experiments.tables.stored import csv_name
from experiments.tables.verdicts import Agreement

# In the order of derivation: each table may use the earlier ones.
DERIVED_TABLES = (
    *verdicts.TABLES,
    *crossings.TABLES,
    *(table for _, module in modules("tables") for table in module.TABLES),
)


def results_of(store: Store, sweep: Sweep) -> Results:
    """The results of a measured sweep, from its records.

    Raises:
        MeasurementError: a value of the main table is not finite.
        RecordError: a record is missing, damaged or stale.
    """
    measurements = (
        merged(map(store.read, cell_chunks(store, sweep, cell))) for cell in sweep.cells
    )
    try:
        return analyse(sweep, tabulated(sweep.experiment, sweep.cells, measurements))
    except MeasurementError as error:
        raise MeasurementError(f"sweep {sweep.name}, {error}") from None


def analyse(sweep: Sweep, measured: Mapping[str, pd.DataFrame]) -> Results:
    """The results of a sweep: its finished main table, with its exact columns, and all its derived
    tables.

    Args:
        sweep: a block of the config.
        measured: its measured tables by kind: the main one as `measured`, and those beside it.

    Returns:
        The results without empty tables and without the tables beside the main one; `failed` has the
        error of each table that met one.
    """
    experiment = sweep.experiment
    whole = with_exact(experiment, measured[MEASURED])
    tables = {**measured, MEASURED: whole}
    kept = {MEASURED: whole}
    failed = []
    for derived in DERIVED_TABLES:
        if not derived.applies_to(tables):
            continue
        kind = derived.kind
        try:
            made = derived.derive(Results(sweep, tables))
            if len(made):
                kept[kind] = made = made[names(derived.columns(experiment.cell))]
            tables[kind] = made
        except Exception as error:
            part = f"{csv_name(sweep.name, kind)} not made"
            failed.append(in_part(part, error))
    return Results(sweep, kept, failed)


def columns_of(results: Results) -> dict[str, Sequence[Column]]:
    """The columns of the tables of a sweep in files, by kind."""
    columns: dict[str, Sequence[Column]] = {MEASURED: written_columns(results)}
    for derived in DERIVED_TABLES:
        if derived.kind in results:
            columns[derived.kind] = derived.columns(results.experiment.cell)
    return columns


def described(sweeps: Sequence[Results]) -> pd.DataFrame:
    """The columns of all tables, in the order of the tables.

    Returns:
        One row per column that has its own description: column, type, unit, meaning, formula, and
        the tables with it, separated by spaces: EXPERIMENT for a SWEEP.csv, EXPERIMENT/FILE for a
        derived/SWEEP/FILE.csv.
    """
    rows: list[dict[str, object]] = []
    for results in sweeps:
        experiment, columns = results.experiment.name, columns_of(results)
        for kind in results:
            file = ALL_METRICS if kind == MEASURED else kind
            table = {"tables": f"{experiment}/{file}"}
            rows += [vars(column) | table for column in (*IDENTITY, *columns[kind])]
        table = {"tables": experiment}
        summary = summary_columns(results)
        rows += [vars(column) | table for column in columns[MEASURED] if column.name in summary]
    listed = pd.DataFrame(rows).rename(columns={"name": "column"}).drop_duplicates()
    fields = ["column", "type", "unit", "meaning", "formula"]
    return listed.groupby(fields, sort=False)["tables"].agg(" ".join).reset_index()


def agreement(sweeps: Iterable[Results]) -> Agreement:
    """The tests of all values of these sweeps."""
    none = pd.DataFrame(columns=["where", "metric", "z", "p_value"])
    values = []
    untested = 0
    for results in sweeps:
        untested += len(results.measured) * len(results.metrics)
        judges = [table.judge for table in DERIVED_TABLES if table.judge and table.kind in results]
        for judge in judges:
            tested = judge(results).dropna(subset="p_value")
            untested -= tested["metric"].isin([*results.metrics]).sum()
            if len(tested):
                judged = tested.assign(where=_places(results, tested))
                values.append(judged[none.columns])
    return Agreement(pd.concat(values or [none], ignore_index=True), untested)


def _places(results: Results, rows: pd.DataFrame) -> pd.Series:
    """The sweep, varied axes, rule and layer of each row, in words."""
    where = pd.Series(results.name, rows.index)
    for name in (*results.axes.varied(rows), "scaling", "layer"):
        if name in rows:
            where += f", {name} = " + rows[name].astype(str)
    return where
