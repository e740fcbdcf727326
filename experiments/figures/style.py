"""The common style of all figures: panels and colours.

Colours come from seaborn's palettes `colorblind` and `flare`, and from Paul Tol's `muted`. A rule keeps its colour in
every figure, so a reader who knows one can read the next.
"""

from collections.abc import Mapping
from typing import TypeAlias
from zlib import crc32

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from experiments.figures.picture import DPI
from experiments.figures.picture import Drawing as Drawing
from sdpa.scaling import SCALED, UNSCALED

Colour: TypeAlias = str | tuple[float, float, float]

INK = "#333333"
GREY = "#666666"
_PANEL_GAP = 0.04  # between panels, of their width: ticks at their edges stand apart
# The palettes are copied, because seaborn takes a second to load.
_BLUE, _ORANGE, _GREEN, _RED = "#0173b2", "#de8f05", "#029e73", "#d55e00"
_PINK, _BROWN, _GREY, _SKY = "#cc78bc", "#ca9161", "#949494", "#56b4e9"
RULE_COLOURS: Mapping[object, Colour] = {
    UNSCALED: _RED,
    "d_k^1/3": _ORANGE,
    SCALED: _BLUE,
    "d_k^2/3": _GREEN,
    "d_k^1/4": _PINK,
    "d_k^1": _BROWN,
}
_OTHER_COLOURS = [_SKY, _GREY, "#882255", "#332288", "#999933", "#44aa99"]
UNORDERED_COLOURS = [_BLUE, _RED, _GREEN, _PINK, _BROWN, _GREY]
_ORDERED = LinearSegmentedColormap.from_list(
    "ordered", ["#edb081", "#e5715e", "#c14168", "#863071", "#4b2362"]
)
SEQUENTIAL = colormaps["Blues"]  # of amounts: darker means more
DIVERGING = colormaps["RdBu_r"]  # of signed amounts: blue below 0, white at 0, red above
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titley": 1.0,  # searching for a place takes a seventh of a drawing's time
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": DPI,
    "font.family": ["DejaVu Sans"],  # comes with Matplotlib, so that it is the same everywhere
    "font.size": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "lines.solid_capstyle": "round",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "sdpa",  # makes the ids inside an SVG depend only on its content
}


def subplots(
    count: int, columns: int, size: tuple[float, float], **options: object
) -> tuple[Drawing, list[Axes]]:
    """A figure of that size in inches with so many axes in rows of `columns`; `options` are those
    of `subplots`.
    """
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(wspace=_PANEL_GAP)
    axes = figure.subplots(-(-count // columns), columns, squeeze=False, **options).ravel().tolist()
    for ax in axes[count:]:
        ax.axis("off")
    return figure, axes[:count]


def empty(reason: str) -> Drawing:
    """A figure without axes that says why it is empty."""
    figure, [ax] = subplots(1, 1, (9, 4))
    ax.set_axis_off()
    ax.text(0, 0.5, reason, transform=ax.transAxes)
    return figure


def colours_of(values: pd.Series) -> Mapping[object, Colour]:
    """The colour of each value of a column: of an ordered quantity, from light to dark; of scalings,
    fixed for the most common rules, and for others by name, or the next free one.
    """
    known = [*values.unique()]
    if values.name != "scaling":
        return dict(zip(sorted(known), _spread(_ORDERED, len(known)), strict=True))
    others = [name for name in known if name not in RULE_COLOURS]
    further = _spread(colormaps["viridis"], len(others))
    colours = dict(RULE_COLOURS)
    for name in others:
        place = crc32(name.encode()) % len(_OTHER_COLOURS)
        wanted = [*_OTHER_COLOURS[place:], *_OTHER_COLOURS[:place], *further]
        colours[name] = next(colour for colour in wanted if colour not in colours.values())
    return colours


def _spread(colours: Colormap, count: int) -> list[Colour]:
    """Colours at equal distances, without both ends."""
    inner = colours(np.linspace(0, 1, count + 2)[1:-1])
    return [(red, green, blue) for red, green, blue, _ in inner]
