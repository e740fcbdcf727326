"""Freezing of the softmax over d_k and n_keys.

A row of n independent normal scores of deviation sigma freezes, as n grows, at sigma_c = sqrt(2 ln n): below it the
entropy is the share 1 - (sigma / sigma_c)^2 of ln n, and above it the share is 0 (the random energy model, see
`sdpa.theory.limits`). An unscaled row has sigma near sqrt(d_k), and so freezes near d_k = 2 ln n. The table `curves`
of `experiments.analysis.freezing` has the exact curves for each n and their limit.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import by_scaling, first_combination, fixed, plain, span, under
from experiments.figures.caption_text import course, exactness, listed
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, note, ordered_colours, panels, sequential

_MAPS = 2
_LIGHT_FROM = 0.55  # beyond this share of the way to the darkest colour, letters are white
_LARGEST_MAP = 14  # most rows or columns of a map with numbers in its cells


def plot(tables: Tables) -> Drawing:
    """Above, maps of the first two scalings; below, entropy and collision against the spread of the scaled scores."""
    table, _ = _shares(tables)
    figure, [maps, curves] = panels(2, _MAPS, (10, 8.6))
    groups = list(by_scaling(table, "d_k").items())
    for ax, (scaling, rows) in zip(maps, groups, strict=False):
        _plot_map(ax, rows, with_freezing="curves" in tables)
        ax.set_title(f"entropy / ln n_keys, {under(scaling)}")
    for ax in maps[len(groups) :]:
        ax.set_visible(False)
    for ax, metric, title in zip(
        curves, ("entropy_share", "collision"), ("entropy / ln n_keys", "$\\sum w^2$"), strict=True
    ):
        _plot_collapse(ax, tables, metric)
        ax.set_title(f"{title}, measured and exact")
    if "curves" in tables:
        curves[0].legend(fontsize=8.5, loc="lower left")
    note(
        figure,
        f"{fixed(table, 'd_k', 'n_keys')} Maps: darker means more. Colour and number give the exact value, if known; "
        "the dot in each cell has the colour of the measured value. The dashed line marks d_k = 2 ln n_keys, where an "
        "unscaled row freezes: its weights begin to gather on a few keys. Below: measured points, exact curves for "
        "rows of one spread σ, and dashed their limit for many keys. σ = |q| / divisor is the spread of the scaled "
        "scores of a row, for points with the root mean square of |q|; rows of many keys freeze at σ_c = sqrt(2 ln "
        "n_keys). Points at small d_k lie off the curves, because |q| varies a lot there.",
    )
    return figure


def _shares(tables: Tables) -> tuple[pd.DataFrame, str]:
    """The first combination of the axes that a map does not show, with the entropy as a share of ln n_keys.

    Returns:
        The rows with the columns `entropy_share`, its `_se` and its `_exact`, and `share_shown`, exact if known; and
        the combination in words.
    """
    table, where = first_combination(tables["measured"], "d_k", "n_keys")
    largest = np.log(table["n_keys"])
    known = table["entropy_exact"].fillna(table["entropy"])
    shares = {f"entropy_share{end}": table[f"entropy{end}"] / largest for end in ("", "_se", "_exact")}
    return table.assign(**shares, share_shown=known / largest), where


def _plot_map(ax: Axes, rows: pd.DataFrame, *, with_freezing: bool) -> None:
    """A map of one scaling: exact shares as colours and numbers, measured ones as dots, and the line of freezing."""
    shown = rows.pivot_table(index="n_keys", columns="d_k", values="share_shown")
    measured = rows.pivot_table(index="n_keys", columns="d_k", values="entropy_share").to_numpy()
    colours: dict[str, Any] = {"cmap": sequential(), "vmin": 0, "vmax": 1}
    ax.imshow(shown, origin="lower", aspect="auto", **colours)
    for (row, column), share in np.ndenumerate(shown.to_numpy()):
        ink = "white" if share > _LIGHT_FROM else INK
        if max(shown.shape) <= _LARGEST_MAP:
            ax.annotate(f"{share:.2f}", (column, row + 0.14), ha="center", va="center", fontsize=7, color=ink)
        ax.scatter(column, row - 0.25, c=[measured[row, column]], s=12, edgecolors=ink, linewidths=0.3, **colours)
    d_k, n_keys = shown.columns.to_numpy(), shown.index.to_numpy()
    ax.set_xticks(range(len(d_k)), map(plain, d_k), fontsize=8.5)
    ax.set_yticks(range(len(n_keys)), map(plain, n_keys))
    ax.set_xlabel("d_k")
    ax.set_ylabel("n_keys")
    if with_freezing:
        _plot_freezing(ax, rows, d_k, n_keys)


def _plot_freezing(ax: Axes, rows: pd.DataFrame, d_k: Any, n_keys: Any) -> None:
    """The line query_std key_std d_k^(1/2 - p) = sqrt(2 ln n_keys), which is d_k = 2 ln n_keys for p = 0."""
    exponent, spread = rows["exponent"].iloc[0], rows["query_std"].iloc[0] * rows["key_std"].iloc[0]
    if not exponent < 1 / 2 or min(len(d_k), len(n_keys)) < 2:  # NaN for a rule other than a power of d_k
        return
    at = np.geomspace(n_keys[0], n_keys[-1], 50)
    freezing = (2 * np.log(at) / spread**2) ** (1 / (1 - 2 * exponent))
    inside = (freezing >= d_k[0]) & (freezing <= d_k[-1])
    x = np.interp(np.log(freezing), np.log(d_k), range(len(d_k)))
    y = np.interp(np.log(at), np.log(n_keys), range(len(n_keys)))
    ax.plot(x[inside], y[inside], color=INK, alpha=0.4, linestyle="--", linewidth=1.5, zorder=1.5)


def _plot_collapse(ax: Axes, tables: Tables, metric: str) -> None:
    """Exact curves, one for each n_keys, and the measured rows.

    Args:
        ax: the axes to draw in; x is sigma / sigma_c.
        tables: `measured`, and `curves` if the sweep is a map of both axes.
        metric: `entropy_share` or `collision`, the sum of squared weights.
    """
    ax.set_xscale("log")
    ax.set_xlabel("$\\sigma / \\sigma_c$")
    ax.axvline(1, color=INK, linewidth=0.8, linestyle=":")
    if "curves" not in tables:
        return
    curves = tables["curves"]
    groups = curves.groupby("n_keys")
    for (n_keys, curve), colour in zip(groups, ordered_colours(len(groups)), strict=True):
        ax.plot(curve["ratio"], curve[metric], color=colour, linewidth=1.2, label=f"n_keys = {n_keys}")
        ratio, values = _points(tables["measured"], n_keys, metric)
        ratio = ratio / curve["freezing_sigma"].iloc[0]
        ax.scatter(ratio, values, color=colour, s=9, linewidths=0)
    ax.set_xlim(curves["ratio"].min(), curves["ratio"].max())
    limit = curves.drop_duplicates("ratio")
    ax.plot(limit["ratio"], limit[f"{metric}_limit"], color=INK, linestyle="--", label="many keys")


def _points(table: pd.DataFrame, n_keys: int, metric: str) -> tuple[pd.Series, pd.Series]:
    """The spread sigma of the measured rows with n_keys keys, and their entropy share or collision."""
    rows = table[table["n_keys"] == n_keys]
    sigma = rows["query_std"] * rows["key_std"] * np.sqrt(rows["d_k"]) / rows["divisor"]
    return sigma, rows["entropy"] / np.log(n_keys) if metric == "entropy_share" else 1 - rows["jacobian_trace"]


def caption(tables: Tables) -> str:
    """The course of the entropy of the longest rows along d_k, under each scaling."""
    table, where = _shares(tables)
    n_keys = table["n_keys"].max()
    longest = table[table["n_keys"] == n_keys]
    clauses = [
        f"{course(rows, 'd_k', 'entropy_share')} {under(name)}" for name, rows in by_scaling(longest, "d_k").items()
    ]
    what = f"the mean entropy of rows of {n_keys} keys{where}, divided by ln {n_keys},"
    return f"{span(longest, 'd_k')}, {what} {listed(clauses)}{exactness(longest, 'entropy')}."


FIGURE = Figure(
    title="Where the softmax freezes onto a few keys: entropy over d_k and n_keys, and against the spread of scores",
    of="saturation",
    tables=("measured", "curves"),
    metrics=("entropy", "jacobian_trace"),
    corrects=("textbook-28",),
    plot=plot,
    caption=caption,
)
