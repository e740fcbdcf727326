"""The mass of attention weights that rounding to 8 bits loses, for Gaussian rows."""

from functools import cache
from math import log2

import numpy as np

from sdpa.arithmetic import Arithmetic
from sdpa.pairs import PairLaw
from sdpa.theory.integrals import (
    FloatArray,
    UnknownError,
    gauss_panels,
    span,
    trapezoid,
)
from sdpa.theory.largest_weight import OF_LARGEST, V, log_below
from sdpa.theory.normal_law import NormalLaw
from sdpa.theory.query_lengths import gaussian_queries
from sdpa.theory.row_law import RowLaw
from sdpa.theory.row_lengths import mean_over_lengths

_LEAST = 1e-7  # the error of a loss; a smaller one is 0


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
    """E[1 - sum_j R(p e_j) / (p sum_j e_j)], e_j = e^(s_j - max s), to 1e-7.

    R rounds to a format of 8 bits, p is the prescale, and scores are exact. Given q and the largest
    score m, whose e is 1, the others are independent. With S their sum and 1 / (1 + S) an integral
    as in `sdpa.theory.largest_weight`,

        E sum_j = n int dF(m) int e^(v - e^v) (A^(n-1) + (n - 1) A^(n-2) B) dv,
        A = E[1(s < m) exp(-e^(v + s - m))],
        B = E[1(s < m) (R(p e^(s - m)) / p) exp(-e^(v + s - m))].

    Arguments and errors as in `out_of_range`; formats of more bits are unknown.

    >>> divisors = [128**0.5 / spread for spread in (0.25, 1.0, 2.0)]
    >>> [round(rounding_loss(128, 8192, each, "float8_e4m3fn"), 4) for each in divisors]
    [0.0007, 0.0006, 0.0385]
    """
    if isinstance(arithmetic, str):
        arithmetic = Arithmetic.parse(arithmetic)
    rows = RowLaw.checked(d_k, n_keys, divisor, law)
    lengths = gaussian_queries(d_k, law)
    if not arithmetic.has_8_bits:
        raise UnknownError("the mass that rounding loses is known for formats of 8 bits")
    numbers = _numbers(arithmetic, prescale)
    sigma = (rows.unit * lengths.length).tolist()

    def values(n: float) -> FloatArray:
        kept = [_kept(s, n, numbers) for s in sigma]
        return np.array([lengths.share @ kept])

    loss = 1 - float(mean_over_lengths(values, np.ones(1), n_keys, shortest)[0])
    return loss if abs(loss) > _LEAST else 0.0


def _numbers(arithmetic: Arithmetic, prescale: float) -> FloatArray:
    """The numbers of a format from 0 to the prescale, over the prescale."""
    of_binade = np.arange(2 ** (arithmetic.digits - 1), 2**arithmetic.digits)
    if log2(prescale) % 1:
        raise ValueError(f"prescale: expected a power of 2, got {prescale}")
    exponents = np.arange(log2(prescale / arithmetic.smallest_normal))
    subnormal = np.arange(of_binade[0]) * arithmetic.smallest
    normal = np.outer(arithmetic.smallest * 2.0**exponents, of_binade).ravel()
    return np.concatenate([subnormal, normal, [prescale]]) / prescale


def _kept(sigma: float, n_keys: float, numbers: FloatArray) -> float:
    """E sum_j R(e_j) / sum_j e_j of a row, R(e) the nearest of rising numbers from 0 to 1."""
    row = NormalLaw(sigma)
    scores, step = trapezoid(*row.largest(span(n_keys)))
    steps = np.log((numbers[1:] + numbers[:-1]) / 2)
    near = -np.arange(20) * row.resolution / 5  # panels that resolve the density of a narrow law
    near = near[near > steps[0]]
    edges = np.unique(np.concatenate([steps, near]))
    x, weights = gauss_panels(edges, 12)
    rounded = numbers[np.searchsorted(steps, x)] * weights
    kernel = np.exp(-np.exp(x[:, None] + V))
    kept = (row.density(scores[:, None] + x) * rounded) @ kernel
    log_a = log_below(row, scores)
    of_others = (n_keys - 1) * np.exp((n_keys - 2) * log_a) * kept
    of_v = np.exp((n_keys - 1) * log_a) + of_others
    return float(n_keys * step * row.density(scores) @ of_v @ OF_LARGEST)
