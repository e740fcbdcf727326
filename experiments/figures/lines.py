"""Lines along an axis: measured points with 95% intervals on lines of exact values, and one legend of
lines.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from textwrap import wrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullLocator,
    StrMethodFormatter,
)

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
    latex,
    listed,
    named,
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
from experiments.tables.results import Results, SweepAxes

_CROSSING = {
    f"{metric}{suffix}": (norm, statistic)
    for norm, (metric, times_divisor) in NORMS.items()
    for statistic, suffix in NORM_STATISTICS.items()
    if not times_divisor
}
_EXPONENTS = {0: "0", 1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1: "1"}
MARKERS = "osD^vP*X"
_STYLES = ("-", "--", ":")
_LEAST_WIDTH = 6.0  # of a figure, for its caption
_FEW_OTHERS = 2  # axes that labels always name
_LOG_FROM = 8  # a positive quantity with a range above this factor gets a logarithmic axis
_FEW_DECADES = 300
_LETTERS_PER_INCH = 12  # of ticks, with a space between them
_BELOW_WORDS = 0.85  # the height of the line of a crossing
_LEGEND_POINTS = 8.5
_LEGEND_LETTERS = 110  # of one point in an inch
_LEGEND_LINE = 0.027  # its height in inches per point


def draw_lines(picture: Lines, shown: Shown) -> Drawing:
    """The picture of the rows shown."""
    if shown.rows.empty:
        return empty(f"No rule of this sweep has a value of {shown.x}.")
    figure, places = _layout(picture, shown.panels)
    drawn = [
        (ax, panel, _as_drawn(part, panel, shown))
        for ax, (panel, part) in zip(places, shown.panels, strict=True)
    ]
    colours = colours_of(shown.rows[picture.by])
    for ax, panel, part in drawn:
        _plot_lines(ax, picture, panel.metric, part, shown, colours)
        if panel.equal:
            _mark_equal(ax, part, panel, shown)
        _name_panel(ax, picture, panel, part, shown)
    for ax, panel, part in drawn:  # once all panels of a row have their lines
        _scale_x(ax, part, shown.x)
        alike = ax.get_shared_y_axes().get_siblings(ax)
        shares = [(each.metric, rows) for other, each, rows in drawn if other in alike]
        _scale_y(ax, panel, shares, shown.metrics)
        if shown.x == "d_k" and panel.metric in _CROSSING:
            _mark_crossing(ax, shown.results, *_CROSSING[panel.metric])
    if shown.x != picture.by:
        are_rules = picture.by == "scaling" and picture.facet_by != "scaling"
        legend(places[0], "scores unscaled, or divided by" if are_rules else "")
    return figure


def _plot_lines(
    ax: Axes,
    picture: Lines,
    metric: str,
    table: pd.DataFrame,
    shown: Shown,
    colours: Mapping[object, Colour],
) -> None:
    """One line along x per value of `by` (its colour) and combination of the other axes (its marker
    and dashes): measured points with 95% intervals, and a stroke at the exact value or that of a
    law. If x is a number, a line goes through these, and through the points where none is known.

    Axes that x and `by` determine, as d_model does n_heads, distinguish no lines. If the title has
    `by`, colours are free.
    """
    x, by, axes = shown.x, picture.by, shown.axes
    is_joined = is_number(table, x)
    if not is_joined:
        # the order of categories, whatever the first line has
        ax.xaxis.update_units(table[x].unique())
    whole = table if picture.facet_by == CASES else shown.rows  # one legend for all panels
    per_point = whole.groupby([x, by])
    varied = axes.varied(whole, x, *along_cases(picture))
    others = [name for name in varied if per_point[name].nunique().max() > 1]
    numbers = whole.groupby([*others, lambda _: 0], sort=False).ngroup()
    fixed = [name for name in axes.among(table, x, *varied) if axes.usual[name] is not None]
    exacts = [*table.filter(regex=f"^{metric}_(exact|law)$")]
    free = itertools.cycle(UNORDERED_COLOURS)
    for (value, *_), of_line in table.groupby([by, *others], sort=False):
        rows = of_line.sort_values(x) if is_joined else of_line
        first = rows.iloc[0]
        place = numbers[first.name]
        colour = colours[value]
        if picture.facet_by == by:
            colour = next(free)
            label = values_of(first, named(first, [*others, *fixed], axes)) or "softmax"
        else:
            words = value if by == "scaling" else f"{spoken(by)} = {short(value)}"
            label = ", ".join(filter(None, [words, values_of(first, _named(first, others, axes))]))
        dashes = _STYLES[place % len(_STYLES)]
        known = [exact for exact in exacts if rows[exact].notna().any()]
        for exact in known:
            through = rows[exact].fillna(rows[metric]) if is_joined else rows[exact]
            plot_exact(ax, rows[x], through, colour, dashes)
        plot_measured(
            ax,
            rows,
            x,
            metric,
            color=colour,
            marker=MARKERS[place % len(MARKERS)],
            linestyle=dashes if is_joined and not known else "",
            label=label,
            zorder=2 + (dashes != "-"),
        )
    along = [name for name in varied if name not in others]
    also = f" (also differing: {listed([*map(spoken, along)])})" if along else ""
    ax.set_xlabel(f"{spoken(x)}{also}")


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


def _as_drawn(rows: pd.DataFrame, panel: Panel, shown: Shown) -> pd.DataFrame:
    """The rows of a panel, with its metric and the ends of its interval as it shows them."""
    metric = panel.metric
    ends = [f"{metric}_low", f"{metric}_high"]
    if ends[0] not in rows:
        rows = _with_ends(rows, panel)
    if panel.over:
        exact = f"{metric}_exact"
        is_exact = panel.over == "exact"
        whole = rows[exact] if is_exact else _end(rows, shown.metrics[metric], panel.over)
        columns = [metric, *ends, exact]
        rows = rows.assign(**rows[columns].div(whole, axis=0))
    if shown.rows[metric].min() > panel.top:
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


def _name_panel(ax: Axes, picture: Lines, panel: Panel, rows: pd.DataFrame, shown: Shown) -> None:
    """The title of a panel: its metric, the value of an axis that it chooses, and its rule or case;
    a metric that all panels have stands beside them.
    """
    metric = panel.title or shown.metrics[panel.metric].title
    first = rows.iloc[0]
    if picture.facet_by == CASES:
        varied = shown.axes.varied(shown.rows, *along_cases(picture))
        case = values_of(first, _named(first, varied, shown.axes))
        case = case or ("defaults" if varied else "")
        parts = [metric, case]
        if case and len(picture.panels) == 1:
            parts = [case]
            ax.set_ylabel(metric if ax.get_subplotspec().is_first_col() else "")
        letters = int(picture.size[0] * _LETTERS_PER_INCH)
        ax.set_title("\n".join(line for part in parts for line in wrap(part, letters)))
        return
    parts = [metric]
    if panel.only:
        axis, _ = panel.only
        parts.append(f"{axis} {short(first[axis])}")
    if picture.facet_by:
        parts.append(under(first[picture.facet_by]))
    ax.set_title(", ".join(parts))


def _named(row: pd.Series, names: list[str], axes: SweepAxes) -> list[str]:
    """The axes that name a row: all of few; of more, those that tell it from others."""
    return names if len(names) <= _FEW_OTHERS else named(row, names, axes)


def _end(rows: pd.DataFrame, metric: Metric, end: str) -> pd.Series:
    """An end of the range of a metric in each row."""
    return pd.Series(getattr(metric.limits(rows), end), rows.index, float)


def _mark_equal(ax: Axes, rows: pd.DataFrame, panel: Panel, shown: Shown) -> None:
    """The value of equal weights in each row: along n_keys, or the smallest and the largest one."""
    values = _end(rows, shown.metrics[panel.metric], panel.equal)
    look = {"color": INK, "linestyle": ":", "linewidth": 1, "zorder": 0}
    if shown.x == "n_keys":
        along = values.groupby(rows["n_keys"]).first()
        ax.plot(along.index, along, **look)
    else:
        for value in (values.min(), values.max()):
            ax.axhline(value, **look)


def _mark_crossing(ax: Axes, results: Results, norm: str, statistic: str) -> None:
    """The d_k where the norm unscaled equals that under d_k^1/2; its words stand above its line."""
    at = only_crossing(results, norm, statistic)
    if at is None:
        return
    ax.margins(y=0.25)  # the words stand over the lines
    ax.axvline(at, ymax=_BELOW_WORDS, color=INK, linestyle=":", linewidth=1, zorder=0)
    text = f"unscaled and d_k^1/2 cross at {significant(at, 2):g} (exact)"
    ax.text(1, 1, text, transform=ax.transAxes, ha="right", va="top", fontsize=9)


def _scale_x(ax: Axes, table: pd.DataFrame, x: str) -> None:
    """The scale of x of a panel, with its ticks and its name."""
    if x == "exponent":
        if table[x].between(0, 1).all():
            ax.set_xticks([*_EXPONENTS], _EXPONENTS.values())
        for exponent in (1 / 3, 1 / 2, 2 / 3):
            ax.axvline(exponent, color=INK, linestyle=":", linewidth=0.8, zorder=0)
        ax.set_xlabel(
            "exponent p of the divisor d_k^p" if ax.get_subplotspec().is_last_row() else ""
        )
    elif not is_number(table, x):
        _name_categories(ax, list(table[x].unique()), x)
    elif x == "layer":
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    else:
        scale_x(ax, table, x)


def _scale_y(
    ax: Axes,
    panel: Panel,
    shares: Sequence[tuple[str, pd.DataFrame]],
    metrics: Mapping[str, Metric],
) -> None:
    """The scale of y of a panel, from the metrics and rows of all panels that share it."""
    values = np.concatenate([rows[metric] for metric, rows in shares])
    if panel.floor is not None and np.nanmin(values) >= panel.floor:
        ax.set_ylim(bottom=panel.floor)
        return
    may_be_log = all(name not in metrics or metrics[name].is_logarithmic for name, _ in shares)
    scale_y(ax, values, may_be_log=may_be_log)


def _name_categories(ax: Axes, names: Sequence[str], x: str) -> None:
    """Ticks with names aslant, in the last row of panels alone."""
    ax.set_xticks(range(len(names)), [latex(spoken(name)) for name in names])
    for label in ax.get_xticklabels():
        label.set(rotation=35, ha="right", rotation_mode="anchor")
    ax.set_xlim(-0.5, len(names) - 0.5)
    is_last = ax.get_subplotspec().is_last_row()
    ax.tick_params(axis="x", labelbottom=is_last)
    ax.set_xlabel({"scaling": "divisor"}.get(x, ax.get_xlabel()) if is_last else "")


def plot_exact(
    ax: Axes, at: pd.Series, values: pd.Series, colour: Colour, dashes: str = "-"
) -> None:
    """Exact values: a thin line with gaps at NaN, or strokes if there is a single value or x is not a
    number.
    """
    joined = values.count() > 1 and at.dtype.kind in "iuf"
    ax.plot(at, values, dashes if joined else "_", color=colour, zorder=1, markersize=22)


def plot_measured(ax: Axes, rows: pd.DataFrame, x: str, metric: str, **look: object) -> None:
    """A metric of rows along x with its 95% intervals, hollow where it has too few draws.

    `look` are keywords of Matplotlib's `errorbar`, with `color` and `marker`.
    """
    ax.errorbar(rows[x], rows[metric], reach(rows, metric), elinewidth=1, **look)
    if FEW_DRAWS not in rows:
        return
    hollow = rows[is_few(rows, metric)]
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


def scale_x(ax: Axes, table: pd.DataFrame, x: str) -> None:
    """Ticks at the values of x; a logarithmic axis for sizes, which are whole numbers, for learning
    rates, and if the range is wide.

    Ticks that would touch their left neighbour are left out.
    """
    values = np.sort(table[x].unique())
    places = values
    is_size = values.dtype.kind in "iu" and values[0] > 0
    if is_size or x == "learning_rate" or spans_widely(values):
        ax.set_xscale("log", base=2)
        places = np.log2(values)
    texts = np.array([f"{value:g}" for value in values])
    letters = ax.get_window_extent().width / ax.figure.dpi * _LETTERS_PER_INCH
    longest = max(map(len, texts))
    most = max(3, letters / (1 + longest))
    nearest = (places[-1] - places[0]) / most
    shown = [0]
    for i, place in enumerate(places):
        if place - places[shown[-1]] > nearest:
            shown.append(i)
    ax.set_xticks(values[shown], texts[shown])
    ax.xaxis.set_minor_locator(NullLocator())


def scale_y(ax: Axes, values: Floats, *, may_be_log: bool = True) -> None:
    """A y axis for some values, logarithmic if it may be and they are positive with a wide range."""
    if may_be_log and spans_widely(values):
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
    else:
        ax.ticklabel_format(axis="y", useOffset=False)


def plain_numbers(axis: Axis) -> None:
    """Plain numbers, such as 0.5, beside the ticks of a logarithmic axis, unless it spans many
    decades.
    """
    axis.set_minor_locator(NullLocator())  # a fifth of the time of a drawing
    low, high = axis.get_view_interval()
    if high < _FEW_DECADES * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def spans_widely(values: Floats) -> bool:
    """True if the values are positive and span more than a factor of 8.

    >>> spans_widely(np.array([1, 9])), spans_widely(np.array([0, 9])), spans_widely(np.array([1, 8]))
    (True, False, False)
    """
    known = values[~np.isnan(values)]
    return bool(known.size and known.min() > 0 and known.max() / known.min() > _LOG_FROM)


def legend(ax: Axes, title: str = "") -> None:
    """A legend for the labelled lines above all axes of a figure, which grows."""
    figure = ax.figure
    lines = {bars.get_label(): bars for each in figure.axes for bars in each.containers}
    letters = figure.get_figwidth() * _LEGEND_LETTERS / _LEGEND_POINTS
    longest = max(map(len, lines))
    columns = max(1, int(letters / (longest + 8)))
    rows = math.ceil(len(lines) / columns)
    # full columns, because a legend fills one column after the other
    columns = math.ceil(len(lines) / rows)
    height = _LEGEND_LINE * _LEGEND_POINTS * (rows + bool(title))
    figure.set_figheight(figure.get_figheight() + height)
    figure.legend(
        lines.values(),
        lines,
        title=title,
        loc="outside upper left",
        ncols=columns,
        borderpad=0.3,
        fontsize=_LEGEND_POINTS,
        title_fontsize=_LEGEND_POINTS,
        alignment="left",
    )
