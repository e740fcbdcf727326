"""The figure of the example triples."""

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import Panel, heatmaps
from experiments.figures.style import note


def plot(tables: Tables) -> Drawing:
    """Two heatmaps in the same colours: the softmax of four rows of scores, and the weights that the source prints."""
    grid = [[Panel("weights", "softmax", (0, 1), 3), Panel("printed", "as printed", (0, 1), 3)]]
    figure = heatmaps(tables, grid, (9, 4))
    note(figure, "Rows: three scores each. Darker means more.")
    return figure


def caption(tables: Tables) -> str:
    """The largest weight of each row, and the printed one."""
    right, printed = (tables[step].max(axis=1) for step in ("weights", "printed"))
    rows = {row: row if "(" in row else f"({row})" for row in right.index}
    clauses = [
        f"{number(right[row], 0.0001)} for {name} (printed: {number(printed[row], 0.01)})" for row, name in rows.items()
    ]
    return f"The largest of three weights is {'; '.join(clauses)}."


FIGURE = Figure(
    shows="Softmax of three scores: small, large and scaled, beside the printed weights",
    of="examples",
    tables=("weights", "printed"),
    plot=plot,
    caption=caption,
)
