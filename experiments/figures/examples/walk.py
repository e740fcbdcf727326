"""The figure of a user's own matrices."""

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import CONVENTION, Panel, heatmaps
from experiments.figures.style import note


def plot(tables: Tables) -> Drawing:
    """Scores and weights side by side, and the output if there are values.

    Weights without and with the divisor have the same colours. Four panels form two rows; three stand in one.
    """
    grid = [
        Panel("scores", "scores"),
        Panel("undivided_weights", "weights without the divisor", (0, 1)),
        Panel("weights", "weights", (0, 1)),
    ]
    if "output" in tables:
        grid.append(Panel("output", "output"))
    half = len(grid) // 2 if len(grid) == 4 else len(grid)
    rows = [grid[i : i + half] for i in range(0, len(grid), half)]
    figure = heatmaps(tables, rows, (4.8 * half, 0.6 + 4.2 * len(rows)))
    note(figure, f"{CONVENTION} Divisor: {_divisor(tables)}.")
    return figure


def caption(tables: Tables) -> str:
    """The largest weights, averaged over the rows, without and with the divisor."""
    rows = tables["divisor_effect"].mean()
    without, scaled = (number(rows[f"largest {way}"], 0.001) for way in ("without", "with"))
    return f"On average over the rows, the largest weight is {without} without the divisor and {scaled} with it."


def _divisor(tables: Tables) -> str:
    """The scaling rule and the divisor that it gives: `d_k^1/2 = 2`."""
    rows = tables["divisor"]
    return f"{rows.index[0]} = {number(rows.iloc[0, 0])}"


FIGURE = Figure(
    shows="Your own matrices: scores, weights with and without divisor, and output",
    of="walk",
    tables=("scores", "undivided_weights", "weights", "output", "divisor", "divisor_effect"),
    plot=plot,
    caption=caption,
)
