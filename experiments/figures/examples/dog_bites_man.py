"""The figure of the example dog bites man."""

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import CONVENTION, Panel, heatmaps, sizes
from experiments.figures.style import note

_WEIGHTS = (0, 0.75)


def plot(tables: Tables) -> Drawing:
    """Four heatmaps: scaled scores, their softmax, the weights as printed in the same colours, and the output."""
    grid = [
        [Panel("scaled_scores", "scaled scores"), Panel("weights", "weights: their softmax", _WEIGHTS)],
        [Panel("printed", "weights as printed", _WEIGHTS), Panel("output", "output", digits=3)],
    ]
    figure = heatmaps(tables, grid, (8, 7))
    note(figure, f"{CONVENTION} Columns of the output: its four entries.")
    return figure


def caption(tables: Tables) -> str:
    """The weight that dog gives itself, the printed weight, and its origin."""
    rows = tables["halved"]
    printed, halved = rows.loc["printed weights of dog"], rows.loc["softmax of half the scores"]
    right = rows.loc["softmax of the scores", "dog"]
    fits = (abs(printed - halved) < 0.0051).all()
    origin = " The softmax of half the scores gives the printed row of dog, but not the other two rows." if fits else ""
    shown = number(printed["dog"], 0.01)
    of = sizes(tables)
    return f"With {of}, dog gives itself {number(right, 0.001)} of its attention, not {shown} as printed.{origin}"


FIGURE = Figure(
    shows="Dog bites man: scaled scores, softmax, printed weights and outputs",
    of="examples",
    tables=("scaled_scores", "weights", "printed", "output", "halved"),
    plot=plot,
    caption=caption,
)
