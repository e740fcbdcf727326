"""Freezing of softmax rows as their scores spread out.

A row of n independent normal scores of deviation sigma freezes, as n grows, at sigma_c = sqrt(2 ln n): below it the
entropy is the share 1 - (sigma / sigma_c)^2 of ln n, and above it the share is 0 (the random energy model, see
`sdpa.theory.limits`). The table `curves` of `experiments.analysis.freezing` has the exact curves for each n and their
limit.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import fixed, plain
from experiments.figures.caption_text import exactness, number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.metric_lines import plain_numbers
from experiments.figures.style import INK, note, ordered_colours, panels
from experiments.harness.wording import counted

_TITLES = {"entropy_share": "entropy / ln n_keys", "collision": "$\\sum w^2$, the sum of squared weights"}
_NOTHING = "No curves: they need Gaussian inputs, and three values of d_k and of n_keys."


def plot(tables: Tables) -> Drawing:
    """Entropy and collision against the spread of the scaled scores; without curves, the reason."""
    figure, [axes] = panels(1, len(_TITLES), (10, 4.4))
    if "curves" not in tables:
        for ax in axes:
            ax.set_axis_off()
        axes[0].text(0, 0.5, _NOTHING, transform=axes[0].transAxes)
        return figure
    for ax, (metric, title_of_panel) in zip(axes, _TITLES.items(), strict=True):
        _plot_collapse(ax, tables["measured"], tables["curves"], metric)
        ax.set_title(title_of_panel)
    axes[0].legend(fontsize=8.5, loc="lower left")
    note(
        figure,
        f"{fixed(tables['measured'], 'd_k', 'n_keys')} Points: measured, each a cell of the sweep under one rule. "
        "Lines: exact for Gaussian rows of one spread σ; dashed: their limit for many keys. Rows of many keys freeze, "
        "so that few keys get all weight, where σ exceeds σ_c = sqrt(2 ln n_keys). σ = |q| / divisor is the spread of "
        "the scaled scores of a row, for points with the root mean square of |q|. Points at small d_k lie off the "
        "lines, because |q| varies a lot there.",
    )
    return figure


def _plot_collapse(ax: Axes, table: pd.DataFrame, curves: pd.DataFrame, metric: str) -> None:
    """Exact curves, one for each n_keys, and the measured rows.

    Args:
        ax: the axes to draw in; x is sigma / sigma_c.
        table: the measured table.
        curves: the exact ones, with their limit.
        metric: `entropy_share` or `collision`, the sum of squared weights.
    """
    ax.set_xscale("log")
    ax.set_xlabel("$\\sigma / \\sigma_c$")
    ax.axvline(1, color=INK, linewidth=0.8, linestyle=":")
    groups = curves.groupby("n_keys")
    for (n_keys, curve), colour in zip(groups, ordered_colours(len(groups)), strict=True):
        ax.plot(curve["ratio"], curve[metric], color=colour, linewidth=1.2, label=f"n_keys = {n_keys}")
        ratio, values = _points(table, n_keys, metric)
        ratio = ratio / curve["freezing_sigma"].iloc[0]
        ax.scatter(ratio, values, color=colour, s=22, edgecolors="white", linewidths=0.5, zorder=3)
    ax.set_xlim(curves["ratio"].min(), 1.1 * curves["ratio"].max())
    plain_numbers(ax.xaxis)
    limit = curves.drop_duplicates("ratio")
    ax.plot(limit["ratio"], limit[f"{metric}_limit"], color=INK, linestyle="--", label="many keys")


def _points(table: pd.DataFrame, n_keys: int, metric: str) -> tuple[pd.Series, pd.Series]:
    """The spread sigma of the measured rows with n_keys keys, and their entropy share or collision."""
    rows = table[table["n_keys"] == n_keys]
    sigma = rows["query_std"] * rows["key_std"] * np.sqrt(rows["d_k"]) / rows["divisor"]
    return sigma, rows["entropy"] / np.log(n_keys) if metric == "entropy_share" else 1 - rows["jacobian_trace"]


def caption(tables: Tables) -> str:
    """The largest distance of the entropy share from its limit, for the shortest and the longest rows."""
    if "curves" not in tables:
        return f"The entropy is not compared with theory. {_NOTHING}"
    far = _farthest(tables["curves"])
    ends = [f"{number(far[n_keys], 0.001)} with {plain(n_keys)} keys" for n_keys in (far.index[0], far.index[-1])]
    return (
        f"The exact entropy of a row, divided by ln n_keys, lies at most {' and '.join(ends)} above its limit for many "
        f"keys. Points: the entropies of {_cells(tables['measured'])}{exactness(tables['measured'], 'entropy')}."
    )


def _cells(table: pd.DataFrame) -> str:
    """The numbers of cells and rules of a table in words."""
    rules = len(table["scaling"].unique())
    return f"{counted(len(table) // rules, 'cell')} under {counted(rules, 'rule')}"


def title(tables: Tables) -> str:
    """The approach of the curves to their limit with growing n_keys."""
    if "curves" not in tables:
        return "No curves of entropy against the spread of scores"
    sharper = (np.diff(_farthest(tables["curves"])) < 0).all()
    return "The longer the rows, the more sharply they freeze" if sharper else ""


def _farthest(curves: pd.DataFrame) -> pd.Series:
    """The largest distance of the entropy share from its limit, by n_keys in order."""
    return (curves["entropy_share"] - curves["entropy_share_limit"]).abs().groupby(curves["n_keys"]).max()


FIGURE = Figure(
    shows="Entropy and sum of squared weights against the spread of scores",
    of="saturation",
    tables=("measured", "curves"),
    metrics=("entropy", "jacobian_trace"),
    plot=plot,
    caption=caption,
    title=title,
)
