"""The common style of all figures: panels, notes and colours.

Colours come from seaborn's `colorblind` palette. Each of the four most common rules has its own colour everywhere, so
a reader who knows one figure can read the next.
"""

import math
import textwrap
from collections.abc import Mapping
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from experiments.figures.figure import Drawing

INK = "#333333"
DPI = 150
_NOTE_CHARACTERS_PER_INCH = 15
_JOINED = "\u00a0=\u00a0"  # keeps a name and its value on one line
_PALETTE = sns.color_palette("colorblind")
_COLOURS = {"unscaled": _PALETTE[3], "d_k^1/3": _PALETTE[1], "d_k^1/2": _PALETTE[0], "d_k^2/3": _PALETTE[2]}
_OTHER_COLOURS = [_PALETTE[i] for i in (4, 5, 7, 9)]
STYLE = {
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


def panels(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Drawing, list[list[Axes]]]:
    """A figure of that size in inches and its grid of axes.

    Args:
        rows, columns: of the grid.
        size: width and height.
        options: keywords of Matplotlib's `subplots`, such as `sharey`.

    Returns:
        The figure; and its axes as a list of rows, also for a single one.
    """
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options).tolist()


def empty(size: tuple[float, float], reason: str) -> Drawing:
    """A figure without axes that says why it is empty."""
    figure, [[ax]] = panels(1, 1, size)
    ax.set_axis_off()
    ax.text(0, 0.5, reason, transform=ax.transAxes)
    return figure


def note(figure: Drawing, text: str) -> None:
    """A remark on how to read a figure, at its foot."""
    lines = wrapped(text, figure.get_figwidth() * _NOTE_CHARACTERS_PER_INCH)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=8.5)


def wrapped(text: str, width: float) -> str:
    r"""A text wrapped to this many characters, without breaks between a name and its value.

    >>> wrapped("with d_k = 64", 9)
    'with\nd_k = 64'
    """
    return textwrap.fill(text.replace(" = ", _JOINED), int(width)).replace(_JOINED, " = ")


def scaling_colours(exponents: Mapping[str, float]) -> dict[str, Any]:
    """The colour of each scaling: fixed for the four most common rules, by order of exponent for the others.

    Rules other than powers of d_k (exponent NaN) come last.

    Args:
        exponents: p by name of the scaling.
    """
    others = sorted(
        (name for name in exponents if name not in _COLOURS),
        key=lambda name: (math.isnan(exponents[name]), 0.0 if math.isnan(exponents[name]) else exponents[name]),
    )
    colours = _OTHER_COLOURS if len(others) <= len(_OTHER_COLOURS) else sns.color_palette("viridis", len(others) + 1)
    return {**_COLOURS, **dict(zip(others, colours, strict=False))}


def sequential() -> Colormap:
    """Colours for amounts, light to dark: darker means more."""
    return sns.color_palette("Blues", as_cmap=True)


def diverging() -> Colormap:
    """Colours for signed amounts: blue below 0, white at 0, red above."""
    return sns.color_palette("RdBu_r", as_cmap=True)


def token_colours(count: int) -> list[Any]:
    """Colours for tokens, without order and safe for colour-blind readers; the darker ones of the palette.

    There are six; a larger count gets six too.
    """
    return [_PALETTE[i] for i in (0, 3, 2, 4, 5, 7)][:count]


def ordered_colours(count: int) -> list[Any]:
    """Colours for the values of an ordered quantity, light to dark."""
    return list(sns.color_palette("flare", count))
