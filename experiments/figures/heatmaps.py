"""Matrices as heatmaps, in the one convention of all figures: darker is more, rows are queries, columns are keys."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.style import INK, sequential

CONVENTION = "Rows: queries. Columns: keys. Darker is more."
LIGHT_FROM = 0.55  # of the way to the darkest colour letters are white


def matrix(examples: pd.DataFrame, figure: str, panel: str) -> pd.DataFrame:
    """One matrix of the record's examples, rows and columns in their order."""
    chosen = examples[(examples["figure"] == figure) & (examples["panel"] == panel)]
    wide = chosen.pivot_table(index="row", columns="column", values="value", sort=False)
    return wide.loc[chosen["row"].unique(), chosen["column"].unique()]


def heatmap(ax: Axes, values: pd.DataFrame, title: str, limits: Sequence[float]) -> None:
    """A matrix with its numbers written into its cells."""
    low, high = limits
    ax.imshow(values, cmap=sequential(), vmin=low, vmax=high, aspect="equal")
    for (i, j), value in np.ndenumerate(values.to_numpy()):
        ink = "white" if (value - low) / (high - low) > LIGHT_FROM else INK
        shown = f"{value * (1 + 1e-9):.2f}".replace("-", "−")  # 0.955 is 0.96, as on paper
        ax.annotate(shown, (j, i), ha="center", va="center", color=ink)
    ax.set_xticks(range(len(values.columns)), values.columns)
    ax.set_yticks(range(len(values.index)), values.index)
    ax.tick_params(length=0)
    ax.set_title(title)
