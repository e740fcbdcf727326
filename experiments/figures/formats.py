"""Weights and gradients that a number format rounds to 0, over d_k and n_keys."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import by_scaling, first_combination, fixed, plain, under
from experiments.figures.caption_text import listed, measured
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, note, panels, sequential
from experiments.harness.figures import Default

_RULES = 2
_LIGHT_FROM = 0.55  # beyond this share of the way to the darkest colour, letters are white
_LARGEST_MAP = 10  # most rows or columns of a map with numbers in its cells


def plot(tables: Tables) -> Drawing:
    """A map for each format, in a row of maps for each of the first two rules."""
    table, _ = first_combination(tables["measured"], "d_k", "n_keys", "arithmetic")
    groups = list(by_scaling(table, "d_k").items())[:_RULES]
    formats = table["arithmetic"].unique()
    figure, grid = panels(len(groups), len(formats), (1 + 3 * len(formats), 0.6 + 2.6 * len(groups)))
    for axes, (scaling, rows) in zip(grid, groups, strict=True):
        for ax, name in zip(axes, formats, strict=True):
            _plot_map(ax, rows[rows["arithmetic"] == name])
            ax.set_title(f"{name}, {under(scaling)}")
    note(
        figure,
        f"{fixed(table, 'd_k', 'n_keys', 'arithmetic')} Maps: colour and upper number give the share of weights that "
        "are 0; the lower number, where it is not 0, gives the share of queries whose gradient is 0. Queries, keys, "
        "scores, weights and gradients are rounded to the format, sums and exponentials to single precision.",
    )
    return figure


def _plot_map(ax: Axes, rows: pd.DataFrame) -> None:
    """The share of zero weights as colours and numbers, and that of queries without a gradient as numbers."""
    weights = rows.pivot_table(index="n_keys", columns="d_k", values="zero_weights")
    gradients = rows.pivot_table(index="n_keys", columns="d_k", values="zero_gradient_rows").to_numpy()
    ax.imshow(weights, origin="lower", aspect="auto", cmap=sequential(), vmin=0, vmax=1)
    if max(weights.shape) <= _LARGEST_MAP:
        for place, share in np.ndenumerate(weights.to_numpy()):
            look: dict[str, Any] = {"ha": "center", "fontsize": 7, "color": "white" if share > _LIGHT_FROM else INK}
            at = place[1], place[0]
            ax.annotate(_percent(share), at, va="bottom" if gradients[place] else "center", **look)
            if gradients[place]:
                ax.annotate(_percent(gradients[place]), at, va="top", **look)
    ax.set_xticks(range(weights.shape[1]), map(plain, weights.columns), fontsize=8.5)
    ax.set_yticks(range(weights.shape[0]), map(plain, weights.index))
    ax.set_xlabel("d_k")
    ax.set_ylabel("n_keys")


def _percent(share: float) -> str:
    """A share in whole per cent, with a sign for those that round to 0 or 100 per cent.

    >>> _percent(0.0), _percent(1e-5), _percent(0.42), _percent(0.9999)
    ('0', '<1%', '42%', '>99%')
    """
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 < share < 1:
        return ">99%"
    return f"{share:.0%}" if share else "0"


def caption(tables: Tables) -> str:
    """The shares of zero weights and of queries without a gradient at the largest sizes, by rule and format."""
    table, where = first_combination(tables["measured"], "d_k", "n_keys", "arithmetic")
    d_k, n_keys = table["d_k"].max(), table["n_keys"].max()
    corner = table[(table["d_k"] == d_k) & (table["n_keys"] == n_keys)]
    clauses = []
    for scaling, rows in list(by_scaling(corner, "d_k").items())[:_RULES]:
        shares = [
            f"{row['arithmetic']} {measured(row, 'zero_weights')} and {measured(row, 'zero_gradient_rows')}"
            for _, row in rows.iterrows()
        ]
        clauses.append(f"{under(scaling)} {listed(shares)}")
    return (
        f"Shares of weights that are 0 and of queries without a gradient, at d_k = {d_k} with {n_keys} keys{where}: "
        f"{'; '.join(clauses)}."
    )


FIGURE = Figure(
    title="What number formats round to zero",
    of="rounding",
    tables=("measured",),
    metrics=("zero_weights", "zero_gradient_rows"),
    default=Default(),
    plot=plot,
    caption=caption,
)
