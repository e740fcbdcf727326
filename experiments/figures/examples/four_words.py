"""The figure of the example four words."""

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import CONVENTION, Panel, heatmaps, sizes
from experiments.figures.style import note


def plot(tables: Tables) -> Drawing:
    """Three heatmaps: scaled scores, weights and output."""
    shown = [Panel("scaled_scores", "scaled scores"), Panel("weights", "weights"), Panel("output", "output")]
    figure = heatmaps(tables, [shown], (10, 3.7))
    note(
        figure,
        f"{CONVENTION} Columns of the output: its four entries. Legacy generator, seed 123.",
    )
    return figure


def caption(tables: Tables) -> str:
    """The range of scores, and the largest weight of cat."""
    scores, weights = (tables[step] for step in ("scaled_scores", "weights"))
    low, high = (number(value, 0.01) for value in (scores.to_numpy().min(), scores.to_numpy().max()))
    row = weights.loc["cat"]
    return (
        f"Scaled scores of the article's four words ({sizes(tables)}) range from {low} to "
        f"{high}; the largest weight of 'cat' is {number(row.max(), 0.001)}, for '{row.idxmax()}'; an even "
        f"share is {number(1 / len(row), 0.01)}."
    )


FIGURE = Figure(
    shows="Scaled scores, weights and outputs of the article's four words",
    of="examples",
    tables=("scaled_scores", "weights", "output", "divisor"),
    plot=plot,
    caption=caption,
)
