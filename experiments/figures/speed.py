"""Time of the suite relative to its floor, and growth of that time; `benchmarks.speed` makes the tables."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, legend_above, note, panels, token_colours

_PALETTE = sns.color_palette("colorblind")
_SPREAD = 0.25  # of the markers of a cell, in cells
_FILL = {"suite": "full", "suite, float32": "none"}


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
    """Both precisions as points, cell by cell."""
    rows = rows[rows["gradients"] == gradients]
    cells = [f"{row.d_k} × {row.n_keys} × {row.n_queries}" for row in rows.itertuples()]
    y = np.arange(len(rows))
    for shift, (way, fill) in zip((-_SPREAD, _SPREAD), _FILL.items(), strict=True):  # so that none hides
        ax.plot(rows[way], y + shift, "o", markersize=6, color=_PALETTE[0], fillstyle=fill, label=way)
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
    """The time of the suite relative to the floor, and that in float32."""
    rows = tables["ratios"][~tables["ratios"]["gradients"]]
    without, single = rows["suite"], rows["suite, float32"] / rows["suite"]
    return (
        f"Without gradients, the suite takes {without.median():.2f} times the floor in the median cell and "
        f"{without.max():.2f} times in the worst. In float32, it takes {single.median():.2f} of its time in float64 in "
        "the median cell."
    )


def title(tables: Tables) -> str:  # noqa: ARG001
    """What is plotted."""
    return "Time of the suite over that of the least work, and its growth"


FIGURE = Figure(
    shows="Time of the suite over the least work for a cell, and growth with its size",
    of="benchmarks",
    tables=("ratios", "growth"),
    plot=plot,
    caption=caption,
    title=title,
)
