"""The rows of training that figures show: tasks and widths side by side, each rule at its best learning rate.

The best rate of a rule comes from the table `bands`. A case is a task with a d_k; its other axes are those of the first
row of the sweep.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import NullLocator

from experiments.analysis.bands import at_best_rates
from experiments.figures.axes import first_combination, other_axes, plain, under
from experiments.figures.caption_text import listed
from experiments.figures.figure import Tables
from experiments.figures.metric_lines import legend, plain_numbers, reach
from experiments.figures.style import INK, scaling_colours
from experiments.figures.title_text import more, parts, shared
from experiments.harness.discovery import axes_of
from sdpa.training import N_CLASSES, Task

HOW_CHOSEN = "Best rate: most runs solve, then fewest steps."
LARGEST_LOSS = 3 * math.log(N_CLASSES)  # on an axis: three times that of a guess
INTERVALS = "95% intervals (for a median of few runs, their range)"
_RATE = "learning_rate"
_SHOWN = ("task", "d_k", _RATE)  # axes
_MAIN = ("unscaled", "d_k^1/2", "d_k^1")  # rules of a caption, if the sweep has them
_FEW = 3  # rules that a caption has room for
FEWEST_RUNS = 8  # in a title: the interval of a median then leaves out the extreme runs, so that no single run decides
_WIDTH_OF_CASE = 0.8  # the share of the room of a case that its rules take
_BETWEEN_TASKS = 0.4
_MOST_LABELS = 9


class Case(NamedTuple):
    """A task with a d_k."""

    task: Task
    d_k: int


def shown_rows(tables: Tables) -> pd.DataFrame:
    """The measured rows of the first combination of all axes but task, d_k and learning rate."""
    return first_combination(tables["measured"], *_SHOWN)[0]


def rows_at_best(tables: Tables) -> pd.DataFrame:
    """The rows of `shown_rows` at the best learning rate of each rule, as in `at_best_rates`."""
    return at_best_rates(shown_rows(tables), tables.get("bands", pd.DataFrame()))


def shown_bands(tables: Tables) -> pd.DataFrame:
    """The rows of `bands` for the cases of `rows_at_best`; empty if each of these has a single learning rate."""
    bands = tables.get("bands", pd.DataFrame())
    if bands.empty:
        return bands
    axes = axes_of(bands)
    return bands.merge(rows_at_best(tables)[axes].drop_duplicates(), on=axes)


def cases(rows: pd.DataFrame) -> list[Case]:
    """The cases of some rows, by task in the order of the table, then by d_k."""
    tasks = list(rows["task"].unique())
    found = {Case(task, d_k) for task, d_k in zip(rows["task"], rows["d_k"], strict=True)}
    return sorted(found, key=lambda case: (tasks.index(case.task), case.d_k))


def largest_cases(rows: pd.DataFrame) -> list[Case]:
    """The case of the largest d_k of each task."""
    return list({case.task: case for case in cases(rows)}.values())


def smallest_cases(rows: pd.DataFrame) -> list[Case]:
    """The case of the smallest d_k of each task."""
    return list({case.task: case for case in reversed(cases(rows))}.values())


def of_case(rows: pd.DataFrame, case: Case) -> pd.DataFrame:
    """The rows of a case."""
    return rows[(rows["task"] == case.task) & (rows["d_k"] == case.d_k)]


def colours(rows: pd.DataFrame) -> dict[str, Any]:
    """The colour of each rule of the table, in its order."""
    every = scaling_colours(dict(zip(rows["scaling"], rows["exponent"], strict=True)))
    return {name: every[name] for name in rows["scaling"].unique()}


def main_rules(rows: pd.DataFrame) -> list[str]:
    """The rules of a caption: all if they are three or fewer; else unscaled, d_k^1/2 and d_k^1, or any three."""
    rules = list(rows["scaling"].unique())
    main = [name for name in _MAIN if name in rules]
    return main if len(rules) > _FEW and len(main) > 1 else spread(rules, _FEW)


def setting(rows: pd.DataFrame) -> str:
    """The axes that all rows have in common, in words.

    >>> axes = {"n_keys": 16, "optimizer": "adam", "initial": "small", "steps": 400, "n_sequences": 64}
    >>> setting(pd.DataFrame([axes]))
    '16 keys and 400 steps of adam on batches of 64, from small initial weights'
    """
    first = rows.iloc[0]
    weights = "" if first["initial"] == "unit" else f", from {first['initial']} initial weights"
    steps = f"{first['steps']} steps of {first['optimizer']} on batches of {first['n_sequences']}"
    return f"{first['n_keys']} keys and {steps}{weights}"


def unshown(tables: Tables) -> str:
    """A remark on the combinations of other axes that no figure shows, before more text; empty if there is only one.

    >>> axes = {"task": "recall", "d_k": 8, "learning_rate": 0.1, "n_keys": [16, 128], "initial": ["unit", "small"]}
    >>> unshown({"measured": pd.DataFrame(axes)})
    'The first of 2 combinations of n_keys and initial. '
    """
    table = tables["measured"]
    others = other_axes(table, *_SHOWN)
    return f"The first of {len(table[others].drop_duplicates())} combinations of {listed(others)}. " if others else ""


def solving_rates(band: pd.Series) -> str:
    """The ends of a band of learning rates: `0.001 to 0.01`, `0.01 alone` or `none`."""
    low, high = band["band_from"], band["band_to"]
    if pd.isna(low):
        return "none"
    return f"{plain(low)} alone" if low == high else f"{plain(low)} to {plain(high)}"


def of_rates(tables: Tables) -> str:
    """The learning rates of `rows_at_best` in words: the best of each rule, or the only one of the sweep."""
    rates = tables["measured"]["learning_rate"].unique()
    return f"the learning rate {plain(float(rates[0]))}" if len(rates) == 1 else "the best learning rate of each rule"


def at_main_rules(rows: pd.DataFrame, text: Callable[[pd.Series], str]) -> str:
    """A text of the row of each main rule, with its name: `96 unscaled, 23 under d_k^1/2`.

    Args:
        rows: one for each rule.
        text: of a row.
    """
    by_rule = rows.set_index("scaling")
    return ", ".join(f"{text(by_rule.loc[rule])} {under(rule)}" for rule in main_rules(rows))


def at_cases(rows: pd.DataFrame, some: Iterable[Case], text: Callable[[pd.Series], str]) -> str:
    """The texts of `at_main_rules` in some cases: `recall at d_k = 8, 76 unscaled; pair at d_k = 8, 90 unscaled`."""
    told = set(some)
    return "; ".join(
        f"{case.task} at d_k = {case.d_k}, {at_main_rules(of_case(rows, case), text)}"
        for case in cases(rows)
        if case in told
    )


def comparison(
    tables: Tables,
    rows_of: Callable[[Tables], pd.DataFrame],
    is_more: Callable[[pd.Series, pd.Series], bool],
    what: str,
) -> str:
    """A finding that compares the first two main rules at the largest d_k; empty unless it holds for the whole table.

    Args:
        tables: those of a figure.
        rows_of: the rows to compare, of the first combination of the axes that a figure does not show.
        is_more: True if one rule has clearly more than another.
        what: what it has more of: `need more steps`.
    """
    subject = "The widest layers" if len(tables["measured"]["d_k"].unique()) > 1 else "Layers"
    each = [rows_of({**tables, "measured": part}) for part in parts(tables["measured"], *_SHOWN)]
    compared = [of_case(rows, case) for rows in each if not rows.empty for case in largest_cases(rows)]
    return shared(_compared(rows, is_more, f"{subject} {what}") for rows in compared)


def _compared(rows: pd.DataFrame, is_more: Callable[[pd.Series, pd.Series], bool], what: str) -> str:
    """The finding for one case, from a row for each rule."""
    by_rule = rows.set_index("scaling")
    one, other, *_ = [*main_rules(rows), "", ""]
    if not other or by_rule["trials"].min() < FEWEST_RUNS:
        return ""
    if is_more(by_rule.loc[one], by_rule.loc[other]):
        return more(what, one, other)
    return more(what, other, one) if is_more(by_rule.loc[other], by_rule.loc[one]) else ""


def rule_legend(ax: Axes, rows: pd.DataFrame) -> None:
    """The legend of the rules above all axes, whatever the axes show of them."""
    for rule, colour in colours(rows).items():
        ax.plot([], [], color=colour, marker="o", label=rule)
    legend(ax, list(colours(rows)))


def few_ticks(axis: Axis) -> None:
    """Labelled ticks of a logarithmic axis alone, plain numbers if it spans few decades; the page has little room."""
    plain_numbers(axis)
    axis.set_minor_locator(NullLocator())


def plot_points(ax: Axes, at: pd.Series, rows: pd.DataFrame, metric: str, colour: Any, **look: Any) -> None:
    """A metric with its intervals, joined by a pale line; nothing where it is missing.

    Args:
        ax: the axes to draw in.
        at: place of each row.
        rows: with the columns of the metric and its interval.
        metric: its name.
        colour: of the rule.
        look: further keywords of Matplotlib's `errorbar`.
    """
    look = {"color": colour, "marker": "o", "linestyle": "", "capsize": 2, "elinewidth": 1, **look}
    ax.plot(at, rows[metric], color=colour, alpha=0.4, linewidth=1.2)
    ax.errorbar(at, rows[metric], reach(rows, metric), **look)


class CaseAxis:
    """An x axis of cases, with the rules of a case side by side.

    The constructor takes the rows to show.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self._cases, self._rules = cases(rows), list(rows["scaling"].unique())
        tasks = list(dict.fromkeys(case.task for case in self._cases))
        self._places = {case: i + _BETWEEN_TASKS * tasks.index(case.task) for i, case in enumerate(self._cases)}

    def lines(self, rows: pd.DataFrame, rule: str) -> list[tuple[pd.Series, pd.DataFrame]]:
        """The places and the rows of a rule, for each task in the order of d_k."""
        of_rule = rows[rows["scaling"] == rule]
        apart = _WIDTH_OF_CASE / len(self._rules)
        shift = apart * (self._rules.index(rule) - (len(self._rules) - 1) / 2)
        found = []
        for _, group in of_rule.groupby("task", sort=False):
            ordered = group.sort_values("d_k")
            at = [self._places[Case(*pair)] + shift for pair in zip(ordered["task"], ordered["d_k"], strict=True)]
            found.append((pd.Series(at, index=ordered.index), ordered))
        return found

    def label(self, ax: Axes, title: str) -> None:
        """The title, ticks with the d_k of the cases, and the names of the tasks between them if there are several."""
        every = math.ceil(len(self._cases) / _MOST_LABELS)
        shown = self._cases[::every]
        ax.set_xticks([self._places[case] for case in shown], [plain(case.d_k) for case in shown])
        places = list(self._places.values())
        ax.set_xlim(places[0] - 0.6, places[-1] + 0.6)
        ax.set_xlabel("d_k")
        tasks = list(dict.fromkeys(case.task for case in self._cases))
        if len(tasks) == 1:
            ax.set_title(title)
            return
        ax.set_title(title, pad=20)
        for task in tasks:
            own = [place for case, place in self._places.items() if case.task == task]
            ax.text(np.mean(own), 1.01, task, transform=ax.get_xaxis_transform(), ha="center", va="bottom", fontsize=9)
            if own[-1] != places[-1]:
                ax.axvline(own[-1] + (1 + _BETWEEN_TASKS) / 2, color=INK, linewidth=0.5, alpha=0.4)


def spread(values: Sequence[Any], most: int) -> list[Any]:
    """At most that many of the values, the first and the last among them, evenly spaced.

    >>> spread([4, 8, 16, 32, 64], 3), spread([4, 8], 3)
    ([4, 16, 64], [4, 8])
    """
    if len(values) <= most:
        return list(values)
    return [values[round(i)] for i in np.linspace(0, len(values) - 1, most)]
