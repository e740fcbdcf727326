"""Pictures of their own: each function draws the figure of its name, declared in
`experiments.kinds.figures`.

They fit and derive nothing: `experiments.tables` does that.
"""

from textwrap import wrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import legend, plain_numbers, scale_x, scale_y
from experiments.figures.lines import plot_exact, plot_measured, reach
from experiments.figures.shown import Shown
from experiments.figures.style import (
    INK,
    Colour,
    Drawing,
    colours_of,
    panels,
)
from experiments.figures.words import divided, named, values_of
from experiments.kinds.figures import FIGURES
from experiments.kinds.support import is_few
from experiments.measuring.cells import Floats
from experiments.measuring.metric import FEW_DRAWS

_LEAST_RATIO = 1 / 16  # on the axis of changed assumptions
_APART = 0.27  # at most, between the points of the scalings of a cell
_SPREAD = 0.8  # of all of them
_TITLE_LETTERS = 30
_FEW = 10  # scores; a bin with fewer has no interval, because its count is not nearly normal


def assumptions(shown: Shown) -> Drawing:
    """A panel for each metric: its ratio to the first cell, for each cell and scaling; far smaller
    ones at the edge.
    """
    results = shown.results
    axes, metrics = results.axes, FIGURES["assumptions"].metrics
    varied = axes.varied(shown.rows)
    names = [
        values_of(row, named(row, varied, axes)) or "textbook case"
        for _, row in shown.rows.iterrows()
    ]
    table = shown.rows.assign(case=names)
    cells = list(dict.fromkeys(table["case"]))
    colours = colours_of(table["scaling"])
    groups = table.groupby("scaling", sort=False)
    apart = min(_APART, _SPREAD / len(groups))
    size = 11, 1.5 + 0.3 * len(cells)
    figure, places = panels(len(metrics), len(metrics), size, sharey=True)
    for ax, metric in zip(places, metrics, strict=True):
        for i, (scaling, rows) in enumerate(groups):
            beside = apart * (i - (len(groups) - 1) / 2)
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
    at: Floats,
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
    ax.errorbar(near, at, xerr=reach(rows, metric) / first, fmt="o", color=color, label=label)
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


def distribution(shown: Shown) -> Drawing:
    """Density on a linear axis, and on a logarithmic one that shows the tails; and the kurtosis."""
    table = shown.rows
    histogram = shown.tables["histogram"]
    colours = colours_of(table["d_k"])
    figure, [linear, logarithmic, right] = panels(3, 3, (11, 4.2), width_ratios=(1, 1, 0.8))
    for ax in (linear, logarithmic):
        for d_k, bins in histogram.groupby("d_k"):
            colour = colours[d_k]
            middle = (bins["low"] + bins["high"]) / 2
            plot_exact(ax, middle, bins["density_exact"], colour)
            seen = bins["count"] > 0
            error = (1.96 * bins["density_se"]).where(bins["count"] >= _FEW, 0)
            ax.errorbar(
                middle[seen],
                bins["density"][seen],
                error[seen],
                color=colour,
                marker="o",
                markersize=2.5,
                elinewidth=0.8,
                linestyle="",
                label=f"d_k = {d_k}",
            )
        ax.set_xlabel("q·k / sqrt(d_k)")
    linear.set_xlim(-4, 4)
    linear.set_title("density of q·k / sqrt(d_k)")
    logarithmic.set_yscale("log")
    density = histogram["density"]
    least = density[density > 0].min()
    logarithmic.set_ylim(bottom=least / 2)
    logarithmic.set_title("the same on a logarithmic axis")
    logarithmic.legend(loc="upper right", fontsize=8.5, handlelength=0.5, borderpad=0)
    metric = "score_kurtosis"
    plot_exact(right, table["d_k"], table[f"{metric}_exact"], INK)
    for d_k, rows in table.groupby("d_k"):
        plot_measured(right, rows, "d_k", metric, color=colours[d_k], marker="o", linestyle="")
    right.set_xlabel("d_k")
    right.set_title("excess kurtosis of q·k (line: 6/d_k)")
    scale_x(right, table["d_k"])
    scale_y(right, table[f"{metric}_exact"].to_numpy())
    return figure
