"""The cat sat down: scores as a strip and as a table, and their weights."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.heatmaps import CONVENTION, heatmap, matrix
from experiments.figures.style import note, panels
from experiments.figures.words import number


def draw(tables: Tables) -> Figure:
    """The strip above, table and weights below."""
    scores, weights = (matrix(tables["examples"], "cat", panel) for panel in ("scores", "weights"))
    figure, grid = panels(2, 2, (9, 6), height_ratios=(1, 4))
    for ax in grid[0]:
        ax.remove()
    strip = figure.add_subplot(grid[1][0].get_gridspec()[0, :])
    pairs = [f"{row}\n{column}" for row in scores.index for column in scores.columns]
    row_by_row = pd.DataFrame([scores.to_numpy().ravel()], index=[""], columns=pairs)
    heatmap(strip, row_by_row, "scaled scores, row by row", (-0.1, 1))
    strip.tick_params(labelsize=7.5)
    heatmap(grid[1][0], scores, "scaled scores", (-0.1, 1))
    heatmap(grid[1][1], weights, "weights", (0, 0.5))
    note(figure, CONVENTION)
    return figure


def caption(tables: Tables) -> str:
    """The diagonal and the strongest column."""
    weights = matrix(tables["examples"], "cat", "weights")
    diagonal, columns = float(np.diag(weights).mean()), weights.mean()
    return (
        f"In the cat sat down a word gives itself {number(diagonal, 0.001)} on average, less than a quarter; "
        f"{columns.idxmax()} gets most, {number(columns.max(), 0.001)} on average."
    )
