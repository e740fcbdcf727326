"""The picture of an example: its matrices as heat maps, darker for more, or as lines over the names of their rows."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from experiments.figures.figure import Drawing
from experiments.figures.rendering import render
from experiments.figures.style import SEQUENTIAL, panels
from experiments.figures.words import latex
from experiments.published.steps import Step

_CONVENTION = "Rows: queries. Columns: keys. Darker means more."
_WIDE = 6  # columns with room for three decimals
_MAX_WITH_NUMBERS = 12  # rows and columns
_MAX_NAMES = 16
_MARGIN = 0.15  # extends the colour scale by this share of the range of values
# Light enough for black numbers: the contrast with the darkest colour is 6.6 to 1 (WCAG 2 requires 4.5).
_SHADES = ListedColormap(SEQUENTIAL(np.linspace(0, 0.6, 256)))


def draw(title: str, source: str, steps: list[Step], draws: str) -> dict[str, bytes]:
    """The picture of the steps in `draws` (see `Example`) and its texts, by suffix."""
    tables = {each.name: each.table for each in steps}
    shown = [name for name in draws.split() if name.strip("~") in tables]

    def plot() -> Drawing:
        columns = 2 if len(shown) == 4 else len(shown)
        size = max(6.0, 4.4 * columns), 0.6 + 4.4 * (len(shown) // columns)
        figure, axes = panels(len(shown), columns, size)
        for ax, name in zip(axes, shown, strict=True):
            (_lines if name.startswith("~") else _heatmap)(ax, name.strip("~"), tables[name.strip("~")])
        return figure

    caption = f"From {source}." if "~" in draws else f"From {source}. {_CONVENTION}"
    return render(plot, title, caption)


def _heatmap(ax: Axes, name: str, table: pd.DataFrame) -> None:
    """A matrix with numbers in its cells, or with a colour scale beside it if it has more than 12 rows or columns."""
    finite = table.to_numpy()[np.isfinite(table.to_numpy())]
    margin = _MARGIN * (np.ptp(finite) or 1.0)
    low, high = (0.0, 1.0) if name.endswith(("weights", "printed")) else (finite.min() - margin, finite.max() + margin)
    numbers = max(table.shape) <= _MAX_WITH_NUMBERS
    shades = table.clip(lower=low)  # a hidden key, -inf, gets the lightest colour
    image = ax.imshow(shades, cmap=_SHADES, vmin=low, vmax=high, aspect="equal" if numbers else "auto")
    if numbers:
        digits = 3 if table.shape[1] <= _WIDE else 2
        for (i, j), value in np.ndenumerate(table.to_numpy()):
            # Halves are rounded up, as on paper.
            text = "−∞" if value == -np.inf else f"{value * (1 + 1e-9):z.{digits}f}".replace("-", "−")
            ax.annotate(text, (j, i), ha="center", va="center", color="black")
    else:
        ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    for set_ticks, names in ((ax.set_xticks, table.columns), (ax.set_yticks, table.index)):
        every = -(-len(names) // _MAX_NAMES)
        set_ticks(range(0, len(names), every), [latex(name) for name in names[::every]])
    if max(map(len, table.columns)) * len(table.columns) > _MAX_NAMES * 2:
        ax.tick_params(axis="x", rotation=90)
    ax.tick_params(length=0)
    ax.set_title(name.replace("_", " "))


def _lines(ax: Axes, name: str, table: pd.DataFrame) -> None:
    """Each column with positive values over the rows, on a logarithmic axis; or each row over widths in the columns."""
    table = table.T if table.columns[0].isdecimal() else table
    for column in table.columns[(table > 0).all()]:
        ax.plot([latex(name) for name in table.index], table[column], marker="o", label=column)
    ax.set_yscale("log")
    ax.set_xlabel(latex("d_k") if table.index[0].isdecimal() else "scaling")
    ax.tick_params(axis="x", rotation=45)
    ax.set_title(name)
    ax.legend(fontsize=8)
