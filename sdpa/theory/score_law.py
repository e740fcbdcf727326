"""The law of scores q.k of standard normal entries, and of the largest score of a row.

Given q, scores are normal with the deviation |q|.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, log_ndtr, ndtr

from sdpa.theory.integrals import FloatArray, Quadrature
from sdpa.theory.query_lengths import query_lengths


def score_survival(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """P(q.k > s) = E Phi(-s / |q|), precise far into the tail.

    For d_k = 1 this is the product-normal law (Craig 1936). Scores have any shape, and d_k is any
    real number from 1.

    >>> float(score_survival(0.0, 8).round(12))
    0.5
    """
    ratio, share = _ratios(score, d_k)
    return np.asarray(ndtr(-ratio) @ share)


def largest_score_survival(score: npt.ArrayLike, d_k: float, n_keys: float) -> FloatArray:
    """P(max_i q.k_i > s) = E[1 - Phi(s / |q|)^n] of n keys that share a query.

    Other arguments as in `score_survival`.

    >>> float(largest_score_survival(0.0, 8, n_keys=3).round(12))  # 1 - 1/2^3
    0.875
    """
    ratio, share = _ratios(score, d_k)
    given_length = -np.expm1(n_keys * log_ndtr(ratio))
    return np.asarray(given_length @ share)


def _ratios(score: npt.ArrayLike, d_k: float) -> Quadrature:
    """s / |q| at nodes of |q|, (..., nodes), as far as the tail depends on it, and their shares."""
    lengths = query_lengths(d_k, halvings=3, shortest=1e-17, longest=1e-290)
    ratio = np.asarray(score, dtype=float)[..., None] / lengths.length
    return ratio, lengths.share


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
    of_any = np.minimum(n * of_one, 1.0)
    return np.asarray(np.where(n > 2, of_any, 1.0))
