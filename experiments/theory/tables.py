"""Tables of laws of docs/theory.md beside computed values: three scales of d_k, spreads that keep
attention, rules.
"""

import math
from functools import partial

import pandas as pd

from sdpa.theory.longer_rows import (
    RULES,
    RowOf,
    Target,
    correlated_row,
    lengths_that_keep,
    sigma_for,
    unit_row,
)
from sdpa.theory.rows import GaussianRow
from sdpa.theory.three_scales import SCALES

N_KEYS = tuple(4**power for power in range(2, 11))
ENTROPIES = (1.5, 3.0, 6.0)
MAIN = ("condensation", "largest", "typical", "mean")  # of the scales: those without a refinement
# Rows of scores, and the wanted entropies in nats and largest weights.
ROWS: dict[str, tuple[RowOf, dict[Target, tuple[float, ...]]]] = {
    "Gaussian": (GaussianRow, {"entropy": ENTROPIES, "max_weight": (0.5,)}),
    "unit, d_k = 64": (partial(unit_row, d_k=64), {"entropy": (3.0,)}),
    "unit, d_k = 8": (partial(unit_row, d_k=8), {"entropy": (3.0,)}),
    "correlation 0.5, d_k = 64": (
        partial(correlated_row, d_k=64, correlation=0.5),
        {"entropy": (3.0,)},
    ),
}


def three_scales() -> pd.DataFrame:
    """A row for each scale and number of keys: the d_k of the law, and the computed one: exact but
    for medians.
    """
    rows = [
        (name, n, each.law(n), each.exact and each.exact(n))
        for name, each in SCALES.items()
        for n in N_KEYS
    ]
    return pd.DataFrame(rows, columns=["scale", "n_keys", "law", "computed"])


def lengths() -> pd.DataFrame:
    """The sigma that keeps an entropy or a largest weight, and its power of ln n up to the next
    length.
    """
    tables = []
    for name, (row_of, wanted) in ROWS.items():
        for target, value in (
            (target, value) for target, values in wanted.items() for value in values
        ):
            n_keys = [n for n in N_KEYS if target == "max_weight" or value < math.log(n)]
            sigma = [sigma_for(target, value, n, row_of) for n in n_keys]
            table = pd.DataFrame(
                {"rows": name, "target": target, "value": value, "n_keys": n_keys, "sigma": sigma}
            )
            logs = (
                table[["sigma"]]
                .apply(lambda column: column.map(math.log))
                .diff()
                .shift(-1)["sigma"]
            )
            steps = table["n_keys"].map(math.log).map(math.log).diff().shift(-1)
            tables.append(table.assign(power=logs / steps))
    return pd.concat(tables, ignore_index=True)


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
