"""Each head of the shipped diagnosis beside Gaussian rows, and maps of all heads."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from scipy import stats
from seaborn import color_palette

from experiments.declarations.figure import Finding
from experiments.declarations.tables import Numbers, Tables
from experiments.figures.lines import MARKERS
from experiments.figures.maps import plot_plane
from experiments.figures.style import DIVERGING, INK, SEQUENTIAL, Drawing
from sdpa.heads.table import Curve, gaussian_curves

_FEW_LAYERS = 6  # with a name in the legend
CLOSE = 0.05  # entropy shares that differ by less are called equal
_RATIOS = (1 / 16, 1 / 4, 1, 4, 16)  # ticks of the colours of variance ratios


def _sharper(tables: Tables) -> Numbers:
    """None unless intervals put over a quarter of the heads below Gaussian rows by 0.05, and at
    most a twentieth above.
    """
    heads = tables["diagnosis"]
    away = heads["entropy_share"] - heads["entropy_share_exact"]
    upper = away + _reach(heads, "entropy_share")
    below = upper < -CLOSE
    above = upper > CLOSE
    holds = below.mean() > 0.25 and above.mean() <= 0.05
    return {"heads": len(heads), "n_keys": heads["n_keys"].iloc[0]} if holds else None


FINDING = Finding(
    title="Many heads are sharper than Gaussian rows of their spread, few flatter",
    sentence="Points: {heads} heads; bars: 95% intervals. Pale: exact, for Gaussian rows of "
    "n_keys = {n_keys}.",
    numbers=_sharper,
)


def draw_diagnosis(tables: Tables) -> Drawing:
    """Left, heads as points over the exact curve; right, maps of the largest weight and of the
    variance ratio.
    """
    heads = tables["diagnosis"]
    (curve,) = gaussian_curves({str(name): values.to_numpy() for name, values in heads.items()})
    figure = Figure(figsize=(10.5, 5.2), layout="constrained")
    mosaic = [["points", "max_weight"], ["points", "ratio"]]
    panels = figure.subplot_mosaic(mosaic, width_ratios=(1, 1.3))
    _plot_map(panels["max_weight"], heads, "max_weight", cmap=SEQUENTIAL, vmin=0, vmax=1)
    panels["max_weight"].set_title("mean largest weight")
    norm = LogNorm(_RATIOS[0], _RATIOS[-1], clip=True)
    bar = _plot_map(panels["ratio"], heads, "variance_ratio", cmap=DIVERGING, norm=norm)
    bar.set_ticks(_RATIOS, labels=map("{:g}".format, _RATIOS))
    panels["ratio"].set_title("variance within rows over that of independent entries")
    plot_heads(panels["points"], heads, curve, has_bars=True)
    return figure


def plot_heads(
    ax: Axes, heads: pd.DataFrame, curve: Curve, size: float = 30, has_bars: bool = False
) -> None:
    """The entropy share of each head against the spread of its scores, over the exact curve."""
    look = {"color": INK, "alpha": 0.3, "linewidth": 5, "label": "exact, for Gaussian rows"}
    ax.plot(curve.spread, curve.entropy_share, **look)
    ends = curve.spread[0], curve.spread[-1]
    # A spread below the axis stands at its end.
    spread = np.sqrt(heads["row_variance"])
    layers = heads.assign(spread=np.maximum(spread, ends[0])).groupby("layer")
    are_named = len(layers) <= _FEW_LAYERS
    markers = MARKERS if are_named else itertools.repeat("o")
    colours = color_palette("viridis", len(layers))
    for (name, layer), colour, marker in zip(layers, colours, markers, strict=False):
        x = layer["spread"]
        y = layer["entropy_share"]
        label = f"layer {name}" if are_named else None
        look = {"marker": marker, "edgecolors": "white", "zorder": 3, "label": label}
        ax.scatter(x, y, size, color=colour, **look)
        if has_bars:
            reach = _reach(layer, "row_variance") / (2 * x)
            xerr = np.minimum(reach, 0.9 * x)
            yerr = _reach(layer, "entropy_share")
            ax.errorbar(x, y, yerr, xerr, linestyle="", ecolor=colour, elinewidth=1)
    ax.set(xscale="log", xlim=ends, ylim=(-0.03, 1.03), title="entropy share")
    ax.set_xlabel("spread of the scaled scores within rows")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    if are_named:
        ax.legend(loc="lower left", fontsize=9)


def _reach(heads: pd.DataFrame, name: str) -> "pd.Series[float]":
    """Half the width of the 95% interval of a mean over sequences."""
    return heads[f"{name}_se"] * stats.t.isf(0.025, heads["sequences"] - 1)


def _plot_map(ax: Axes, heads: pd.DataFrame, metric: str, **look: Any) -> Colorbar:
    """A metric of all heads as numbers on colours, with their scale: layers above each other."""
    values = heads.pivot_table(index="layer", columns="head", values=metric)
    image = plot_plane(ax, values, write="{:.2f}".format, **look)
    ax.set_ylabel("layer")
    return ax.figure.colorbar(image, ax=ax)
