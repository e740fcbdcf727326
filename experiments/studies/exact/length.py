"""Entropy over ln n, and the size of attention's output, against the spread of scores over the
critical one, sqrt(2 ln n).
"""

from itertools import product
from math import log, sqrt

import numpy as np
import pandas as pd

from experiments.figures.axes import legend
from experiments.figures.picture import Words
from experiments.figures.style import INK, Drawing, subplots
from experiments.studies.exact.lines import plot_lines
from sdpa.theory import GaussianRow

_KEYS = 64, 1024, 16384, 2**20
_SHARES = np.linspace(0, 2, 81)  # of the critical spread
WORDS = Words(
    "Up to half the critical spread, rows of 64 keys and more share nearly one curve",
    "Rows of more than e^(2σ²) keys (7 at spread σ = 1, 2,981 at σ = 2) have less than half the critical "
    "spread, and keep over 75% of ln n.\n"
    "exact means of rows of n independent normal scores; critical spread: √(2 ln n) (Derrida 1981; Hayase and "
    "Karakida, arXiv 2605.12697); dotted: limit of many keys, 1 − x² up to 1; right: values of variance 1, dashed: "
    "u-μP's model (arXiv 2407.17465)",
)


def tabulate() -> pd.DataFrame:
    """The entropy of a row over ln n, and its limit of many keys, max(0, 1 - x^2). The r.m.s. output for
    independent values of variance 1, sqrt(E sum w^2), and u-muP's model, n^(-2 / (4 + spread^2)) (Blake et al.
    2024, arXiv 2407.17465, code without a mask).
    """
    cells = []
    for n_keys, share in product(_KEYS, _SHARES):
        spread = share * sqrt(2 * log(n_keys))
        row = GaussianRow(spread, n_keys)
        limit = max(0.0, 1 - share**2)
        entropy = row.entropy() / log(n_keys), limit
        output = sqrt(row.power_sum(2)), n_keys ** (-2 / (4 + spread**2))
        cells.append((n_keys, share, spread, *entropy, *output))
    axes = ["n_keys", "share_of_critical", "score_std"]
    values = ["entropy_share", "limit", "output_rms", "output_rms_model"]
    return pd.DataFrame(cells, columns=axes + values)


def draw(table: pd.DataFrame) -> Drawing:
    """All lengths; the limit with its values at half of the critical spread and at it, and the model."""
    figure, [ax, right] = subplots(2, 2, (10, 3.9))
    for name, look in {"output_rms_model": "--", "output_rms": "-"}.items():
        plot_lines(right, table, "share_of_critical", name, "n_keys", "{:,} keys", linestyle=look)
    right.set(xlabel=_SPREAD, ylabel="r.m.s. output of attention", xlim=(0, 2), yscale="log")
    plot_lines(ax, table, "share_of_critical", "entropy_share", "n_keys", "{:,} keys")
    limit = table[table["n_keys"] == _KEYS[0]]
    ax.plot(limit["share_of_critical"], limit["limit"], ":", color=INK)
    ax.plot([0.5, 1], [0.75, 0], "o", color=INK, zorder=4)
    ax.annotate("limit at half: 0.75 (64 keys: 0.78)", (0.5, 0.75), (9, 4), **_BESIDE)
    ax.annotate("critical spread", (1, 0), (8, 3), **_BESIDE)
    ax.set(
        xlabel=_SPREAD,
        ylabel="entropy over ln n",
        xlim=(0, 2),
        ylim=(-0.03, 1.03),
    )
    legend(ax)
    return figure


_SPREAD = "spread of the scores in a row over √(2 ln n)"
_BESIDE = {"textcoords": "offset points", "fontsize": 9}
