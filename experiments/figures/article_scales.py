"""Weights of four small scores and of twenty times as large ones, as bars."""

from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.heatmaps import matrix
from experiments.figures.style import INK, note, panels
from experiments.figures.words import number


def draw(tables: Tables) -> Figure:
    """Two bar charts."""
    figure, [axes] = panels(1, 2, (9, 3.6), sharey=True)
    titles = {"small": "scores 1, 0.8, 0.5, 0.2", "large": "scores 20, 16, 10, 4"}
    for ax, (panel, title) in zip(axes, titles.items(), strict=True):
        weights = matrix(tables["examples"], "scales", panel).loc["weight"]
        bars = ax.bar(weights.index, weights, color=INK, alpha=0.6)
        ax.bar_label(bars, [number(weight, 0.001) for weight in weights], fontsize=9)
        ax.set_title(f"weights of {title}")
        ax.set_xlabel("position")
        ax.set_ylim(0, 1.08)
    note(figure, "The same four scores, as they are and times 20.")
    return figure


def caption(tables: Tables) -> str:
    """The largest weight of each."""
    small, large = (matrix(tables["examples"], "scales", panel).to_numpy().max() for panel in ("small", "large"))
    largest = f"{number(small, 0.001)} of small scores and {number(large, 0.001)} of large ones"
    return f"The largest of four weights is {largest}."
