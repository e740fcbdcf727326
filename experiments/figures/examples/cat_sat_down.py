"""The figure of the example cat sat down."""

import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import CONVENTION, Panel, heatmap, sizes
from experiments.figures.style import note, panels

_SCORES = (-0.1, 1)


def plot(tables: Tables) -> Drawing:
    """The scores row by row as a strip above, and as a table below, beside their weights.

    Strip and table have the same colours, so that a row of the table can be found in the strip.
    """
    scores, weights = (tables[step] for step in ("scaled_scores", "weights"))
    figure, grid = panels(3, 2, (9, 6.4), height_ratios=(1, 1, 7))
    for i, half in enumerate((scores.iloc[:2], scores.iloc[2:])):
        _strip(figure, grid, i, half)
    heatmap(grid[2][0], scores, Panel("scaled_scores", "scaled scores", _SCORES))
    heatmap(grid[2][1], weights, Panel("weights", "weights", (0, 0.5)))
    note(figure, CONVENTION)
    return figure


def _strip(figure: Drawing, grid: list[list[Axes]], place: int, scores: pd.DataFrame) -> None:
    """Rows of scores one after the other, over the whole width."""
    for ax in grid[place]:
        ax.remove()
    strip = figure.add_subplot(grid[2][0].get_gridspec()[place, :])
    pairs = [f"{row}\n{column}" for row in scores.index for column in scores.columns]
    row_by_row = pd.DataFrame([scores.to_numpy().ravel()], index=[""], columns=pairs)
    heatmap(strip, row_by_row, Panel("scaled_scores", "" if place else "scaled scores, row by row", _SCORES))
    strip.tick_params(axis="x", labelsize=8, rotation=0)


def caption(tables: Tables) -> str:
    """The diagonal, the hub column and the most uniform row."""
    own, columns, rows = (tables[step] for step in ("diagonal", "columns", "rows"))
    mean, share = own.loc["own weight", "mean"], own.loc["own weight", "even share"]
    side = "less than" if mean < share else "at least"
    hub = columns.loc["mean weight"]
    of = sizes(tables)
    return (
        f"In 'The cat sat down' ({of}), a word gives itself the weight {number(mean, 0.001)} on average, {side} the"
        f" even share of {number(share, 0.01)}; '{hub.idxmax()}' gets the most, {number(hub.max(), 0.001)} on average;"
        f" the row of '{rows['entropy / ln n'].idxmax()}' is the most uniform."
    )


FIGURE = Figure(
    shows="The cat sat down: scores as strip and table, and weights",
    of="examples",
    tables=("scaled_scores", "weights", "diagonal", "columns", "rows", "divisor"),
    plot=plot,
    caption=caption,
)
