"""Weights of three queries over three keys, without and with scaling, as lines."""

from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.heatmaps import matrix
from experiments.figures.style import note, ordered_colours, panels
from experiments.figures.words import number

_PANELS = ("unscaled", "d_k^1/2")


def draw(tables: Tables) -> Figure:
    """One panel without scaling and one with."""
    figure, [axes] = panels(1, 2, (9, 3.8), sharey=True)
    for ax, panel in zip(axes, _PANELS, strict=True):
        weights = matrix(tables["examples"], "notebook", panel)
        for (query, row), colour, marker in zip(weights.iterrows(), ordered_colours(3), "osD", strict=True):
            ax.plot(weights.columns, row, color=colour, marker=marker, label=query)
        ax.set_title(f"weights, {panel}")
        ax.set_xlabel("key")
        ax.set_ylim(0, 1)
    axes[1].legend()
    note(figure, "Width 4, three tokens, Q and then K of NumPy's legacy generator with seed 42.")
    return figure


def caption(tables: Tables) -> str:
    """The largest weight in each panel."""
    largest = [number(matrix(tables["examples"], "notebook", panel).to_numpy().max(), 0.001) for panel in _PANELS]
    return f"The largest of the notebook's nine weights is {largest[0]} without scaling and {largest[1]} with it."
