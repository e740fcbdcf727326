"""Frozen rows of n keys, by laws for n to infinity; and crossings of median gradients, the roots of
differences of their quantiles at any n.

sigma is the standard deviation of the scaled scores of a row.
"""

from collections.abc import Callable
from functools import cache
from math import exp, log, sqrt

from scipy.optimize import newton

from sdpa.theory.norm_quantiles import Norm, RowNorms, rows_of
from sdpa.theory.row_law import RowLaw

_MAX_KEYS = 1e9


def freezing_sigma(n_keys: float) -> float:
    """sigma_c = sqrt(2 ln n): above it, for large n, a few scores carry all weight.

    Source: Derrida 1981, random energy model. Unscaled attention has sigma ~ sqrt(d_k) and freezes
    at d_k = 2 ln n.

    >>> round(freezing_sigma(64) ** 2, 2)
    8.32
    """
    return sqrt(2 * log(n_keys))


def jacobian_crossing_law(n_keys: float) -> float:
    """(ln n)^3 / (2 ln^2 2): the law of `jacobian_crossing`, from the median gap of the two largest
    scores.

    >>> round(jacobian_crossing_law(64))
    75
    """
    return log(n_keys) ** 3 / (2 * log(2) ** 2)


@cache
def jacobian_crossing(n_keys: int) -> float:
    """The d_k at which medians of |J|_F are equal, unscaled and under d_k^1/2.

    q, k ~ N(0, 1), and n is at least 8. The relative error is below 2e-3.

    >>> round(jacobian_crossing(64))
    72
    """
    return _crossing(n_keys, lambda rows, _: rows.jacobian_norm, power=0)


@cache
def weight_jacobian_crossing(n_keys: int) -> float:
    """The d_k at which medians of |dw/dq|_F are equal, as `jacobian_crossing`.

    The relative error is below 6e-3.

    >>> round(weight_jacobian_crossing(64))
    374
    """
    return _crossing(n_keys, lambda rows, d_k: rows.weight_jacobian_norm(d_k), power=1)


@cache
def query_gradient_crossing(n_keys: int) -> float:
    """The d_k at which medians of |dL/dq| are equal, as `jacobian_crossing`.

    The relative error is below 2e-2.

    >>> round(query_gradient_crossing(64))
    284
    """
    return _crossing(n_keys, lambda rows, d_k: rows.query_gradient_norm(d_k), power=1)


def _crossing(
    n_keys: int,
    norm_of: Callable[[RowNorms, float], Norm],
    power: int,
) -> float:
    """The d_k at which medians of a norm over a power of the divisor are equal, by secants."""
    if not 8 <= n_keys <= _MAX_KEYS:
        raise ValueError(f"expected n_keys from 8 to {_MAX_KEYS:g}, got {n_keys}")

    def median(d_k: float, divisor: float) -> float:
        rows = rows_of(RowLaw(float(d_k), n_keys, divisor), n_keys)
        return rows.quantile(norm_of(rows, d_k)) / divisor**power

    def difference(log_d_k: float) -> float:
        d_k = exp(log_d_k)
        return log(median(d_k, 1.0) / median(d_k, sqrt(d_k)))

    # From 8 to 2^20 keys, |J|_F crosses within a fifth of its law, |dL/dq| at 2.4 to 8.6 times it.
    start = log(jacobian_crossing_law(n_keys) * 4**power)
    return exp(newton(difference, start, x1=start + 0.1, tol=5e-4))
