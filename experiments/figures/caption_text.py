"""Values in captions: numbers with as many digits as their errors justify, and the course of a metric along an axis.

A caption is computed from its table, so it changes with the results. The words depend on tests too: `rises` appears
only where chance does not explain the difference.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from experiments.figures.axes import is_number, plain
from experiments.harness.metric import FEW_DRAWS

_MAX_DIGITS = 4
DOUBT = stats.norm.sf(3)  # two values differ if chance separates them this far at most this often
_SMALL_CHANGE = 0.1
_SHOWN = 1e-4  # a relative difference that four digits show


def number(value: float, error: float = 0.0) -> str:
    """A value rounded to the first digit of its standard error, with at most four digits.

    Args:
        value: below 1e-4 or from 1e6 on, it gets a power of ten.
        error: 0 for an exact value.

    >>> number(0.27411, 0.003), number(3.9671234, 0.00001), number(0.0), number(1.3e30), number(1.13e-5, 7e-6)
    ('0.274', '3.967', '0', '1.3e+30', '1.1e−05')
    """
    if value == 0 and error == 0:
        return "0"
    if value and not 1e-4 <= abs(value) < 1e6:
        digits = 3 if error == 0 else 1 + math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
        return f"{value:.{min(max(digits, 1), 3)}g}".replace("-", "−")
    smallest = abs(value) * 10.0 ** (1 - _MAX_DIGITS)
    scale = max(error, smallest) if value else error
    places = -math.floor(math.log10(scale))
    return f"{round(value, places):z.{max(places, 0)}f}".replace("-", "−")


def measured(row: pd.Series, metric: str) -> str:
    """A metric of a row of a table, as a number.

    >>> measured(pd.Series({"entropy": 2.71828, "entropy_se": 0.02}), "entropy")
    '2.72'
    """
    return number(float(row[metric]), standard_error(row, metric))


def standard_error(row: pd.Series, metric: str) -> float:
    """The standard error of a metric; for a quantile, the one that its 95% interval implies.

    It is half the width of the interval over the 97.5% point of Student's t with trials - 1 degrees of freedom.
    """
    if f"{metric}_se" in row:
        return float(row[f"{metric}_se"])
    width = row[f"{metric}_high"] - row[f"{metric}_low"]
    return float(width / 2 / stats.t.isf(0.025, row["trials"] - 1))


def exactly(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Rows with the exact values of a metric, without error, instead of the measured values if all are known."""
    if not is_known(rows, metric):
        return rows
    return rows.assign(**{metric: rows[f"{metric}_exact"], f"{metric}_se": 0.0})


def exactness(rows: pd.DataFrame, metric: str) -> str:
    """A remark on the values of `exactly`: the distance of the measured values; empty unless all are known.

    Rows with too few draws for their error bars do not count.
    """
    if not is_known(rows, metric):
        return ""
    sure = rows[~few_draws(rows, metric) & (rows[f"{metric}_se"] > 0)]
    if sure.empty:
        return " (exact)"
    away = ((sure[metric] - sure[f"{metric}_exact"]) / sure[f"{metric}_se"]).abs().max()
    # Rounded up, so that "within" is true.
    return f" (exact; measured values lie within {np.ceil(10 * away) / 10:.1f} standard errors)"


def few_draws(rows: pd.DataFrame, metric: str) -> pd.Series:
    """True for each row in which a metric has too few draws for its error bar, from the column `few_draws`."""
    return rows[FEW_DRAWS].str.split().map(lambda names: metric in names).astype(bool)


def is_known(rows: pd.DataFrame, metric: str) -> bool:
    """True if the exact value of a metric is known in every row."""
    return f"{metric}_exact" in rows and bool(rows[f"{metric}_exact"].notna().all())


def turns(rows: pd.DataFrame, metric: str) -> tuple[str, ...]:
    """The verbs for a metric along the rows, from its ends and its extreme: rises, falls, both in turn, or none.

    Missing values have no course.

    Args:
        rows: in order along an axis, with one row per value; exact values replace measured ones if all are known.
        metric: its name.
    """
    rows = exactly(rows, metric)
    if rows[metric].isna().any():
        return ()
    first, last = rows.iloc[0], rows.iloc[-1]
    for turn, verbs in ((rows[metric].idxmax(), ("rises", "falls")), (rows[metric].idxmin(), ("falls", "rises"))):
        if differ(rows.loc[turn], first, metric) and differ(rows.loc[turn], last, metric):
            return verbs
    if not differ(first, last, metric):
        return ()
    return ("rises",) if last[metric] > first[metric] else ("falls",)


def course(rows: pd.DataFrame, x: str, metric: str) -> str:
    """The course of a metric along x in words, with its values: exact values if all are known.

    Args:
        rows: of one scaling, in order along x if x is a number.
        x: an axis.
        metric: its name.

    Returns:
        A verb with values: `rises from 0.1 to 0.9`, `falls from 3 to 2 at d_k = 8 and rises to 4`, `stays at 0.11`, or
        `goes from 2 to 3 (no clear change)` if errors exceed a tenth of the value. A list of values if x is not a
        number.
    """
    rows = exactly(rows, metric)
    first, last = measured(rows.iloc[0], metric), measured(rows.iloc[-1], metric)
    if len(rows) == 1:
        return f"is {first}"
    if not is_number(rows, x):
        return f"is {', '.join(measured(row, metric) for _, row in rows.iterrows())}"
    verbs = turns(rows, metric)
    if len(verbs) == 2:
        extreme = rows.loc[rows[metric].idxmax() if verbs[0] == "rises" else rows[metric].idxmin()]
        there = f"{measured(extreme, metric)} at {x} = {plain(extreme[x])}"
        return f"{verbs[0]} from {first} to {there} and {verbs[1]} to {last}"
    if len(verbs) == 1 and first != last:
        return f"{verbs[0]} from {first} to {last}"
    if limit_of_chance(rows.iloc[0], rows.iloc[-1], metric) > _SMALL_CHANGE * abs(rows.iloc[0][metric]):
        return f"goes from {first} to {last} (no clear change)"
    surest = min((row for _, row in rows.iterrows()), key=lambda row: standard_error(row, metric))
    return f"stays at {measured(surest, metric)}"


def differ(one: pd.Series, other: pd.Series, metric: str) -> bool:
    """True if two values differ by more than chance explains, by Student's t, and by a visible digit.

    The limit of chance is t times the error of the difference; t leaves the same probability to its right as 3 does for
    a normal law, 0.00135. A visible digit is a relative difference of 1e-4.
    """
    noise = max(limit_of_chance(one, other, metric), _SHOWN * abs(one[metric]))
    return bool(abs(one[metric] - other[metric]) > noise)


def limit_of_chance(one: pd.Series, other: pd.Series, metric: str) -> float:
    """The difference that chance rarely exceeds (see `differ`), between two values with independent errors."""
    error = math.hypot(standard_error(one, metric), standard_error(other, metric))
    return float(stats.t.isf(DOUBT, min(one["trials"], other["trials"]) - 1) * error)


def listed(clauses: Sequence[str]) -> str:
    """Clauses as one list: a, b and c.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(clauses[:-1]), clauses[-1]] if len(clauses) > 1 else clauses)
