"""Laws that hold in a limit: the freezing of a row of n keys, and the d_k at which medians of gradients cross.

sigma is the standard deviation of the scaled scores of a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import optimize, special

from sdpa.theory.integrals import FloatArray

_MAX_KEYS = 1e9
_POINTS = 2**15


def freezing_sigma(n_keys: float) -> float:
    """sigma_c = sqrt(2 ln n): above it, for large n, a few scores carry all weight (Derrida 1981, random energy model).

    Unscaled attention has sigma ~ sqrt(d_k) and freezes at d_k = 2 ln n.

    >>> round(freezing_sigma(64) ** 2, 2)
    8.32
    """
    return math.sqrt(2 * math.log(n_keys))


def frozen_entropy_share(ratio: float) -> float:
    """H / ln n -> max(1 - ratio^2, 0) for n to infinity, ratio = sigma / sigma_c.

    The limit is slow: at ratio 1, where it is 0, H / ln n is 0.45 for n = 64 and 0.33 for n = 16384.

    >>> frozen_entropy_share(0.5), frozen_entropy_share(1.5)
    (0.75, 0.0)
    """
    return max(1 - ratio**2, 0.0)


def frozen_collision(ratio: float) -> float:
    """sum w^2 -> max(1 - 1 / ratio, 0) for n to infinity (Derrida and Toulouse 1985).

    As slow: at ratio 1, where it is 0, sum w^2 is 0.31 for n = 64 and 0.20 for n = 16384.

    >>> frozen_collision(0.5), frozen_collision(2.0)
    (0.0, 0.5)
    """
    return max(1 - 1 / ratio, 0.0) if ratio > 0 else 0.0


@cache
def jacobian_crossing(n_keys: float) -> float:
    """The d_k at which the medians of |J|_F are equal, unscaled and under d_k^1/2, for q, k ~ N(0, 1), n from 8.

    |J|_F is taken over |q| and the exact law of the three largest scores, with the sums over the others at their means
    given the third. Against medians of simulated rows it is 2% high at n = 8 and within 1% at n = 12 to 2^20.

    >>> round(jacobian_crossing(64))
    72
    """
    return _crossing(n_keys, lambda _: 1.0)


@cache
def query_gradient_crossing(n_keys: float) -> float:
    """The d_k at which the medians of |dL/dq| are equal, unscaled and under d_k^1/2, for q, k ~ N(0, 1), n from 8.

    As `jacobian_crossing`, for |dL/dq|^2 ~ |J|_F^2 d_k / divisor^2, which neglects terms without the factor d_k and a
    relative spread of sqrt(2 / d_k). Against medians of simulated rows it is within 1% at n = 8 to 4096.

    >>> round(query_gradient_crossing(64))
    374
    """
    return _crossing(n_keys, math.sqrt)


def median_jacobian_norm(sigma: float, n_keys: float) -> float:
    """The median of |J|_F over rows of n independent N(0, sigma^2) scores, n from 8; as exact as `jacobian_crossing`.

    >>> round(median_jacobian_norm(1.0, 64), 3)
    0.18
    """
    largest, rest = _largest_scores(n_keys)
    return float(np.median(_typical_norms(np.full(_POINTS, sigma), n_keys, largest, rest)))


def _crossing(n_keys: float, factor: Callable[[float], float]) -> float:
    """The d_k from 3 to 10^5 at which the scaled median of |J|_F is the unscaled one times factor(d_k)."""
    largest, rest = _largest_scores(n_keys)
    shares = _lattice()[0]

    def difference(log_d_k: float) -> float:
        d_k = math.exp(log_d_k)
        lengths = np.sqrt(2 * special.gammaincinv(d_k / 2, shares))
        unscaled, scaled = (
            np.median(_typical_norms(sigma, n_keys, largest, rest))
            for sigma in (lengths, lengths / math.sqrt(d_k))
        )
        return math.log(factor(d_k) * unscaled / scaled)

    return math.exp(optimize.brentq(difference, math.log(3), math.log(1e5), xtol=1e-4))


def _largest_scores(n_keys: float) -> tuple[FloatArray, FloatArray]:
    """The three largest of n N(0, 1) scores, (3, points), and ln Phi of the third, at points of equal weight."""
    if not 8 <= n_keys <= _MAX_KEYS:
        raise ValueError(f"expected n_keys from 8 to {_MAX_KEYS:g}, got {n_keys}")
    # Given a score z, the largest of the m others below it is Phi^-1(Phi(z) U^(1/m)), U uniform.
    below = np.cumsum([np.log(u) / (n_keys - i) for i, u in enumerate(_lattice()[1:])], axis=0)
    return special.ndtri_exp(below), below[-1]


def _typical_norms(
    sigma: FloatArray, n: float, largest: FloatArray, log_below: FloatArray
) -> FloatArray:
    """|J|_F of rows with three given largest scores over sigma, (3, rows), and ln Phi of the third.

    E e^(k sigma z') = e^(k^2 sigma^2 / 2) Phi(z - k sigma) / Phi(z) of the scores z' below z; |J|_F as in
    `sdpa.gradients`.
    """
    first, second, third = largest

    def others(k: int) -> FloatArray:
        """Sum of e^(k sigma (z - first)) over all but the three largest."""
        tail = special.log_ndtr(third - k * sigma) - log_below
        return np.asarray((n - 3) * np.exp((k * sigma) ** 2 / 2 + tail - k * sigma * first))

    e = np.exp(
        np.maximum(sigma * (np.array([second, third]) - first), -200)
    )  # its cube is still a double
    sums = [(e**k).sum(axis=0) + others(k) for k in (1, 2, 3)]
    partition = 1 + sums[0]
    a, r, u2, u3 = (
        1 / partition,
        sums[0] / partition,
        sums[1] / sums[0] ** 2,
        sums[2] / sums[0] ** 3,
    )
    return np.asarray(r * np.sqrt(a**2 + u2 * (1 + 2 * a**2) - 2 * r * u3 + (r * u2) ** 2))


@cache
def _lattice() -> FloatArray:
    """Points that fill the unit cube evenly, (4, points): multiples of powers of the root of x^5 = x + 1, modulo 1."""
    root = float(optimize.brentq(lambda x: x**5 - x - 1, 1.0, 2.0, xtol=1e-15))
    return np.asarray((0.5 + np.outer(root ** -np.arange(1.0, 5.0), np.arange(1, _POINTS + 1))) % 1)
