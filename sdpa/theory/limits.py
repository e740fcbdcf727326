"""Laws of long rows, frozen rows, and the d_k at which unscaled and scaled gradients are equal.

The scores of an unscaled row of n keys, with standard normal queries and keys, have the standard
deviation sigma = |q|, about sqrt(d_k). Rows condense at sigma_c = sqrt(2 ln n). Beyond, the two
largest scores decide: with their gap x, |J|_F is 2 e^-x / (1 + e^-x)^2. A median feels the typical
gap, and a mean the few rows whose gap is small. With d_k^1/2, |J|_F^2 is e / n to leading order.
docs/theory.md derives the laws and compares them with exact numbers.

Frozen rows, of sigma > sigma_c, tend to the weights of Poisson-Dirichlet PD(m, 0), m = sigma_c /
sigma < 1 (Ruelle 1987; Pitman and Yor 1997, Ann. Probab. 25:855). Convergence is slow, with
corrections of the order ln ln n / ln n (Bovier, Kurkova and Loewe 2002).
"""

from functools import cache
from math import e, exp, gamma, log, pi, sqrt

import numpy as np
import scipy  # loads its parts at their first use, which takes long
from scipy.special import digamma, gammainc, log_ndtr, ndtri

from sdpa.theory.norm_quantiles import row_norms
from sdpa.theory.row_law import RowLaw

_MAX_KEYS = 1e9
# The largest of two or more normal scores lies between them but for 1e-18 of all rows.
_LOW, _HIGH = -6.0, 12.0


def freezing_sigma(n_keys: float) -> float:
    """sigma_c = sqrt(2 ln n): above it, for large n, a few scores carry all weight.

    Source: Derrida 1981, random energy model. Unscaled attention has sigma ~ sqrt(d_k) and freezes
    at d_k = 2 ln n.

    >>> round(freezing_sigma(64) ** 2, 2)
    8.32
    """
    return sqrt(2 * log(n_keys))


def frozen_entropy(m: float) -> float:
    """E H = psi(1) - psi(1 - m), in nats.

    It is the derivative at p = 1 of E sum_j w_j^p = Gamma(p - m) / (Gamma(p) Gamma(1 - m)).

    >>> from math import log
    >>> round(frozen_entropy(0.5) / log(4), 12)
    1.0
    """
    return float(digamma(1) - digamma(1 - m))


def frozen_jacobian_square(m: float) -> float:
    """E |J|_F^2 = m (1 - m) / 3.

    |J|_F^2 = s_2 - 2 s_3 + s_2^2 with s_p = sum_j w_j^p, E s_2 = 1 - m,
    E s_3 = (1 - m) (2 - m) / 2, and E s_2^2 = (1 - m) (3 - 2m) / 3 (Derrida and Toulouse 1985, J.
    Phys. Lett. 46:L223).

    >>> round(frozen_jacobian_square(0.5) * 12, 12)
    1.0
    """
    return m * (1 - m) / 3


def frozen_max_weight(m: float) -> float:
    """E max_j w_j = int_0^inf e^-t / (Gamma(1 - m) t^m + m E_(1+m)(t)) dt.

    E_p is the exponential integral (Pitman and Yor).

    >>> round(frozen_max_weight(0.5), 4)
    0.6265
    """

    def integrand(t: float) -> float:
        # m E_(1+m)(t) = e^-t - t E_m(t), and t E_m(t) = t^m Gamma(1 - m, t): the sum is e^-t + t^m
        # gamma(1 - m, t).
        others = exp(t) * t**m * gamma(1 - m) * gammainc(1 - m, t)
        return float(1 / (1 + others))

    integral, _ = scipy.integrate.quad(integrand, 0, 60, epsabs=1e-12, limit=500)
    return float(integral)


def jacobian_crossing_law(n_keys: float) -> float:
    """(ln n)^3 / (2 ln^2 2): the law of `median_crossing` of |J|_F, from the median gap of the two largest
    scores.

    >>> round(jacobian_crossing_law(64))
    75
    """
    return log(n_keys) ** 3 / (2 * log(2) ** 2)


@cache
def median_crossing(norm: str, n_keys: int) -> float:
    """The d_k at which medians of a norm are equal, unscaled and with d_k^1/2.

    The norm is a field of `NormMedians`, and q, k ~ N(0, 1). The relative error is below 2e-3 for
    jacobian_norm, 6e-3 for weight_jacobian_norm and 2e-2 for query_gradient_norm.

    Raises:
        ValueError: n_keys is not from 8 to 1e9.

    >>> round(median_crossing("jacobian_norm", 64)), round(median_crossing("query_gradient_norm", 64))
    (72, 284)
    """
    if not 8 <= n_keys <= _MAX_KEYS:
        raise ValueError(f"expected n_keys from 8 to {_MAX_KEYS:g}, got {n_keys}")
    power = 0 if norm == "jacobian_norm" else 1  # of the divisor

    def median(d_k: float, divisor: float) -> float:
        rows = row_norms(RowLaw(float(d_k), n_keys, divisor), n_keys)
        return rows.quantile(rows.norm(norm, d_k)) / divisor**power

    def difference(log_d_k: float) -> float:
        d_k = exp(log_d_k)
        return log(median(d_k, 1.0) / median(d_k, sqrt(d_k)))

    # From 8 to 2^20 keys, |J|_F crosses within a fifth of its law, |dL/dq| at 2.4 to 8.6 times it.
    start = log(jacobian_crossing_law(n_keys) * 4**power)
    return exp(scipy.optimize.newton(difference, start, x1=start + 0.1, tol=5e-4))


@cache
def _third_score() -> float:
    """K = 2 ln 2 times the integral of ln(1 + y/2 + y^2) / y over y from 0 to 1."""
    integral, _ = scipy.integrate.quad(lambda y: log(1 + y / 2 + y * y) / y, 0, 1)
    return 2 * log(2) * float(integral)


def typical_crossing(n_keys: float) -> float:
    """The d_k at which the medians of |J|_F are equal: x^2 = L^2 / 4 + K at the typical gap x =
    sqrt(d_k) delta_n, L = ln(4 n / e).

    The two largest scores alone have 2 e^-x = sqrt(e / n), so x = L / 2. A third score, e^-t as
    large as the second, multiplies |J|_F by (1 + y / 2 + y^2)^(1/2), y = e^-t, and its distance t
    has the rate 2 ln 2 / x. So ln |J|_F gains K / (2 x) on average, K = 1.0761.

    >>> round(typical_crossing(4096))
    573
    """
    square = log(4 * n_keys / e) ** 2 / 4 + _third_score()
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
        return exp(log_d_k) * gap**2 - half**2 - _third_score()

    return exp(
        scipy.optimize.brentq(excess, log(4 / gap**2), 40.0)
    )  # beyond the least value of the difference


def mean_crossing(n_keys: float) -> float:
    """The d_k with the same E|J|_F^2 unscaled and with d_k^1/2, with the first correction in 1 / n.

    E|J|_F^2 is g_n / (3 sigma) (1 - b / sigma) unscaled, with the density g_n of the gap of the two
    largest of n normal scores at 0, g_n^2 = 2 ln n - ln ln n - ln(4 pi) + 2 gamma, and b near
    sqrt(2 ln n); and e / n (1 - (4 e^2 - 4 e + 1) / n) with d_k^1/2. The correction is (8 e^2 - 14
    e + 2) / n.

    >>> f"{mean_crossing(4096):.3g}"
    '3.33e+06'
    """
    square = 2 * log(n_keys) - log(log(n_keys)) - log(4 * pi) + 2 * np.euler_gamma
    correction = (8 * e**2 - 14 * e + 2) / n_keys
    return float((n_keys / (3 * e)) ** 2 * square * (1 + correction))


def largest_gradient(n_keys: float) -> float:
    """The d_k with the largest unscaled E|J|_F^2: 4 b_n^2 - 5, b_n = Phi^-1(1 - 1/n).

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

        integral, _ = scipy.integrate.quad(density, _LOW, _HIGH, epsabs=0, epsrel=1e-11, limit=500)
        return float(n_keys * integral - 0.5)

    return float(scipy.optimize.brentq(excess, 0.0, 4.0, xtol=1e-12))
