"""The law of the score q.k of independent standard normal q and k: density, survival, and the largest of several."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory.quadrature import FloatArray
from sdpa.theory.queries import QueryLengths, query_lengths

_RANGE = 42.0  # e^-42 is below the precision of a double
_STEP = 0.2


def score_log_density(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """p(s) = |s|^((d-1)/2) K_((d-1)/2)(|s|) / (sqrt(pi) 2^((d-1)/2) Gamma(d/2)), its logarithm, s = q.k.

    For independent standard normal entries. The characteristic function of q.k is (1 + t^2)^(-d/2), whose inverse is
    this variance-gamma density; d = 1 is the product-normal law K_0(|s|) / pi (Craig 1936). The Bessel function is
    computed as a logarithm, so that neither small |s| nor large d_k overflows. Scores have any shape, d_k is any real
    number from 1; for d_k = 1 the result at 0 is infinite.

    >>> float(np.exp(score_log_density(0.0, 2)).round(12))  # the law of Laplace
    0.5
    """
    size = np.abs(np.asarray(score, dtype=float))
    order, constant = (d_k - 1) / 2, 0.5 * math.log(math.pi) + (d_k - 1) / 2 * math.log(2) + math.lgamma(d_k / 2)
    safe = np.where(size > 0, size, 1.0)
    away = order * np.log(safe) + _log_bessel_k(order, safe) - constant
    # |s|^nu K_nu(|s|) -> 2^(nu - 1) Gamma(nu) at 0.
    at_zero = (order - 1) * math.log(2) + math.lgamma(order) - constant if order > 0 else math.inf
    return np.where(size > 0, away, at_zero)


def _log_bessel_k(order: float, x: FloatArray) -> FloatArray:
    """ln K_nu(x) = ln(1/2 int exp(-x cosh t + nu t) dt) for nu from 0 and x above 0.

    With t = asinh(nu / x) + y and R = sqrt(x^2 + nu^2) the exponent is its largest value minus
    (R - nu) (cosh y - 1) + nu (e^y - 1 - y) for either sign of y, in which nothing cancels.
    """
    radius = np.hypot(x, order)
    excess = x * (x / (radius + order))  # R - nu
    right = np.arccosh(1 + _RANGE / radius) + 1
    left = np.minimum(np.arccosh(1 + _RANGE / excess), 1 + _RANGE / max(order, 1e-300)) + 1
    step = np.minimum(_STEP, 0.35 / np.sqrt(radius))
    nodes = math.ceil(float(((left + right) / step).max())) + 1
    y, width = np.linspace(-left, right, nodes, retstep=True, axis=-1)
    drop = excess[..., None] * (np.cosh(y) - 1) + order * (np.expm1(y) - y)
    peak = order * np.arcsinh(order / x) - radius
    return np.asarray(peak + np.log(0.5 * width * np.exp(-drop).sum(axis=-1)))


def score_survival(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """P(q.k > s) = E Phi(-s / |q|), with |q|^2 chi-squared of d_k degrees of freedom, standard normal entries.

    Given q the score is N(0, |q|^2). Keeps its relative precision far into the tail. Arguments as in
    `score_log_density`.

    >>> float(score_survival(0.0, 8).round(12))
    0.5
    """
    lengths = _all_lengths(d_k)
    return np.asarray(special.ndtr(-np.asarray(score, dtype=float)[..., None] / lengths.length) @ lengths.share)


def largest_score_survival(score: npt.ArrayLike, d_k: float, n_keys: float) -> FloatArray:
    """P(max_i q.k_i > s) = E[1 - Phi(s / |q|)^n] of n keys that share a query; else as `score_survival`.

    >>> float(largest_score_survival(0.0, 8, n_keys=3).round(12))  # 1 - 1/2^3
    0.875
    """
    lengths = _all_lengths(d_k)
    below = n_keys * special.log_ndtr(np.asarray(score, dtype=float)[..., None] / lengths.length)
    return np.asarray(-np.expm1(below) @ lengths.share)


def _all_lengths(d_k: float) -> QueryLengths:
    """|q| as far as the tail of a score depends on it."""
    return query_lengths(d_k, halvings=3, shortest=1e-17, longest=1e-290)
