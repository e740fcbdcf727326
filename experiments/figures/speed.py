"""Time of several ways to measure relative to the floor, and growth of the suite's time.

The tables `ratios` and `growth` come from `experiments.benchmarks.summary`: `over_floor` and `growth_rows`.
"""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, legend_above, note, panels, token_colours

_PALETTE = sns.color_palette("colorblind")
_CLEARLY = 1.1  # times: rounds on one machine differ by a few per cent
_SPREAD = 0.25  # of the markers of a cell, in cells
# Marker and colour of a way, filled if in double precision.
_WAYS = {
    "suite": ("o", _PALETTE[0]),
    "suite, float32": ("o", _PALETTE[0]),
    "article, powers": ("^", _PALETTE[3]),
    "article, products": ("v", _PALETTE[1]),
    "pytorch": ("s", _PALETTE[2]),
    "pytorch, float32": ("s", _PALETTE[2]),
}


def plot(tables: Tables) -> Drawing:
    """Seconds relative to the floor, cell by cell, without gradients and with them; then growth."""
    figure, [[left, middle, right]] = panels(1, 3, (12, 4.6), width_ratios=(1.2, 1.2, 1))
    middle.sharex(left)
    for ax, gradients in ((left, False), (middle, True)):
        _plot_ratios(ax, tables["ratios"], gradients)
    middle.tick_params(labelleft=False)
    left.set_ylabel("d_k × keys × queries")
    handles, names = left.get_legend_handles_labels()
    legend_above(figure, handles, names, len(names))
    _plot_growth(right, tables["growth"])
    note(
        figure,
        "Time per trial relative to the floor. The floor is the same number of normal numbers from the same generator, "
        "one matrix product and one exponential per score and scaling, each measured alone in float64. One core, "
        "medians of 7 interleaved rounds. 'With gradients': each trial also measures the gradient to the query.",
    )
    return figure


def _plot_ratios(ax: Axes, rows: pd.DataFrame, gradients: bool) -> None:
    """The ways as points, cell by cell; a way that was not measured, such as PyTorch, is missing."""
    rows = rows[rows["gradients"] == gradients]
    cells = [f"{row.d_k} × {row.n_keys} × {row.n_queries}" for row in rows.itertuples()]
    y = np.arange(len(rows))
    measured = [way for way in _WAYS if way in rows]
    for shift, way in zip(np.linspace(-_SPREAD, _SPREAD, len(measured)), measured, strict=True):  # so that none hides
        marker, colour = _WAYS[way]
        fill = "none" if way.endswith("float32") else "full"
        ax.plot(rows[way], y + shift, marker, markersize=6, color=colour, fillstyle=fill, label=way)
    ax.axvline(1, color=INK, linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yticks(y, cells)
    ax.invert_yaxis()
    ax.set_xlabel("time / floor")
    ax.set_title(f"{'with' if gradients else 'without'} gradients")


def _plot_growth(ax: Axes, rows: pd.DataFrame) -> None:
    """The time of the suite over its time at the smallest size, for each growing size, beside proportional growth."""
    groups = list(rows.groupby("what", sort=False))
    for (swept, points), colour in zip(groups, token_colours(len(groups)), strict=True):
        x = points[str(swept)] / points[str(swept)].min()
        ax.plot(x, points["seconds"] / points["seconds"].min(), marker="o", color=colour, label=str(swept))
    ends = np.array([1, rows.groupby("what").apply(_reach, include_groups=False).max()])
    ax.plot(ends, ends, color=INK, linewidth=0.8, linestyle="--", label="proportional")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xlabel("size / smallest size")
    ax.set_ylabel("time / time at the smallest size")
    ax.set_title("growth of the suite's time")
    ax.legend(fontsize=8.5)


def _reach(points: pd.DataFrame) -> float:
    """The factor by which the growing size grows."""
    return float(max(points[name].max() / points[name].min() for name in ("d_k", "n_keys", "trials")))


def caption(tables: Tables) -> str:
    """The suite's time relative to the floor, that in float32, and that of the faster article way over the suite's."""
    faster = _faster_article(tables["ratios"])
    rows = tables["ratios"][~tables["ratios"]["gradients"]]
    without = rows["suite"]
    single = rows["suite, float32"] / without
    return (
        f"Without gradients, the suite takes {without.median():.2f} times the floor in the median cell and "
        f"{without.max():.2f} times in the worst. In float32, it takes {single.median():.2f} of its time in float64 in "
        f"the median cell. The faster of the article's two ways takes {faster.min():.1f} to {faster.max():.0f} times "
        "as long as the suite in float64, without gradients or with them."
    )


def title(tables: Tables) -> str:
    """The share of cells in which the suite is clearly faster than both ways of the article."""
    is_faster = _faster_article(tables["ratios"]) > _CLEARLY
    if 2 * is_faster.sum() <= len(is_faster):
        return ""
    return f"In {'every cell' if is_faster.all() else 'most cells'}, the suite is faster than the article's ways"


def _faster_article(rows: pd.DataFrame) -> pd.Series:
    """The time of the faster one of the article's two ways over that of the suite, in float64."""
    return rows[["article, powers", "article, products"]].min(axis=1) / rows["suite"]


FIGURE = Figure(
    shows="Time of ways to measure a cell, and growth with its size",
    of="benchmarks",
    tables=("ratios", "growth"),
    plot=plot,
    caption=caption,
    title=title,
)
