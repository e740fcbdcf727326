"""The picture of a diagnosis: heads over the exact curves of Gaussian rows, by Matplotlib."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sdpa.heads.table import Columns, gaussian_curves, indices

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ValueError(
        "--plot: expected Matplotlib, which pip install matplotlib installs"
    ) from error

_INCHES = 7.0, 4.6


def draw_heads(table: Columns, path: Path) -> None:
    """Draw the entropy share of each head over its spread, coloured by the first axis, into a file
    of any type that Matplotlib knows.
    """
    figure = Figure(figsize=_INCHES, layout="constrained")
    ax = figure.subplots()
    curves = gaussian_curves(table)
    for curve in curves:
        label = f"exact, for Gaussian rows of {curve.n_keys} keys"
        ax.plot(curve.spread, curve.entropy_share, color="0.8", linewidth=5, label=label)
    # A logarithmic axis has no place for the spread 0 of equal scores.
    spread = np.maximum(np.sqrt(table["row_variance"]), curves[0].spread[0])
    outer = indices(table)[:1]
    colours = table[outer[0]] if outer else np.zeros(len(spread))
    points = ax.scatter(spread, table["entropy_share"], 30, c=colours, edgecolors="white", zorder=3)
    if len(set(colours)) > 1:
        figure.colorbar(points, label=outer[0])
    ax.set(xscale="log", ylim=(-0.03, 1.03), ylabel="entropy over ln of the number of keys")
    ax.set_xlabel("standard deviation of the scaled scores within rows")
    ax.legend(loc="lower left")
    figure.savefig(path, dpi=150)
