"""Laws that hold in a limit: frozen rows of n keys, and crossings of median gradients.

sigma is the standard deviation of the scaled scores of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import exp, log, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, log_ndtr, ndtri_exp

from sdpa.theory.integrals import FloatArray

_MAX_KEYS = 1e9
_POINTS = 2**15


def freezing_sigma(n_keys: float) -> float:
    """sigma_c = sqrt(2 ln n): above it, for large n, a few scores carry all weight.

    Source: Derrida 1981, random energy model. Unscaled attention has sigma ~ sqrt(d_k) and freezes
    at d_k = 2 ln n.

    >>> round(freezing_sigma(64) ** 2, 2)
    8.32
    """
    return sqrt(2 * log(n_keys))


def frozen_entropy_share(ratio: float) -> float:
    """H / ln n -> max(1 - ratio^2, 0) for n to infinity, ratio = sigma / sigma_c.

    Convergence is slow: at ratio 1, with the limit 0, H / ln n is 0.45 for n = 64 and 0.33 for
    n = 16384.

    >>> frozen_entropy_share(0.5), frozen_entropy_share(1.5)
    (0.75, 0.0)
    """
    return max(1 - ratio**2, 0.0)


def frozen_collision(ratio: float) -> float:
    """sum w^2 -> max(1 - 1 / ratio, 0) for n to infinity (Derrida and Toulouse 1985).

    Convergence is slow: at ratio 1, with the limit 0, sum w^2 is 0.31 for n = 64 and 0.20 for
    n = 16384.

    >>> frozen_collision(0.5), frozen_collision(2.0)
    (0.0, 0.5)
    """
    return max(1 - 1 / ratio, 0.0) if ratio > 0 else 0.0


@cache
def jacobian_crossing(n_keys: float) -> float:
    """The d_k at which medians of |J|_F are equal, unscaled and under d_k^1/2.

    q, k ~ N(0, 1), and n is at least 8. |J|_F is taken over |q| and the exact law of the three
    largest scores; the sums over all other scores have their means given the third. The result is
    2% above medians of simulated rows at n = 8, and within 1% at n = 12 to 2^20.

    >>> round(jacobian_crossing(64))
    72
    """
    return _crossing(n_keys, lambda _: 1.0)


@cache
def query_gradient_crossing(n_keys: float) -> float:
    """The d_k at which medians of |dL/dq| are equal, unscaled and under d_k^1/2.

    As `jacobian_crossing`, for |dL/dq|^2 ~ |J|_F^2 d_k / divisor^2, which neglects terms without
    the factor d_k and a relative spread of sqrt(2 / d_k). Within 1% of medians of simulated rows at
    n = 8 to 4096.

    >>> round(query_gradient_crossing(64))
    374
    """
    return _crossing(n_keys, sqrt)


def median_jacobian_norm(sigma: float, n_keys: float) -> float:
    """The median of |J|_F over rows of n independent N(0, sigma^2) scores, n from 8.

    The error is that of `jacobian_crossing`.

    >>> round(median_jacobian_norm(1.0, 64), 3)
    0.18
    """
    return _median(np.full(_POINTS, sigma), n_keys, *_largest_scores(n_keys))


def _crossing(n_keys: float, factor: Callable[[float], float]) -> float:
    """The d_k from 3 to 10^5 with scaled median = factor(d_k) times unscaled median of |J|_F."""
    scores = _largest_scores(n_keys)
    shares = _lattice()[0]

    def difference(log_d_k: float) -> float:
        d_k = exp(log_d_k)
        lengths = np.sqrt(2 * gammaincinv(d_k / 2, shares))
        unscaled = _median(lengths, n_keys, *scores)
        scaled = _median(lengths / sqrt(d_k), n_keys, *scores)
        return log(factor(d_k) * unscaled / scaled)

    return exp(brentq(difference, log(3), log(1e5), xtol=1e-4))


def _largest_scores(n_keys: float) -> tuple[FloatArray, FloatArray]:
    """The three largest of n N(0, 1) scores, (3, points), and ln Phi of the third.

    All points have the same weight.
    """
    if not 8 <= n_keys <= _MAX_KEYS:
        raise ValueError(f"expected n_keys from 8 to {_MAX_KEYS:g}, got {n_keys}")
    # Given a score z, the largest of the m others below it is Phi^-1(Phi(z) U^(1/m)), U uniform.
    logs = [np.log(u) / (n_keys - i) for i, u in enumerate(_lattice()[1:])]
    below = np.cumsum(logs, axis=0)
    return ndtri_exp(below), below[-1]


def _median(
    sigma: FloatArray,
    n: float,
    largest: FloatArray,
    log_below: FloatArray,
) -> float:
    """The median of |J|_F of rows with given largest scores and ln Phi of the third.

    Scores z' below z have the means E e^(k sigma z') = e^(k^2 sigma^2 / 2) Phi(z - k
    sigma) / Phi(z). |J|_F is that of `sdpa.gradients`.
    """
    first, _, third = largest

    def others(k: int) -> FloatArray:
        """Sum of e^(k sigma (z - first)) over all but the three largest."""
        tail = log_ndtr(third - k * sigma) - log_below
        exponent = (k * sigma) ** 2 / 2 + tail - k * sigma * first
        return np.asarray((n - 3) * np.exp(exponent))

    e = np.exp(np.maximum(sigma * (largest[1:] - first), -200))  # its cube is still a double
    s1, s2, s3 = ((e**k).sum(axis=0) + others(k) for k in (1, 2, 3))
    partition = 1 + s1
    a = 1 / partition
    r = s1 / partition
    u2 = s2 / s1**2
    u3 = s3 / s1**3
    norms = r * np.sqrt(a**2 + u2 * (1 + 2 * a**2) - 2 * r * u3 + (r * u2) ** 2)
    return float(np.median(norms))


@cache
def _lattice() -> FloatArray:
    """Points that fill the unit cube evenly, (4, points).

    They are multiples of powers of the root of x^5 = x + 1, modulo 1.
    """
    root = float(brentq(lambda x: x**5 - x - 1, 1.0, 2.0, xtol=1e-15))
    multiples = np.outer(root ** -np.arange(1.0, 5.0), np.arange(1, _POINTS + 1))
    return np.asarray((0.5 + multiples) % 1)
