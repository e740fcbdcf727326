"""The figure of the example session."""

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import CONVENTION, Panel, heatmaps, sizes
from experiments.figures.style import note


def plot(tables: Tables) -> Drawing:
    """Four heatmaps: scores, scaled scores, weights and output."""
    shown = [
        [Panel("scores", "scores", digits=3), Panel("scaled_scores", "scaled scores", digits=3)],
        [Panel("weights", "weights", (0, 0.5), 3), Panel("output", "output", digits=3)],
    ]
    figure = heatmaps(tables, shown, (9, 7))
    note(figure, f"{CONVENTION} Columns of the output: its six entries. NumPy's legacy generator with seed 42.")
    return figure


def caption(tables: Tables) -> str:
    """The ranges of scores and weights."""
    scores, weights = (tables[step].to_numpy() for step in ("scores", "weights"))
    (low, high), (least, most) = (
        [number(value, 0.001) for value in (values.min(), values.max())] for values in (scores, weights)
    )
    of = sizes(tables)
    return (
        f"The scores of the article's running example ({of}) range from {low} to {high}, and its weights only from "
        f"{least} to {most}."
    )


FIGURE = Figure(
    shows="The article's running example: scores, scaled scores, weights and output",
    of="examples",
    tables=("scores", "scaled_scores", "weights", "output", "divisor"),
    plot=plot,
    caption=caption,
)
