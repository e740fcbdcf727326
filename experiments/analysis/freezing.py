"""The exact entropy and collision of Gaussian rows over their spread, in units of the freezing one.

sigma is the standard deviation of the scaled scores of a Gaussian row, and sigma_c = sqrt(2 ln
n_keys) the spread at which a row of many keys freezes (`sdpa.theory.limits.freezing_sigma`).
"""

import numpy as np
import pandas as pd

from experiments.analysis.derived import Derived, columns_of_text
from experiments.analysis.results import Results
from experiments.measuring.columns import names
from sdpa.theory import GaussianRow, limits

_MIN_VALUES = 3  # of both d_k and n_keys: a sweep with as many is a map
_POINTS_PER_OCTAVE = 8
_MIN_RATIO = 1 / 8


def freezing_curves(results: Results) -> pd.DataFrame:
    """Curves over the spreads in the sweep, for each of its n_keys, if the sweep is a map of d_k
    and n_keys.

    The curves go from sigma / sigma_c = 1/8 to the largest of the sweep, with about 8 points for
    each doubling and one at 1, where the limit has its corner.

    Returns:
        One row per n_keys and ratio; none unless the sweep has at least 3 values of d_k and 3 of
        n_keys with Gaussian entries that are independent and have mean 0.
    """
    columns = names(_CURVES)
    table = results.axes.usual_rows(results.measured, but=("query_std", "key_std"))
    if table["d_k"].nunique() < _MIN_VALUES or table["n_keys"].nunique() < _MIN_VALUES:
        return pd.DataFrame(columns=columns)
    freezing = table["n_keys"].map(limits.freezing_sigma)
    highest = float((spreads(table) / freezing).max())
    octaves = np.log2(highest / _MIN_RATIO)
    count = max(2, int(_POINTS_PER_OCTAVE * octaves))
    ratios = _MIN_RATIO * 2 ** np.linspace(0, octaves, count)
    ratios = np.unique([*ratios, min(1.0, ratios[-1])])
    lengths = sorted(table["n_keys"].unique())
    rows = [_at_freezing(n_keys, ratio) for n_keys in lengths for ratio in ratios]
    return pd.DataFrame(rows, columns=columns)


def spreads(table: pd.DataFrame) -> "pd.Series[float]":
    """The spread of each row of a main table: sigma = query_std key_std sqrt(d_k) / divisor."""
    of_scores = table["query_std"] * table["key_std"] * np.sqrt(table["d_k"])
    return of_scores / table["divisor"]


def _at_freezing(n_keys: int, ratio: float) -> tuple[float, ...]:
    """A row of `curves`: n_keys, sigma_c, sigma / sigma_c, exact values and their limits."""
    freezing = limits.freezing_sigma(n_keys)
    row = GaussianRow(ratio * freezing, n_keys)
    exact = row.entropy() / np.log(n_keys), row.power_sum(2)
    at_limit = limits.frozen_entropy_share(ratio), limits.frozen_collision(ratio)
    return n_keys, freezing, ratio, *exact, *at_limit


_CURVES = columns_of_text(
    """
    n_keys int number of keys, the length of a softmax row
    freezing_sigma float sigma_c, the spread at which a row of many keys freezes := sqrt(2 ln n_keys)
    ratio float spread of the scaled scores of a row, divided by sigma_c := sigma / sigma_c
    entropy_share float expected entropy, divided by its maximum := E H / ln n_keys
    collision float expected sum of squared weights := E sum_j w_j^2
    entropy_share_limit float limit of entropy_share as n_keys tends to infinity := max(1 - ratio^2, 0)
    collision_limit float limit of collision as n_keys tends to infinity := max(1 - 1 / ratio, 0)
    """
)
TABLES = (
    Derived(
        "curves",
        needs={"d_k", "n_keys", "query_std", "key_std", "divisor", "entropy", "jacobian_trace"},
        columns=lambda _: _CURVES,
        derive=freezing_curves,
    ),
)
