"""Pictures of networks, layer by layer."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from experiments.analysis.results import Results
from experiments.figures.lines import case_panels, legend
from experiments.figures.style import Drawing, panels, scaling_colours
from experiments.figures.words import under, values_of


def growth(results: Results) -> Drawing:
    """Left: the gradient to the stream over that above the last layer. Right: the cosine of tokens."""
    table = results["by_layer"]
    table = table[table["layers"] == table["layers"].max()]
    table = results.axes.first_combination(table, "layers")
    colours = scaling_colours(table["scaling"])
    figure, [left, right] = panels(2, 2, (10, 4.4))
    for rule, rows in table.groupby("scaling", sort=False):
        look = {"color": colours[rule], "label": under(str(rule))}
        roots = np.sqrt(rows["stream_gradient"])
        # The standard error of a root is that of its square over twice the root.
        _points(left, rows["layer"], roots, rows["stream_gradient_se"] / (2 * roots), look)
        left.plot(rows["layer"], np.sqrt(rows["stream_gradient_law"]), **look)
        _points(right, rows["layer"], rows["cosine"], rows["cosine_se"], look)
        right.plot(rows["layer"], rows["cosine_law"], **look)
    left.set_yscale("log")
    left.set_title("gradient to the stream, over that above the last layer")
    right.set_title("cosine of two tokens")
    right.set_ylim(-0.03, 1.03)
    for ax in (left, right):
        _along_layers(ax)
    legend(left)
    return figure


def propagation(results: Results) -> Drawing:
    """The cosine of two tokens before each layer: a panel for each case, a colour for each rule."""
    table = results["by_layer"]
    colours = scaling_colours(table["scaling"])
    figure, cases = case_panels(table, results.axes.among(table), 3.8)
    for ax, rows in cases:
        for rule, layers in rows.groupby("scaling", sort=False):
            look = {"color": colours[rule], "label": under(str(rule))}
            ax.plot(layers["layer"], layers["cosine_law"], **look)
            _points(ax, layers["layer"], layers["cosine"], layers["cosine_se"], look)
        ax.set_title(values_of(rows.iloc[0], results.axes.varied(table, "layers")))
        ax.set_ylim(-0.03, 1.03)
        _along_layers(ax)
    first, _ = cases[0]
    first.set_ylabel("cosine of two tokens")
    legend(first)
    return figure


def _along_layers(ax: Axes) -> None:
    """Layers from left to right, with ticks at whole numbers."""
    ax.set_xlabel("layer")
    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))


def _points(
    ax: Axes,
    layer: "pd.Series[int]",
    value: "pd.Series[float]",
    error: "pd.Series[float]",
    look: dict[str, str],
) -> None:
    """At most about 24 points with two standard errors."""
    shown = np.unique(np.linspace(0, len(layer) - 1, 24).round().astype(int))
    at = [each.to_numpy()[shown] for each in (layer, value, 2 * error)]
    ax.errorbar(*at, fmt="o", color=look["color"], markersize=4, capsize=2)
