"""Exact quantiles of the gradient norms of rows of two keys.

With D = (q . (k_1 - k_2)) / c the difference of the scaled scores of two keys, the product of their weights is
y = w_1 w_2 = 1 / (4 cosh^2(D / 2)), and

    |J|_F = 2 y,   |dL/dq| = |K^T J|_F / c = sqrt(2) y R / c   with R = |k_1 - k_2|.

For independent normal entries, R is sqrt(2) key_std times the root of a chi-squared number, and D given R is normal
with the deviation query_std R / c. So a share E erfc(t(R) / (sqrt(2) query_std R / c)) of the rows has a norm below x,
where t(R) = |D| at y = x / 2 or x c / (sqrt(2) R), and t = 0 for any y from 1/4.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from sdpa.pairs import PairLaw
from sdpa.theory.unknown import UnknownError

FloatArray = npt.NDArray[np.float64]

_OMITTED = 1e-16  # the share of the shortest and of the longest differences that the integral over R leaves out
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)
_NODES = (1 + _NODES) / 2


def two_key_quantile(
    norm: Literal["jacobian_norm", "query_gradient_norm"],
    share: float,
    d_k: int,
    divisor: float,
    law: PairLaw = PairLaw(),
) -> float:
    """The norm that a share of all rows of two keys stay below.

    Args:
        norm: |J|_F, or |dL/dq| as the root mean square over standard normal gradients to the weights.
        share: of the rows, between 0 and 1; 0.5 for the median.
        d_k: width of queries and keys.
        divisor: of the scores.
        law: of queries and keys: independent Gaussian entries, those of queries of mean 0.

    Raises:
        UnknownError: another law.

    >>> round(two_key_quantile("jacobian_norm", 0.5, 2, 2**0.5), 9)  # D is then exponential: |D| = ln 2
    0.444444444
    """
    if law != PairLaw(key_mean=law.key_mean, query_std=law.query_std, key_std=law.key_std):
        raise UnknownError(f"expected independent Gaussian entries, those of queries of mean 0, got {law}")
    size = math.sqrt(2) * law.key_std
    shortest, longest = (size * math.sqrt(special.chdtri(d_k, tail)) for tail in (1 - _OMITTED, _OMITTED))

    def below(log_norm: float) -> float:
        # Rows of shorter differences cannot have this norm; there t rises from 0 like a square root.
        certain = 0.0 if norm == "jacobian_norm" else 4 * math.exp(log_norm) * divisor / math.sqrt(2)
        start = min(max(shortest, certain), longest)
        apart = start + (longest - start) * _NODES**2
        factor = 2.0 if norm == "jacobian_norm" else math.sqrt(2) * apart / divisor
        tails = special.erfc(_difference(log_norm - np.log(factor)) * divisor / (math.sqrt(2) * law.query_std * apart))
        squares = (apart / size) ** 2
        log_density = (d_k - 1) / 2 * np.log(squares / 2) - squares / 2 - special.gammaln(d_k / 2)
        density = math.sqrt(2) * np.exp(log_density) / size
        above = (longest - start) * float((_WEIGHTS * _NODES * density) @ tails)
        return float(special.chdtr(d_k, (start / size) ** 2)) * (start > shortest) + above - share

    largest = math.log(0.5 if norm == "jacobian_norm" else longest / divisor)
    widest = 40 * law.query_std * longest / divisor
    return math.exp(optimize.brentq(below, largest - widest - 50, largest, xtol=1e-13))


def _difference(log_product: FloatArray) -> FloatArray:
    """|D| of two weights with ln(w_1 w_2), 0 from ln(1/4) on; ln w_2 = ln y + ln 2 - ln(1 + sqrt(1 - 4 y))."""
    product = np.minimum(np.exp(log_product), 0.25)
    root = np.sqrt(1 - 4 * product)
    smaller = np.minimum(log_product, math.log(0.25)) + math.log(2) - np.log1p(root)
    return np.asarray(np.log1p(-np.exp(smaller)) - smaller)
