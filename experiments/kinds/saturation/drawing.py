"""Pictures of saturation that are not lines: ratios to a first row, and maps over d_k and n_keys."""

import itertools
from textwrap import wrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import legend, plain_numbers
from experiments.figures.lines import error_lengths
from experiments.figures.maps import pivoted, place, plot_plane
from experiments.figures.shown import Shown, cases
from experiments.figures.style import (
    DIVERGING,
    INK,
    SEQUENTIAL,
    Colour,
    Drawing,
    colours_of,
    empty,
    subplots,
)
from experiments.figures.words import distinguishing_axes, divided, values_of
from experiments.kinds.support import is_few
from experiments.measuring.cells import CELL, BaseCell
from experiments.measuring.metric import FEW_DRAWS
from experiments.measuring.sampling import SampledCell
from experiments.tables.crossings import EQUAL, NORM_STATISTICS, NORMS
from experiments.tables.rows import sizes_of
from sdpa import PairLaw
from sdpa._arrays import FloatArray

_LEAST_RATIO = 1 / 16  # on the axis of changed assumptions
_MOST_SPACING = 0.27  # at most, between the points of the scalings of a cell
_SPREAD = 0.8  # of all of them
_TITLE_LETTERS = 30
_STRONGEST = np.log(16)  # of a ratio: this far from 1, it has the strongest colour
_MOST_NUMBERS = 5  # beside each other on a map
_CLEAR = 0.08  # of the width of a map, between a number and the bar in its row
_ASIDE = 0.3  # of a row, from its middle to a number off its bar
_NORM_TITLES = {
    "jacobian": "softmax Jacobian",
    "query_gradient": "gradient at a query",
    "undivided_query_gradient": "divisor times that",
}
_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
_LABEL_HEIGHT = 0.8  # share of a contour below its label
_FREEZING = "dashed: rows freeze, variance of scores = 2 ln n_keys"
_LIGHT_FROM = 0.55  # beyond this share, contours are white on the darker colours
_SIZES = ("d_k", "n_keys")


def assumptions(shown: Shown) -> Drawing:
    """A panel for each metric: its ratio to the first cell, for each cell and scaling; far smaller
    ones at the edge.
    """
    results, metrics = shown.results, shown.metrics
    varied = results.axes.varied(shown.rows)
    names = [
        values_of(row, distinguishing_axes(row, varied, results.axes)) or "textbook case"
        for _, row in shown.rows.iterrows()
    ]
    table = shown.rows.assign(case=names)
    cells = list(dict.fromkeys(table["case"]))
    colours = colours_of(table["scaling"])
    groups = table.groupby("scaling", sort=False)
    spacing = min(_MOST_SPACING, _SPREAD / len(groups))
    size = 11, 1.5 + 0.3 * len(cells)
    figure, places = subplots(len(metrics), len(metrics), size, sharey=True)
    for ax, metric in zip(places, metrics, strict=True):
        for i, (scaling, rows) in enumerate(groups):
            beside = spacing * (i - (len(groups) - 1) / 2)
            heights = np.array([cells.index(cell) for cell in rows["case"]])
            at = heights + beside
            _plot_ratios(ax, rows, metric, at, color=colours[scaling], label=divided(scaling))
        ax.axvline(1, color=INK, linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_xlim(left=max(ax.get_xlim()[0], _LEAST_RATIO))
        plain_numbers(ax.xaxis)
        title = "\n".join(wrap(results.metrics[metric].title, _TITLE_LETTERS))
        ax.set_title(title, fontsize=9.5)
        ax.set_xlabel("over its value in the first row", fontsize=8.5)
    places[0].set_yticks(range(len(cells)), cells)
    places[0].invert_yaxis()
    legend(places[0])
    return figure


def _plot_ratios(
    ax: Axes,
    rows: pd.DataFrame,
    metric: str,
    at: FloatArray,
    *,
    color: Colour,
    label: str,
) -> None:
    """A metric over its value in the first row, at heights, hollow where it has too few draws; small
    ratios as numbers at the edge.
    """
    exact = rows[f"{metric}_exact"]
    ax.plot(exact / exact.iloc[0], at, "|", color=color, markersize=12)
    first = rows[metric].iloc[0]
    ratio = rows[metric] / first
    is_far = ratio < _LEAST_RATIO
    near = ratio.mask(is_far)
    ax.errorbar(
        near, at, xerr=error_lengths(rows, metric) / first, fmt="o", color=color, label=label
    )
    few = near.where(is_few(rows[FEW_DRAWS], metric))
    ax.plot(few, at, "o", color=color, markerfacecolor="white", zorder=4)
    for y, value in zip(at[is_far], ratio[is_far], strict=True):
        ax.text(
            0.02,
            y,
            f"← {value:.0e}",
            color=color,
            transform=ax.get_yaxis_transform(),
            va="center",
            fontsize=7,
        )


def ratio_map(shown: Shown) -> Drawing:
    """Unscaled gradient norms over scaled ones (d_k^1/2), and where they cross 1: maps by statistic
    and norm.
    """
    ratios = shown.tables.get("ratios", pd.DataFrame())
    crossings = shown.tables.get("crossings", pd.DataFrame())
    if ratios.empty:
        return empty(
            "No ratios: they need values unscaled and divided by d_k^1/2, and several d_k."
        )
    kinds = [*itertools.product(NORM_STATISTICS, NORMS)]
    figure, axes = subplots(len(kinds), len(NORMS), (10, 6), sharex=True, sharey=True)
    for ax, (statistic, norm) in zip(axes, kinds, strict=True):
        chosen = f"norm == {norm!r} and statistic == {statistic!r}"
        plane = pivoted(ratios.query(chosen), "ratio")
        image = plot_plane(
            ax,
            np.log(plane),
            _ratio,
            _MOST_NUMBERS,
            vmin=-_STRONGEST,
            vmax=_STRONGEST,
            cmap=DIVERGING,
            alpha=0.85,
        )
        if len(crossings):
            equal = crossings.query(f"{chosen} and level == {EQUAL}")
            _plot_crossings(ax, equal.sort_values("n_keys"), plane)
        ax.set_title(f"{_NORM_TITLES[norm]}, {statistic}")
    label = "size unscaled, over that divided by d_k^1/2"
    bar = figure.colorbar(image, ax=axes, label=label, fraction=0.03, pad=0.01, aspect=40)
    ticks = np.log([1 / 16, 1 / 4, 1, 4, 16])
    bar.set_ticks(ticks, labels=["≤ 1/16", "1/4", "1", "4", "≥ 16"])
    return figure


def _ratio(log: float) -> str:
    """A ratio, from its logarithm; the least in short."""
    ratio = np.exp(log)
    if ratio < 0.005:
        return "<.01"
    if ratio < 1:
        return f"{ratio:.2f}"
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"


def _plot_crossings(
    ax: Axes,
    crossings: pd.DataFrame,
    plane: pd.DataFrame,
) -> None:
    """The line where the ratio is 1, one point per n_keys: measured with its interval, and exact as a
    stroke. Numbers make room.
    """
    y = place(crossings["n_keys"], plane.index)
    ends = ("crossing", "crossing_low", "crossing_high", "crossing_exact")
    x, low, high, exact = (place(crossings[end], plane.columns) for end in ends)
    ends_of_bars = np.where(np.isnan([low, high]), x, [low, high])
    wide = _CLEAR * len(plane.columns)
    for text, (at, row, left, right) in itertools.product(
        ax.texts, zip(x, y, *ends_of_bars, strict=True)
    ):
        column, height = text.xy
        if abs(height - row) < 0.5 and left - wide < column < right + wide:
            # away from the lines, which rise to the right
            text.xyann = column, height + (_ASIDE if column < at else -_ASIDE)
    ax.errorbar(x, y, xerr=abs(ends_of_bars - x), fmt="o", color=INK, elinewidth=1)
    ax.plot(x, y, color=INK, alpha=0.35)
    ax.plot(exact, y, "--|", color=INK, markersize=9)


def phase(shown: Shown) -> Drawing:
    """Entropy of rows as a share of ln n_keys: a map for each case and rule, with contours."""
    axes = shown.results.axes
    groups = cases(shown.rows, axes, _SIZES)
    names = axes.varied(shown.rows, *_SIZES)
    columns = min(len(groups), 2)
    size = 10, 0.8 + 2.9 * -(-len(groups) // columns)
    figure, places = subplots(len(groups), columns, size, sharex=True, sharey=True)
    whole = pivoted(shown.rows, "entropy")
    entropy = shown.results.metrics["entropy"]
    for ax, cells in zip(places, groups, strict=True):
        per_highest = 1 / entropy.limits(sizes_of(cells)).high
        measured = cells["entropy"] * per_highest
        exact = cells["entropy_exact"] * per_highest
        plane = pivoted(cells.assign(share=measured), "share").reindex_like(whole)
        image = plot_plane(ax, plane, cmap=SEQUENTIAL, vmin=0, vmax=1)
        if min(plane.shape) > 1:
            known = cells.assign(share=exact.fillna(measured))
            shares = pivoted(known, "share").reindex_like(whole)
            _plot_contours(ax, shares)
        first = cells.iloc[0]
        title = ", ".join(filter(None, [values_of(first, names), divided(first["scaling"])]))
        if min(plane.shape) > 1 and _plot_freezing(ax, first[CELL], plane):
            title += f"\n{_FREEZING}"
        ax.set_title(title)
    label = "entropy / ln n_keys"
    figure.colorbar(image, ax=places, label=label, fraction=0.03, pad=0.01, aspect=30)
    return figure


def _plot_contours(ax: Axes, shares: pd.DataFrame) -> None:
    """Lines of equal shares with their values, in units of cells."""
    levels = [level for level in _LEVELS if np.nanmin(shares) < level < np.nanmax(shares)]
    if not levels:
        return
    colours = ["white" if level > _LIGHT_FROM else INK for level in levels]
    lines = ax.contour(shares.to_numpy(), levels=levels, colors=colours, linewidths=0.9)
    # Labels stand high on their lines, away from the line of freezing, which crosses contours of
    # short rows.
    places = []
    for path in lines.get_paths():
        points = path.vertices
        upwards = points[np.argsort(points[:, 1])]
        if len(upwards):
            places.append(upwards[int(_LABEL_HEIGHT * len(upwards))])
    ax.clabel(lines, fmt="%g", fontsize=8.5, manual=places)


def _plot_freezing(
    ax: Axes,
    cell: BaseCell,
    plane: pd.DataFrame,
) -> bool:
    """The line query_std key_std d_k^(1/2 - p) = sqrt(2 ln n_keys), in the plane of a cell and its
    rule, if its entries are independent and Gaussian of mean 0; True if it crosses the map.
    """
    if not isinstance(cell, SampledCell) or cell.has_mask:
        return False
    law = cell.law
    exponent = cell.scaling[0].exponent
    spread = law.query_std * law.key_std
    is_gaussian = law == PairLaw(query_std=law.query_std, key_std=law.key_std)
    if is_gaussian and exponent is not None and exponent < 1 / 2:
        at = np.geomspace(plane.index[0], plane.index[-1], 50)
        power = 1 / (1 - 2 * float(exponent))
        freezing = (2 * np.log(at) / spread**2) ** power
        x = place(freezing, plane.columns)
        y = place(at, plane.index)
        ax.plot(x, y, "--", color=INK, linewidth=1.5)
        return bool(np.isfinite(x).any())
    return False


DRAWINGS = {"assumptions": assumptions, "map": ratio_map, "phase": phase}
