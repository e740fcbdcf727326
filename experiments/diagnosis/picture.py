"""Each head of a diagnosis beside Gaussian rows, and maps of all heads."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from scipy import stats
from seaborn import color_palette

from experiments.diagnosis.table import indices
from experiments.figures.figure import Drawing
from experiments.figures.lines import MARKERS
from experiments.figures.maps import plot_plane
from experiments.figures.rendering import render
from experiments.figures.style import DIVERGING, INK, SEQUENTIAL

_FEW_LAYERS = 6  # with a name in the legend
CLOSE = 0.05  # entropy shares that differ by less are called equal
_MOST_BARS = 200  # heads with intervals
_MOST_NUMBERS = (8, 12)  # rows and columns of a map with numbers in its cells
_RATIOS = (1 / 16, 1 / 4, 1, 4, 16)  # ticks of the colours of variance ratios


def render_heads(heads: pd.DataFrame, curves: pd.DataFrame) -> dict[str, bytes]:
    """The files of the figure of a diagnosis, by suffix: its table of heads over the exact curves
    of its sizes.
    """
    title = "Many heads are sharper than Gaussian rows of their spread, few flatter"
    if not _are_sharper(heads):
        variance = "entropy share, largest weight and variance within rows"
        parts = variance if "variance_ratio" in heads else "entropy share and largest weight"
        title = f"Heads beside Gaussian rows: {parts}"
    bars = "; bars: 95% intervals" if _has_bars(heads) else ""
    masks = heads["mask"][heads["mask"] != "none"].unique()
    mask = f" under a {' and a '.join(masks)} mask" if len(masks) else ""
    sizes = ", ".join(map(str, curves["n_keys"].unique()))
    plain = "" if "entropy_share_exact" in heads else ", without a cap or a sink"
    caption = (
        f"Points: {len(heads)} heads{bars}. Pale: exact, for Gaussian rows of n_keys = "
        f"{sizes}{mask}{plain}."
    )
    return render(lambda: draw_heads(heads, curves), title, caption)


def draw_heads(heads: pd.DataFrame, curves: pd.DataFrame) -> Drawing:
    """Left, heads as points over exact curves; right, maps of the largest weight and of the
    variance ratio.

    A single head has no maps.
    """
    is_single = len(heads) == 1
    figure = Figure(figsize=(6.5, 4.4) if is_single else (10.5, 5.2), layout="constrained")
    if is_single:
        panels = figure.subplot_mosaic([["points"]])
    else:
        maps = ["max_weight", "ratio"] if "variance_ratio" in heads else ["max_weight"]
        panels = figure.subplot_mosaic([["points", name] for name in maps], width_ratios=(1, 1.3))
        _plot_map(panels["max_weight"], heads, "max_weight", cmap=SEQUENTIAL, vmin=0, vmax=1)
        panels["max_weight"].set_title("mean largest weight")
    if "ratio" in panels:
        colours = {"cmap": DIVERGING, "norm": LogNorm(_RATIOS[0], _RATIOS[-1], clip=True)}
        bar = _plot_map(panels["ratio"], heads, "variance_ratio", **colours)
        bar.set_ticks(_RATIOS, labels=map("{:g}".format, _RATIOS))
        panels["ratio"].set_title("variance within rows over that of independent entries")
    plot_heads(panels["points"], heads, curves, has_bars=_has_bars(heads))
    return figure


def plot_heads(
    ax: Axes, heads: pd.DataFrame, curves: pd.DataFrame, size: float = 30, has_bars: bool = False
) -> None:
    """The entropy share of each head against the spread of its scores, over the exact curves."""
    for i, (_, curve) in enumerate(curves.groupby("n_keys")):
        label = None if i else "exact, for Gaussian rows"
        ax.plot(
            curve["spread"], curve["entropy_share"], color=INK, alpha=0.3, linewidth=5, label=label
        )
    # A logarithmic axis has no place for the spread 0 of equal scores.
    heads = heads.assign(spread=np.maximum(np.sqrt(heads["row_variance"]), curves["spread"].min()))
    outer = indices(heads)[:-1][:1]
    layers = list(heads.groupby(outer)) if outer else [("", heads)]
    for i, ((name, layer), colour) in enumerate(
        zip(layers, color_palette("viridis", len(layers)), strict=True)
    ):
        label = f"{outer[0]} {name[0]}" if 1 < len(layers) <= _FEW_LAYERS else None
        marker = MARKERS[i] if len(layers) <= _FEW_LAYERS else "o"
        look = {
            "color": colour,
            "marker": marker,
            "edgecolors": "white",
            "zorder": 3,
            "label": label,
        }
        ax.scatter(layer["spread"], layer["entropy_share"], size, **look)
        if has_bars:
            t = stats.t.isf(0.025, np.maximum(layer["sequences"] - 1, 1))
            reach = np.minimum(
                t * layer["row_variance_se"] / (2 * layer["spread"]), 0.9 * layer["spread"]
            )
            error = {"xerr": reach.fillna(0), "yerr": (t * layer["entropy_share_se"]).fillna(0)}
            ax.errorbar(
                layer["spread"],
                layer["entropy_share"],
                **error,
                linestyle="",
                ecolor=colour,
                elinewidth=1,
            )
    ax.set(
        xscale="log",
        ylim=(-0.03, 1.03),
        xlabel="spread of the scaled scores within rows",
        title="entropy share",
    )
    ax.set_xlim(curves["spread"].min(), curves["spread"].max())
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    if 1 < len(layers) <= _FEW_LAYERS:
        ax.legend(loc="lower left", fontsize=9)


def _are_sharper(heads: pd.DataFrame) -> bool:
    """True if intervals put over a quarter of the heads below Gaussian rows by 0.05, and at most a
    twentieth above.
    """
    away = heads["entropy_share"] - heads.get("entropy_share_exact", np.nan)
    reach = stats.t.isf(0.025, np.maximum(heads["sequences"] - 1, 1)) * heads.get(
        "entropy_share_se", np.nan
    )
    return bool((away + reach < -CLOSE).mean() > 0.25 and (away + reach > CLOSE).mean() <= 0.05)


def _has_bars(heads: pd.DataFrame) -> bool:
    """True if heads have standard errors, and are so few that their intervals can be told apart."""
    return len(heads) <= _MOST_BARS and bool((heads["sequences"] > 1).any())


def _plot_map(ax: Axes, heads: pd.DataFrame, metric: str, **look: Any) -> Any:
    """A metric of all heads as colours with their scale, and as numbers if there is room; columns
    are the last axis.
    """
    *outer, last = indices(heads)
    values = heads.assign(**{" ": ""}).pivot_table(
        index=outer or " ", columns=last, values=metric, dropna=False
    )
    has_room = all(size <= most for size, most in zip(values.shape, _MOST_NUMBERS, strict=True))
    every = max(1, values.shape[1] // _MOST_NUMBERS[1])
    image = plot_plane(ax, values, every, "{:.2f}".format if has_room else None, **look)
    ax.set_ylabel(", ".join(outer))
    return ax.figure.colorbar(image, ax=ax)
