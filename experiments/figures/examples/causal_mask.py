"""The figure of the example causal mask."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.caption_text import listed, number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import CONVENTION, Panel, heatmap
from experiments.figures.style import note, panels, token_colours


def plot(tables: Tables) -> Drawing:
    """Three heatmaps, and bars with the change of each output.

    The heatmaps show the weights under the mask, and the outputs before and after a later token changed, in the same
    colours. The bars compare the change with the mask and without it.
    """
    figure, grid = panels(2, 2, (9, 7.5))
    outputs = (-0.8, 0.8)
    shown = [
        Panel("weights", "weights under the mask", (0, 1.1)),
        Panel("output", "output", outputs),
        Panel("changed_output", "output after sat changed", outputs),
    ]
    for ax, panel in zip((*grid[0], grid[1][0]), shown, strict=True):
        heatmap(ax, tables[panel.step], panel)
    _bars(grid[1][1], tables["moved"])
    note(figure, f"{CONVENTION} Columns of the outputs: their four entries.")
    return figure


def _bars(ax: Axes, moved: pd.DataFrame) -> None:
    """The largest change of each word's output, a bar with the mask and one without it."""
    place = np.arange(len(moved.columns))
    for i, ((mask, values), colour) in enumerate(zip(moved.iterrows(), token_colours(2), strict=True)):
        bars = ax.bar(place + 0.4 * (i - 0.5), values, 0.38, color=colour, label=mask)
        ax.bar_label(bars, [number(value, 0.01) for value in values], fontsize=8)
    ax.set_xticks(place, moved.columns)
    ax.set_ylim(0, 1.35 * moved.to_numpy().max())
    ax.set_title("largest change of an output")
    ax.legend(loc="upper left", ncols=2)


def caption(tables: Tables) -> str:
    """The words with unchanged outputs, and the words with changed ones."""
    row = tables["moved"].loc["with the mask"]
    stay = [f"'{word}'" for word in row.index[row == 0]]
    moved = [f"that of '{word}' by {number(row[word], 0.001)}" for word in row.index[row != 0]]
    kept = f"leaves the outputs of {listed(stay)} bit-identical" if stay else "leaves no output unchanged"
    return f"Under a causal mask, a change of 'sat' {kept} and moves {listed(moved)}."


FIGURE = Figure(
    shows="A causal mask: weights, and outputs before and after a later change",
    of="examples",
    tables=("weights", "output", "changed_output", "moved"),
    plot=plot,
    caption=caption,
)
