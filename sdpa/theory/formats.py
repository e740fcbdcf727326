"""Probabilities of Gaussian rows beyond the range of a number format."""

from functools import cache
from math import exp, log, log1p, pi, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from sdpa.arithmetic import Arithmetic
from sdpa.pairs import PairLaw
from sdpa.theory.gaussian_rows import saturated_rows
from sdpa.theory.integrals import STEP, FloatArray, UnknownError, span, trapezoid
from sdpa.theory.normal_law import NormalLaw, log_g
from sdpa.theory.normal_survival import FEW_SIGMA, kappa, widest_step
from sdpa.theory.query_lengths import gaussian_queries, mean_share
from sdpa.theory.row_law import RowLaw
from sdpa.theory.row_lengths import mean_over_lengths

_NOISE = 1e-15  # of the sums behind a probability: what is closer to 1 is 1
# Deviations, 8.5 of a score below the mean and 8.5 of the mean of e^s above it: less likely than
# the noise.
_FAR = 17.0


class OutOfRange(NamedTuple):
    """Probabilities for exact scores and weights, before any rounding but the last.

    The probability of a tiny weight is good to 1e-12, the others to seven digits down to 1e-40, and
    to 1e-12 for rows of several lengths. A probability within 1e-15 of 1 comes out as 1.

    Attributes:
        tiny_weights: P(w < half the smallest number), so that w rounds to 0; in 8 bits P(p w / max
            w < half the smallest number), p the prescale.
        nearly_one_rows: P(max w > 1 - 2^-(d + 1)), d digits of `of_products`: the largest weight
            rounds to 1.
        large_rows: P(e^(max s) > the largest number), s the scaled scores without the maximum
            subtracted.
    """

    tiny_weights: float
    nearly_one_rows: float
    large_rows: float


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

    Given q, the scores are normal with the deviation sigma = key_std |q| / divisor. P(max s > t),
    1 - Phi(t / sigma)^n, `weight_below` (in formats of 8 bits, `far_below`) and `saturated_rows`
    are averaged over |q|. Arguments and errors as in `attention_expectations`, with the format or
    its name and a prescale as in `sdpa.arithmetic`; a correlation, a normalization and a mean of
    the keys are unknown, too.

    >>> found = out_of_range(512, 64, 1.0, "float16")
    >>> [round(value, 4) for value in found[:3]]
    [0.9257, 0.3926, 1.0]
    """
    if isinstance(arithmetic, str):
        arithmetic = Arithmetic.parse(arithmetic)
    rows = RowLaw.checked(d_k, n_keys, divisor, law)
    lengths = gaussian_queries(d_k, law)
    if law.key_mean:
        reason = "a mean of the keys, which shifts the scores of a row"
        raise UnknownError(f"overflow is unknown for {reason}")
    sigma = rows.unit * lengths.length
    log_least = log(arithmetic.smallest) - log(2) - log(prescale)
    log_most = log(arithmetic.largest)
    near_one = -(arithmetic.of_products.digits + 1) * log(2)
    below = far_below if arithmetic.has_8_bits else weight_below

    def values(n: float) -> FloatArray:
        tiny = np.array([below(s, n, log_least) for s in sigma.tolist()])
        mean = lengths.share @ tiny
        nearly_one = mean_share(rows, lambda s: saturated_rows(s, n, near_one))
        return np.array([mean, nearly_one, large(n)])

    def large(n: float) -> float:
        return mean_share(rows, lambda s: -np.expm1(n * log_ndtr(log_most / s)))

    of_one = np.array([0.0, 1.0, large(1)])
    shares = mean_over_lengths(values, of_one, n_keys, shortest).tolist()
    of_rows = 1e-40 if shortest is None else 1e-12
    known = (
        0.0 if share < least else share if share < 1 - _NOISE else 1.0
        for share, least in zip(shares, (1e-12, of_rows, of_rows), strict=True)
    )
    return OutOfRange(*known)


def weight_below(sigma: float, n_keys: float, log_threshold: float) -> float:
    """P(w < t) = int kappa(u + ln((1 - t) / t)) (1 - G(u)^(n-1)) du of a weight, for a small t.

    The scores are independent N(0, sigma^2). w < t if the sum of e^s over the other scores exceeds
    e^s (1 - t) / t. The integral of `kappa` is 1. UnknownError for a deviation below 0.4 with so
    many keys that their mean weight is near t.

    >>> two = weight_below(10.0, 2, log(2.0**-25))  # s_1 - s_2 < ln(t / (1 - t))
    >>> round(two / float(ndtr(-25 * log(2) / sqrt(200))), 6)
    1.0
    """
    if sigma < FEW_SIGMA:
        if log(n_keys) + log_threshold > -_FAR * sigma:
            reason = f"scores of a deviation below {FEW_SIGMA}"
            raise UnknownError(f"weights near the threshold are unknown for {reason}")
        return 0.0
    shift = log1p(-exp(log_threshold)) - log_threshold
    step = min(widest_step(sigma), STEP * max(1.0, sigma))
    t, width = trapezoid(-9.0 * sigma - 4, 8.2 * sigma + 3, step)
    missing = -np.expm1((n_keys - 1) * log_g(t - shift, sigma))
    return max(float(kappa(t, sigma) @ missing) * width, 0.0)


def far_below(sigma: float, n_keys: float, log_ratio: float) -> float:
    """P(s < max s + ln r) = (n - 1) int phi(z) Phi(z)^(n-2) Phi(z + ln r / sigma) dz, r < 1.

    The n scores are independent N(0, sigma^2).

    >>> round(far_below(1.0, 2, -1.0) / float(ndtr(-1 / sqrt(2))), 12)  # s_1 - s_2 < -1
    1.0
    """
    z, width = trapezoid(*NormalLaw(1.0).largest(span(n_keys)))
    densities = np.exp(-z * z / 2 + (n_keys - 2) * log_ndtr(z))
    chances = densities * (width / sqrt(2 * pi))
    shift = log_ratio / max(sigma, 1e-300)
    return float((n_keys - 1) * chances @ ndtr(z + shift))
