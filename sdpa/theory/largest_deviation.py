"""The law of the largest score of a Gaussian row, in standard deviations of that row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from sdpa.theory.integrals import FloatArray


def largest_deviation_survival(deviation: npt.ArrayLike, n_keys: npt.ArrayLike) -> FloatArray:
    """P(max_j (s_j - mean) / std > x) <= n/2 P(B < 1 - x^2 / (n-1)), B of the law Beta(n/2 - 1, 1/2).

    The n scores of a row are independent and normal, with any mean and variance; `mean` and `std`
    (with 1/n) are those of the row itself, so that nothing is estimated. Both sides are equal from
    x^2 = n/2 - 1, because two scores cannot be further from the mean. Below, the bound is at most 1.
    With two keys the deviation is always 1, and so is the probability.

    Sources: Thompson (1935, Ann. Math. Statist. 6:214); Grubbs (1950, Ann. Math. Statist. 21:27).

    Args:
        deviation: x, of at least 0, of any shape.
        n_keys: n, from 2, broadcast to it.

    >>> float(largest_deviation_survival(5.0, 64).round(7))
    8e-07
    """
    n = np.asarray(n_keys, dtype=float)
    rest = np.maximum(1 - np.square(deviation) / (n - 1), 0.0)
    of_one = betainc(np.maximum(n, 3) / 2 - 1, 0.5, rest) / 2
    return np.asarray(np.where(n > 2, np.minimum(n * of_one, 1.0), 1.0))
