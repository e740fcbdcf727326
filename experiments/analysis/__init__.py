"""Tables to tables: exact columns and what is fitted to a sweep. A drawing never fits or derives."""

import pandas as pd

from experiments.analysis.exact import EXACT, add_exact
from experiments.analysis.slopes import SLOPE_COLUMNS, fit_slopes
from experiments.harness.experiment import Column, load_experiment

_DERIVED = {"slopes": (fit_slopes, SLOPE_COLUMNS)}


def analyse(experiment: str, measured: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """The measured table with its exact columns, and the tables derived from it, by name."""
    if experiment != "saturation":
        return measured, {}
    table = add_exact(measured)
    derived = {name: derive(table) for name, (derive, _) in _DERIVED.items()}
    return table, {name: frame for name, frame in derived.items() if len(frame)}


def all_columns(experiments: list[str]) -> pd.DataFrame:
    """What every column of every table means: the content of columns.csv."""
    tables = {name: table_columns(name) for name in experiments}
    if "saturation" in tables:
        tables |= {f"saturation-{name}": list(columns) for name, (_, columns) in _DERIVED.items()}
    rows = [
        {"table": table, "column": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning, "formula": c.formula}
        for table, columns in tables.items()
        for c in columns
    ]
    return pd.DataFrame(rows)


def table_columns(experiment: str) -> list[Column]:
    """The columns of an experiment's finished table, the exact ones behind their standard errors."""
    columns = []
    for column in load_experiment(experiment).columns:
        columns.append(column)
        name = column.name.removesuffix("_se")
        if experiment == "saturation" and column.name.endswith("_se") and name in EXACT:
            columns.append(EXACT[name].column)
    return columns
