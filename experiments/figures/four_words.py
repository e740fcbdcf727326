"""Scaled scores and weights of the article's four words."""

from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.heatmaps import CONVENTION, heatmap, matrix
from experiments.figures.style import note, panels
from experiments.figures.words import number


def draw(tables: Tables) -> Figure:
    """Two heatmaps."""
    figure, [axes] = panels(1, 2, (9, 4.4))
    heatmap(axes[0], matrix(tables["examples"], "four", "scaled scores"), "scaled scores", (-0.5, 0.5))
    heatmap(axes[1], matrix(tables["examples"], "four", "weights"), "weights", (0, 0.5))
    note(figure, f"{CONVENTION} Tokens and projections of NumPy's legacy generator with seed 123.")
    return figure


def caption(tables: Tables) -> str:
    """What cat gives sat, and the range of scores."""
    scores, weights = (matrix(tables["examples"], "four", panel) for panel in ("scaled scores", "weights"))
    low, high = (number(value, 0.01) for value in (scores.to_numpy().min(), scores.to_numpy().max()))
    return (
        f"Scaled scores of the article's four words range from {low} to {high}; cat gives sat "
        f"{number(weights.loc['cat', 'sat'], 0.001)}, a quarter and a little."
    )
