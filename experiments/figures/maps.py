"""Heat maps over two axes: colours in cells of equal size, with ticks and numbers."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from experiments.figures.words import short
from sdpa._arrays import FloatArray

_LUMINANCE = (0.2126, 0.7152, 0.0722)  # of linear red, green and blue (WCAG 2)
_DARK = 0.179  # white has more contrast than black on darker colours, and each at least 4.5 to 1
_MOST_TICKS = 16


def plot_plane(
    ax: Axes,
    values: pd.DataFrame,
    write: Callable[[float], str] | None = None,
    most: int = _MOST_TICKS,
    **look: object,
) -> AxesImage:
    """Values as colours in cells of equal size, with ticks, and numbers at each of them.

    Args:
        values: of the map; the names of its columns and its index become those of the axes.
        write: the number of a value; none for a map without numbers. Wide numbers at both ends stay
            on the map.
        most: of its ticks along x.
        look: keywords of `imshow`.
    """
    image = ax.imshow(values, origin="lower", aspect="auto", **look)
    height, width = values.shape
    every = -(-width // most)
    names = map(short, values.columns[::every])
    ax.set_xticks(range(0, width, every), names, fontsize=8)
    beside = -(-height // _MOST_TICKS)
    names = map(short, values.index[::beside])
    ax.set_yticks(range(0, height, beside), names)
    ax.tick_params(length=0)  # beside a number at the edge, a tick reads as its sign
    if ax.get_subplotspec().is_last_row():
        ax.set_xlabel(values.columns.name)
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel(values.index.name)
    if not write:
        return image
    ends = {0: ("left", -0.4), width - 1: ("right", 0.4)} if every > 1 else {}
    for (row, column), value in np.ndenumerate(values.to_numpy()):
        if column % every == 0 and np.isfinite(value):
            side, aside = ends.get(column, ("center", 0.0))
            ax.annotate(
                write(value),
                (column + aside, row),
                ha=side,
                va="center",
                fontsize=7.5,
                color=ink_on(image, value),
            )
    return image


def ink_on(image: AxesImage, value: float) -> str:
    """The colour of a number on the colour of its value in an image: the one with more contrast."""
    linear = np.power(image.to_rgba(value)[:3], 2.2)
    return "white" if np.dot(linear, _LUMINANCE) < _DARK else "black"


def pivoted(rows: pd.DataFrame, values: str) -> pd.DataFrame:
    """A column of a table over d_k and n_keys."""
    return rows.pivot_table(index="n_keys", columns="d_k", values=values, dropna=False)


def place(at: pd.Series | FloatArray, values: pd.Index) -> FloatArray:
    """Places of numbers on an axis of cells, linear in the logarithm between the values; NaN
    outside them.
    """
    logarithms = np.log(values.to_numpy(dtype=float))
    return np.interp(np.log(at), logarithms, range(len(values)), np.nan, np.nan)
