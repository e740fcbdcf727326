"""Scores of dog bites man, their softmax, and the weights that are printed with them."""

from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.heatmaps import CONVENTION, heatmap, matrix
from experiments.figures.style import note, panels
from experiments.figures.words import number


def draw(tables: Tables) -> Figure:
    """Three heatmaps side by side."""
    figure, [axes] = panels(1, 3, (10, 3.9))
    shown = (
        ("scores", "scaled scores", (-0.5, 1.3)),
        ("weights", "their softmax", (0, 0.75)),
        ("as printed", "as printed", (0, 0.75)),
    )
    for ax, (panel, title, limits) in zip(axes, shown, strict=True):
        heatmap(ax, matrix(tables["examples"], "dog", panel), title, limits)
    note(figure, CONVENTION)
    return figure


def caption(tables: Tables) -> str:
    """What dog gives itself, and what is printed."""
    right, printed = (matrix(tables["examples"], "dog", panel).loc["dog", "dog"] for panel in ("weights", "as printed"))
    return (
        f"Dog gives itself {number(right, 0.001)} of its attention; the {number(printed, 0.01)} that is printed is the "
        "softmax of half the scores."
    )
