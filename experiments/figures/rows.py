"""Attention weights of a few queries, with and without scaling, at small and large d_k."""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.style import panels
from experiments.figures.words import listed, under


def draw(tables: Tables) -> Figure:
    """One heat map per d_k (down) and scaling (across), of the first draw; darker is a larger weight."""
    table = _shown(tables["rows"])
    d_ks, scalings = table["d_k"].unique(), table["scaling"].unique()
    figure, grid = panels(len(d_ks), len(scalings), (9, 1.1 + 1.9 * len(d_ks)), sharex=True, sharey=True)
    for axes, d_k in zip(grid, d_ks, strict=True):
        for ax, scaling in zip(axes, scalings, strict=True):
            weights = _weights(table, d_k, scaling)
            sns.heatmap(weights, ax=ax, vmin=0, vmax=1, cmap="Blues", cbar=False, linewidths=0.5)
            ax.set_title(f"d_k = {d_k}, {scaling}: largest weights average {weights.max(axis=1).mean():.2f}")
            ax.set_xlabel("key" if d_k == d_ks[-1] else "")
            ax.set_ylabel("query" if scaling == scalings[0] else "")
    every = [ax for axes in grid for ax in axes]
    figure.colorbar(every[0].collections[0], ax=every, label="weight", shrink=0.8, pad=0.01)
    return figure


def caption(tables: Tables) -> str:
    """The mean of the rows' largest weights, per d_k and scaling."""
    table = _shown(tables["rows"])
    largest = table.groupby(["d_k", "scaling", "query"], sort=False)["weight"].max()
    means = largest.groupby(["d_k", "scaling"], sort=False).mean()
    clauses = [
        f"{listed([f'{mean:.2f} {under(scaling)}' for scaling, mean in means[d_k].items()])} at d_k = {d_k}"
        for d_k in table["d_k"].unique()
    ]
    n_queries, n_keys = table["query"].nunique(), table["key"].nunique()
    return f"The largest weights of {n_queries} rows over {n_keys} keys average {'; '.join(clauses)}."


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """The first draw of the first combination of the axes besides d_k."""
    others = ["n_keys", "n_queries", "inputs", "input_std", "trial"]
    return table[(table[others] == table.iloc[0][others]).all(axis=1)]


def _weights(table: pd.DataFrame, d_k: int, scaling: str) -> pd.DataFrame:
    rows = table[(table["d_k"] == d_k) & (table["scaling"] == scaling)]
    return rows.pivot_table(index="query", columns="key", values="weight")
