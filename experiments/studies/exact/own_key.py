"""The score of a query with its own key, and the weight of this key after division by sqrt(d_k) or d_k."""

from itertools import product
from math import sqrt

import numpy as np
import pandas as pd

from experiments.figures.axes import legend, plain_numbers
from experiments.figures.picture import Words
from experiments.figures.style import INK, Drawing, subplots
from experiments.studies.exact.lines import plot_lines
from sdpa.theory.query_lengths import query_lengths
from sdpa.theory.row_moments import correlated_row

N_KEYS = 64
_WIDTHS = [2**power for power in range(2, 13)]
_CORRELATIONS = 0, 0.05, 0.1, 0.2, 0.5
WORDS = Words(
    "Divided by √d_k, wide heads find their own key; divided by d_k, none does",
    "At correlation 0.2, the own key's mean weight rises from 2% to 100% (widths 4 to 4,096) after division by √d_k. "
    "After division by d_k it stays at 2%, where equal weights have 1.6%.\n"
    "exact values, 64 keys, standard normal entries; own key: its entries have this correlation with those of the "
    "query; rings: width 1/correlation² − 1, where √d_k turns to d_k; dotted: equal weights",
)


def tabulate() -> pd.DataFrame:
    """The own key's r.m.s. score, sqrt(d + rho^2 d (d + 1)), and its mean weight after both divisors."""
    cells = []
    for d_k, rho in product(_WIDTHS, _CORRELATIONS):
        score = sqrt(d_k + rho**2 * d_k * (d_k + 1))
        weights = own_weight(d_k, rho, sqrt(d_k)), own_weight(d_k, rho, d_k)
        cells.append((d_k, rho, rho * d_k, sqrt(d_k), score, *weights))
    scores = ["own_mean", "other_std", "own_rms"]
    return pd.DataFrame(
        cells, columns=["d_k", "correlation", *scores, "weight_by_root", "weight_by_width"]
    )


def own_weight(d_k: int, rho: float, divisor: float) -> float:
    """Mean weight of the own key among `N_KEYS`, over the law of |q|."""
    lengths = query_lengths(d_k)
    rows = (correlated_row(length / divisor, N_KEYS, length, rho) for length in lengths.length)
    weights = np.array([row.power_sum(1, group=0) for row in rows])
    return float(lengths.share @ weights)


def draw(table: pd.DataFrame) -> Drawing:
    """Left the score over d_k with its turns; then the weight after each divisor."""
    figure, axes = subplots(3, 3, (10, 3.6))
    names = {
        "own_rms": "r.m.s. score with the own key",
        "weight_by_root": "its weight after division by √d_k",
        "weight_by_width": "its weight after division by d_k",
    }
    for ax, (name, title) in zip(axes, names.items(), strict=True):
        plot_lines(
            ax, table, "d_k", name, "correlation", "correlation {:g}", marker="o", markersize="3"
        )
        ax.set_xscale("log", base=2)
        ax.set(yscale="log", title=title, xticks=_WIDTHS[::2], xlabel="width of the head, d_k")
        ax.xaxis.set_major_formatter("{x:g}")
    for ax in axes[1:]:
        ax.set_ylim(0.01, 1.2)
        plain_numbers(ax.yaxis)
        ax.axhline(1 / N_KEYS, color=INK, linestyle=":")
        ax.text(4, 0.9 / N_KEYS, "equal weights", va="top", fontsize=9)
    axes[0].yaxis.set_major_formatter("{x:,g}")
    turns = np.array([rho**-2 - 1 for rho in (0.05, 0.1, 0.2)])  # that of 0.5 is 3
    axes[0].plot(turns, np.sqrt(2 * turns), "o", color=INK, fillstyle="none", markersize=8)
    axes[0].text(180, 150, "like d_k", ha="right", fontsize=9)
    axes[0].text(4096, 3, "turns at the rings", ha="right", fontsize=9)
    axes[0].text(4096, 19, "like √d_k", ha="right", fontsize=9)
    legend(axes[0])
    return figure
