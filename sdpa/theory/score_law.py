"""The law of scores q.k of standard normal entries: normal with the deviation |q|, given q."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from sdpa.theory.integrals import FloatArray
from sdpa.theory.query_lengths import QueryLengths, query_lengths


def score_survival(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """P(q.k > s) = E Phi(-s / |q|), precise far into the tail.

    For d_k = 1 this is the product-normal law (Craig 1936). Scores have any shape, and d_k is any
    real number from 1.

    >>> float(score_survival(0.0, 8).round(12))
    0.5
    """
    lengths = _all_lengths(d_k)
    ratio = np.asarray(score, dtype=float)[..., None] / lengths.length
    return np.asarray(ndtr(-ratio) @ lengths.share)


def largest_score_survival(score: npt.ArrayLike, d_k: float, n_keys: float) -> FloatArray:
    """P(max_i q.k_i > s) = E[1 - Phi(s / |q|)^n] of n keys that share a query.

    Other arguments as in `score_survival`.

    >>> float(largest_score_survival(0.0, 8, n_keys=3).round(12))  # 1 - 1/2^3
    0.875
    """
    lengths = _all_lengths(d_k)
    ratio = np.asarray(score, dtype=float)[..., None] / lengths.length
    return np.asarray(-np.expm1(n_keys * log_ndtr(ratio)) @ lengths.share)


def _all_lengths(d_k: float) -> QueryLengths:
    """|q| as far as the tail of a score depends on it."""
    return query_lengths(d_k, halvings=3, shortest=1e-17, longest=1e-290)
