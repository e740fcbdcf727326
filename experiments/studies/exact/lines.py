"""Lines of a table along one of its columns, by another one."""

import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.style import colours_of


def plot_lines(
    ax: Axes, table: pd.DataFrame, x: str, y: str, by: str, label: str, **look: str
) -> None:
    """A line of y for each value of `by`, from light to dark, with its label for the legend; `look`
    are keywords of Matplotlib's `errorbar`.
    """
    colours = colours_of(table[by])
    for value, rows in table.groupby(by):
        words = label.format(value)
        ax.errorbar(rows[x], rows[y], color=colours[value], label=words, **look)
