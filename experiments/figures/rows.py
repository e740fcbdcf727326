"""Weights of a few queries as heat maps.

The figure shows the first draw of a sweep of the experiment `rows`, so it illustrates and proves no trend; its caption
says so.
"""

import math

import pandas as pd
import seaborn as sns

from experiments.figures.axes import first_combination, under
from experiments.figures.caption_text import listed
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import panels
from experiments.figures.title_text import fitting, titled
from experiments.harness.figures import Default

_MAX_COLUMNS = 4
_MAX_KEYS_WITH_GRID = 40
_MAX_TICKS = 24


def plot(tables: Tables) -> Drawing:
    """One heat map per d_k and scaling, of the first draw; darker is a larger weight."""
    table, _ = _shown(tables)
    shown = table[["d_k", "scaling"]].drop_duplicates()
    columns = min(table["scaling"].nunique(), _MAX_COLUMNS)
    n_rows = math.ceil(len(shown) / columns)
    figure, grid = panels(n_rows, columns, (9, 1.1 + 2.1 * n_rows), sharex=True, sharey=True)
    every = [ax for row in grid for ax in row]
    ticks = max(1, table["key"].nunique() * columns // _MAX_TICKS)
    for ax, (d_k, scaling) in zip(every, shown.itertuples(index=False), strict=False):
        rows = table[(table["d_k"] == d_k) & (table["scaling"] == scaling)]
        weights = rows.pivot_table(index="query", columns="key", values="weight")
        lines = 0.5 if weights.shape[1] * columns <= 2 * _MAX_KEYS_WITH_GRID else 0
        sns.heatmap(weights, ax=ax, vmin=0, vmax=1, cmap="Blues", cbar=False, linewidths=lines, xticklabels=ticks)
        ax.set_title(f"d_k = {d_k}, {scaling}\nmean of largest: {weights.max(axis=1).mean():.2f}")
        ax.tick_params(axis="y", rotation=0)
        ax.set_xlabel("key")
        ax.set_ylabel("query" if ax.get_subplotspec().is_first_col() else "")
    for ax in every[len(shown) :]:
        ax.axis("off")
    figure.colorbar(every[0].collections[0], ax=every, label="weight", shrink=0.8, pad=0.01, aspect=30)
    return figure


def caption(tables: Tables) -> str:
    """The mean of the rows' largest weights for each d_k and scaling."""
    table, where = _shown(tables)
    largest = table.groupby(["d_k", "scaling", "query"], sort=False)["weight"].max()
    means = largest.groupby(["d_k", "scaling"], sort=False).mean()
    clauses = [
        f"{listed([f'{mean:.2f} {under(scaling)}' for scaling, mean in means[d_k].items()])} at d_k = {d_k}"
        for d_k in table["d_k"].unique()
    ]
    n_queries, n_keys = table["query"].nunique(), table["key"].nunique()
    count = "one row" if n_queries == 1 else f"{n_queries} rows"
    return (
        f"In the {count} drawn, over {n_keys} keys{where}, the largest weights average {'; '.join(clauses)}. This is "
        "an illustration and shows no trend; sweeps of the experiment saturation have means over many draws."
    )


def _shown(tables: Tables) -> tuple[pd.DataFrame, str]:
    """The first draw of the first combination of the axes besides d_k, and its name in words."""
    table, where = first_combination(tables["measured"], "d_k")
    return table[table["trial"] == 0], where


def title(tables: Tables) -> str:
    """The rules under which the largest weights of this draw average more than 1/2, at the largest d_k.

    Rows `mostly` favour one key if under such a rule some have no weight above 1/2. Of two keys, one always has half of
    the weight, so there is no finding.
    """
    table, _ = _shown(tables)
    if table["key"].nunique() <= 2:
        return ""
    heads = "wide heads" if len(table["d_k"].unique()) > 1 else "rows"
    widest = table[table["d_k"] == table["d_k"].max()]
    largest = widest.groupby(["scaling", "query"], sort=False)["weight"].max().groupby("scaling", sort=False)
    means, least = largest.mean(), largest.min()
    focused = [titled(rule) for rule in means.index[means > 1 / 2]]
    favour = "favour" if (least[means > 1 / 2] > 1 / 2).all() else "mostly favour"
    if not focused:
        return f"In this draw, {heads} spread their weight over several keys"
    if len(focused) == len(means):
        return f"In this draw, {heads} {favour} one key"
    text = f"In this draw, {heads} {favour} one key"
    return fitting(f"{text} only {listed(focused)}", f"{text} only under some rules")


FIGURE = Figure(
    shows="Attention weights of a few queries under each scaling and d_k",
    of="rows",
    tables=("measured",),
    metrics=("query", "key", "scaled_score", "weight"),
    default=Default(),
    plot=plot,
    caption=caption,
    title=title,
)
