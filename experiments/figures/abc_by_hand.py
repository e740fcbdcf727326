"""Weights and outputs of A, B and C."""

import numpy as np
from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.heatmaps import CONVENTION, heatmap, matrix
from experiments.figures.style import INK, note, panels
from experiments.figures.words import number


def draw(tables: Tables) -> Figure:
    """A heatmap of weights and bars of outputs."""
    weights, outputs = (matrix(tables["examples"], "abc", panel) for panel in ("weights", "outputs"))
    figure, [[left, right]] = panels(1, 2, (9, 4.2))
    heatmap(left, weights, "weights", (0, 0.6))
    place = np.arange(len(outputs))
    for i, (dimension, values) in enumerate(outputs.items()):
        bars = right.bar(place + 0.4 * (i - 0.5), values, 0.38, color=INK, alpha=0.75 - 0.4 * i, label=dimension)
        right.bar_label(bars, [number(value, 0.001) for value in values], fontsize=8.5)
    right.set_xticks(place, outputs.index)
    right.set_ylim(0, 0.75)
    right.set_title("outputs")
    right.legend(ncols=2, loc="upper left")
    note(figure, CONVENTION)
    return figure


def caption(tables: Tables) -> str:
    """The weights and the output of A."""
    weights, outputs = (matrix(tables["examples"], "abc", panel).loc["A"] for panel in ("weights", "outputs"))
    given = ", ".join(number(weight, 0.001) for weight in weights)
    return f"A gives {given} to A, B and C; its output is [{', '.join(number(value, 0.001) for value in outputs)}]."
