"""Entropy of softmax rows over d_k and n_keys, as a share of its maximum ln n_keys.

A row freezes where its weights begin to gather on a few keys: an unscaled row near d_k = 2 ln n_keys, because its
scores have a deviation near sqrt(d_k) and rows of many keys freeze at the deviation sqrt(2 ln n_keys) (the random
energy model, see `sdpa.theory.limits`). The figure `freezing` shows the same rows against this deviation.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import by_scaling, first_combination, fixed, plain, span, under
from experiments.figures.caption_text import course, exactly, exactness, listed
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import keeps
from experiments.figures.style import INK, note, panels, sequential
from experiments.figures.title_text import fitting, has_own_name, opening, parts, shared, titled
from experiments.harness.discovery import axes_of, unusual_axes

_COLUMNS, _MAX_MAPS, _MAX_TICKS = 2, 4, 12
_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
_LABEL_HEIGHT = 0.8  # share of a contour below its label
_LIGHT_FROM = 0.55  # beyond this share, contours are white on the darker colours
_FEW_KEYS, _MANY_KEYS = 0.1, 0.5  # rows with a smaller entropy share attend to few keys, with a larger one to many
_ERRORS = 3  # standard errors that chance rarely exceeds


def plot(tables: Tables) -> Drawing:
    """A map for each of the first four scalings, with contours."""
    table, _ = _shares(tables)
    groups = list(by_scaling(table, "d_k").items())[:_MAX_MAPS]
    columns = min(len(groups), _COLUMNS)
    rows = -(-len(groups) // columns)
    figure, grid = panels(rows, columns, (10, 0.8 + 2.9 * rows), sharex=True, sharey=True)
    axes = [ax for line in grid for ax in line]
    image: Any = None
    for ax, (scaling, cells) in zip(axes, groups, strict=False):
        image = _plot_map(ax, cells)
        ax.set_title(under(scaling))
    for ax in axes[len(groups) :]:
        ax.set_visible(False)
    figure.colorbar(image, ax=axes, label="entropy / ln n_keys", fraction=0.03, pad=0.01, aspect=30)
    line = " The dashed line marks where rows of many keys freeze: σ = sqrt(2 ln n_keys), which is d_k = 2 ln n_keys "
    line += "for unscaled rows; σ is the standard deviation of their scores."
    note(
        figure,
        f"{fixed(table, 'd_k', 'n_keys')} Colour: measured. "
        f"Contours: exact values, or measured ones if these are unknown.{line * _has_line(table)}",
    )
    return figure


def _shares(tables: Tables) -> tuple[pd.DataFrame, str]:
    """The first combination of the axes that a map does not show, with the entropy as a share of ln n_keys.

    Returns:
        The rows with the columns `entropy_share`, its `_se` and its `_exact`; and the combination in words.
    """
    table, where = first_combination(tables["measured"], "d_k", "n_keys")
    return _with_shares(table), where


def _with_shares(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the columns `entropy_share`, its `_se` and its `_exact`."""
    shares = {f"entropy_share{end}": table[f"entropy{end}"] / np.log(table["n_keys"]) for end in ("", "_se", "_exact")}
    return table.assign(**shares, few_draws=table["few_draws"].str.replace("entropy", "entropy_share"))


def _plot_map(ax: Axes, rows: pd.DataFrame) -> Any:
    """A map of one scaling: measured shares as colours, their contours, and the line of freezing."""
    shown = rows.pivot_table(index="n_keys", columns="d_k", values="entropy_share", dropna=False)
    image = ax.imshow(shown, origin="lower", aspect="auto", cmap=sequential(), vmin=0, vmax=1)
    d_k, n_keys = shown.columns.to_numpy(), shown.index.to_numpy()
    every = -(-len(d_k) // _MAX_TICKS)
    ax.set_xticks(range(0, len(d_k), every), map(plain, d_k[::every]), fontsize=8)
    ax.set_yticks(range(len(n_keys)), map(plain, n_keys))
    if ax.get_subplotspec().is_last_row():
        ax.set_xlabel("d_k")
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel("n_keys")
    known = exactly(rows, "entropy_share").pivot_table(
        index="n_keys", columns="d_k", values="entropy_share", dropna=False
    )
    if min(shown.shape) > 1:
        _plot_contours(ax, known.to_numpy())
    if _has_line(rows):
        _plot_freezing(ax, rows, d_k, n_keys)
    return image


def _has_line(rows: pd.DataFrame) -> bool:
    """True for a map of both axes with Gaussian entries that are independent and have mean 0."""
    row = rows[axes_of(rows)].iloc[0].to_dict()
    is_gaussian = not {*unusual_axes(row)} - {"query_std", "key_std"}
    return is_gaussian and all(len(rows[name].unique()) > 1 for name in ("d_k", "n_keys"))


def _plot_contours(ax: Axes, shares: Any) -> None:
    """Lines of equal shares with their values, in units of cells."""
    levels = [level for level in _LEVELS if np.nanmin(shares) < level < np.nanmax(shares)]
    if levels:
        colours = ["white" if level > _LIGHT_FROM else INK for level in levels]
        lines = ax.contour(np.ma.masked_invalid(shares), levels=levels, colors=colours, linewidths=0.9)
        # Labels stand high on their lines, away from the line of freezing, which crosses contours of short rows.
        upwards = [path.vertices[np.argsort(path.vertices[:, 1])] for path in lines.get_paths()]
        places = [points[int(_LABEL_HEIGHT * len(points))] for points in upwards if len(points)]
        ax.clabel(lines, fmt="%g", fontsize=8.5, manual=places)


def _plot_freezing(ax: Axes, rows: pd.DataFrame, d_k: Any, n_keys: Any) -> None:
    """The line query_std key_std d_k^(1/2 - p) = sqrt(2 ln n_keys), which is d_k = 2 ln n_keys for p = 0."""
    exponent, spread = rows["exponent"].iloc[0], rows["query_std"].iloc[0] * rows["key_std"].iloc[0]
    if not exponent < 1 / 2:  # NaN for a rule other than a power of d_k
        return
    at = np.geomspace(n_keys[0], n_keys[-1], 50)
    freezing = (2 * np.log(at) / spread**2) ** (1 / (1 - 2 * exponent))
    inside = (freezing >= d_k[0]) & (freezing <= d_k[-1])
    x = np.interp(np.log(freezing), np.log(d_k), range(len(d_k)))
    y = np.interp(np.log(at), np.log(n_keys), range(len(n_keys)))
    ax.plot(x[inside], y[inside], color=INK, linestyle="--", linewidth=1.5)


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


def title(tables: Tables) -> str:
    """The rules under which wide heads attend to few keys and to many, or else those that keep the entropy."""
    table = _with_shares(tables["measured"])
    finding = shared(_few_and_many(part) for part in parts(table, "d_k", "n_keys"))
    return finding or keeps(table, "d_k", "entropy_share", "entropy {}level", "at every width")


def _few_and_many(table: pd.DataFrame) -> str:
    """The finding for one combination of the other axes; empty unless one of two rules has few keys, the other many."""
    ends = {rule: _share_at_largest_d_k(rows) for rule, rows in by_scaling(table, "d_k").items()}
    few = [rule for rule, (_, highest) in ends.items() if highest < _FEW_KEYS]
    many = [rule for rule, (lowest, _) in ends.items() if lowest > _MANY_KEYS]
    if not (len(few) == len(many) == 1 and len(ends) == 2 and has_own_name(few[0], many)):
        return ""
    finding = f"{opening(few[0])}, wide heads attend to few keys; {titled(many[0])}, to many"
    return fitting(finding, f"{opening(few[0])}, wide heads attend to few keys")


def _share_at_largest_d_k(rows: pd.DataFrame) -> tuple[float, float]:
    """The limits of chance of the smallest and the largest entropy share at the largest d_k; NaN for a single d_k."""
    if len(rows["d_k"].unique()) == 1:
        return math.nan, math.nan
    known = exactly(rows[rows["d_k"] == rows["d_k"].max()], "entropy_share")
    chance = _ERRORS * known["entropy_share_se"]
    return (known["entropy_share"] - chance).min(), (known["entropy_share"] + chance).max()


FIGURE = Figure(
    shows="Where attention gathers on few keys: entropy over d_k and n_keys",
    of="saturation",
    tables=("measured",),
    metrics=("entropy",),
    corrects=("textbook-28",),
    plot=plot,
    caption=caption,
    title=title,
)
