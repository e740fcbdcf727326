"""Three scales of d_k for unscaled attention over n keys, with standard normal queries and keys.

The scores of a row have the standard deviation sigma = |q|, about sqrt(d_k). Rows condense at
sigma_c = sqrt(2 ln n) (Derrida 1981, random energy model). Beyond, the two largest scores decide:
with their gap x, |J|_F is 2 e^-x / (1 + e^-x)^2. A median feels the typical gap, and a mean the few
rows whose gap is small. Under d_k^1/2, |J|_F^2 is e / n to leading order. docs/theory.md derives
the laws of `SCALES` and compares them with exact numbers.
"""

from collections.abc import Callable
from functools import cache
from math import e, exp, log, pi, sqrt
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtri

from sdpa.theory.attention import attention_expectations
from sdpa.theory.limits import (
    jacobian_crossing,
    jacobian_crossing_law,
    weight_jacobian_crossing,
)

# The largest of two or more normal scores lies between them but for 1e-18 of all rows.
_LOW, _HIGH = -6.0, 12.0
# K = 2 ln 2 times the integral of ln(1 + y/2 + y^2) / y over y from 0 to 1
_THIRD_INTEGRAL, _ = quad(lambda y: log(1 + y / 2 + y * y) / y, 0, 1)
THIRD_SCORE = 2 * log(2) * float(_THIRD_INTEGRAL)


@cache
def exact_largest_gradient(n_keys: float) -> float:
    """The d_k with the largest unscaled E|J|_F^2, from exact expectations; n from 16.

    >>> round(exact_largest_gradient(64), 1)
    14.3
    """

    def loss(log_d_k: float) -> float:
        return -attention_expectations(exp(log_d_k), n_keys, 1.0).jacobian_norm

    law = log(8 * log(n_keys))
    found = minimize_scalar(
        loss, bounds=(law - log(5), law), method="bounded", options={"xatol": 1e-5}
    )
    return exp(found.x)


def typical_crossing(n_keys: float) -> float:
    """The d_k at which the medians of |J|_F are equal: x^2 = L^2 / 4 + K at the typical gap x =
    sqrt(d_k) delta_n, L = ln(4 n / e).

    The two largest scores alone have 2 e^-x = sqrt(e / n), so x = L / 2. A third score, e^-t as
    large as the second, multiplies |J|_F by (1 + y / 2 + y^2)^(1/2), y = e^-t, and its distance t
    has the rate 2 ln 2 / x. So ln |J|_F gains K / (2 x) on average, with `THIRD_SCORE` for K.

    >>> round(typical_crossing(4096))
    573
    """
    square = log(4 * n_keys / e) ** 2 / 4 + THIRD_SCORE
    return square / median_gap(n_keys) ** 2


def typical_query_crossing(n_keys: float) -> float:
    """The d_k at which the medians of |dL/dq| are equal: as `typical_crossing`, with L = ln(4 n d_k
    / e).

    |dL/dq| is |J|_F sqrt(d_k) over the divisor, so that it gains a factor sqrt(d_k) without the
    scale.

    >>> round(typical_query_crossing(64))
    354
    """
    gap = median_gap(n_keys)

    def excess(log_d_k: float) -> float:
        half = (log(4 * n_keys / e) + log_d_k) / 2
        return exp(log_d_k) * gap**2 - half**2 - THIRD_SCORE

    return exp(brentq(excess, log(4 / gap**2), 40.0))  # beyond the least value of the difference


@cache
def exact_mean_crossing(n_keys: float) -> float:
    """The d_k with the same E|J|_F^2 unscaled and under d_k^1/2, exactly; n from 16.

    >>> round(exact_mean_crossing(64))
    429
    """

    def excess(log_d_k: float) -> float:
        unscaled, scaled = (
            attention_expectations(exp(log_d_k), n_keys, exp(p * log_d_k)) for p in (0, 0.5)
        )
        return unscaled.jacobian_norm - scaled.jacobian_norm

    law = log(SCALES["mean"].law(n_keys))
    return exp(brentq(excess, law - 0.5, law + 0.5, xtol=1e-9))


def mean_crossing(n_keys: float) -> float:
    """The law of `exact_mean_crossing`, with its first correction in 1 / n.

    E|J|_F^2 is g_n / (3 sigma) (1 - b / sigma) unscaled, with the density g_n of the gap of the two
    largest of n normal scores at 0, g_n^2 = 2 ln n - ln ln n - ln(4 pi) + 2 gamma, and b near
    sqrt(2 ln n); and e / n (1 - (4 e^2 - 4 e + 1) / n) under d_k^1/2. The correction is (8 e^2 - 14
    e + 2) / n.

    >>> round(mean_crossing(4096) / exact_mean_crossing(4096), 3)
    0.999
    """
    square = 2 * log(n_keys) - log(log(n_keys)) - log(4 * pi) + 2 * np.euler_gamma
    correction = (8 * e**2 - 14 * e + 2) / n_keys
    return float((n_keys / (3 * e)) ** 2 * square * (1 + correction))


def largest_gradient(n_keys: float) -> float:
    """4 b_n^2 - 5, b_n = Phi^-1(1 - 1/n): the law of `exact_largest_gradient`.

    >>> round(largest_gradient(4096), 1)
    43.6
    """
    return float(4 * ndtri(1 / n_keys) ** 2 - 5)


def median_gap(n_keys: float) -> float:
    """delta_n: the median of the gap of the two largest of n N(0, 1) scores.

    It tends to ln 2 / sqrt(2 ln n). P(gap > x) = n int phi(z) Phi(z - x)^(n - 1) dz.

    >>> round(median_gap(2) / sqrt(2), 9)  # |N(0, 2)|
    0.67448975
    """

    def excess(x: float) -> float:
        def density(z: float) -> float:
            exponent = -(z**2) / 2 + (n_keys - 1) * log_ndtr(z - x)
            return exp(exponent) / sqrt(2 * pi)

        integral, _ = quad(density, _LOW, _HIGH, epsabs=0, epsrel=1e-11, limit=500)
        return float(n_keys * integral - 0.5)

    return float(brentq(excess, 0.0, 4.0, xtol=1e-12))


class Scale(NamedTuple):
    """A scale of d_k for unscaled attention: its law of n_keys, and an exact value if known."""

    what: str
    formula: str
    law: Callable[[float], float]
    exact: Callable[[float], float] | None = None


SCALES = {
    "condensation": Scale("rows condense", "2 ln n", lambda n: 2 * log(n)),
    "largest": Scale(
        "r.m.s. of |J|_F is largest", "4 b^2 - 5", largest_gradient, exact_largest_gradient
    ),
    "typical": Scale(
        "medians of |J|_F are equal",
        "(ln n)^3 / (2 ln^2 2)",
        jacobian_crossing_law,
        jacobian_crossing,
    ),
    "typical_by_gap": Scale("the same", "median gap", typical_crossing, jacobian_crossing),
    "typical_query": Scale(
        "medians of |dw/dq|_F are equal",
        "median gap",
        typical_query_crossing,
        weight_jacobian_crossing,
    ),
    "mean": Scale(
        "r.m.s. of |J|_F are equal", "(n / 3e)^2 (2 ln n - ...)", mean_crossing, exact_mean_crossing
    ),
}
