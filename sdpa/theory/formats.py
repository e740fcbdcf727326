"""Gaussian rows in a number format: probabilities beyond its range, and the mass of weights that 8 bits lose."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from sdpa.arithmetic import Arithmetic
from sdpa.pairs import PairLaw
from sdpa.theory.gaussian_rows import saturated_rows
from sdpa.theory.integrals import (
    STEP,
    FloatArray,
    UnknownError,
    check_sizes,
    gauss_panels,
    span,
    trapezoid,
)
from sdpa.theory.largest_weight import OF_LARGEST, V, log_below
from sdpa.theory.normal_law import NormalLaw, log_g
from sdpa.theory.normal_survival import FEW_SIGMA, kappa, widest_step
from sdpa.theory.query_lengths import gaussian_queries, mean_share
from sdpa.theory.row_lengths import mean_over_lengths
from sdpa.theory.row_metrics import check_arguments

_NOISE = 1e-15  # of the sums behind a probability: what is closer to 1 is 1
_FAR = 17.0  # deviations, 8.5 of a score below the mean and 8.5 of the mean of e^s above it: less likely than the noise


class OutOfRange(NamedTuple):
    """Probabilities for exact scores and weights, before any rounding but the last.

    That of a tiny weight is good to 1e-12, the others to seven digits down to 1e-40, and to 1e-12 for rows of several
    lengths; within 1e-15 of 1 it is 1.
    """

    tiny_weights: float  # P(w < half the smallest number), so that w rounds to 0; in 8 bits P(p w / max w < the same)
    nearly_one_rows: float  # P(max w > 1 - 2^-(p + 1)), p digits of `of_products`: the largest weight rounds to 1
    large_rows: float  # P(e^(max s) > the largest number), s the scaled scores without the maximum subtracted
    spread_of_tiny_weights: float  # standard deviation of the same probability given q, over q


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
    `weight_below` (in formats of 8 bits, `far_below`) and `saturated_rows` are averaged over |q|. Arguments and errors
    as in `attention_expectations`, with the format or its name and a prescale as in `sdpa.arithmetic`; a correlation, a
    normalization and a mean of the keys are unknown, too.

    >>> found = out_of_range(512, 64, 1.0, "float16")
    >>> [round(value, 4) for value in found[:3]]
    [0.9257, 0.3926, 1.0]
    """
    if isinstance(arithmetic, str):
        arithmetic = Arithmetic.parse(arithmetic)
    check_sizes(d_k, n_keys)
    check_arguments(d_k, divisor)
    lengths = gaussian_queries(d_k, law)
    if law.key_mean:
        raise UnknownError(
            "overflow is unknown for a mean of the keys, which shifts the scores of a row"
        )
    sigma = law.query_std * law.key_std / divisor * lengths.length
    below = math.log(arithmetic.smallest) - math.log(2) - math.log(prescale)
    near_one = -(arithmetic.of_products.digits + 1) * math.log(2)
    is_below = far_below if arithmetic.has_8_bits else weight_below
    above = math.log(arithmetic.largest)

    def values(n: float) -> FloatArray:
        tiny = np.array([is_below(s, n, below) for s in sigma.tolist()])
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


def weight_below(sigma: float, n_keys: float, log_threshold: float) -> float:
    """P(w < t) of a weight of a row of independent N(0, sigma^2) scores, for a small t.

    w < t if the sum S of e^s over the other scores exceeds e^s (1 - t) / t. With `kappa`, whose integral is 1,

        P = int kappa(u + ln((1 - t) / t)) (1 - G(u)^(n-1)) du.

    UnknownError for a deviation below 0.4 with so many keys that their mean weight is near t.

    >>> two = weight_below(10.0, 2, math.log(2.0**-25))  # s_1 - s_2 < ln(t / (1 - t))
    >>> round(two / float(special.ndtr(-25 * math.log(2) / math.sqrt(200))), 6)
    1.0
    """
    if sigma < FEW_SIGMA:
        if math.log(n_keys) + log_threshold > -_FAR * sigma:
            raise UnknownError(
                f"weights near the threshold are unknown for scores of a deviation below {FEW_SIGMA}"
            )
        return 0.0
    shift = math.log1p(-math.exp(log_threshold)) - log_threshold
    t, width = trapezoid(
        -9.0 * sigma - 4, 8.2 * sigma + 3, min(widest_step(sigma), STEP * max(1.0, sigma))
    )
    missing = -np.expm1((n_keys - 1) * log_g(t - shift, sigma))
    return max(float(kappa(t, sigma) @ missing) * width, 0.0)


def far_below(sigma: float, n_keys: float, log_ratio: float) -> float:
    """P(s < max s + ln r) of N(0, sigma^2) scores, r < 1: (n - 1) int phi(z) Phi(z)^(n-2) Phi(z + ln r / sigma) dz.

    >>> round(far_below(1.0, 2, -1.0) / float(special.ndtr(-1 / math.sqrt(2))), 12)  # s_1 - s_2 < -1
    1.0
    """
    low, high, step = NormalLaw(1.0).largest(span(n_keys))
    z, width = trapezoid(low, high, step)
    chances = np.exp(-z * z / 2 + (n_keys - 2) * special.log_ndtr(z)) * (
        width / math.sqrt(2 * math.pi)
    )
    return float((n_keys - 1) * chances @ special.ndtr(z + log_ratio / max(sigma, 1e-300)))


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
    """E[1 - sum_j R(p e_j) / (p sum_j e_j)], e_j = e^(s_j - max s) of exact scores, in a format of 8 bits, to 1e-7.

    Given q and the largest score m, whose e is 1, the others are independent. With S their sum and 1 / (1 + S) an
    integral as in `sdpa.theory.largest_weight`,

        E sum_j = n int dF(m) int e^(v - e^v) (A^(n-1) + (n - 1) A^(n-2) B) dv,
        A = E[1(s < m) exp(-e^(v + s - m))],   B = E[1(s < m) (R(p e^(s - m)) / p) exp(-e^(v + s - m))]

    Arguments and errors as in `out_of_range`; formats of more bits are unknown.

    >>> [round(rounding_loss(128, 8192, 128**0.5 / spread, "float8_e4m3fn"), 4) for spread in (0.25, 1.0, 2.0)]
    [0.0007, 0.0006, 0.0385]
    """
    if isinstance(arithmetic, str):
        arithmetic = Arithmetic.parse(arithmetic)
    check_sizes(d_k, n_keys)
    check_arguments(d_k, divisor)
    lengths = gaussian_queries(d_k, law)
    if not arithmetic.has_8_bits:
        raise UnknownError("the mass that rounding loses is known for formats of 8 bits")
    of_binade = np.arange(2 ** (arithmetic.digits - 1), 2**arithmetic.digits)
    binades = arithmetic.smallest * 2.0 ** np.arange(
        math.log2(prescale / arithmetic.smallest_normal)
    )
    low = np.arange(of_binade[0]) * arithmetic.smallest
    numbers = np.concatenate([low, np.outer(binades, of_binade).ravel(), [prescale]]) / prescale
    sigma = (law.query_std * law.key_std / divisor * lengths.length).tolist()

    def values(n: float) -> FloatArray:
        return np.array([lengths.share @ [_kept(s, n, numbers) for s in sigma]])

    return 1 - float(mean_over_lengths(values, np.ones(1), n_keys, shortest)[0])


def _kept(sigma: float, n_keys: float, numbers: FloatArray) -> float:
    """E sum_j R(e_j) / sum_j e_j of a row, R(e) the nearest of rising numbers from 0 to 1."""
    row = NormalLaw(sigma)
    scores, step = trapezoid(*row.largest(span(n_keys)))
    steps = np.log((numbers[1:] + numbers[:-1]) / 2)
    near = -np.arange(20) * row.resolution / 5  # panels that resolve the density of a narrow law
    edges = np.unique(np.concatenate([steps, near[near > steps[0]]]))
    x, weights = gauss_panels(edges, 12)
    rounded = numbers[np.searchsorted(steps, x)] * weights
    kept = (row.density(scores[:, None] + x) * rounded) @ np.exp(-np.exp(x[:, None] + V))
    log_a = log_below(row, scores)
    of_v = np.exp((n_keys - 1) * log_a) + (n_keys - 1) * np.exp((n_keys - 2) * log_a) * kept
    return float(n_keys * step * row.density(scores) @ of_v @ OF_LARGEST[0])
