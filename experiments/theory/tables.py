"""Tables of laws of docs/theory.md beside computed values: three scales of d_k, spreads that keep
attention, rules.
"""

import math
from functools import partial

import numpy as np
import pandas as pd

from sdpa.theory.longer_rows import (
    RULES,
    RowOf,
    Target,
    lengths_that_keep,
    sigma_for,
    unit_row,
)
from sdpa.theory.row_moments import correlated_row
from sdpa.theory.rows import GaussianRow
from sdpa.theory.three_scales import SCALES

N_KEYS = tuple(4**power for power in range(2, 11))
ENTROPIES = (1.5, 3.0, 6.0)
MAIN = ("condensation", "largest", "typical", "mean")  # of the scales: those without a refinement
# Rows of scores, and a wanted entropy in nats or largest weight.
ROWS: tuple[tuple[str, RowOf, Target, float], ...] = (
    *(("Gaussian", GaussianRow, "entropy", entropy) for entropy in ENTROPIES),
    ("Gaussian", GaussianRow, "max_weight", 0.5),
    ("unit, d_k = 64", partial(unit_row, d_k=64), "entropy", 3.0),
    ("unit, d_k = 8", partial(unit_row, d_k=8), "entropy", 3.0),
    (
        "correlation 0.5, d_k = 64",
        partial(correlated_row, length=8.0, correlation=0.5),
        "entropy",
        3.0,
    ),
)


def three_scales() -> pd.DataFrame:
    """A row for each scale and number of keys: the d_k of the law, and the computed one: exact but
    for medians.
    """
    rows = [
        (name, n, scale.law(n), scale.exact and scale.exact(n))
        for name, scale in SCALES.items()
        for n in N_KEYS
    ]
    return pd.DataFrame(rows, columns=["scale", "n_keys", "law", "computed"])


def lengths() -> pd.DataFrame:
    """The sigma that keeps an entropy or a largest weight, and its power of ln n up to the next
    length.
    """
    tables = []
    for name, row_of, target, value in ROWS:
        n_keys = [n for n in N_KEYS if target == "max_weight" or value < math.log(n)]
        sigma = [sigma_for(target, value, n, row_of) for n in n_keys]
        growth = np.diff([math.log(one) for one in sigma])
        steps = np.diff([math.log(math.log(n)) for n in n_keys])
        power = [*growth / steps, np.nan]
        table = pd.DataFrame({"n_keys": n_keys, "sigma": sigma, "power": power})
        tables.append(table.assign(rows=name, target=target, value=value))
    columns = ["rows", "target", "value", "n_keys", "sigma", "power"]
    return pd.concat(tables, ignore_index=True)[columns]


def rules() -> pd.DataFrame:
    """The lengths from 16 to 2^20 over which each rule, fitted at 4096 keys, keeps an entropy
    within 10%.
    """
    rows = [
        (rule.name, rule.source, value, *lengths_that_keep(rule, value))
        for rule in RULES
        for value in ENTROPIES
    ]
    return pd.DataFrame(rows, columns=["rule", "source", "entropy", "shortest", "longest"])


TABLES = {"scales": three_scales, "lengths": lengths, "rules": rules}
