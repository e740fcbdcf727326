"""Three scales of d_k for unscaled attention over n keys, with standard normal queries and keys.

The scores of a row have the standard deviation sigma = |q|, about sqrt(d_k). Rows condense at sigma_c = sqrt(2 ln n)
(Derrida 1981, random energy model). Beyond, the two largest scores decide: with their gap x, |J|_F is
2 e^-x / (1 + e^-x)^2. A median feels the typical gap, and a mean the few rows whose gap is small. Under d_k^1/2,
|J|_F^2 is e / n to leading order. docs/theory.md compares these laws with exact numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from scipy import integrate, optimize, special

from sdpa.theory.attention import attention_expectations
from sdpa.theory.gaussian_rows import row_values
from sdpa.theory.limits import freezing_sigma

_LOW, _HIGH = -6.0, 12.0  # the largest of two or more normal scores lies between them but for 1e-18 of all rows


def condensation(n_keys: float) -> float:
    """d_k = 2 ln n, where sigma = sigma_c: for n to infinity, a few keys have all weight only above it.

    >>> round(condensation(64), 1)
    8.3
    """
    return freezing_sigma(n_keys) ** 2


def largest_gradient(n_keys: float) -> float:
    """d_k = 8 ln n, where m = sigma_c / sigma is 1/2, and so E|J|_F^2 -> m (1 - m) / 3 is largest, 1/12.

    >>> round(largest_gradient(64), 1)
    33.3
    """
    return 4 * condensation(n_keys)


@cache
def exact_largest_gradient(n_keys: float) -> float:
    """The d_k at which the unscaled E|J|_F^2 is largest, as a real number, from exact expectations; n from 16.

    >>> round(exact_largest_gradient(64), 1)
    14.3
    """

    def loss(log_d_k: float) -> float:
        return -attention_expectations(math.exp(log_d_k), n_keys, 1.0).jacobian_norm

    law = math.log(largest_gradient(n_keys))
    found = optimize.minimize_scalar(loss, bounds=(law - math.log(5), law), method="bounded", options={"xatol": 1e-5})
    return math.exp(found.x)


def typical_crossing(n_keys: float) -> float:
    """d_k = (ln n)^3 / (2 ln^2 2), where the medians of |J|_F are equal, unscaled and under d_k^1/2, to leading order.

    The typical gap is sigma ln 2 / sigma_c, and 2 e^-x = sqrt(e / n) gives x = ln(4n / e) / 2 ~ ln(n) / 2.

    >>> round(typical_crossing(64), 1)
    74.9
    """
    return math.log(n_keys) ** 3 / (2 * math.log(2) ** 2)


def typical_crossing_by_gap(n_keys: float) -> float:
    """d_k = (ln(4n / e) / (2 delta_n))^2: as `typical_crossing`, with the exact `median_gap` delta_n.

    >>> round(typical_crossing_by_gap(64), 1)
    64.9
    """
    return (math.log(4 * n_keys / math.e) / (2 * median_gap(n_keys))) ** 2


def typical_query_crossing(n_keys: float) -> float:
    """The d_k at which the medians of |dL/dq| are equal: sqrt(d_k) delta_n = ln(4 n d_k / e) / 2.

    |dL/dq| is |J|_F sqrt(d_k) over the divisor, so that it gains a factor sqrt(d_k) without the scale.

    >>> round(typical_query_crossing(64))
    338
    """
    gap = median_gap(n_keys)

    def excess(log_d_k: float) -> float:
        return 2 * math.exp(log_d_k / 2) * gap - math.log(4 * n_keys / math.e) - log_d_k

    return math.exp(optimize.brentq(excess, math.log(4 / gap**2), 40.0))  # beyond the least value of the difference


def mean_crossing(n_keys: float) -> float:
    """d_k = 2 ln n (n / 3e)^2, where E|J|_F^2 is equal, unscaled and under d_k^1/2: sigma_c / (3 sigma) = e / n.

    >>> round(mean_crossing(64))
    512
    """
    return condensation(n_keys) * (n_keys / (3 * math.e)) ** 2


def mean_crossing_by_gap(n_keys: float) -> float:
    """d_k = (g_n / 3 a_n)^2: as `mean_crossing`, with the exact `gap_density` g_n, and a_n = E|J|_F^2 at sigma = 1.

    For sigma to infinity, E|J|_F^2 = g_n / (3 sigma): a gap x / sigma has the density g_n / sigma near 0, and the
    integral of 4 e^-2x / (1 + e^-x)^4 over x > 0 is 1/3.

    >>> round(mean_crossing_by_gap(4096) / exact_mean_crossing(4096), 3)
    1.004
    """
    scaled = float(row_values(np.array([1.0]), n_keys)["jacobian_square"][0])
    return (gap_density(n_keys) / (3 * scaled)) ** 2


@cache
def exact_mean_crossing(n_keys: float) -> float:
    """The d_k at which E|J|_F^2 is equal, unscaled and under d_k^1/2, from exact expectations; n from 16.

    >>> round(exact_mean_crossing(64))
    429
    """

    def excess(log_d_k: float) -> float:
        unscaled, scaled = (attention_expectations(math.exp(log_d_k), n_keys, math.exp(p * log_d_k)) for p in (0, 0.5))
        return unscaled.jacobian_norm - scaled.jacobian_norm

    law = math.log(mean_crossing(n_keys))
    return math.exp(optimize.brentq(excess, law - 0.5, law + 0.5, xtol=1e-9))


def gap_density(n_keys: float) -> float:
    """g_n = n (n - 1) int phi(z)^2 Phi(z)^(n - 2) dz: density at 0 of the gap of the two largest of n N(0, 1) scores.

    It is sqrt(2 ln n) for n to infinity.

    >>> round(gap_density(2) * math.sqrt(math.pi), 9)  # |N(0, 2)|
    1.0
    """

    def density(z: float) -> float:
        return math.exp(-(z**2) + (n_keys - 2) * special.log_ndtr(z)) / (2 * math.pi)

    return n_keys * (n_keys - 1) * _integral(density)


def median_gap(n_keys: float) -> float:
    """delta_n: the median of the gap of the two largest of n N(0, 1) scores, ln 2 / sqrt(2 ln n) for n to infinity.

    P(gap > x) = n int phi(z) Phi(z - x)^(n - 1) dz.

    >>> round(median_gap(2) / math.sqrt(2), 9)  # |N(0, 2)|
    0.67448975
    """

    def density(z: float, x: float) -> float:
        return math.exp(-(z**2) / 2 + (n_keys - 1) * special.log_ndtr(z - x)) / math.sqrt(2 * math.pi)

    def excess(x: float) -> float:
        return n_keys * _integral(partial(density, x=x)) - 0.5

    return float(optimize.brentq(excess, 0.0, 4.0, xtol=1e-12))


def _integral(function: Callable[[float], float]) -> float:
    return float(integrate.quad(function, _LOW, _HIGH, epsabs=0, epsrel=1e-11, limit=500)[0])
