"""Lines along an axis: measured points with 95% intervals on lines of exact values, and one legend of
lines.
"""

import itertools
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import LETTERS_PER_INCH, legend, scale_x, scale_y
from experiments.figures.shown import Shown, along_cases
from experiments.figures.style import (
    INK,
    UNORDERED_COLOURS,
    Colour,
    Drawing,
    colours_of,
    empty,
    panels,
)
from experiments.figures.words import (
    is_number,
    listed,
    named,
    naming,
    short,
    spoken,
    under,
    values_of,
)
from experiments.kinds.declarations import CASES, Lines, Panel
from experiments.kinds.support import is_few, only_crossing, significant
from experiments.measuring.experiment import Floats
from experiments.measuring.metric import FEW_DRAWS, Metric
from experiments.tables.crossings import NORM_STATISTICS, NORMS
from experiments.tables.results import Results

_CROSSING = {
    f"{metric}{suffix}": (norm, statistic)
    for norm, (metric, times_divisor) in NORMS.items()
    for statistic, suffix in NORM_STATISTICS.items()
    if not times_divisor
}
MARKERS = "osD^vP*X"
_STYLES = ("-", "--", ":")
_LEAST_WIDTH = 6.0  # of a figure, for its caption
_EQUAL = "equal"  # the column of the value of equal weights
_BELOW_WORDS = 0.85  # the height of the line of a crossing


class Line(NamedTuple):
    """Rows along x, their dashes, and the look of their points."""

    rows: pd.DataFrame
    dashes: str
    look: Mapping[str, Any]  # keywords of `plot_measured`


def draw_lines(picture: Lines, what: Shown) -> Drawing:
    """The picture of the rows shown: panels, their scales, and one legend."""
    if what.rows.empty:
        return empty(f"No rule of this sweep has a value of {what.x}.")
    figure, places = _layout(picture, what.panels)
    drawn = [
        (ax, panel, _as_drawn(rows, panel, what))
        for ax, (panel, rows) in zip(places, what.panels, strict=True)
    ]
    for ax, panel, rows in drawn:
        _draw_panel(ax, picture, panel, rows, what)
    for ax, panel, rows in drawn:  # once all panels of a row have their lines
        scale_x(ax, rows[what.x])
        alike = ax.get_shared_y_axes().get_siblings(ax)
        shares = [(each.metric, part) for other, each, part in drawn if other in alike]
        _scale_y(ax, panel, shares, what.results)
        if what.x == "d_k" and panel.metric in _CROSSING:
            _mark_crossing(ax, what.results, *_CROSSING[panel.metric])
    if what.x != picture.by:
        are_rules = picture.by == "scaling" and picture.facet_by != "scaling"
        legend(places[0], "scores unscaled, or divided by" if are_rules else "")
    return figure


def _layout(
    picture: Lines, parts: Sequence[tuple[Panel, pd.DataFrame]]
) -> tuple[Drawing, list[Axes]]:
    """A figure with the axes of each panel."""
    count = len(parts)
    kinds = len({panel for panel, _ in parts})
    columns = picture.columns or count
    if not picture.facet_by:
        return panels(count, columns, picture.size, sharey="row" if picture.shares else "none")
    if picture.facet_by == CASES:
        columns = min(columns, count)
        share = "col" if kinds > 1 else "all"
    else:
        columns = count // kinds
        share = "row"
    width, height = picture.size
    size = max(width * columns, _LEAST_WIDTH), height * -(-count // columns)
    return panels(count, columns, size, sharey=share)


def _as_drawn(rows: pd.DataFrame, panel: Panel, what: Shown) -> pd.DataFrame:
    """The rows of a panel, with its metric and the ends of its interval as it shows them."""
    metric = panel.metric
    ends = [f"{metric}_low", f"{metric}_high"]
    if ends[0] not in rows:
        rows = _with_ends(rows, panel)
    if panel.over:
        exact = f"{metric}_exact"
        is_exact = panel.over == "exact"
        whole = rows[exact] if is_exact else _end(rows, what.results.metrics[metric], panel.over)
        columns = [metric, *ends, exact]
        rows = rows.assign(**rows[columns].div(whole, axis=0))
    if panel.equal:
        equal = _end(rows, what.results.metrics[metric], panel.equal)
        rows = rows.assign(**{_EQUAL: equal})
    if what.rows[metric].min() > panel.top:
        return rows
    return rows.assign(**rows[[metric, *ends]].clip(upper=panel.top))


def _with_ends(rows: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """Rows with a mean and a law, or with their roots, and the mean two standard errors below and
    above.
    """
    metric, law = panel.metric, f"{panel.metric}_law"
    found = rows[[metric, law]]
    error = 2 * rows[f"{metric}_se"]
    if panel.root:
        found = np.sqrt(found)
        error = error / (2 * found[metric])  # the derivative of the root
    ends = {f"{metric}_low": found[metric] - error, f"{metric}_high": found[metric] + error}
    return rows.assign(**found, **ends)


def _draw_panel(ax: Axes, picture: Lines, panel: Panel, rows: pd.DataFrame, what: Shown) -> None:
    """Exact values, points with error bars on them, the value of equal weights, and words."""
    x, metric = what.x, panel.metric
    if not is_number(rows[x]):
        # the order of categories, whatever the first line has
        ax.xaxis.update_units(rows[x].unique())
    lines, along = _lines_of(rows, picture, what)
    for line in lines:
        is_known = _plot_known(ax, line, x, metric)
        dashes = line.dashes if is_number(rows[x]) and not is_known else ""
        plot_measured(ax, line.rows, x, metric, linestyle=dashes, **line.look)
    if panel.equal:
        _mark_equal(ax, rows, x)
    also = f" (also differing: {listed([*map(spoken, along)])})" if along else ""
    ax.set_xlabel(f"{spoken(x)}{also}")
    _name_panel(ax, picture, panel, rows, what)


def _lines_of(table: pd.DataFrame, picture: Lines, what: Shown) -> tuple[list[Line], list[str]]:
    """The lines of a panel, and the axes that change along them with x, as n_heads does with d_model.

    There is one per value of `by` (its colour) and combination of the other axes (its marker and
    dashes). If the title has `by`, colours are free.
    """
    x, by, axes = what.x, picture.by, what.results.axes
    whole = table if picture.facet_by == CASES else what.rows  # one legend for all panels
    varied = axes.varied(whole, x, *along_cases(picture))
    per_point = whole.groupby([x, by])
    apart = [name for name in varied if per_point[name].nunique().max() > 1]
    fixed = [name for name in axes.among(table, x, *varied) if axes.usual[name] is not None]
    places = whole.groupby([*apart, lambda _: 0], sort=False).ngroup()
    colours = colours_of(what.rows[by])
    free = itertools.cycle(UNORDERED_COLOURS)
    lines = []
    colour: Colour
    for (value, *_), rows in table.groupby([by, *apart], sort=False):
        first = rows.iloc[0]
        if picture.facet_by == by:
            colour = next(free)
            label = values_of(first, named(first, [*apart, *fixed], axes)) or "softmax"
        else:
            colour = colours[value]
            words = value if by == "scaling" else f"{spoken(by)} = {short(value)}"
            label = ", ".join(filter(None, [words, values_of(first, naming(first, apart, axes))]))
        place = places[first.name]
        marker, dashes = MARKERS[place % len(MARKERS)], _STYLES[place % len(_STYLES)]
        above = 2 + (dashes != "-")
        look = {"color": colour, "marker": marker, "label": label, "zorder": above}
        ordered = rows.sort_values(x) if is_number(rows[x]) else rows
        lines.append(Line(ordered, dashes, look))
    return lines, [name for name in varied if name not in apart]


def _plot_known(ax: Axes, line: Line, x: str, metric: str) -> bool:
    """A stroke at the exact value or that of a law. If x is a number, a line goes through these, and
    through the points where none is known. True if some are known.
    """
    rows = line.rows
    known = rows.filter(regex=f"^{metric}_(exact|law)$").dropna(axis="columns", how="all")
    for _, exact in known.items():
        through = exact.fillna(rows[metric]) if is_number(rows[x]) else exact
        plot_exact(ax, rows[x], through, line.look["color"], line.dashes)
    return not known.empty


def plot_exact(
    ax: Axes, at: pd.Series, values: pd.Series, colour: Colour, dashes: str = "-"
) -> None:
    """Exact values: a thin line with gaps at NaN, or strokes if there is a single value or x is not a
    number.
    """
    joined = values.count() > 1 and is_number(at)
    ax.plot(at, values, dashes if joined else "_", color=colour, zorder=1, markersize=22)


def plot_measured(ax: Axes, rows: pd.DataFrame, x: str, metric: str, **look: object) -> None:
    """A metric of rows along x with its 95% intervals, hollow where it has too few draws.

    `look` are keywords of Matplotlib's `errorbar`, with `color` and `marker`.
    """
    ax.errorbar(rows[x], rows[metric], reach(rows, metric), elinewidth=1, **look)
    if FEW_DRAWS not in rows:
        return
    hollow = rows[is_few(rows[FEW_DRAWS], metric)]
    if len(hollow):
        ax.plot(
            hollow[x],
            hollow[metric],
            color=look["color"],
            marker=look["marker"],
            markerfacecolor="white",
            zorder=4,
            linestyle="",
        )


def reach(rows: pd.DataFrame, metric: str) -> Floats:
    """The reach of the 95% interval of a metric below and above its value, (2, rows), none
    negative.

    >>> rows = pd.DataFrame({"entropy": [2.0], "entropy_low": [1.5], "entropy_high": [3.0]})
    >>> reach(rows, "entropy").ravel()
    array([0.5, 1. ])
    """
    below = rows[metric] - rows[f"{metric}_low"]
    above = rows[f"{metric}_high"] - rows[metric]
    return np.stack([below, above]).clip(0)


def _mark_equal(ax: Axes, rows: pd.DataFrame, x: str) -> None:
    """The value of equal weights in each row: along n_keys, or the smallest and the largest one."""
    values = rows[_EQUAL]
    look = {"color": INK, "linestyle": ":", "linewidth": 1, "zorder": 0}
    if x == "n_keys":
        along = values.groupby(rows["n_keys"]).first()
        ax.plot(along.index, along, **look)
    else:
        for value in (values.min(), values.max()):
            ax.axhline(value, **look)


def _name_panel(ax: Axes, picture: Lines, panel: Panel, rows: pd.DataFrame, what: Shown) -> None:
    """The title of a panel: its metric, the value of an axis that it chooses, and its rule or case;
    a metric that all panels have stands beside them.
    """
    metric = panel.title or what.results.metrics[panel.metric].title
    first, axes = rows.iloc[0], what.results.axes
    if picture.facet_by == CASES:
        varied = axes.varied(what.rows, *along_cases(picture))
        usual = "defaults" if varied else ""
        case = values_of(first, naming(first, varied, axes)) or usual
        parts = [metric, case]
        if case and len(picture.panels) == 1:
            parts = [case]
            ax.set_ylabel(metric if ax.get_subplotspec().is_first_col() else "")
        letters = int(picture.size[0] * LETTERS_PER_INCH)
        ax.set_title("\n".join(line for part in parts for line in wrap(part, letters)))
        return
    parts = [metric]
    if panel.only:
        axis, _ = panel.only
        parts.append(f"{axis} {short(first[axis])}")
    if picture.facet_by:
        parts.append(under(first[picture.facet_by]))
    ax.set_title(", ".join(parts))


def _end(rows: pd.DataFrame, metric: Metric, end: str) -> pd.Series:
    """An end of the range of a metric in each row."""
    return pd.Series(getattr(metric.limits(rows), end), rows.index, float)


def _mark_crossing(ax: Axes, results: Results, norm: str, statistic: str) -> None:
    """The d_k where the norm unscaled equals that under d_k^1/2; its words stand above its line."""
    at = only_crossing(results, norm, statistic)
    if at is None:
        return
    ax.margins(y=0.25)  # the words stand over the lines
    ax.axvline(at, ymax=_BELOW_WORDS, color=INK, linestyle=":", linewidth=1, zorder=0)
    text = f"unscaled and d_k^1/2 cross at {significant(at, 2):g} (exact)"
    ax.text(1, 1, text, transform=ax.transAxes, ha="right", va="top", fontsize=9)


def _scale_y(
    ax: Axes, panel: Panel, shares: Sequence[tuple[str, pd.DataFrame]], results: Results
) -> None:
    """The scale of y of a panel, from the metrics and rows of all panels that share it."""
    values = np.concatenate([rows[metric] for metric, rows in shares])
    if panel.floor is not None and np.nanmin(values) >= panel.floor:
        ax.set_ylim(bottom=panel.floor)
        return
    metrics = results.metrics
    may_be_log = all(name not in metrics or metrics[name].is_logarithmic for name, _ in shares)
    scale_y(ax, values, may_be_log=may_be_log)
