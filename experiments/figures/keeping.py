"""Findings for titles: the rules under which a metric stays the same along an axis.

A title is computed from its table, like a caption, but has no numbers. So it claims only what errors allow: a metric
stays the same if all its values are surely within a tenth of each other, and changes if they surely are not.
"""

import math
from typing import Literal

import pandas as pd

from experiments.figures.caption_text import differ, exactly, few_draws, is_known, limit_of_chance, listed
from experiments.figures.metric_lines import series
from experiments.figures.title_text import fitting, has_own_name, rule_name

_SMALL = 0.1  # a relative difference up to which values count as almost the same

Change = Literal["none", "small", "large", "unclear"]
UNCHANGED = frozenset({"none", "small"})


def relative_change(rows: pd.DataFrame, metric: str) -> tuple[float, float]:
    """Limits of the difference between the largest and the smallest value of a metric, over the larger magnitude.

    Args:
        rows: of one line; exact values replace measured ones if all are known.
        metric: its name.

    Returns:
        The difference less and plus what chance explains (see `differ`). NaN if a value is missing or rests on too few
        draws, or if there is a single row.

    >>> rows = pd.DataFrame({"entropy": [1.0, 4.0], "entropy_se": 0.0, "few_draws": "", "trials": 9})
    >>> relative_change(rows, "entropy"), relative_change(rows[:1], "entropy")
    ((0.75, 0.75), (nan, nan))
    """
    sure = is_known(rows, metric) or not few_draws(rows, metric).any()
    rows = exactly(rows, metric)
    if len(rows) < 2 or not sure or rows[metric].isna().any():
        return math.nan, math.nan
    low, high = _ends(rows, metric)
    apart, chance = high[metric] - low[metric], limit_of_chance(high, low, metric)
    size = max(abs(high[metric]), abs(low[metric])) or 1.0  # all values are 0
    return float((apart - chance) / size), float((apart + chance) / size)


def _ends(rows: pd.DataFrame, metric: str) -> tuple[pd.Series, pd.Series]:
    """The rows with the smallest and the largest value."""
    return rows.loc[rows[metric].idxmin()], rows.loc[rows[metric].idxmax()]


def change(rows: pd.DataFrame, metric: str) -> Change:
    """The size of the difference between the smallest and the largest value of a metric.

    Args:
        rows: of one line.
        metric: its name.

    Returns:
        `none` if chance explains the difference, `small` if it is at most a tenth, `large` if it is more. `unclear` if
        errors are too large to tell, or the limits of `relative_change` are unknown.
    """
    least, most = relative_change(rows, metric)
    if most <= _SMALL:
        low, high = _ends(exactly(rows, metric), metric)
        return "small" if differ(high, low, metric) else "none"
    return "large" if least > _SMALL else "unclear"


def stays(rows: pd.DataFrame, metric: str) -> bool:
    """True if all values of a metric surely lie within a tenth of each other."""
    return change(rows, metric) in UNCHANGED


def changes(table: pd.DataFrame, x: str, metric: str) -> dict[str, set[Change]]:
    """The changes of a metric along x under each scaling, one for each combination of the other axes."""
    found: dict[str, set[Change]] = {}
    for line in series(table, x):
        found.setdefault(line.scaling, set()).add(change(line.rows, metric))
    return found


def keeps(table: pd.DataFrame, x: str, metric: str, same: str, where: str) -> str:
    """The rules that keep a metric the same along x, in every combination of the other axes.

    `Only` appears if the metric surely changes under each other rule, at least in one combination.

    Args:
        table: a measured table.
        x: an axis.
        metric: its name.
        same: the state to keep, with a place for `almost`, such as `attention {}equally sharp`.
        where: the values of x, such as `at every width`.

    Returns:
        A finding such as `Only d_k^1/2 keeps attention equally sharp at every width`; empty if the table supports none.
    """
    found = changes(table, x, metric)
    kept = [rule for rule, sizes in found.items() if sizes <= UNCHANGED]
    changed = [rule for rule, sizes in found.items() if "large" in sizes]
    almost = any("small" in found[rule] for rule in kept)
    state = f"{same.format('almost ' * almost)} {where}"
    if not kept:
        if len(changed) < len(found):
            return ""
        return (
            f"No rule here keeps {state}" if len(found) > 1 else fitting(f"{_subject(changed)} does not keep {state}")
        )
    if len(kept) == len(found) > 1:
        return f"Every rule keeps {state}"
    short = f"One rule keeps {state}" if len(kept) == 1 else f"Several rules keep {state}"
    if not all(has_own_name(rule, found) for rule in kept):
        return fitting(short)
    if len(kept) == 1:
        is_alone = len(changed) == len(found) - 1 > 0
        return fitting(f"{f'Only {rule_name(kept[0])}' if is_alone else _subject(kept)} keeps {state}", short)
    return fitting(f"{_subject(kept)} keep {state}", short)


def _subject(scalings: list[str]) -> str:
    """Rules as the subject of a sentence.

    >>> _subject(["d_k^1/2"]), _subject(["d_k^1/2", "d_k^2/3"]), _subject(["unscaled"])
    ('The divisor d_k^1/2', 'The divisors d_k^1/2 and d_k^2/3', 'Unscaled attention')
    """
    names = [rule_name(name) for name in scalings]
    if names == scalings:
        return f"The divisor{'s' * (len(names) > 1)} {listed(names)}"
    text = listed(sorted(names, key=lambda name: name in scalings))
    return text[0].upper() + text[1:]
