"""Above which spread rows freeze, and the d_k at which unscaled and scaled gradients are equal.

The scores of an unscaled row of n keys, with standard normal queries and keys, have the standard
deviation sigma = |q|, about sqrt(d_k). Rows condense at sigma_c = sqrt(2 ln n). Beyond, the two
largest scores decide: with their gap x, |J|_F is 2 e^-x / (1 + e^-x)^2. A median feels the typical
gap. With d_k^1/2, |J|_F^2 is e / n to leading order. docs/theory.md derives the laws.
"""

from functools import cache
from math import exp, log, sqrt

import scipy  # loads its parts at their first use, which takes long

from sdpa.theory.norm_quantiles import row_norms
from sdpa.theory.row_law import RowLaw

_MAX_KEYS = 1e9  # as of `GaussianRow`


def freezing_sigma(n_keys: float) -> float:
    """sigma_c = sqrt(2 ln n): above it, for large n, a few scores carry all weight.

    Source: Derrida 1981, random energy model. Unscaled attention has sigma ~ sqrt(d_k) and freezes
    at d_k = 2 ln n.

    >>> round(freezing_sigma(64) ** 2, 2)
    8.32
    """
    return sqrt(2 * log(n_keys))


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
