"""Panels over a swept axis: measured points with 95% intervals, on lines of exact values."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.figures.axes import label_ends, legend, scale_x, scale_y
from experiments.figures.panels import EQUAL, Line, ShownPanel
from experiments.figures.shown import Shown
from experiments.figures.style import (
    INK,
    UNORDERED_COLOURS,
    Colour,
    Drawing,
    colours_of,
    empty,
    subplots,
)
from experiments.figures.words import is_joined, is_number
from experiments.kinds.declarations import CASES, Lines
from experiments.kinds.support import is_few, significant
from experiments.measuring.metric import FEW_DRAWS
from experiments.tables.results import Results
from sdpa._arrays import FloatArray
from sdpa.scaling import UNSCALED

_MARKERS_AND_DASHES = [
    *zip("osD^vP*X" * 3, ("-", "--", ":") * 8, strict=True)
]  # markers and dashes
_LEAST_WIDTH = 6.0  # of a figure, for its caption
_BELOW_WORDS = 0.85  # the height of the line of a crossing


def draw_lines(picture: Lines, shown: Shown) -> Drawing:
    """The picture of the rows shown: panels, their scales, and labels of lines or one legend."""
    if shown.rows.empty:
        return empty(f"No rule of this sweep has a value of {shown.x}.")
    colours = colours_of(shown.rows[picture.by])
    figure, axes = _layout(picture, shown.panels)
    pairs = [*zip(axes, shown.panels, strict=True)]
    for ax, panel in pairs:
        _draw_panel(ax, panel, shown.x, colours)
    for ax, panel in pairs:  # once all of a row have their lines
        alike = ax.get_shared_y_axes().get_siblings(ax)
        shares = [sharing for other, sharing in pairs if other in alike]
        _scale_y(ax, panel, shares, shown.results)
        if panel.crossing is not None:
            _mark_crossing(ax, panel.crossing)
        scale_x(ax, panel.rows[shown.x])
    lines = [line for panel in shown.panels for line in panel.lines]
    if shown.x != picture.by and any(any(line.words) for line in lines):
        are_rules = picture.facet_by != picture.by == "scaling"
        if not label_ends(axes, are_rules=are_rules):
            or_none = " unscaled, or" if UNSCALED in {*shown.rows.get("scaling", [])} else ""
            title = f"scores{or_none} divided by" if are_rules else ""
            legend(axes[0], title, _keys(lines, colours))
    return figure


def _keys(lines: Sequence[Line], colours: Mapping[object, Colour]) -> dict[str, Line2D]:
    """A key for each colour, and for the marker and dashes of each combination of other axes."""
    keys = {line.words[0]: Line2D([], [], color=colours[line.value]) for line in lines}
    for line in lines:
        marker, dashes = _MARKERS_AND_DASHES[line.place % len(_MARKERS_AND_DASHES)]
        keys[line.words[1]] = Line2D([], [], color=INK, marker=marker, linestyle=dashes)
    return keys


def _layout(picture: Lines, drawn: Sequence[ShownPanel]) -> tuple[Drawing, list[Axes]]:
    """A figure with the axes of each panel."""
    count = len(drawn)
    kinds = len({panel.declared for panel in drawn})
    columns = picture.columns or count
    if not picture.facet_by:
        return subplots(count, columns, picture.size, sharey="row" if picture.shares else "none")
    if picture.facet_by == CASES:
        columns = min(columns, count)
        share = "col" if kinds > 1 else "all"
    else:
        columns = count // kinds
        share = "row"
    width, height = picture.size
    size = max(width * columns, _LEAST_WIDTH), height * -(-count // columns)
    return subplots(count, columns, size, sharey=share)


def _draw_panel(ax: Axes, panel: ShownPanel, x: str, colours: Mapping[object, Colour]) -> None:
    """Exact values, points with error bars on them, the value of equal weights, and words."""
    if not is_number(panel.rows[x]):
        # the order of categories, whatever the first line has
        ax.xaxis.update_units(panel.rows[x].unique())
    free = itertools.cycle(UNORDERED_COLOURS)
    for line in panel.lines:
        colour = colours[line.value] if line.words[0] else next(free)
        _draw_line(ax, line, x, panel.declared.metric, colour)
    if panel.declared.equal:
        _mark_equal(ax, panel.rows, x)
    ax.set_xlabel(panel.x_label)
    ax.set_title(panel.title)
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel(panel.beside)


def _draw_line(ax: Axes, line: Line, x: str, metric: str, colour: Colour) -> None:
    """Points, and a stroke at each exact value or that of a law. If x is a number, a line goes
    through these, and through the points where none is known.
    """
    rows = line.rows
    marker, dashes = _MARKERS_AND_DASHES[line.place % len(_MARKERS_AND_DASHES)]
    known = rows.filter(regex=f"^{metric}_(exact|law)$").dropna(axis="columns", how="all")
    for _, exact in known.items():
        through = exact.fillna(rows[metric]) if is_number(rows[x]) else exact
        plot_exact(ax, rows[x], through, colour, dashes)
    is_path = is_number(rows[x]) and known.empty
    plot_measured(
        ax,
        rows,
        x,
        metric,
        color=colour,
        marker=marker,
        label=", ".join(filter(None, line.words)),
        zorder=2 + (dashes != "-"),
        linestyle=dashes if is_path else "",
    )


def plot_exact(
    ax: Axes, at: pd.Series, values: pd.Series, colour: Colour, dashes: str = "-"
) -> None:
    """Exact values: a thin line with gaps at NaN, or strokes if there is a single value or x is not a
    number.
    """
    drawn = dashes if is_joined(at[values.notna()]) else "_"
    ax.plot(at, values, drawn, color=colour, zorder=1, markersize=22)


def plot_measured(ax: Axes, rows: pd.DataFrame, x: str, metric: str, **look: object) -> None:
    """A metric of rows along x with its 95% intervals, hollow where it has too few draws.

    `look` are keywords of Matplotlib's `errorbar`, with `color` and `marker`.
    """
    ax.errorbar(rows[x], rows[metric], error_lengths(rows, metric), elinewidth=1, **look)
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


def error_lengths(rows: pd.DataFrame, metric: str) -> FloatArray:
    """The reach of the 95% interval of a metric below and above its value, (2, rows), none
    negative.

    >>> rows = pd.DataFrame({"entropy": [2.0], "entropy_low": [1.5], "entropy_high": [3.0]})
    >>> error_lengths(rows, "entropy").ravel()
    array([0.5, 1. ])
    """
    below = rows[metric] - rows[f"{metric}_low"]
    above = rows[f"{metric}_high"] - rows[metric]
    return np.stack([below, above]).clip(0)


def _mark_equal(ax: Axes, rows: pd.DataFrame, x: str) -> None:
    """The value of equal weights in each row: along n_keys, or the smallest and the largest one."""
    values = rows[EQUAL]
    look = {"color": INK, "linestyle": ":", "linewidth": 1, "zorder": 0}
    if x == "n_keys":
        along = values.groupby(rows["n_keys"]).first()
        ax.plot(along.index, along, **look)
    else:
        for value in (values.min(), values.max()):
            ax.axhline(value, **look)


def _mark_crossing(ax: Axes, at: float) -> None:
    """The d_k where the norm unscaled equals that with d_k^1/2; its words stand above its line."""
    ax.margins(y=0.25)  # the words stand over the lines
    ax.axvline(at, ymax=_BELOW_WORDS, color=INK, linestyle=":", linewidth=1, zorder=0)
    text = f"unscaled and d_k^1/2 cross near {significant(at, 2):g}"
    ax.text(1, 1, text, transform=ax.transAxes, ha="right", va="top", fontsize=9)


def _scale_y(ax: Axes, panel: ShownPanel, shares: Sequence[ShownPanel], results: Results) -> None:
    """The scale of y of a panel, from the metrics and rows of all panels that share it."""
    metrics = [other.declared.metric for other in shares]
    values = np.concatenate([other.rows[other.declared.metric] for other in shares])
    floor = panel.declared.floor
    if floor is not None and np.nanmin(values) >= floor:
        ax.set_ylim(bottom=floor)
        return
    known = [results.metrics[name] for name in metrics if name in results.metrics]
    scale_y(ax, values, may_be_log=all(metric.is_logarithmic for metric in known))
