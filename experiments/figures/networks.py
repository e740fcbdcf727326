"""Pictures of networks, layer by layer."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from experiments.analysis.results import Results
from experiments.figures.lines import legend
from experiments.figures.style import Drawing, draws, panels, scaling_colours
from experiments.figures.words import under, values_of

_MOST_CASES = 9  # with a panel each


@draws("growth")
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


@draws("propagation")
def propagation(results: Results) -> Drawing:
    """The cosine of two tokens before each layer: a panel for each case, a colour for each rule."""
    table = results["by_layer"]
    cases = list(table.groupby(results.axes.among(table), sort=False))[:_MOST_CASES]
    colours = scaling_colours(table["scaling"])
    columns = min(3, len(cases))
    size = max(3.8 * columns, 6.0), 3.8 * -(-len(cases) // columns)
    figure, axes = panels(len(cases), columns, size, sharey=True)
    for ax, (_, rows) in zip(axes, cases, strict=True):
        for rule, layers in rows.groupby("scaling", sort=False):
            look = {"color": colours[rule], "label": under(str(rule))}
            ax.plot(layers["layer"], layers["cosine_law"], **look)
            _points(ax, layers["layer"], layers["cosine"], layers["cosine_se"], look)
        ax.set_title(values_of(rows.iloc[0], results.axes.varied(table, "layers")))
        ax.set_ylim(-0.03, 1.03)
        _along_layers(ax)
    axes[0].set_ylabel("cosine of two tokens")
    legend(axes[0])
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
