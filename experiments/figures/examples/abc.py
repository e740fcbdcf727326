"""The figure of the example abc."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.caption_text import listed, number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import CONVENTION, Panel, heatmap
from experiments.figures.style import INK, note, panels, token_colours

_OFFSETS = {"query": (5, 6), "key": (7, -4)}


def plot(tables: Tables) -> Drawing:
    """Arrows, a heatmap of weights and bars of outputs.

    A score is the product of the lengths of two arrows and the cosine of the angle between them, so scores can be read
    from the left panel.
    """
    steps = ("q", "k", "weights", "output")
    queries, keys, weights, outputs = (tables[step] for step in steps)
    figure, [[left, middle, right]] = panels(1, 3, (11, 4.7), width_ratios=(1.15, 0.9, 1))
    _arrows(left, "query", "-", queries)
    _arrows(left, "key", "--", keys)
    left.set_xlim(-0.05, 1.4)
    left.set_ylim(-0.05, 1.2)
    left.set_aspect("equal")
    left.set_title("queries (solid), keys (dashed)")
    heatmap(middle, weights, Panel("weights", "weights", (0, 0.6), 3))
    _bars(right, outputs)
    note(figure, f"A score is the product of two lengths and the cosine of the angle between them. {CONVENTION}")
    return figure


def _arrows(ax: Axes, kind: str, line: str, arrows: pd.DataFrame) -> None:
    """One arrow from the origin per row, with columns x and y; a query and a key of one token share a colour."""
    for (name, arrow), colour in zip(arrows.iterrows(), token_colours(len(arrows)), strict=True):
        look = {"arrowstyle": "-|>", "color": colour, "linestyle": line, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        tip = (arrow["x"], arrow["y"])
        ax.annotate("", tip, (0, 0), arrowprops=look)
        ax.annotate(f"{kind} {name}", tip, _OFFSETS[kind], textcoords="offset points", color=INK)


def _bars(ax: Axes, outputs: pd.DataFrame) -> None:
    """The two entries of each output as bars, with their values."""
    place = np.arange(len(outputs))
    for i, (axis, values) in enumerate(outputs.items()):
        bars = ax.bar(place + 0.4 * (i - 0.5), values, 0.38, color=INK, alpha=0.75 - 0.4 * i, label=axis)
        ax.bar_label(bars, [number(value, 0.001) for value in values], fontsize=8)
    ax.set_xticks(place, outputs.index)
    ax.set_ylim(0, 0.75)
    ax.set_title("outputs")
    ax.legend(ncols=2, loc="upper left")


def caption(tables: Tables) -> str:
    """The weights and the output of A, and the scores of B."""
    weights, outputs = (tables[step].loc["A"] for step in ("weights", "output"))
    tied = np.ptp(tables["scores"].loc["B"]) < 1e-9
    same = "; query B has the same score with all keys" if tied else ""
    given = listed([number(weight, 0.001) for weight in weights])
    made = ", ".join(number(value, 0.001) for value in outputs)
    return f"Query A gives the weights {given} to keys {listed(list(weights.index))}, so its output is [{made}]{same}."


FIGURE = Figure(
    shows="A, B and C: queries and keys as arrows, weights and outputs",
    of="examples",
    tables=("q", "k", "weights", "output", "scores"),
    plot=plot,
    caption=caption,
)
