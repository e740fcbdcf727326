"""Tables to tables: exact columns, fits, and the verdict on every value. A drawing never fits or derives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from experiments.analysis.crossings import (
    CROSSING_COLUMNS,
    OPTIONAL_CROSSINGS,
    OPTIONAL_RATIOS,
    RATIO_COLUMNS,
    crossings,
    norm_ratios,
)
from experiments.analysis.distribution import (
    DISTANCE_COLUMNS,
    DISTRIBUTION_EXACT,
    HISTOGRAM_COLUMNS,
    distances,
    histograms,
)
from experiments.analysis.exact import SATURATION_EXACT, Exact, add_exact, exact_column
from experiments.analysis.freezing import CURVE_COLUMNS, freezing_curves
from experiments.analysis.slopes import SLOPE_COLUMNS, fit_slopes
from experiments.analysis.verdicts import TEST_COLUMNS, VERDICT_COLUMNS, cell_tests, flag_few_draws, verdicts
from experiments.harness.experiment import Column, Measured, load_experiment
from experiments.harness.grid import Sweep
from experiments.harness.paths import TESTS, VERDICTS


@dataclass(frozen=True)
class Derived:
    """A table made from a sweep's own and what else was measured, SWEEP-NAME.csv; empty where it does not apply."""

    columns: tuple[Column, ...]
    derive: Callable[[pd.DataFrame, list[Any]], pd.DataFrame]
    optional: frozenset[str] = frozenset()  # columns whose fields may be empty


@dataclass(frozen=True)
class Analysis:
    """What is known and derived of an experiment's tables."""

    exact: Mapping[str, Exact] = field(default_factory=dict)
    derived: Mapping[str, Derived] = field(default_factory=dict)
    tests_cells: bool = False  # by the correlations that `details` holds


_ANALYSES = {
    "saturation": Analysis(
        SATURATION_EXACT,
        {
            "slopes": Derived(SLOPE_COLUMNS, lambda table, _: fit_slopes(table)),
            "ratios": Derived(RATIO_COLUMNS, lambda table, _: norm_ratios(table), OPTIONAL_RATIOS),
            "crossings": Derived(CROSSING_COLUMNS, lambda table, _: crossings(table), OPTIONAL_CROSSINGS),
            "curves": Derived(CURVE_COLUMNS, lambda table, _: freezing_curves(table)),
        },
        tests_cells=True,
    ),
    "distribution": Analysis(
        DISTRIBUTION_EXACT,
        {"histogram": Derived(HISTOGRAM_COLUMNS, histograms), "tests": Derived(DISTANCE_COLUMNS, distances)},
    ),
}


def analyse(sweep: Sweep, measured: Measured) -> dict[str, pd.DataFrame]:
    """The tables of a sweep: `measured` with its exact columns, what is derived from it, and its verdicts."""
    analysis = _analysis(sweep.experiment)
    table = add_exact(measured.table, analysis.exact)
    judged = verdicts(sweep.name, table, load_experiment(sweep.experiment).metrics, analysis.exact)
    derived = {name: kind.derive(table, measured.details) for name, kind in analysis.derived.items()}
    if analysis.tests_cells:
        derived[TESTS] = cell_tests(table, measured.details, judged)
    tables = {"measured": flag_few_draws(table, judged), **derived, VERDICTS: judged}
    return {name: frame for name, frame in tables.items() if len(frame)}


def table_columns(experiment: str) -> list[Column]:
    """The columns of an experiment's finished table, the exact ones behind their intervals."""
    declared = {column.name: column for column in load_experiment(experiment).columns}
    columns = []
    for name, column in declared.items():
        columns.append(column)
        metric = name.removesuffix("_high")
        if metric != name and metric in _analysis(experiment).exact:
            columns.append(exact_column(declared[metric], _analysis(experiment).exact[metric]))
    return columns


def optional_columns(experiment: str, kind: str) -> frozenset[str]:
    """The columns of a derived table whose fields may be empty."""
    derived = _analysis(experiment).derived
    return derived[kind].optional if kind in derived else frozenset()


def all_columns(experiments: list[str]) -> pd.DataFrame:
    """What every column of every table means: the content of columns.csv."""
    tables: dict[str, list[Column]] = {}
    for name in experiments:
        tables[name] = table_columns(name)
        tables |= {f"{name}-{kind}": list(derived.columns) for kind, derived in _analysis(name).derived.items()}
        if _analysis(name).tests_cells:
            tables[f"{name}-{TESTS}"] = list(TEST_COLUMNS)
        if _analysis(name).exact:
            tables[f"{name}-{VERDICTS}"] = list(VERDICT_COLUMNS)
    rows = [
        {"table": table, "column": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning, "formula": c.formula}
        for table, columns in tables.items()
        for c in columns
    ]
    return pd.DataFrame(rows)


def _analysis(experiment: str) -> Analysis:
    return _ANALYSES.get(experiment, Analysis())
