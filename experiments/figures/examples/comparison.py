"""The figure of the example comparison."""

import numpy as np

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.lines import plot_exact
from experiments.figures.style import note, panels, scaling_colours

_SCALINGS = {"unscaled": 0.0, "d_k^1/2": 0.5}


def plot(tables: Tables) -> Drawing:
    """Points of one draw on exact curves, over the range of nine draws in ten.

    Left the standard deviation of the scores, right the mean largest weight, each unscaled and under d_k^1/2.
    """
    shown = {panel: tables[panel] for panel in ("drawn", "exact", "low", "high")}
    figure, [axes] = panels(1, 2, (10, 4.2))
    colours = scaling_colours(_SCALINGS)
    for ax, metric, title in zip(
        axes, ("deviation", "largest"), ("standard deviation of scores", "mean largest of 5 weights"), strict=True
    ):
        for scaling in _SCALINGS:
            rows = {panel: table.loc[f"{metric} {scaling}"] for panel, table in shown.items()}
            d_k = rows["exact"].index.astype(int).to_numpy()
            ax.fill_between(d_k, rows["low"], rows["high"], color=colours[scaling], alpha=0.12, linewidth=0)
            plot_exact(ax, d_k, rows["exact"].to_numpy(), colours[scaling])
            ax.plot(d_k, rows["drawn"], color=colours[scaling], marker="o", linestyle="", label=scaling)
        ax.set_xscale("log", base=2)
        ax.set_xticks(d_k, d_k)
        ax.set_xlabel("d_k")
        ax.set_title(title)
    axes[0].set_yscale("log")
    axes[1].legend(loc="center right")
    note(
        figure,
        "Points: one draw of five queries and five keys, seed 42. Bands: exact values (left: for one score). Shaded: "
        "range of nine in ten such draws.",
    )
    return figure


def caption(tables: Tables) -> str:
    """The unscaled point furthest from its exact mean, and the range of the scaled points."""
    drawn, exact = (tables[panel] for panel in ("drawn", "exact"))
    point, mean, scaled = drawn.loc["largest unscaled"], exact.loc["largest unscaled"], drawn.loc["largest d_k^1/2"]
    d_k = point.index[int(np.argmax(abs(point - mean)))]
    one = number(point[d_k], 0.001)
    return (
        f"Unscaled, at d_k = {d_k}, the largest of five weights is {one} in the article's draw and "
        f"{number(mean[d_k], 0.001)} on average over all draws; under d_k^1/2, in the article's draws at "
        f"d_k = {scaled.index[0]} to {scaled.index[-1]}, it lies between {number(scaled.min(), 0.001)} and "
        f"{number(scaled.max(), 0.001)}."
    )


FIGURE = Figure(
    shows="Spread of scores and largest weight, with scaling and without",
    of="examples",
    tables=("drawn", "exact", "low", "high"),
    plot=plot,
    caption=caption,
)
