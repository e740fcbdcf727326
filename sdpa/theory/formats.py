"""Gaussian rows in a number format: probabilities beyond its range, and the mass of weights that rounding loses."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from sdpa.arithmetic import Arithmetic
from sdpa.pairs import PairLaw
from sdpa.theory.gaussian_rows import mean_over_lengths, saturated_rows
from sdpa.theory.integrals import STEP, FloatArray, UnknownError, trapezoid
from sdpa.theory.normal_rows import FEW_SIGMA, kappa, log_g, widest_step
from sdpa.theory.row_metrics import check_arguments
from sdpa.theory.score_law import gaussian_queries, mean_share

_FEW_DIGITS = 4  # of formats with few numbers below 1
_NOISE = 1e-15  # of the sums behind a probability: what is closer to 1 is 1
_FAR = 17.0  # deviations, 8.5 of a score below the mean and 8.5 of the mean of e^s above it: less likely than the noise


class OutOfRange(NamedTuple):
    """Probabilities for exact scores and weights, before any rounding but the last.

    That of a tiny weight is good to 1e-12, the others to seven digits down to 1e-40, and to 1e-12 for rows of several
    lengths; within 1e-15 of 1 it is 1.
    """

    tiny_weights: float  # P(w < half the smallest number), so that w rounds to 0
    nearly_one_rows: float  # P(max w > 1 - 2^-(p + 1)), so that the largest weight rounds to 1
    large_rows: float  # P(e^(max s) > the largest number), s the scaled scores without the maximum subtracted
    spread_of_tiny_weights: float  # standard deviation over q of P(w < half the smallest number | q)


@cache
def out_of_range(
    d_k: float,
    n_keys: float,
    divisor: float,
    arithmetic: Arithmetic | str,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
    prescale: float = 1.0,
) -> OutOfRange:
    """P(a weight rounds to 0), P(the largest rounds to 1), P(e^s overflows) in a format.

    Given q, the scores are normal with the deviation sigma = key_std |q| / divisor; P(max s > t), 1 - Phi(t / sigma)^n,
    `weight_below` and `saturated_rows` are averaged over |q|. Arguments and errors as in `attention_expectations`, with
    the format or its name, and the prescale of its weights; a correlation, a normalization and a mean of the keys are
    unknown, too.

    >>> found = out_of_range(512, 64, 1.0, "float16")
    >>> [round(value, 4) for value in found[:3]]
    [0.9257, 0.3926, 1.0]
    """
    if isinstance(arithmetic, str):
        arithmetic = Arithmetic.parse(arithmetic)
    check_arguments(d_k, divisor)
    lengths = gaussian_queries(d_k, law)
    if law.key_mean:
        raise UnknownError("overflow is unknown for a mean of the keys, which shifts the scores of a row")
    sigma = law.query_std * law.key_std / divisor * lengths.length
    below = math.log(arithmetic.smallest) - math.log(2) - math.log(prescale)
    near_one = -(arithmetic.digits + 1) * math.log(2)
    above = math.log(arithmetic.largest)

    def values(n: float) -> FloatArray:
        tiny = np.array([weight_below(s, n, below) for s in sigma.tolist()])
        mean = lengths.share @ tiny
        nearly_one = mean_share(d_k, divisor, law, lambda s: saturated_rows(s, n, near_one))
        return np.array([mean, nearly_one, large(n), lengths.share @ (tiny - mean) ** 2])

    def large(n: float) -> float:
        return mean_share(d_k, divisor, law, lambda s: -np.expm1(n * special.log_ndtr(above / s)))

    of_one = np.array([0.0, 1.0, large(1), 0.0])
    *shares, variance = mean_over_lengths(values, of_one, n_keys, shortest).tolist()
    shares = [share if share < 1 - _NOISE else 1.0 for share in shares]
    if shares[0] < _NOISE:
        shares[0] = variance = 0.0
    return OutOfRange(shares[0], shares[1], shares[2], math.sqrt(max(variance, 0.0)))


@cache
def rounding_loss(
    d_k: float,
    n_keys: float,
    divisor: float,
    arithmetic: Arithmetic | str,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
    prescale: float = 1.0,
) -> float:
    """E[1 - sum_j R(p w_j) / p] of exact weights w in a format of 8 bits with the prescale p, to 1e-9.

    R is a sum of steps. With the numbers x_i of the format up to p, from 0,

        E sum_j R(p w_j) = n sum_i (x_i+1 - x_i) P(w > (x_i + x_i+1) / (2 p)),

    a finite sum of `weight_below`, averaged over |q|. Arguments and errors as in `out_of_range`.

    >>> [round(rounding_loss(64, 1024, 8.0, "float8_e4m3fn", prescale=p), 4) for p in (1.0, 256.0)]
    [0.6154, 0.0008]
    """
    if isinstance(arithmetic, str):
        arithmetic = Arithmetic.parse(arithmetic)
    check_arguments(d_k, divisor)
    lengths = gaussian_queries(d_k, law)
    if arithmetic.digits > _FEW_DIGITS:
        raise UnknownError("the mass that rounding loses is known for formats of 8 bits")
    per_binade = 2 ** (arithmetic.digits - 1)
    binades = arithmetic.smallest * 2.0 ** np.arange(math.log2(prescale / arithmetic.smallest_normal))
    normal = (binades[:, None] * np.arange(per_binade, 2 * per_binade)).ravel()
    numbers = np.concatenate([arithmetic.smallest * np.arange(per_binade), normal, [prescale]]) / prescale
    steps, ends = np.diff(numbers), np.log((numbers[1:] + numbers[:-1]) / 2).tolist()
    sigma = (law.query_std * law.key_std / divisor * lengths.length).tolist()

    def values(n: float) -> FloatArray:
        above = np.array([[1 - weight_below(s, n, end) for end in ends] for s in sigma])
        return np.array([1 - n * float(lengths.share @ above @ steps)])

    return float(mean_over_lengths(values, np.zeros(1), n_keys, shortest)[0])


def weight_below(sigma: float, n_keys: float, log_threshold: float) -> float:
    """P(w < t) of a weight of a row of independent N(0, sigma^2) scores.

    w < t if the sum S of e^s over the other scores exceeds e^s (1 - t) / t. With `kappa`, whose integral is 1,

        P = int kappa(u + ln((1 - t) / t)) (1 - G(u)^(n-1)) du.

    UnknownError for a deviation below 0.4 with more than two keys, so many that their mean weight is near t.

    >>> two = weight_below(10.0, 2, math.log(2.0**-25))  # s_1 - s_2 < ln(t / (1 - t))
    >>> round(two / float(special.ndtr(-25 * math.log(2) / math.sqrt(200))), 6)
    1.0
    """
    shift = math.log1p(-math.exp(log_threshold)) - log_threshold
    if sigma < FEW_SIGMA:
        if n_keys == 2:  # the difference of two scores is normal
            return float(special.ndtr(-shift / max(math.sqrt(2) * sigma, 1e-300)))
        if math.log(n_keys) + log_threshold > -_FAR * sigma:
            raise UnknownError(f"weights near the threshold are unknown for scores of a deviation below {FEW_SIGMA}")
        return 0.0
    t, width = trapezoid(-9.0 * sigma - 4, 8.2 * sigma + 3, min(widest_step(sigma), STEP * max(1.0, sigma)))
    missing = -np.expm1((n_keys - 1) * log_g(t - shift, sigma))
    return max(float(kappa(t, sigma) @ missing) * width, 0.0)
