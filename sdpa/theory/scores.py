"""The law of the score q.k of independent Gaussian q and k, and moments of scores under wider assumptions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

FloatArray = npt.NDArray[np.float64]

_RANGE = 42.0  # e^-42 is below the precision of a double
_STEP = 0.2
GAUSSIAN_MOMENTS = (3.0, 15.0, 105.0)  # E x^4, E x^6, E x^8 of a standard normal entry


def score_mean() -> float:
    """E[q.k / divisor] = 0: the entries of q have mean 0 and are independent of those of k.

    >>> score_mean()
    0.0
    """
    return 0.0


def score_variance(d_k: float, divisor: float, input_std: float = 1.0) -> float:
    """Var[q.k / divisor] = d_k input_std^4 / divisor^2.

    A sum of d_k uncorrelated products, each of variance E q^2 E k^2 = input_std^4 (Vaswani et al. 2017, footnote 4).
    With divisor = d_k^p and input_std = 1 it is d_k^(1 - 2p). In the units of the scaled scores, squared.

    >>> score_variance(d_k=64, divisor=8.0)
    1.0
    """
    return float(d_k * input_std**4 / divisor**2)


def score_kurtosis(d_k: float, fourth_moment: float = 3.0) -> float:
    """E[(q.k)^4] / Var^2 - 3 = (m4^2 - 3) / d_k, with m4 = E x^4 of a unit-variance entry (3 if Gaussian).

    A product of two entries has fourth moment m4^2, so excess kurtosis m4^2 - 3; the excess kurtosis of a sum of
    d_k independent equal terms is 1/d_k of it. For Gaussian entries 6 / d_k. No divisor changes it.

    >>> score_kurtosis(d_k=4)
    1.5
    """
    return (fourth_moment**2 - 3) / d_k


def score_moments(d_k: float, moments: Sequence[float] = GAUSSIAN_MOMENTS) -> tuple[float, float, float, float]:
    """E s^2, E s^4, E s^6 and E s^8 of s = q.k, with unit-variance entries of the moments E x^4, E x^6, E x^8.

    A product of two entries has the moments 1, m4^2, m6^2, m8^2. Its even cumulants, times d_k, are those of the sum,
    whose moments come back from mu_n = sum_j C(n-1, j-1) kappa_j mu_(n-j); odd ones are 0.

    Raises:
        ValueError: d_k below 1, or another number of moments than three.

    >>> score_moments(d_k=2)  # the law of Laplace: E s^n = n!
    (2.0, 24.0, 720.0, 40320.0)
    """
    if not d_k >= 1 or len(moments) != 3:
        raise ValueError(f"expected d_k of at least 1 and three moments, got {d_k} and {moments}")
    of_product = [1.0, 1.0, *(moment**2 for moment in moments)]  # orders 0, 2, 4, 6, 8
    cumulants, of_sum = [0.0] * 5, [1.0] + [0.0] * 4
    for n in range(1, 5):
        rest = sum(math.comb(2 * n - 1, 2 * j - 1) * cumulants[j] * of_product[n - j] for j in range(1, n))
        cumulants[n] = of_product[n] - rest
        terms = (math.comb(2 * n - 1, 2 * j - 1) * d_k * cumulants[j] * of_sum[n - j] for j in range(1, n + 1))
        of_sum[n] = float(sum(terms))
    return of_sum[1], of_sum[2], of_sum[3], of_sum[4]


@dataclass(frozen=True)
class ScoreDeviations:
    """Exact standard deviations of what one scaled score adds to the estimates of mean, variance and kurtosis."""

    score_mean: float
    score_variance: float
    score_kurtosis: float


def score_power_deviations(
    d_k: float, divisor: float, input_std: float = 1.0, moments: Sequence[float] = GAUSSIAN_MOMENTS
) -> ScoreDeviations:
    """Standard deviations of s, of s^2, and of the leading term of the excess kurtosis, s = q.k / divisor.

    With v = E s^2 and beta = E s^4 / v^2, sqrt(v), sqrt(E s^4 - v^2), and that of s^4 / v^2 - 2 beta s^2 / v: the
    influence of one score on m4 / m2^2 (delta method; the mean, whose influence is of third moments, adds nothing).
    All exact; those of estimates from N independent scores are these / sqrt(N), for the kurtosis to leading order.

    Args:
        d_k: width of q and k, from 1.
        divisor: above 0.
        input_std: standard deviation of the entries of q and k.
        moments: E x^4, E x^6, E x^8 of a unit-variance entry (`moments` of a law in `sdpa.inputs`).

    >>> round(score_power_deviations(d_k=1, divisor=1.0).score_variance ** 2, 9)  # E s^4 - 1 = 3^2 - 1
    8.0
    """
    second, fourth, sixth, eighth = score_moments(d_k, moments)
    beta = fourth / second**2
    # E (s^4 / v^2 - 2 beta s^2 / v)^2 - beta^2, whose mean is -beta.
    influence = eighth / second**4 - 4 * beta * sixth / second**3 + 4 * beta**3 - beta**2
    scale = input_std**2 / divisor
    return ScoreDeviations(scale * math.sqrt(second), scale**2 * math.sqrt(fourth - second**2), math.sqrt(influence))


def correlated_score_moments(
    d_k: float,
    q_mean: float = 0.0,
    k_mean: float = 0.0,
    q_std: float = 1.0,
    k_std: float = 1.0,
    correlation: float = 0.0,
) -> tuple[float, float]:
    """E[q.k] = d (mq mk + rho sq sk), Var[q.k] = d (mq^2 sk^2 + mk^2 sq^2 + 2 rho mq mk sq sk + (1 + rho^2) sq^2 sk^2).

    For jointly Gaussian pairs (q_i, k_i), independent between i, of means mq, mk, standard deviations sq, sk and
    correlation rho: from q_i = mq + sq a and k_i = mk + sk b with E a^2 b^2 = 1 + 2 rho^2.

    Returns:
        Mean and variance of the score, before any divisor.

    >>> correlated_score_moments(d_k=10, correlation=0.5)
    (5.0, 12.5)
    """
    both = q_std * k_std
    mean = q_mean * k_mean + correlation * both
    variance = (
        (q_mean * k_std) ** 2
        + (k_mean * q_std) ** 2
        + 2 * correlation * q_mean * k_mean * both
        + both**2 * (1 + correlation**2)
    )
    return d_k * mean, d_k * variance


def score_log_density(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """p(s) = |s|^((d-1)/2) K_((d-1)/2)(|s|) / (sqrt(pi) 2^((d-1)/2) Gamma(d/2)), its logarithm, s = q.k.

    For independent standard normal entries. The characteristic function of q.k is (1 + t^2)^(-d/2), whose inverse is
    this variance-gamma density; d = 1 is the product-normal law K_0(|s|) / pi (Craig 1936). The Bessel function is
    computed as a logarithm, so that neither small |s| nor large d_k overflows.

    Args:
        score: any shape; +inf in the result at 0 if d_k is 1.
        d_k: from 1, any real number.

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


def score_survival(score: npt.ArrayLike, d_k: float) -> FloatArray:
    """P(q.k > s) = E Phi(-s / |q|), with |q|^2 chi-squared of d_k degrees of freedom, standard normal entries.

    Given q the score is N(0, |q|^2). Trapezoidal rule in ln |q|^2; keeps its relative precision far into the tail.

    Args:
        score: any shape.
        d_k: from 1, any real number.

    >>> float(score_survival(0.0, 8).round(12))
    0.5
    """
    length, share = _query_lengths(d_k)
    return np.asarray(special.ndtr(-np.asarray(score, dtype=float)[..., None] / length) @ share)


def largest_score_survival(score: npt.ArrayLike, d_k: float, n_keys: float) -> FloatArray:
    """P(max_i q.k_i > s) = E[1 - Phi(s / |q|)^n] of n keys that share a query; else as `score_survival`.

    Given q the n scores are independent N(0, |q|^2).

    Args:
        score: any shape.
        d_k: from 1, any real number.
        n_keys: from 1, any real number.

    >>> float(largest_score_survival(0.0, 8, n_keys=3).round(12))  # 1 - 1/2^3
    0.875
    """
    length, share = _query_lengths(d_k)
    below = n_keys * special.log_ndtr(np.asarray(score, dtype=float)[..., None] / length)
    return np.asarray(-np.expm1(below) @ share)


def _query_lengths(d_k: float) -> tuple[FloatArray, FloatArray]:
    """|q| at the nodes of ln |q|^2, chi-squared of d_k degrees of freedom, and the probability of each."""
    half = d_k / 2
    low, high = math.log(special.gammaincinv(half, 1e-17)), math.log(special.gammainccinv(half, 1e-290))
    x = np.linspace(low, high, math.ceil((high - low) / min(0.05, 0.3 / math.sqrt(half))) + 1)
    weights = np.exp(half * (x - math.log(half)) - np.exp(x) + half)
    return np.sqrt(2 * np.exp(x)), weights / weights.sum()


def _log_bessel_k(order: float, x: FloatArray) -> FloatArray:
    """ln K_nu(x) = ln(1/2 int exp(-x cosh t + nu t) dt) for nu from 0 and x above 0.

    With t = asinh(nu / x) + y and R = sqrt(x^2 + nu^2) the exponent is its largest value minus
    (R - nu) (cosh y - 1) + nu (e^y - 1 - y) for either sign of y, in which nothing cancels. The integrand is analytic
    for |Im y| < pi / 2 and falls off at both ends: the trapezoidal rule converges exponentially.
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
