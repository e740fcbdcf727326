"""The figure of the example notebook."""

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import CONVENTION, Panel, heatmaps, sizes
from experiments.figures.style import note

_WEIGHTS = (0, 0.85)


def plot(tables: Tables) -> Drawing:
    """Scores, and weights without scaling and with it in the same colours."""
    panels = [
        Panel("scores", "scores"),
        Panel("undivided_weights", "weights without scaling", _WEIGHTS),
        Panel("weights", "weights with scaling", _WEIGHTS),
    ]
    figure = heatmaps(tables, [panels], (10, 4.2))
    note(figure, f"{CONVENTION} Width 4, Q and then K of NumPy's legacy generator with seed 42.")
    return figure


def caption(tables: Tables) -> str:
    """The largest weight without scaling and with it."""
    without, scaled = (number(tables[step].to_numpy().max(), 0.001) for step in ("undivided_weights", "weights"))
    of = sizes(tables)
    return f"The largest weight in the notebook's example ({of}) is {without} without scaling and {scaled} with it."


FIGURE = Figure(
    shows="Weights in the notebook's example, without and with scaling",
    of="examples",
    tables=("scores", "undivided_weights", "weights", "divisor"),
    plot=plot,
    caption=caption,
)
