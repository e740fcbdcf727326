"""Metrics of a saturation table as lines with error bars: series, axes and labels.

A figure makes its lines with `series`, draws each metric with `plot_metric`, then sets the scales and last labels the
lines, because labels depend on the scales.
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

from experiments.figures.axes import is_number, other_axes, values_of
from experiments.figures.caption_text import few_draws
from experiments.figures.style import legend_above, scaling_colours
from experiments.metrics import METRICS

_READING = "Points: measured, with 95% intervals where these exceed the marker. Pale bands: exact values, where known."
_HOLLOW = " Hollow points have too few draws for reliable intervals; more trials help."
DECLARED = {metric.name: metric for metric in METRICS}
_MARKERS = "osD^vP*X"
_LOG_FROM = 8  # a positive quantity with a range above this factor gets a logarithmic axis
_FEW_DECADES = 300
_TICKS_PER_INCH = 2.4
_LABEL_INCHES = 0.23
_LONGEST_LABEL = 12
_LEGEND_CHARACTERS_PER_INCH = 13


@dataclass(frozen=True)
class Series:
    """The rows of one line in order of x, and the line's label, colour and marker.

    Attributes:
        scaling: the name of its scaling.
        label: the scaling, and the values of other varied axes.
        colour: from the scaling alone, the same in all figures for the four most common rules.
        marker: from the combination of other axes.
        rows: of the measured table.
    """

    scaling: str
    label: str
    colour: Any
    marker: str
    rows: pd.DataFrame


def series(table: pd.DataFrame, x: str) -> list[Series]:
    """One line per scaling (its colour) and combination of the other axes (its marker).

    Args:
        table: a measured table; with more than eight combinations, markers repeat.
        x: the axis along which lines run.
    """
    others = other_axes(table, x)
    combinations = list(dict.fromkeys(table[others].itertuples(index=False, name=None))) if others else [()]
    colours = scaling_colours(dict(zip(table["scaling"], table["exponent"], strict=True)))
    lines = []
    for (scaling, *combination), rows in table.groupby(["scaling", *others], sort=False):
        named = f", {values_of(rows.iloc[0], others)}" if others else ""
        lines.append(
            Series(
                scaling=scaling,
                label=scaling + named,
                colour=colours[scaling],
                marker=_MARKERS[combinations.index(tuple(combination)) % len(_MARKERS)],
                rows=rows.sort_values(x) if is_number(table, x) else rows,
            )
        )
    return lines


def plot_metric(ax: Axes, lines: Sequence[Series], x: str, metric: str, style: str = "-") -> None:
    """Measured points with 95% intervals, joined; known exact values as a pale band behind them.

    The title of the axes becomes that of the metric.

    Args:
        ax: the axes to draw in.
        lines: the lines to draw.
        x, metric: names of columns.
        style: of the lines that join the points, if x is a number; for others, such as `inputs`, nothing joins them.
    """
    for line in lines:
        at, values = line.rows[x].to_numpy(), line.rows[metric].to_numpy()
        if f"{metric}_exact" in line.rows:
            plot_exact(ax, at, line.rows[f"{metric}_exact"], line.colour)
        joined = style if is_number(line.rows, x) else ""
        look = {"color": line.colour, "marker": line.marker, "label": line.label, "linestyle": joined}
        plot_measured(ax, at, values, line.rows, metric, **look)
    ax.set_xlabel(x)
    ax.set_title(DECLARED[metric].title)
    if metric == "saturated_rows":
        ax.set_ylim(bottom=0, top=None if any(line.rows[metric].any() for line in lines) else 1)


def plot_exact(ax: Axes, at: Any, values: Any, colour: Any) -> None:
    """Exact values: a pale band, or pale dashes if there is a single value or x is not a number.

    Args:
        ax: the axes to draw in.
        at: values of x.
        values: one for each; NaN where unknown leaves a gap.
        colour: of the line that they belong to.
    """
    joined = len(values) > 1 and np.asarray(at).dtype.kind in "iuf"
    look = {"linewidth": 5} if joined else {"linestyle": "", "marker": "_", "markersize": 22, "markeredgewidth": 5}
    ax.plot(at, values, color=colour, alpha=0.3, zorder=1, **look)


def plot_measured(ax: Axes, at: Any, values: Any, rows: pd.DataFrame, metric: str, **look: Any) -> None:
    """Points with 95% intervals, hollow where a metric has too few draws.

    Args:
        ax: the axes to draw in.
        at, values: the points.
        rows: the rows of the points, for intervals and flags.
        metric: its name.
        look: keywords of Matplotlib's `errorbar`, with `color` and `marker`.
    """
    ax.errorbar(at, values, reach(rows, metric), capsize=2, elinewidth=1, **look)
    hollow = few_draws(rows, metric).to_numpy()
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


def reading(table: pd.DataFrame, *metrics: str) -> str:
    """A remark on how to read points and bands of these metrics."""
    hollow = any(few_draws(table, metric).any() for metric in metrics)
    return _READING + _HOLLOW * hollow


def scale_x(ax: Axes, table: pd.DataFrame, x: str, *, log: bool = False) -> None:
    """Ticks at the values of x; a logarithmic axis if their range is wide, and always for a power law.

    Ticks that would touch their left neighbour are left out. Nothing changes if x is not a number.

    Args:
        ax: the axes, of their final size.
        table: the measured table.
        x: the axis.
        log: True for a power law, which is straight on logarithmic axes only.
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


def label_lines(ax: Axes, lines: Sequence[Series], x: str, metric: str, texts: Sequence[str] | None = None) -> None:
    """Write each line's label behind its last point, without overlaps; the scales must be set before.

    If the labels are too many or too long, a legend above the axes names the lines, also those of its later axes.

    Args:
        ax: the axes; labels stand to their right.
        lines: the lines drawn there.
        x, metric: the axis and the metric of the last points.
        texts: labels instead of those of the lines, such as labels with a slope.
    """
    gap = _LABEL_INCHES / _inches(ax).height
    texts = texts or [line.label for line in lines]
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


def legend(ax: Axes, texts: Sequence[str]) -> None:
    """A legend for the lines of one axes, once above all axes; the figure grows by its height."""
    figure = ax.figure
    if figure.legends:
        return
    handles = ax.get_legend_handles_labels()[0][: len(texts)]  # a second metric on the axes repeats the lines
    columns = max(1, int(figure.get_figwidth() * _LEGEND_CHARACTERS_PER_INCH / (max(map(len, texts)) + 8)))
    rows = math.ceil(len(texts) / columns)
    columns = math.ceil(len(texts) / rows)  # full columns, because a legend fills one column after the other
    figure.set_figheight(figure.get_figheight() + _LABEL_INCHES * rows)
    legend_above(figure, handles, texts, columns)


def _inches(ax: Axes) -> Bbox:
    """The size of axes in inches."""
    return ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
