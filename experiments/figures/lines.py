"""Lines along an axis: measured points with 95% intervals, pale bands of exact values, and the names of the lines.

A panel is drawn with `plot_metric`; then come the scales, and last the names of its lines, which depend on the scales.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, StrMethodFormatter
from matplotlib.transforms import Bbox

from experiments.figures.figure import Drawing, Lines, Panel
from experiments.figures.style import INK, UNORDERED_COLOURS, empty, ordered_colours, panels, scaling_colours
from experiments.figures.words import is_number, plain, under, values_of, varied_axes
from experiments.harness.discovery import axes_of, experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.metric import FEW_DRAWS

DECLARED = {metric.name: metric for name in experiment_names() for metric in load_experiment(name).metrics}
_EQUAL = {"entropy": ("ln {}", np.log), "max_weight": ("1/{}", np.reciprocal)}  # values of equal weights
_EXPONENTS = {0: "0", 1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1: "1"}
_MARKERS = "osD^vP*X"
# Lines of two names may coincide, so dashes of one leave gaps for those of the other.
_DASHES = ("-", (0, (4, 4)), "-", (0, (4, 4)), "-", (4, (4, 4)))
_MAX_BESIDE = 3
_LOG_FROM = 8  # a positive quantity with a range above this factor gets a logarithmic axis
_FEW_DECADES = 300
_TICKS_PER_INCH = 2.4
_LABEL_INCHES = 0.23
_LONGEST_LABEL = 12
_LEGEND_CHARACTERS_PER_INCH = 13


@dataclass(frozen=True)
class Series:
    """One line: its rows in order of x, label, colour, marker and dashes."""

    label: str
    colour: Any
    marker: str
    rows: pd.DataFrame
    dashes: Any = "-"


def draw_lines(picture: Lines, table: pd.DataFrame) -> Drawing:
    """The picture of a measured table."""
    if picture.by not in table:  # of an experiment without scaling
        table = table.assign(**{picture.by: "", "exponent": np.nan})
    free = table.drop(columns=picture.by)
    x = picture.x or [*varied_axes(free), *axes_of(free)][0]
    table = table[table[x].notna()]
    if table.empty:
        return empty(picture.size, f"No rule of this sweep has a value of {x}.")
    shown = picture.panels or [Panel(name) for name in table if name in DECLARED and not _is_zero(table, name)]
    if picture.beside:
        groups = [rows for _, rows in table.groupby(picture.beside, sort=False)][:_MAX_BESIDE]
        placed = [(panel, rows) for panel in shown for rows in groups]
        columns, size = len(groups), (picture.size[0] * len(groups) + 0.4, picture.size[1] * len(shown))
    else:
        placed = [(panel, table) for panel in shown]
        columns = picture.columns or len(shown)
        size = picture.size if picture.panels else (picture.size[0], picture.size[1] * -(-len(shown) // columns))
    figure, grid = panels(-(-len(placed) // columns), columns, size, sharey="row" if picture.beside else "none")
    axes = [ax for row in grid for ax in row]
    for ax, (panel, rows) in zip(axes, placed, strict=False):
        _plot_panel(ax, rows, x, panel, picture)
        _scale(ax, _chosen(table, panel), x, panel)
    for ax in axes[len(placed) :]:
        ax.axis("off")
    for ax, (panel, rows) in zip(axes, placed, strict=False):
        lines = series(_chosen(rows, panel), x, picture.by)
        # Lines at 0 hide each other, so their names say that they are there.
        is_share = panel.metric == "saturated_rows"
        names = [line.label + ": 0" * (is_share and not line.rows[panel.metric].any()) for line in lines]
        if picture.legend:
            legend(ax, [line.label for line in lines])
        else:
            label_lines(ax, lines, x, panel.metric, names)
    return figure


def _plot_panel(ax: Axes, rows: pd.DataFrame, x: str, panel: Panel, picture: Lines) -> None:
    """The lines of a panel, its title and marks."""
    table = _chosen(rows, panel)
    lines = series(table, x, picture.by)
    plot_metric(ax, lines, x, panel.metric)
    if panel.dashed:
        plot_metric(ax, lines, x, panel.dashed, "--")
    ax.set_title(panel.title or DECLARED[panel.metric].title)
    if panel.only:
        ax.set_title(f"{panel.title}, {panel.only[0]} {plain(table[panel.only[0]].iloc[0])}")
    if picture.beside:
        ax.set_title(f"{DECLARED[panel.metric].title}, {under(table[picture.beside].iloc[0])}", fontsize=10)
    if panel.equal:
        _mark_equal(ax, table, x, panel.metric)


def _scale(ax: Axes, table: pd.DataFrame, x: str, panel: Panel) -> None:
    """The scales of a panel, from all rows of its row of panels, which share the y axis."""
    if x == "exponent":
        _scale_exponents(ax, table)
    else:
        scale_x(ax, table, x, log=x == "d_model")
    if panel.floor is None:
        scale_y(ax, table, *filter(None, (panel.metric, panel.dashed)))
    else:
        ax.set_ylim(bottom=panel.floor)
    if panel.per_ln:
        ax.set_ylim(top=1.02)


def _chosen(table: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """The rows of a panel, with its metric as it shows it."""
    if panel.only:
        axis, choose = panel.only
        table = table[table[axis] == choose(table[axis].unique(), key=lambda value: (abs(value), value))]
    if panel.per_ln:
        columns = [name for name in table if name == panel.metric or name.startswith(f"{panel.metric}_")]
        table = table.assign(**{name: table[name] / np.log(table["n_keys"]) for name in columns})
    return table


def _is_zero(table: pd.DataFrame, metric: str) -> bool:
    """True for a metric with exact value 0 in every row, such as the mean score, or with only zero values."""
    values = table.get(f"{metric}_exact", table[metric])
    return bool((values == 0).all() or (table[metric] == 0).all())


def _mark_equal(ax: Axes, table: pd.DataFrame, x: str, metric: str) -> None:
    """The value of equal weights as dotted lines: along n_keys, or at its smallest and largest value."""
    name, value = _EQUAL[metric]
    n_keys = np.sort(table["n_keys"].unique()).astype(float)
    look = {"color": INK, "linestyle": ":", "linewidth": 1, "zorder": 0}
    if x == "n_keys":
        end, offset = value(n_keys)[-1], (0, 8 if metric == "entropy" else -14)
        ax.margins(y=0.12)
        ax.plot(n_keys, value(n_keys), marker="_" if len(n_keys) == 1 else "", **look)
        ax.annotate(name.format("n_keys"), (n_keys[-1], end), xytext=offset, textcoords="offset points", ha="right")
        return
    for n in {n_keys[0], n_keys[-1]}:
        ax.axhline(value(n), **look)
        if metric == "entropy":  # above all lines
            place = (0.02, value(n))
            ax.annotate(name.format(f"{n:g}"), place, xycoords=("axes fraction", "data"), va="bottom", fontsize=9)
            ax.set_ylim(top=1.08 * value(n_keys[-1]))


def series(table: pd.DataFrame, x: str, by: str = "scaling") -> list[Series]:
    """One line along x per value of `by` (its colour) and combination of the other axes (its marker, of eight).

    Axes that x determines, as d_model does n_heads, distinguish no lines.
    """
    others = [name for name in varied_axes(table, x, by) if table.groupby(x)[name].nunique().max() > 1]
    combinations = list(dict.fromkeys(table[others].itertuples(index=False, name=None))) if others else [()]
    values = list(table[by].unique())
    ordered = is_number(table, by)
    if by == "scaling":
        colours = scaling_colours(dict(zip(table["scaling"], table["exponent"], strict=True)))
    else:
        known = dict(zip(sorted(values), ordered_colours(len(values)), strict=True)) if ordered else {}
        colours = known or dict(zip(values, itertools.cycle(UNORDERED_COLOURS), strict=False))
    lines = []
    for (value, *combination), rows in table.groupby([by, *others], sort=False):
        words = [f"{by} = {plain(value)}" if ordered else str(value), values_of(rows.iloc[0], others)]
        place = 0 if by == "scaling" or ordered else values.index(value)
        lines.append(
            Series(
                label=", ".join(filter(None, words)),
                colour=colours[value],
                marker=_MARKERS[combinations.index(tuple(combination)) % len(_MARKERS)],
                rows=rows.sort_values(x) if is_number(table, x) else rows,
                dashes=_DASHES[place % len(_DASHES)],
            )
        )
    return lines


def plot_metric(ax: Axes, lines: Sequence[Series], x: str, metric: str, style: str = "") -> None:
    """Measured points with 95% intervals, joined if x is a number; known exact values as a pale band behind them.

    The axes get the title of the metric; `style` replaces the dashes of the lines.
    """
    for line in lines:
        at, values = line.rows[x].to_numpy(), line.rows[metric].to_numpy()
        if f"{metric}_exact" in line.rows:
            plot_exact(ax, at, line.rows[f"{metric}_exact"], line.colour)
        joined = (style or line.dashes) if is_number(line.rows, x) else ""
        look = {"color": line.colour, "marker": line.marker, "label": line.label, "linestyle": joined}
        plot_measured(ax, at, values, line.rows, metric, zorder=2 + (line.dashes != "-"), **look)
    ax.set_xlabel(x)
    ax.set_title(DECLARED[metric].title)
    if metric == "saturated_rows":
        ax.set_ylim(bottom=0, top=None if any(line.rows[metric].any() for line in lines) else 1)


def plot_exact(ax: Axes, at: Any, values: Any, colour: Any) -> None:
    """Exact values: a pale band with gaps at NaN, or pale dashes if there is a single value or x is not a number."""
    joined = len(values) > 1 and np.asarray(at).dtype.kind in "iuf"
    look = {"linewidth": 5} if joined else {"linestyle": "", "marker": "_", "markersize": 22, "markeredgewidth": 5}
    ax.plot(at, values, color=colour, alpha=0.3, zorder=1, **look)


def plot_measured(ax: Axes, at: Any, values: Any, rows: pd.DataFrame, metric: str, **look: Any) -> None:
    """Points with the 95% intervals of the metric in their rows, hollow where it has too few draws.

    `look` are keywords of Matplotlib's `errorbar`, with `color` and `marker`.
    """
    ax.errorbar(at, values, reach(rows, metric), capsize=2, elinewidth=1, **look)
    hollow = np.array([metric in names.split() for names in rows[FEW_DRAWS]])
    if hollow.any():
        face = {"markerfacecolor": "white", "zorder": 3, "linestyle": ""}
        ax.plot(np.asarray(at)[hollow], np.asarray(values)[hollow], color=look["color"], marker=look["marker"], **face)


def reach(rows: pd.DataFrame, metric: str) -> Any:
    """The reach of the 95% interval of a metric below and above its value, (2, rows), none negative.

    >>> rows = pd.DataFrame({"entropy": [2.0], "entropy_low": [1.5], "entropy_high": [3.0]})
    >>> reach(rows, "entropy").ravel()
    array([0.5, 1. ])
    """
    return np.stack([rows[metric] - rows[f"{metric}_low"], rows[f"{metric}_high"] - rows[metric]]).clip(0)


def scale_x(ax: Axes, table: pd.DataFrame, x: str, *, log: bool = False) -> None:
    """Ticks at the values of x; a logarithmic axis if their range is wide, and always with `log`, for a power law.

    Ticks that would touch their left neighbour are left out. Nothing changes if x is not a number.
    """
    if not is_number(table, x):
        return
    values = np.sort(table[x].unique())
    if log or spans_widely(values):
        ax.set_xscale("log", base=2)
    places = ax.transScale.transform(np.column_stack([values, np.ones(len(values))]))[:, 0]
    nearest = (places[-1] - places[0]) / max(3, _inches(ax).width * _TICKS_PER_INCH)
    shown = [0]
    for i, place in enumerate(places):
        if place - places[shown[-1]] > nearest:
            shown.append(i)
    ax.set_xticks(values[shown], [f"{value:g}" for value in values[shown]])
    ax.xaxis.set_minor_locator(NullLocator())


def _scale_exponents(ax: Axes, table: pd.DataFrame) -> None:
    """The axis of exponents, with fractions as ticks and dotted lines at 1/3, 1/2 and 2/3."""
    if table["exponent"].min() >= 0 and table["exponent"].max() <= 1:
        ax.set_xticks([*_EXPONENTS], _EXPONENTS.values())
    for exponent in (1 / 3, 1 / 2, 2 / 3):
        ax.axvline(exponent, color=INK, linestyle=":", linewidth=0.8, zorder=0)
    ax.set_xlabel("exponent p of the divisor d_k^p" if ax.get_subplotspec().is_last_row() else "")


def scale_y(ax: Axes, table: pd.DataFrame, *metrics: str, log: bool = False) -> None:
    """A logarithmic y axis for positive variances, norms and weights with a wide range, and for power laws."""
    may_be_log = bool(metrics) and all(DECLARED[metric].is_logarithmic for metric in metrics)
    if log or (may_be_log and spans_widely(table[list(metrics)].to_numpy())):
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
    else:
        ax.ticklabel_format(axis="y", useOffset=False)


def plain_numbers(axis: Axis) -> None:
    """Plain numbers, such as 0.5, beside the ticks of a logarithmic axis, unless it spans many decades."""
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
    return bool(values.min() > 0 and values.max() / values.min() > _LOG_FROM)


def label_lines(ax: Axes, lines: Sequence[Series], x: str, metric: str, texts: Sequence[str]) -> None:
    """Write the name of each line behind its last point, without overlaps; the scales must be set before.

    If the names are too many or too long, a legend above the axes names the lines, also those of its later axes.
    """
    gap = _LABEL_INCHES / _inches(ax).height
    if ax.figure.legends or gap * len(lines) > 1 or max(len(line.label) for line in lines) > _LONGEST_LABEL:
        legend(ax, texts)
        return
    to_axes = ax.transData - ax.transAxes
    ends = [(line.rows[x].iloc[-1], line.rows[metric].iloc[-1]) for line in lines]
    heights = [float(to_axes.transform(end)[1]) for end in ends]
    order = sorted(range(len(lines)), key=heights.__getitem__)
    for lower, upper in itertools.pairwise(order):
        heights[upper] = max(heights[upper], heights[lower] + gap)
    heights[order[-1]] = min(heights[order[-1]], 1.0)
    for upper, lower in itertools.pairwise(reversed(order)):
        heights[lower] = min(heights[lower], heights[upper] - gap)
    for line, height, text in zip(lines, heights, texts, strict=True):
        ax.text(1.02, height, text, transform=ax.transAxes, color=line.colour, va="center", fontsize=9.5)


def legend(ax: Axes, texts: Sequence[str] = ()) -> None:
    """A legend for the lines of one axes, by these names or their labels, once above all axes; the figure grows."""
    figure = ax.figure
    if figure.legends:
        return
    handles, labels = ax.get_legend_handles_labels()
    texts = texts or labels
    handles = handles[: len(texts)]  # a second metric on the axes repeats the lines
    columns = max(1, int(figure.get_figwidth() * _LEGEND_CHARACTERS_PER_INCH / (max(map(len, texts)) + 8)))
    rows = math.ceil(len(texts) / columns)
    columns = math.ceil(len(texts) / rows)  # full columns, because a legend fills one column after the other
    figure.set_figheight(figure.get_figheight() + _LABEL_INCHES * rows)
    figure.legend(handles, texts, loc="outside upper left", ncols=columns, fontsize=8.5, borderpad=0)


def _inches(ax: Axes) -> Bbox:
    """The size of axes in inches."""
    return ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
