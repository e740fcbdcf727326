"""The freezing of a softmax row as its scores spread out: exact curves for each number of keys, and their limit.

sigma is the standard deviation of the scaled scores of a Gaussian row, and sigma_c = sqrt(2 ln n_keys) the spread at
which a row of many keys freezes (`sdpa.theory.limits.freezing_sigma`). The table `curves` is all theory: a figure
compares it with the measured points of a map.
"""

import numpy as np
import pandas as pd

from experiments.analysis.derived import Derived
from experiments.harness.columns import Column, names
from experiments.harness.discovery import axes_of, unusual_axes
from experiments.harness.experiment import MEASURED
from sdpa.theory import GaussianRow, limits

# A sweep with at least this many values of both d_k and n_keys is a map.
_MIN_VALUES = 3
_POINTS_PER_OCTAVE = 8
_MIN_RATIO = 1 / 8

_COLUMNS = (
    Column("n_keys", "int", "number of keys, the length of a softmax row"),
    Column("freezing_sigma", "float", "sigma_c, the spread at which a row of many keys freezes", "sqrt(2 ln n_keys)"),
    Column("ratio", "float", "spread of the scaled scores of a row, divided by sigma_c", "sigma / sigma_c"),
    Column("entropy_share", "float", "expected entropy, divided by its maximum", "E H / ln n_keys"),
    Column("collision", "float", "expected sum of squared weights", "E sum_j w_j^2"),
    Column("entropy_share_limit", "float", "limit of entropy_share as n_keys tends to infinity", "max(1 - ratio^2, 0)"),
    Column("collision_limit", "float", "limit of collision as n_keys tends to infinity", "max(1 - 1 / ratio, 0)"),
)


def freezing_curves(table: pd.DataFrame) -> pd.DataFrame:
    """Curves over the spreads in the sweep, for each of its n_keys, if the sweep is a map of d_k and n_keys.

    The spread of a cell is sigma = query_std key_std sqrt(d_k) / divisor. The curves go from sigma / sigma_c = 1/8 to
    the largest of the sweep, with about 8 points for each doubling.

    Args:
        table: a main table with the columns of CURVES.needs.

    Returns:
        One row per n_keys and ratio; none unless the sweep has at least 3 values of d_k and 3 of n_keys with Gaussian
        entries that are independent and have mean 0.
    """
    columns = names(_COLUMNS)
    axes = table[axes_of(table)].to_dict("records")
    table = table[[not {*unusual_axes(row)} - {"query_std", "key_std"} for row in axes]]
    if table["d_k"].nunique() < _MIN_VALUES or table["n_keys"].nunique() < _MIN_VALUES:
        return pd.DataFrame(columns=columns)
    sigma = table["query_std"] * table["key_std"] * np.sqrt(table["d_k"]) / table["divisor"]
    highest = float((sigma / table["n_keys"].map(limits.freezing_sigma)).max())
    octaves = np.log2(highest / _MIN_RATIO)
    ratios = _MIN_RATIO * 2 ** np.linspace(0, octaves, max(2, int(_POINTS_PER_OCTAVE * octaves)))
    rows = []
    for n_keys in sorted(table["n_keys"].unique()):
        freezing = limits.freezing_sigma(n_keys)
        for ratio in ratios:
            row = GaussianRow(ratio * freezing, n_keys)
            at_limit = limits.frozen_entropy_share(ratio), limits.frozen_collision(ratio)
            rows.append((n_keys, freezing, ratio, row.entropy() / np.log(n_keys), row.power_sum(2), *at_limit))
    return pd.DataFrame(rows, columns=columns)


CURVES = Derived(
    "curves",
    needs=frozenset({"d_k", "n_keys", "query_std", "key_std", "divisor", "entropy", "jacobian_trace"}),
    columns=lambda _: _COLUMNS,
    derive=lambda _, tables: freezing_curves(tables[MEASURED]),
)
