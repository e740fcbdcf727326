"""Matrices as heatmaps with one convention: darker means more, rows are queries, columns are keys.

Steps of worked examples come in as data frames with names of rows and columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from experiments.figures.figure import Drawing, Tables
from experiments.figures.style import SEQUENTIAL, panels
from experiments.figures.words import latex

CONVENTION = "Rows: queries. Columns: keys. Darker means more."
_MAX_WITH_NUMBERS = 12  # rows and columns
_MAX_NAMES = 16
_MARGIN = 0.15  # extends the colour scale by this share of the range of values
# Light enough for black numbers: the contrast with the darkest colour is 6.6 to 1 (WCAG 2 requires 4.5).
_SHADES = ListedColormap(SEQUENTIAL(np.linspace(0, 0.6, 256)))


@dataclass(frozen=True)
class Panel:
    """A panel that shows a step of an example.

    Attributes:
        step: the name of the step.
        title: the title above the panel.
        limits: the values of the lightest and the darkest colour; if None, the range of the numbers plus a margin.
        digits: the decimals in the cells.
    """

    step: str
    title: str
    limits: tuple[float, float] | None = None
    digits: int = 2


def sizes(steps: Tables) -> str:
    """The sizes of an example in words, `d_k = 4, n_keys = 3`; without d_k if it has no divisor."""
    n_keys = f"n_keys = {steps['weights'].shape[1]}"
    return f"d_k = {steps['divisor'].iloc[0, 0] ** 2:.0f}, {n_keys}" if "divisor" in steps else n_keys


def heatmaps(steps: Tables, grid: Sequence[Sequence[Panel]], size: tuple[float, float]) -> Drawing:
    """Steps of an example side by side, as a grid of heatmaps.

    Args:
        steps: the matrices of an example, by name of the step.
        grid: rows of panels, all of the same length.
        size: of the drawing, in inches.
    """
    figure, axes = panels(len(grid), len(grid[0]), size)
    for shown, row in zip(grid, axes, strict=True):
        for panel, ax in zip(shown, row, strict=True):
            heatmap(ax, steps[panel.step], panel)
    return figure


def heatmap(ax: Axes, values: pd.DataFrame, panel: Panel) -> None:
    """A matrix with numbers in its cells, or with a colour scale beside it if the numbers do not fit.

    Args:
        ax: the axes to draw in.
        values: with names of rows and columns; -inf marks a key hidden by a mask, in the lightest colour.
        panel: title, limits of the colours and decimals. Matrices with more than 12 rows or columns have no numbers.
    """
    low, high = panel.limits or _limits(values)
    numbers = max(values.shape) <= _MAX_WITH_NUMBERS
    shades = values.clip(lower=low)  # a hidden key gets the lightest colour
    image = ax.imshow(shades, cmap=_SHADES, vmin=low, vmax=high, aspect="equal" if numbers else "auto")
    if numbers:
        for (i, j), value in np.ndenumerate(values.to_numpy()):
            ax.annotate(_shown(value, panel.digits), (j, i), ha="center", va="center", color="black")
    else:
        ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    for set_ticks, names in ((ax.set_xticks, values.columns), (ax.set_yticks, values.index)):
        every = -(-len(names) // _MAX_NAMES)
        set_ticks(range(0, len(names), every), [latex(name) for name in names[::every]])
    if max(map(len, values.columns)) * len(values.columns) > _MAX_NAMES * 2:
        ax.tick_params(axis="x", rotation=90)
    ax.tick_params(length=0)
    ax.set_title(panel.title)


def _shown(value: float, digits: int) -> str:
    """A number as on paper: 0.955 becomes 0.96, with a typographic minus sign.

    >>> _shown(0.955, 2), _shown(-0.25, 1), _shown(-np.inf, 2)
    ('0.96', '−0.3', '−∞')
    """
    text = "-∞" if value == -np.inf else f"{value * (1 + 1e-9):z.{digits}f}"
    return text.replace("-", "−")


def _limits(values: pd.DataFrame) -> tuple[float, float]:
    """The range of the finite values, widened by a margin."""
    finite = values.to_numpy()[np.isfinite(values.to_numpy())]
    margin = _MARGIN * (np.ptp(finite) or 1.0)
    return finite.min() - margin, finite.max() + margin
