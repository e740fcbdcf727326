"""The common style of all figures: panels and colours.

Colours come from seaborn's `colorblind` palette. Each of the four most common rules has its own
colour everywhere, so a reader who knows one figure can read the next.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sdpa.scaling import SCALED, UNSCALED

Drawing: TypeAlias = Figure
Colour: TypeAlias = str | tuple[float, float, float]

INK = "#333333"
DPI = 150
_PALETTE = sns.color_palette("colorblind")
_COLOURS = {
    UNSCALED: _PALETTE[3],
    "d_k^1/3": _PALETTE[1],
    SCALED: _PALETTE[0],
    "d_k^2/3": _PALETTE[2],
}
_OTHER_COLOURS = [_PALETTE[i] for i in (4, 5, 7, 9)]
UNORDERED_COLOURS = [_PALETTE[i] for i in (0, 3, 2, 4, 5, 7)]
SEQUENTIAL = sns.color_palette("Blues", as_cmap=True)  # of amounts: darker means more
# of signed amounts: blue below 0, white at 0, red above
DIVERGING = sns.color_palette("RdBu_r", as_cmap=True)
STYLE = {
    **sns.axes_style("ticks"),
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": DPI,
    "font.size": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "sdpa",  # makes the ids inside an SVG depend only on its content
}


def panels(
    count: int, columns: int, size: tuple[float, float], **options: object
) -> tuple[Drawing, list[Axes]]:
    """A figure of that size in inches with so many axes in rows of `columns`; `options` are those
    of `subplots`.
    """
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(-(-count // columns), columns, squeeze=False, **options).ravel().tolist()
    for ax in axes[count:]:
        ax.axis("off")
    return figure, axes[:count]


def empty(size: tuple[float, float], reason: str) -> Drawing:
    """A figure without axes that says why it is empty."""
    figure, [ax] = panels(1, 1, size)
    ax.set_axis_off()
    ax.text(0, 0.5, reason, transform=ax.transAxes)
    return figure


def scaling_colours(names: Iterable[str]) -> dict[str, Colour]:
    """The colour of each scaling of a table: fixed for the four most common rules, by order for the
    others.
    """
    others = [name for name in dict.fromkeys(names) if name not in _COLOURS]
    colours = (
        _OTHER_COLOURS
        if len(others) <= len(_OTHER_COLOURS)
        else sns.color_palette("viridis", len(others) + 1)
    )
    return {**_COLOURS, **dict(zip(others, colours, strict=False))}


def ordered_colours(count: int) -> list[Colour]:
    """Colours for the values of an ordered quantity, light to dark."""
    return list(sns.color_palette("flare", count))


def in_colours(
    table: pd.DataFrame, by: str | list[str]
) -> Iterator[tuple[object, pd.DataFrame, Colour]]:
    """The groups of a table, each as its value, its rows and its colour, light to dark."""
    groups = table.groupby(by, sort=False)
    for (value, rows), colour in zip(groups, ordered_colours(len(groups)), strict=True):
        yield value, rows, colour
