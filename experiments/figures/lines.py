"""Lines along an axis: measured points with 95% intervals over pale bands of exact values, and one
legend of lines.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, StrMethodFormatter

from experiments.analysis.results import Results, SweepAxes
from experiments.declarations.figure import Lines, Panel
from experiments.figures.style import (
    INK,
    UNORDERED_COLOURS,
    Drawing,
    empty,
    ordered_colours,
    panels,
    scaling_colours,
)
from experiments.figures.words import is_number, latex, short, spoken, under, values_of
from experiments.measuring.metric import FEW_DRAWS, Metric

_EXPONENTS = {0: "0", 1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1: "1"}
MARKERS = "osD^vP*X"
_STYLES = ("-", "--", ":")
# Lines of two names may coincide, so dashes of one leave gaps for those of the other.
_DASHES = ("-", (0, (4, 4)), "-", (0, (4, 4)), "-", (4, (4, 4)))
_MAX_BESIDE = 3
_MOST_CASES, _CASES_BESIDE = 9, 3  # with a panel each; in a row
_FEW_OTHERS = 2  # axes that labels name with all their values; of more, those with an unusual one
_LOG_FROM = 8  # a positive quantity with a range above this factor gets a logarithmic axis
_FEW_DECADES = 300
_LETTERS_PER_INCH = 12  # of ticks, with a space between them
_LEGEND_LETTERS = 110  # of one point in an inch
_LEGEND_LINE = 0.027  # its height in inches per point


@dataclass(frozen=True)
class Series:
    """One line: its rows in order of x, label, colour, marker and dashes."""

    label: str
    colour: Any
    marker: str
    rows: pd.DataFrame
    dashes: Any = "-"


def case_panels(
    table: pd.DataFrame, axes: Sequence[str], height: float
) -> tuple[Drawing, list[tuple[Axes, pd.DataFrame]]]:
    """A figure with a panel for each of the first nine combinations of axes, three in a row, and
    each panel with its rows.
    """
    cases = [rows for _, rows in table.groupby([*axes], sort=False)][:_MOST_CASES]
    columns = min(_CASES_BESIDE, len(cases))
    size = max(3.8 * columns, 6.0), height * -(-len(cases) // columns)
    figure, places = panels(len(cases), columns, size, sharey=True)
    return figure, [*zip(places, cases, strict=True)]


def draw_lines(picture: Lines, table: pd.DataFrame, results: Results) -> Drawing:
    """The picture of rows of the main table of a sweep."""
    axes = results.axes
    metrics = results.metrics
    if picture.by not in table:  # of an experiment without scaling
        table = table.assign(**{picture.by: "", "exponent": np.nan})
    if picture.rules and table["scaling"].isin(picture.rules).any():
        table = table[table["scaling"].isin(picture.rules)]
    x = picture.x or [*axes.varied(table, picture.by), "scaling"][0]
    table = table[table[x].notna()]
    if table.empty:
        return empty(picture.size, f"No rule of this sweep has a value of {x}.")
    shown = [panel for panel in picture.panels if panel.metric in table]
    figure, places, groups = _layout(picture, table, shown)
    colours = _colours(table, picture.by)
    drawn = [*zip(places, itertools.product(shown, groups), strict=True)]
    for ax, (panel, rows) in drawn:
        chosen = _chosen(rows, panel)
        if not is_number(chosen, x):
            # the order of categories, whatever the first line has
            ax.xaxis.update_units(chosen[x].unique())
        plot_metric(ax, series(chosen, axes, x, picture.by, colours), x, panel.metric)
        ax.set_title(_title(panel, chosen, picture.beside, metrics))
        if panel.equal:
            _mark_equal(ax, chosen, x, panel.metric)
    for ax, (panel, rows) in drawn:  # once all panels of a row have their lines
        _scale(ax, _chosen(table, panel), _chosen(rows, panel), x, panel, metrics)
    if x != picture.by:
        legend(places[0])
    return figure


def _layout(
    picture: Lines, table: pd.DataFrame, shown: Sequence[Panel]
) -> tuple[Drawing, list[Axes], list[pd.DataFrame]]:
    """A figure, the axes of each panel and group of rows, and these groups; one without `beside`."""
    width, height = picture.size
    if not picture.beside:
        share = "row" if any(panel.like for panel in shown) else "none"
        columns = picture.columns or len(shown)
        return *panels(len(shown), columns, (width, height), sharey=share), [table]
    groups = [rows for _, rows in table.groupby(picture.beside, sort=False)][:_MAX_BESIDE]
    size = width * len(groups), height * len(shown)
    return *panels(len(shown) * len(groups), len(groups), size, sharey="row"), groups


def _title(panel: Panel, rows: pd.DataFrame, beside: str, metrics: Mapping[str, Metric]) -> str:
    """The metric of a panel, then the only value of an axis and the treatment that it shows."""
    parts = [panel.title or metrics[panel.metric].title]
    if panel.only:
        axis, _ = panel.only
        parts.append(f"{axis} {short(rows[axis].iloc[0])}")
    if beside:
        treatment = rows[beside].iloc[0]
        parts.append(under(treatment) if beside == "scaling" else treatment)
    return ", ".join(parts)


def _mark_equal(ax: Axes, rows: pd.DataFrame, x: str, metric: str) -> None:
    """ln n_keys or 1/n_keys of equal weights, along n_keys or for its smallest and largest
    value.
    """
    n_keys = np.sort(rows["n_keys"].unique()).astype(float)
    values = np.log(n_keys) if metric == "entropy" else 1 / n_keys
    look = {"color": INK, "linestyle": ":", "linewidth": 1, "zorder": 0}
    if x == "n_keys":
        ax.plot(n_keys, values, **look)
    else:
        for value in (values[0], values[-1]):
            ax.axhline(value, **look)


def _scale(
    ax: Axes,
    table: pd.DataFrame,
    own: pd.DataFrame,
    x: str,
    panel: Panel,
    metrics: Mapping[str, Metric],
) -> None:
    """The scales of a panel: x from its own rows, y from all of its row of panels, which share
    it.
    """
    if x == "exponent":
        if table[x].between(0, 1).all():
            ax.set_xticks([*_EXPONENTS], _EXPONENTS.values())
        for exponent in (1 / 3, 1 / 2, 2 / 3):
            ax.axvline(exponent, color=INK, linestyle=":", linewidth=0.8, zorder=0)
        ax.set_xlabel(
            "exponent p of the divisor d_k^p" if ax.get_subplotspec().is_last_row() else ""
        )
    elif not is_number(own, x):
        _name_categories(ax, list(own[x].unique()), x)
    else:
        scale_x(ax, own, x, log=x == "d_model")
    if panel.floor is None:
        shown = [name for name in (panel.metric, panel.like) if name]
        scale_y(
            ax, table, *shown, may_be_log=panel.is_logarithmic or _are_logarithmic(metrics, shown)
        )
    else:
        ax.set_ylim(bottom=panel.floor)


def _name_categories(ax: Axes, names: Sequence[str], x: str) -> None:
    """Ticks with names, aslant if they need more than the width of the panel, in the last row of
    panels alone.
    """
    width = ax.get_window_extent().width / ax.figure.dpi
    is_wide = sum(map(len, names)) > width * _LETTERS_PER_INCH
    slant = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if is_wide else {}
    ax.set_xticks(range(len(names)), [latex(spoken(name)) for name in names], **slant)
    ax.set_xlim(-0.5, len(names) - 0.5)
    is_last = ax.get_subplotspec().is_last_row()
    ax.tick_params(axis="x", labelbottom=is_last)
    ax.set_xlabel({"scaling": "divisor"}.get(x, spoken(x)) if is_last else "")


def _chosen(table: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """The rows of a panel, with its metric as it shows it."""
    if panel.only:
        axis, choose = panel.only
        table = table[
            table[axis] == choose(table[axis].unique(), key=lambda value: (abs(value), value))
        ]
    if panel.over == "exact":  # every rule divides the same scores
        table = table[table["scaling"] == table["scaling"].iloc[0]]
    if panel.over:
        whole = (
            np.log(table["n_keys"]) if panel.over == "ln n_keys" else table[f"{panel.metric}_exact"]
        )
        columns = [
            name for name in table if name == panel.metric or name.startswith(f"{panel.metric}_")
        ]
        table = table.assign(**{name: table[name] / whole for name in columns})
    return table


def _colours(table: pd.DataFrame, by: str) -> dict[Any, Any]:
    """The colour of each value of `by` in a table."""
    values = list(table[by].unique())
    if by == "scaling":
        return scaling_colours(values)
    if is_number(table, by):
        return dict(zip(sorted(values), ordered_colours(len(values)), strict=True))
    return dict(zip(values, itertools.cycle(UNORDERED_COLOURS), strict=False))


def _are_logarithmic(metrics: Mapping[str, Metric], names: Iterable[str]) -> bool:
    return all(metrics[name].is_logarithmic for name in names)


def series(
    table: pd.DataFrame,
    axes: SweepAxes,
    x: str,
    by: str = "scaling",
    colours: Mapping[Any, Any] | None = None,
) -> list[Series]:
    """One line along x per value of `by` (its colour) and combination of the other axes (its marker
    and dashes).

    Axes that x and `by` determine, as d_model does n_heads, distinguish no lines. `colours` are
    those of the values of `by`, of a whole figure if this table is one panel's.
    """
    others = [
        name
        for name in axes.varied(table, x, by)
        if table.groupby([x, by])[name].nunique().max() > 1
    ]
    combinations = (
        list(dict.fromkeys(table[others].itertuples(index=False, name=None))) if others else [()]
    )
    values = list(table[by].unique())
    ordered = is_number(table, by)
    has_own_colours = ordered or by == "scaling"
    colours = colours or _colours(table, by)
    lines = []
    for (value, *combination), rows in table.groupby([by, *others], sort=False):
        is_named = ordered or (bool(others) and by != "scaling")
        named = others
        if len(others) > _FEW_OTHERS:
            named = [name for name in axes.changed(rows.iloc[0]) if name in others]
        words = [
            f"{spoken(by)} = {short(value)}" if is_named else str(value),
            values_of(rows.iloc[0], named),
        ]
        other = combinations.index(tuple(combination))
        styles, place = (_STYLES, other) if has_own_colours else (_DASHES, values.index(value))
        lines.append(
            Series(
                label=", ".join(filter(None, words)),
                colour=colours[value],
                marker=MARKERS[other % len(MARKERS)],
                rows=rows.sort_values(x) if is_number(table, x) else rows,
                dashes=styles[place % len(styles)],
            )
        )
    return lines


def plot_metric(ax: Axes, lines: Sequence[Series], x: str, metric: str) -> None:
    """Measured points with 95% intervals, joined if x is a number; known exact values as a pale
    band behind them.
    """
    for line in lines:
        at = line.rows[x].to_numpy()
        values = line.rows[metric].to_numpy()
        if f"{metric}_exact" in line.rows:
            plot_exact(ax, at, line.rows[f"{metric}_exact"], line.colour)
        joined = line.dashes if is_number(line.rows, x) else ""
        look = {
            "color": line.colour,
            "marker": line.marker,
            "linestyle": joined,
            "label": line.label,
        }
        plot_measured(ax, at, values, line.rows, metric, zorder=2 + (line.dashes != "-"), **look)
    ax.set_xlabel(spoken(x))


def name_ends(ax: Axes, lines: Sequence[Series], x: str, metric: str) -> None:
    """The label of each line right of its last point, apart from the others; once the scales of the
    axes are set.
    """
    lines = [line for line in lines if line.rows[metric].notna().any()]
    if not lines:
        return
    ends = [
        line.rows.loc[line.rows[metric].notna(), [x, metric]].iloc[-1].to_numpy() for line in lines
    ]
    at = ax.transAxes.inverted().transform(ax.transData.transform(ends))[:, 1]
    gap = 1.35 * mpl.rcParams["font.size"] / 72
    height = ax.get_window_extent().height / ax.figure.dpi
    order = np.argsort(at, kind="stable")
    free = gap / height
    # From the lowest up, each at least a gap above the one before; then down again below the top of
    # the axes.
    steps = free * np.arange(len(at))
    places = np.maximum.accumulate(at[order] - steps) + steps
    places[-1] = min(places[-1], 1.0)
    for i in range(len(places) - 2, -1, -1):
        places[i] = min(places[i], places[i + 1] - free)
    for place, which in zip(places, order, strict=True):
        line = lines[which]
        look = {
            "xycoords": ax.transAxes,
            "va": "center",
            "color": line.colour,
            "annotation_clip": False,
        }
        ax.annotate(line.label, (1.04, place), **look)
        ax.plot(
            [0.99, 1.035],
            [at[which], place],
            color=line.colour,
            lw=0.7,
            transform=ax.transAxes,
            clip_on=False,
        )


def plot_exact(ax: Axes, at: Any, values: Any, colour: Any) -> None:
    """Exact values: a pale band with gaps at NaN, or pale dashes if there is a single value or x is
    not a number.
    """
    joined = len(values) > 1 and np.asarray(at).dtype.kind in "iuf"
    look = (
        {"linewidth": 5}
        if joined
        else {"linestyle": "", "marker": "_", "markersize": 22, "markeredgewidth": 5}
    )
    ax.plot(at, values, color=colour, alpha=0.3, zorder=1, **look)


def plot_measured(
    ax: Axes, at: Any, values: Any, rows: pd.DataFrame, metric: str, **look: Any
) -> None:
    """Points with the 95% intervals of the metric in their rows, hollow where it has too few draws.

    `look` are keywords of Matplotlib's `errorbar`, with `color` and `marker`.
    """
    ax.errorbar(at, values, reach(rows, metric), capsize=2, elinewidth=1, **look)
    hollow = np.array([metric in names.split() for names in rows[FEW_DRAWS]])
    if hollow.any():
        face = {"markerfacecolor": "white", "zorder": 4, "linestyle": ""}
        ax.plot(
            np.asarray(at)[hollow],
            np.asarray(values)[hollow],
            color=look["color"],
            marker=look["marker"],
            **face,
        )


def reach(rows: pd.DataFrame, metric: str) -> Any:
    """The reach of the 95% interval of a metric below and above its value, (2, rows), none
    negative.

    >>> rows = pd.DataFrame({"entropy": [2.0], "entropy_low": [1.5], "entropy_high": [3.0]})
    >>> reach(rows, "entropy").ravel()
    array([0.5, 1. ])
    """
    return np.stack(
        [rows[metric] - rows[f"{metric}_low"], rows[f"{metric}_high"] - rows[metric]]
    ).clip(0)


def scale_x(ax: Axes, table: pd.DataFrame, x: str, *, log: bool = False) -> None:
    """Ticks at the values of x; a logarithmic axis if their range is wide, and always with `log`,
    for a power law.

    Ticks that would touch their left neighbour are left out. Nothing changes if x is not a number.
    """
    if not is_number(table, x):
        return
    values = np.sort(table[x].unique())
    if log or spans_widely(values):
        ax.set_xscale("log", base=2)
    places = ax.transScale.transform(np.column_stack([values, np.ones(len(values))]))[:, 0]
    width = ax.get_window_extent().width / ax.figure.dpi
    texts = np.array([f"{value:g}" for value in values])
    nearest = (places[-1] - places[0]) / max(
        3, width * _LETTERS_PER_INCH / (1 + max(map(len, texts)))
    )
    shown = [0]
    for i, place in enumerate(places):
        if place - places[shown[-1]] > nearest:
            shown.append(i)
    ax.set_xticks(values[shown], texts[shown])
    ax.xaxis.set_minor_locator(NullLocator())


def scale_y(ax: Axes, table: pd.DataFrame, *metrics: str, may_be_log: bool) -> None:
    """A y axis for some metrics, logarithmic if it may be and they are positive with a wide
    range.
    """
    if may_be_log and spans_widely(table[list(metrics)].to_numpy()):
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
    else:
        ax.ticklabel_format(axis="y", useOffset=False)


def plain_numbers(axis: Axis) -> None:
    """Plain numbers, such as 0.5, beside the ticks of a logarithmic axis, unless it spans many
    decades.
    """
    low, high = axis.get_view_interval()
    if high < _FEW_DECADES * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def spans_widely(values: Any) -> bool:
    """True if the values are positive and span more than a factor of 8.

    >>> spans_widely(np.array([1, 9])), spans_widely(np.array([0, 9])), spans_widely(np.array([1, 8]))
    (True, False, False)
    """
    known = values[~np.isnan(values)]
    return bool(known.size and known.min() > 0 and known.max() / known.min() > _LOG_FROM)


def legend(ax: Axes) -> None:
    """A legend for the labelled lines of one axes above all axes; the figure grows."""
    figure = ax.figure
    points = 0.85 * mpl.rcParams["font.size"]
    handles, labels = ax.get_legend_handles_labels()
    letters = figure.get_figwidth() * _LEGEND_LETTERS / points
    columns = max(1, int(letters / (max(map(len, labels)) + 8)))
    rows = math.ceil(len(labels) / columns)
    # full columns, because a legend fills one column after the other
    columns = math.ceil(len(labels) / rows)
    figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * points * rows)
    figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, borderpad=0.3, fontsize=points
    )
