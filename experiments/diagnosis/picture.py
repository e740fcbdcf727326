"""Each head of a diagnosis beside Gaussian rows, and maps of all heads."""

import itertools

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from scipy import stats
from seaborn import color_palette

from experiments.figures.findings import FindingError
from experiments.figures.lines import MARKERS
from experiments.figures.maps import plot_plane
from experiments.figures.rendering import render
from experiments.figures.style import DIVERGING, INK, SEQUENTIAL, Drawing
from sdpa.heads.table import Curve, gaussian_curves, indices

_FEW_LAYERS = 6  # with a name in the legend
CLOSE = 0.05  # entropy shares that differ by less are called equal
_MOST_NUMBERS = (8, 12)  # rows and columns of a map with numbers in its cells
_RATIOS = (1 / 16, 1 / 4, 1, 4, 16)  # ticks of the colours of variance ratios


def render_heads(heads: pd.DataFrame) -> dict[str, bytes]:
    """The files of the figure of a diagnosis, by suffix: its table of heads over the exact curves
    of its sizes.

    Raises:
        FindingError: the intervals do not support the title.
    """
    title = "Many heads are sharper than Gaussian rows of their spread, few flatter"
    if not _are_sharper(heads):
        raise FindingError(f"the table of heads does not support: {title}")
    columns = {str(name): values.to_numpy() for name, values in heads.items()}
    curves = gaussian_curves(columns)
    sizes = ", ".join(str(curve.n_keys) for curve in curves)
    caption = (
        f"Points: {len(heads)} heads; bars: 95% intervals. Pale: exact, for Gaussian rows of "
        f"n_keys = {sizes}."
    )
    return render(lambda: draw_heads(heads, curves), title, caption)


def draw_heads(heads: pd.DataFrame, curves: list[Curve]) -> Drawing:
    """Left, heads as points over exact curves; right, maps of the largest weight and of the
    variance ratio.
    """
    figure = Figure(figsize=(10.5, 5.2), layout="constrained")
    mosaic = [["points", "max_weight"], ["points", "ratio"]]
    panels = figure.subplot_mosaic(mosaic, width_ratios=(1, 1.3))
    _plot_map(panels["max_weight"], heads, "max_weight", cmap=SEQUENTIAL, vmin=0, vmax=1)
    panels["max_weight"].set_title("mean largest weight")
    norm = LogNorm(_RATIOS[0], _RATIOS[-1], clip=True)
    bar = _plot_map(panels["ratio"], heads, "variance_ratio", cmap=DIVERGING, norm=norm)
    bar.set_ticks(_RATIOS, labels=map("{:g}".format, _RATIOS))
    panels["ratio"].set_title("variance within rows over that of independent entries")
    plot_heads(panels["points"], heads, curves, has_bars=True)
    return figure


def plot_heads(
    ax: Axes, heads: pd.DataFrame, curves: list[Curve], size: float = 30, has_bars: bool = False
) -> None:
    """The entropy share of each head against the spread of its scores, over the exact curves."""
    for i, curve in enumerate(curves):
        label = None if i else "exact, for Gaussian rows"
        look = {"color": INK, "alpha": 0.3, "linewidth": 5, "label": label}
        ax.plot(curve.spread, curve.entropy_share, **look)
    ends = curves[0].spread[0], curves[0].spread[-1]
    # A logarithmic axis has no place for the spread 0 of equal scores.
    spread = np.sqrt(heads["row_variance"])
    heads = heads.assign(spread=np.maximum(spread, ends[0]))
    outer = indices(heads)[:-1][:1]
    layers = list(heads.groupby(outer)) if outer else [("", heads)]
    are_named = 1 < len(layers) <= _FEW_LAYERS
    markers = MARKERS if len(layers) <= _FEW_LAYERS else itertools.repeat("o")
    colours = color_palette("viridis", len(layers))
    for (name, layer), colour, marker in zip(layers, colours, markers, strict=False):
        x = layer["spread"]
        y = layer["entropy_share"]
        label = f"{outer[0]} {name[0]}" if are_named else None
        look = {"marker": marker, "edgecolors": "white", "zorder": 3, "label": label}
        ax.scatter(x, y, size, color=colour, **look)
        if has_bars:
            t = stats.t.isf(0.025, np.maximum(layer["sequences"] - 1, 1))
            reach = t * layer["row_variance_se"] / (2 * x)
            xerr = np.minimum(reach, 0.9 * x).fillna(0)
            yerr = (t * layer["entropy_share_se"]).fillna(0)
            ax.errorbar(x, y, yerr, xerr, linestyle="", ecolor=colour, elinewidth=1)
    ax.set(xscale="log", xlim=ends, ylim=(-0.03, 1.03), title="entropy share")
    ax.set_xlabel("spread of the scaled scores within rows")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    if are_named:
        ax.legend(loc="lower left", fontsize=9)


def _are_sharper(heads: pd.DataFrame) -> bool:
    """True if intervals put over a quarter of the heads below Gaussian rows by 0.05, and at most a
    twentieth above.
    """
    away = heads["entropy_share"] - heads.get("entropy_share_exact", np.nan)
    t = stats.t.isf(0.025, np.maximum(heads["sequences"] - 1, 1))
    reach = t * heads.get("entropy_share_se", np.nan)
    upper = away + reach
    below = upper < -CLOSE
    above = upper > CLOSE
    return bool(below.mean() > 0.25 and above.mean() <= 0.05)


def _plot_map(ax: Axes, heads: pd.DataFrame, metric: str, **look: object) -> Colorbar:
    """A metric of all heads as colours with their scale, and as numbers if there is room; columns
    are the last axis.
    """
    *outer, last = indices(heads)
    values = heads.assign(**{" ": ""}).pivot_table(
        index=outer or " ", columns=last, values=metric, dropna=False
    )
    height, width = values.shape
    most_rows, most_columns = _MOST_NUMBERS
    has_room = height <= most_rows and width <= most_columns
    every = max(1, width // most_columns)
    write = "{:.2f}".format if has_room else None
    image = plot_plane(ax, values, every, write, **look)
    ax.set_ylabel(", ".join(outer))
    return ax.figure.colorbar(image, ax=ax)
