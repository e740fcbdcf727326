"""Tables to tables: exact columns and what is fitted to a sweep. A drawing never fits or derives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from experiments.analysis.exact import SATURATION_EXACT, Exact, add_exact, exact_column
from experiments.analysis.slopes import SLOPE_COLUMNS, fit_slopes
from experiments.harness.experiment import Column, load_experiment


@dataclass(frozen=True)
class Derived:
    """A table made from a sweep's own, SWEEP-NAME.csv; empty where it does not apply."""

    columns: tuple[Column, ...]
    derive: Callable[[pd.DataFrame], pd.DataFrame]


@dataclass(frozen=True)
class Analysis:
    """What is known and derived of an experiment's tables."""

    exact: Mapping[str, Exact] = field(default_factory=dict)
    derived: Mapping[str, Derived] = field(default_factory=dict)


_ANALYSES = {
    "saturation": Analysis(SATURATION_EXACT, {"slopes": Derived(SLOPE_COLUMNS, fit_slopes)}),
}


def analyse(experiment: str, measured: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """The measured table with its exact columns, and the tables derived from it, by name."""
    analysis = _analysis(experiment)
    table = add_exact(measured, analysis.exact)
    derived = {name: kind.derive(table) for name, kind in analysis.derived.items()}
    return table, {name: frame for name, frame in derived.items() if len(frame)}


def table_columns(experiment: str) -> list[Column]:
    """The columns of an experiment's finished table, the exact ones behind their standard errors."""
    declared = {column.name: column for column in load_experiment(experiment).columns}
    columns = []
    for name, column in declared.items():
        columns.append(column)
        metric = name.removesuffix("_se")
        if metric != name and metric in _analysis(experiment).exact:
            columns.append(exact_column(declared[metric], _analysis(experiment).exact[metric]))
    return columns


def all_columns(experiments: list[str]) -> pd.DataFrame:
    """What every column of every table means: the content of columns.csv."""
    tables: dict[str, list[Column]] = {}
    for name in experiments:
        tables[name] = table_columns(name)
        tables |= {f"{name}-{kind}": list(derived.columns) for kind, derived in _analysis(name).derived.items()}
    rows = [
        {"table": table, "column": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning, "formula": c.formula}
        for table, columns in tables.items()
        for c in columns
    ]
    return pd.DataFrame(rows)


def _analysis(experiment: str) -> Analysis:
    return _ANALYSES.get(experiment, Analysis())
