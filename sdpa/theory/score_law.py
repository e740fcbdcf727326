"""The law of scores q.k of standard normal entries, and its tail."""

from __future__ import annotations

from math import ceil, inf, lgamma, log, pi

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from sdpa.theory.integrals import FloatArray
from sdpa.theory.query_lengths import QueryLengths, query_lengths

_RANGE = 42.0  # e^-42 is below the precision of a double
_STEP = 0.2


def score_log_density(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """ln p(s), p = |s|^((d-1)/2) K_((d-1)/2)(|s|) / (sqrt(pi) 2^((d-1)/2) Gamma(d/2)), of s = q.k.

    This is the variance-gamma density, the inverse of the characteristic function (1 + t^2)^(-d/2).
    For d = 1 it is the product-normal law K_0(|s|) / pi (Craig 1936), infinite at 0. Scores have
    any shape, and d_k is any real number from 1.

    >>> float(np.exp(score_log_density(0.0, 2)).round(12))  # the law of Laplace
    0.5
    """
    size = np.abs(np.asarray(score, dtype=float))
    order = (d_k - 1) / 2
    constant = 0.5 * log(pi) + (d_k - 1) / 2 * log(2) + lgamma(d_k / 2)
    safe = np.where(size > 0, size, 1.0)
    away = order * np.log(safe) + _log_bessel_k(order, safe) - constant
    at_zero = inf
    if order > 0:  # |s|^nu K_nu(|s|) -> 2^(nu - 1) Gamma(nu)
        at_zero = (order - 1) * log(2) + lgamma(order) - constant
    return np.where(size > 0, away, at_zero)


def _log_bessel_k(order: float, x: FloatArray) -> FloatArray:
    """ln K_nu(x) = ln(1/2 int exp(-x cosh t + nu t) dt) for nu from 0 and x above 0.

    With t = asinh(nu / x) + y and R = sqrt(x^2 + nu^2) the exponent is its largest value minus
    (R - nu) (cosh y - 1) + nu (e^y - 1 - y) for either sign of y, in which nothing cancels.
    """
    radius = np.hypot(x, order)
    excess = x * (x / (radius + order))  # R - nu
    right = np.arccosh(1 + _RANGE / radius) + 1
    of_cosh = np.arccosh(1 + _RANGE / excess)
    of_exponential = 1 + _RANGE / max(order, 1e-300)
    left = np.minimum(of_cosh, of_exponential) + 1
    step = np.minimum(_STEP, 0.35 / np.sqrt(radius))
    nodes = ceil(float(((left + right) / step).max())) + 1
    y, width = np.linspace(-left, right, nodes, retstep=True, axis=-1)
    drop = excess[..., None] * (np.cosh(y) - 1) + order * (np.expm1(y) - y)
    peak = order * np.arcsinh(order / x) - radius
    integral = 0.5 * width * np.exp(-drop).sum(axis=-1)
    return np.asarray(peak + np.log(integral))


def score_survival(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """P(q.k > s) = E Phi(-s / |q|), precise far into the tail; arguments as in `score_log_density`.

    >>> float(score_survival(0.0, 8).round(12))
    0.5
    """
    lengths = _all_lengths(d_k)
    ratio = np.asarray(score, dtype=float)[..., None] / lengths.length
    return np.asarray(ndtr(-ratio) @ lengths.share)


def largest_score_survival(score: npt.ArrayLike, d_k: float, n_keys: float) -> FloatArray:
    """P(max_i q.k_i > s) = E[1 - Phi(s / |q|)^n] of n keys that share a query.

    Other arguments as in `score_log_density`.

    >>> float(largest_score_survival(0.0, 8, n_keys=3).round(12))  # 1 - 1/2^3
    0.875
    """
    lengths = _all_lengths(d_k)
    ratio = np.asarray(score, dtype=float)[..., None] / lengths.length
    return np.asarray(-np.expm1(n_keys * log_ndtr(ratio)) @ lengths.share)


def _all_lengths(d_k: float) -> QueryLengths:
    """|q| as far as the tail of a score depends on it."""
    return query_lengths(d_k, halvings=3, shortest=1e-17, longest=1e-290)
