"""Limits of the exact expectations of a Gaussian row: small sigma, large n, large sigma; and crossings of medians.

sigma is the standard deviation of the scaled scores of a row of n keys. Each function states where it holds and how
far it lies from `GaussianRow` elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from sdpa.theory._grids import normal_density, trapezoid

FloatArray = npt.NDArray[np.float64]

_Z_STEP = 0.01  # well below 1 / sqrt(2 ln n), the width of what is integrated, at a billion keys
_MAX_KEYS = 1e9
_POINTS = 2**15


def small_sigma_entropy(sigma: float, n_keys: float) -> float:
    """E H ~ ln n - sigma^2 / 2, in nats, for sigma well below 1 and n well above 1.

    From E H = E ln Z - sigma^2 (1 - E sum w^2) with E ln Z ~ ln n + sigma^2 / 2. At n = 64 it is 0.02% low
    at sigma = 0.3, 0.7% at 1 and 18% at 2.

    >>> round(small_sigma_entropy(1.0, 64), 4)
    3.6589
    """
    return math.log(n_keys) - sigma**2 / 2


def small_sigma_collision(sigma: float, n_keys: float) -> float:
    """E sum w^2 ~ e^(sigma^2) / n, for e^(sigma^2) well below n: the ratio of the means of e^(2s) and (e^s)^2.

    At n = 64 it is 0.2% high at sigma = 0.3 and 9% at 1; at n = 4096 0.2% at 1 and 38% at 2.

    >>> round(small_sigma_collision(1.0, 64), 4)
    0.0425
    """
    return math.exp(sigma**2) / n_keys


def freezing_sigma(n_keys: float) -> float:
    """sigma_c = sqrt(2 ln n): above it, for large n, a few scores carry all weight (Derrida 1981, random energy model).

    Unscaled attention has sigma ~ sqrt(d_k), so that it freezes at d_k = 2 ln n.

    >>> round(freezing_sigma(64) ** 2, 2)
    8.32
    """
    return math.sqrt(2 * math.log(n_keys))


def frozen_entropy_share(ratio: float) -> float:
    """H / ln n -> 1 - (sigma / sigma_c)^2 below the freezing point and 0 above, for n to infinity.

    The limit is reached slowly: at sigma = sigma_c, where it is 0, H / ln n is 0.45 for n = 64 and 0.33 for n = 16384.

    Args:
        ratio: sigma / sigma_c, from 0.

    >>> frozen_entropy_share(0.5), frozen_entropy_share(1.5)
    (0.75, 0.0)
    """
    return max(1 - ratio**2, 0.0)


def frozen_collision(ratio: float) -> float:
    """sum w^2 -> 0 below the freezing point and 1 - sigma_c / sigma above, for n to infinity (Derrida 1981).

    As slow: at sigma = sigma_c, where it is 0, sum w^2 is 0.31 for n = 64 and 0.20 for n = 16384.

    Args:
        ratio: sigma / sigma_c, from 0.

    >>> frozen_collision(0.5), frozen_collision(2.0)
    (0.0, 0.5)
    """
    return max(1 - 1 / ratio, 0.0) if ratio > 0 else 0.0


def tie_density(n_keys: float) -> float:
    """f0 = n (n - 1) int phi(z)^2 Phi(z)^(n-2) dz: the density at 0 of the gap between the two largest of n normals.

    >>> round(tie_density(2), 6)  # of |z1 - z2|: 1 / sqrt(pi)
    0.56419
    """
    z, step = trapezoid(-12.0, 12.0, _Z_STEP)
    logarithm = -(z**2) + (n_keys - 2) * special.log_ndtr(z)
    return float(n_keys * (n_keys - 1) * step * np.exp(logarithm).sum() / (2 * math.pi))


def gap_median(n_keys: float) -> float:
    """Median of the gap x between the two largest of n normals: P(gap > x) = n int phi(z) Phi(z - x)^(n-1) dz = 1/2.

    For n to infinity it tends to ln 2 / sqrt(2 ln n), slowly: it is 15% low at n = 64 and 7% at 65,536.

    >>> round(gap_median(2), 6)  # of |z1 - z2|: sqrt(2) 0.67449
    0.953873
    """
    z, step = trapezoid(-12.0, 13.0, _Z_STEP)
    density = step * n_keys * normal_density(z)

    def excess(gap: float) -> float:
        return float(density @ np.exp((n_keys - 1) * special.log_ndtr(z - gap))) - 0.5

    return float(optimize.brentq(excess, 0.0, 12.0, xtol=1e-13))


def saturated_trace(sigma: float, n_keys: float) -> float:
    """E[1 - sum w^2] ~ f0(n) / sigma, for sigma well above sigma_c: only rows near a tie of two scores are unsaturated.

    With a gap x between the two largest scaled scores, 1 - sum w^2 = 2 w (1 - w), w = 1 / (1 + e^-x), whose integral
    over x from 0 is 1, times the density of the gap at 0, f0 / sigma. At n = 64 it is 1.6% high at sigma = 8 and
    0.02% at 64.

    >>> round(saturated_trace(64.0, 64), 4)
    0.0366
    """
    return tie_density(n_keys) / sigma


def saturated_attention_trace(d_k: float, n_keys: float, divisor: float, input_std: float = 1.0) -> float:
    """E[1 - sum w^2] ~ f0(n) divisor Gamma((d-1)/2) / (input_std^2 sqrt(2) Gamma(d/2)): averaged over |q|, d > 1.

    sigma = input_std |q| / divisor, and E 1/|q| = Gamma((d-1)/2) / (input_std sqrt(2) Gamma(d/2)) of a chi variable.

    At n = 64 and unscaled it is 1.7% high at d_k = 64 and 0.02% at 4096, and three times too high at d_k = 2.

    Raises:
        ValueError: d_k is at most 1, where the mean of 1/|q| is infinite.
    """
    if d_k <= 1:
        raise ValueError(f"expected d_k above 1, got {d_k}")
    inverse_length = math.exp(math.lgamma((d_k - 1) / 2) - math.lgamma(d_k / 2)) / math.sqrt(2)
    return tie_density(n_keys) * divisor / input_std**2 * inverse_length


def entropy_floor(score_norm: float, n_keys: float) -> float:
    """H >= ln(1 + (n-1) b) + |s| sqrt(n (n-1)) b / (1 + (n-1) b), b = exp(-|s| sqrt(n / (n-1))), in nats.

    For any one row whose scaled scores have the Euclidean norm |s| (Zhai et al. 2023, theorem 3.1); equal where one
    score stands out and the others are equal. A bound, not an estimate: Gaussian rows with |s| = sigma sqrt(n) lie far
    above it.

    >>> round(entropy_floor(0.0, 64), 4)
    4.1589
    """
    b = math.exp(-score_norm * math.sqrt(n_keys / (n_keys - 1)))
    partition = 1 + (n_keys - 1) * b
    return math.log(partition) + score_norm * math.sqrt(n_keys * (n_keys - 1)) * b / partition


def jacobian_crossing(n_keys: float) -> float:
    """The d_k at which the medians of |J|_F are equal, unscaled and under d_k^1/2, for q, k ~ N(0, 1), n from 8.

    Below it the unscaled row has the larger Jacobian, above it the scaled one. |J|_F is taken over |q| and the exact
    law of the three largest scores, and the sums over the others at their means given the third; no constant is
    fitted. Against medians of 16,000 to 5,000,000 simulated rows it is 2% high at n = 8 and within 2% at n = 16 to 4096
    (71.8 and not 71.5 at n = 64).

    >>> round(jacobian_crossing(64))
    72
    """
    return _crossing(n_keys, lambda _: 1.0)


def query_gradient_crossing(n_keys: float) -> float:
    """The d_k at which the medians of |dL/dq| are equal, unscaled and under d_k^1/2, for q, k ~ N(0, 1), n from 8.

    Over standard normal gradients to the weights, |dL/dq| has the root mean square |K^T J|_F / divisor, and its square
    is |J|_F^2 d_k / divisor^2 but for terms without the factor d_k and a relative spread of about sqrt(2 / d_k): by the
    chain rule, unscaled gradients are sqrt(d_k) times those of an equal Jacobian. Rows as in `jacobian_crossing`.
    Against medians of 16,000 to 800,000 simulated rows it is within 1% at n = 8 to 4096 (374 and not 372 at n = 64).

    >>> round(query_gradient_crossing(64))
    374
    """
    return _crossing(n_keys, math.sqrt)


def _crossing(n_keys: float, factor: Callable[[float], float]) -> float:
    """The d_k between 3 and 10^5 at which the scaled median of |J|_F is the unscaled one times a factor, of d_k."""
    if not 8 <= n_keys <= _MAX_KEYS:
        raise ValueError(f"expected n_keys from 8 to {_MAX_KEYS:g}, got {n_keys}")

    shares, *uniforms = _lattice()
    below = np.cumsum([np.log(u) / (n_keys - i) for i, u in enumerate(uniforms)], axis=0)
    largest = special.ndtri_exp(below)

    def difference(log_d_k: float) -> float:
        d_k = math.exp(log_d_k)
        lengths = np.sqrt(2 * special.gammaincinv(d_k / 2, shares))
        unscaled, scaled = (
            np.median(_typical_norms(sigma, n_keys, largest, below[-1]))
            for sigma in (lengths, lengths / math.sqrt(d_k))
        )
        return math.log(factor(d_k) * unscaled / scaled)

    return math.exp(optimize.brentq(difference, math.log(3), math.log(1e5), xtol=1e-4))


def _typical_norms(sigma: FloatArray, n: float, largest: FloatArray, log_below: FloatArray) -> FloatArray:
    """|J|_F of rows at equally probable |q| and three largest scores.

    Given a score z, the largest of the m others that are below it is Phi^-1(Phi(z) U^(1/m)), U uniform; and given
    that all are below z, E e^(k sigma z') = e^(k^2 sigma^2 / 2) Phi(z - k sigma) / Phi(z). The norms are summed from
    the weights other than the largest, as in `sdpa.gradients`.

    Args:
        sigma: standard deviations of the scores, (rows,).
        n: number of keys.
        largest: the three largest scores over sigma, (3, rows).
        log_below: ln Phi of the third of them, (rows,).
    """
    first, second, third = largest

    def others(k: int) -> FloatArray:
        """Sum of e^(k sigma (z - first)) over all but the three largest."""
        tail = special.log_ndtr(third - k * sigma) - log_below
        return np.asarray((n - 3) * np.exp((k * sigma) ** 2 / 2 + tail - k * sigma * first))

    e = np.exp(np.maximum(sigma * (np.array([second, third]) - first), -200))  # its cube is still a double
    sums = [(e**k).sum(axis=0) + others(k) for k in (1, 2, 3)]
    partition = 1 + sums[0]
    a, r, u2, u3 = 1 / partition, sums[0] / partition, sums[1] / sums[0] ** 2, sums[2] / sums[0] ** 3
    return np.asarray(r * np.sqrt(a**2 + u2 * (1 + 2 * a**2) - 2 * r * u3 + (r * u2) ** 2))


@cache
def _lattice() -> FloatArray:
    """Points that fill the unit cube evenly, (4, points): multiples of powers of the root of x^5 = x + 1, modulo 1."""
    root = float(optimize.brentq(lambda x: x**5 - x - 1, 1.0, 2.0, xtol=1e-15))
    return np.asarray((0.5 + np.outer(root ** -np.arange(1.0, 5.0), np.arange(1, _POINTS + 1))) % 1)
