"""The picture of an example: its matrices as heat maps, or as lines over the names of their rows."""

import pandas as pd
from matplotlib.axes import Axes

from experiments.examples.steps import Step
from experiments.figures.figure import Drawing
from experiments.figures.heatmaps import CONVENTION, Panel, heatmap
from experiments.figures.rendering import render
from experiments.figures.style import panels

_WIDE = 6  # columns with room for three decimals


def draw(title: str, source: str, steps: list[Step], draws: str) -> dict[str, bytes]:
    """The picture of the steps in `draws` (see `Example`) and its texts, by suffix."""
    tables = {each.name: each.table for each in steps}
    shown = [name for name in draws.split() if name.strip("~") in tables]

    def plot() -> Drawing:
        columns = 2 if len(shown) == 4 else len(shown)
        rows = len(shown) // columns
        figure, grid = panels(rows, columns, (max(6.0, 4.4 * columns), 0.6 + 4.4 * rows))
        for ax, name in zip((ax for row in grid for ax in row), shown, strict=True):
            if name.startswith("~"):
                _lines(ax, name[1:], tables[name[1:]])
            else:
                limits = (0.0, 1.0) if name.endswith(("weights", "printed")) else None
                digits = 3 if tables[name].shape[1] <= _WIDE else 2
                heatmap(ax, tables[name], Panel(name, name.replace("_", " "), limits, digits))
        return figure

    caption = f"From {source}." if "~" in draws else f"From {source}. {CONVENTION}"
    return render(plot, title, caption)


def _lines(ax: Axes, name: str, table: pd.DataFrame) -> None:
    """Each column with positive values over the rows, on a logarithmic axis; or each row over widths in the columns."""
    table = table.T if table.columns[0].isdecimal() else table
    for column in table.columns[(table > 0).all()]:
        ax.plot(table.index, table[column], marker="o", label=column)
    ax.set_yscale("log")
    ax.tick_params(axis="x", rotation=45)
    ax.set_title(name)
    ax.legend(fontsize=8)
