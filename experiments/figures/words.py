"""The words of captions: numbers with the digits that their errors leave, and what a metric does along an axis."""

import math
from collections.abc import Sequence

import pandas as pd

AXES = ("d_k", "n_keys", "n_queries", "inputs", "input_std")
_SIGNIFICANT = 3  # standard errors between two values that a caption calls different
_MOST_DIGITS = 4


def first_axis(table: pd.DataFrame) -> str:
    """The first axis of which the table has more than one value; d_k if none has."""
    return next((name for name in AXES if len(table[name].unique()) > 1), "d_k")


def other_axes(table: pd.DataFrame, x: str) -> list[str]:
    """The axes besides x of which the table has more than one value."""
    return [name for name in AXES if name != x and len(table[name].unique()) > 1]


def first_combination(table: pd.DataFrame, x: str) -> tuple[pd.DataFrame, str]:
    """The rows of the first combination of the other axes, and the words that name it if there are more."""
    others = other_axes(table, x)
    if not others:
        return table, ""
    first = table.iloc[0]
    rows = table[(table[others] == first[others]).all(axis=1)]
    return rows, " (at " + ", ".join(f"{name} = {plain(first[name])}" for name in others) + ")"


def by_scaling(table: pd.DataFrame, x: str) -> dict[str, pd.DataFrame]:
    """The rows of each scaling, by its name and in order of x (as they stand, if x is no number)."""
    groups = table.groupby("scaling", sort=False)
    return {str(name): rows.sort_values(x) if is_number(table, x) else rows for name, rows in groups}


def is_number(table: pd.DataFrame, x: str) -> bool:
    """Whether an axis has an order and distances."""
    return table[x].dtype.kind in "iuf"


def plain(value: object) -> str:
    """A value of an axis without idle zeros: 1, 0.5, gaussian."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def span(table: pd.DataFrame, x: str) -> str:
    """The range of x: `From d_k = 4 to 512`, or `At d_k = 64`."""
    values = table[x].sort_values() if is_number(table, x) else table[x]
    first, last = values.iloc[0], values.iloc[-1]
    return f"At {x} = {plain(first)}" if first == last else f"From {x} = {plain(first)} to {plain(last)}"


def under(scaling: str) -> str:
    """How a scaling is named in a sentence."""
    return "unscaled" if scaling == "unscaled" else f"under {scaling}"


def number(value: float, error: float = 0.0) -> str:
    """A value to the place of its standard error's first digit, but to no more than four digits.

    >>> number(0.27411, 0.003), number(3.9671234, 0.00001), number(0.0)
    ('0.274', '3.967', '0')
    """
    if value == 0 and error == 0:
        return "0"
    least = abs(value) * 10.0 ** (1 - _MOST_DIGITS)
    scale = max(error, least) if value else error
    places = -math.floor(math.log10(scale))
    return f"{round(value, places):.{max(places, 0)}f}".replace("-", "−")


def measured(row: pd.Series, metric: str) -> str:
    """A metric of a row of a table, as a number."""
    return number(float(row[metric]), float(row[f"{metric}_se"]))


def course(rows: pd.DataFrame, x: str, metric: str) -> str:
    """What a metric does along x: it rises, falls, stays within its errors, or turns at its extreme value."""
    first, last = rows.iloc[0], rows.iloc[-1]
    if len(rows) == 1:
        return f"is {measured(first, metric)}"
    for turn, verbs in ((rows[metric].idxmax(), ("rises", "falls")), (rows[metric].idxmin(), ("falls", "rises"))):
        extreme = rows.loc[turn]
        if _differ(extreme, first, metric) and _differ(extreme, last, metric):
            there = f"{measured(extreme, metric)} at {x} = {plain(extreme[x])}"
            return f"{verbs[0]} from {measured(first, metric)} to {there} and {verbs[1]} to {measured(last, metric)}"
    if not _differ(first, last, metric):
        return f"stays at {measured(first, metric)}"
    verb = "rises" if last[metric] > first[metric] else "falls"
    return f"{verb} from {measured(first, metric)} to {measured(last, metric)}"


def _differ(one: pd.Series, other: pd.Series, metric: str) -> bool:
    error = math.hypot(one[f"{metric}_se"], other[f"{metric}_se"])
    return bool(abs(one[metric] - other[metric]) > _SIGNIFICANT * error)


def listed(clauses: Sequence[str]) -> str:
    """Clauses as one list: a, b and c."""
    return " and ".join([", ".join(clauses[:-1]), clauses[-1]] if len(clauses) > 1 else clauses)
