"""Rows and predicates of tables, of which findings are made.

Predicates compare 95% intervals, so that chance does not decide.
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from experiments.measuring.experiment import MEASURED
from experiments.measuring.metric import FEW_DRAWS
from sdpa.scaling import SCALED, UNSCALED

if TYPE_CHECKING:
    import pandas as pd

Table: TypeAlias = "pd.DataFrame"
Tables: TypeAlias = Mapping[str, Table]  # of a sweep, by kind: `measured`, and derived ones
Numbers: TypeAlias = Mapping[str, Any] | None  # of a sentence, or none if tables do not support it

BOTH = (UNSCALED, SCALED)
MEDIAN_GRADIENT = "query_gradient_norm_median"
LARGER_BY_A_TENTH = 1.1


def rows_of(tables: Tables, kind: str = MEASURED, **values: object) -> Table:
    """The rows of a table with these values of columns."""
    table = tables[kind]
    for name, value in values.items():
        table = table[table[name] == value]
    return table


def exact_or_measured(rows: Table, metric: str) -> "pd.Series[float]":
    """The exact value of a metric in each row, or the measured one where that is unknown."""
    measured = rows[metric]
    return rows.get(f"{metric}_exact", measured).fillna(measured)


def factor(rows: Table, metric: str) -> float:
    """The largest value of a metric over the smallest."""
    values = exact_or_measured(rows, metric)
    return float(values.max() / values.min())


def widest(rows: Table) -> Table:
    """The rows with the largest d_k."""
    return rows[rows["d_k"] == rows["d_k"].max()]


def ends(rows: Table, x: str, metric: str) -> dict[str, float]:
    """The first and the last value of a metric along an axis, exact where known."""
    ordered = exact_or_measured(rows.sort_values(x), metric)
    return {"first": ordered.iloc[0], "last": ordered.iloc[-1]}


def is_below(lower: Table, upper: Table, metric: str) -> bool:
    """True if the intervals of some rows lie below those of others."""
    return bool(lower[f"{metric}_high"].max() < upper[f"{metric}_low"].min())


def is_level(rows: Table, metric: str) -> bool:
    """True if the intervals of all rows lie within a tenth of each other."""
    return bool(rows[f"{metric}_high"].max() < LARGER_BY_A_TENTH * rows[f"{metric}_low"].min())


def changes(rows: Table, metric: str) -> bool:
    """True if the intervals of two rows are more than a tenth apart."""
    return bool(rows[f"{metric}_low"].max() > LARGER_BY_A_TENTH * rows[f"{metric}_high"].min())


def rises(rows: Table, x: str, metric: str, *, falls: bool = False) -> bool:
    """True if each interval lies above the one before along x; with `falls`, below it."""
    ordered = rows.sort_values(x, ascending=not falls)
    lows = ordered[f"{metric}_low"].to_numpy()
    highs = ordered[f"{metric}_high"].to_numpy()
    return len(ordered) > 1 and bool((lows[1:] > highs[:-1]).all())


def is_alone_level(rows: Table, metric: str, level: str = SCALED) -> bool:
    """True if a metric is level under one of several rules, and changes under each other one."""
    by_rule = dict(list(rows.groupby("scaling")))
    return len(by_rule) > 1 and all(
        is_level(own, metric) if rule == level else changes(own, metric)
        for rule, own in by_rule.items()
    )


def least_factor_of_others(tables: Tables) -> float:
    """The least change of the largest weight under a rule other than d_k^1/2, as a factor."""
    others = tables[MEASURED].query("scaling != @SCALED").groupby("scaling")
    return min(factor(rows, "max_weight") for _, rows in others)


def varies(*axes: str) -> Callable[[Tables], bool]:
    """A condition of tables: each of these columns has more than one value."""
    return lambda tables: all(len(tables[MEASURED][name].unique()) > 1 for name in axes)


def has_values(kind: str, column: str) -> Callable[[Tables], bool]:
    """A condition of tables: a column of one of them has a value."""
    return lambda tables: kind in tables and bool(tables[kind][column].notna().any())


def has_few(metric: str) -> Callable[[Tables], bool]:
    """A condition of tables: some values of a metric rest on too few draws."""
    return lambda tables: bool(is_few(tables[MEASURED][FEW_DRAWS], metric).any())


def rounded_down(number: float, digits: int) -> float:
    """A number rounded down to some digits after the point, for sentences with "at least".

    >>> rounded_down(0.8496, 2), rounded_up(0.3473, 3)
    (0.84, 0.348)
    """
    scale: float = 10**digits
    return math.floor(number * scale) / scale


def rounded_up(number: float, digits: int) -> float:
    """A number rounded up, for sentences with "at most"."""
    return -rounded_down(-number, digits)


def is_few(few_draws: "pd.Series[str]", metric: str) -> "pd.Series[bool]":
    """True for each row in which a metric has too few draws for a reliable interval."""
    return few_draws.str.split().map(lambda metrics: metric in metrics)


def significant(value: float, digits: int = 6) -> float:
    """A number rounded to its first digits; further ones may differ between machines.

    >>> significant(22 / 7, 3)
    3.14
    """
    return float(f"{value:.{digits}g}")
