"""Lower limits of the variances of one row's metrics, from their expectations alone.

In a cell of almost saturated rows, few rows carry a mean, and draws that miss them also have a small spread. A limit
from below reveals this. Exact variances (`deviations`) are better where they are known; these limits hold for rows of
any law. With t = tr J and j = |J|_F of a row, where j <= t because J has no negative eigenvalue,

    E t^2 >= E j^2,   E H^2 >= E j^2,   E (1 - w)^2 >= E j^2 / 4 of any weight w,

since H >= -ln sum w^2 >= t and t <= 1 - w^2 <= 2 (1 - w). For x with E sqrt(x) <= m, E x^2 >= (E x)^3 / m^2, because
moments are log-convex in their order (Lyapunov). So j^2 has m = E t, and the squares of the gradients have

    |dL/dq| <= t D / divisor,   D the largest distance of two keys,   from |K^T J|_F <= sum_ij w_i w_j |k_i - k_j|,
    j |q| / divisor <= t |q| / divisor.
"""

import math

import numpy as np
import numpy.typing as npt

from sdpa.pairs import PairLaw

FloatArray = npt.NDArray[np.float64]

_MARGIN = 6.0  # standard deviations that the largest distance of Gaussian keys exceeds with a probability below 1e-8


def least_row_variances(means: FloatArray, d_k: float, n_keys: float, divisor: float, law: PairLaw) -> FloatArray:
    """Lower limits of the variances of the metrics of `AttentionDeviations`, in their order; 0 where none is known.

    The limit of j |q| assumes that rows of longer queries are no less saturated, so that E[t |q|] <= E t E|q|.

    Args:
        means: of `attention.OF_ROWS`, over rows of n_keys keys.
        d_k, n_keys, divisor, law: as in `attention_expectations`.
    """
    max_weight, entropy, trace, square, gradient, saturated, _, of_keys, own = means.tolist()
    query, distance = _lengths(d_k, n_keys, law)
    own_limit = 0.0 if math.isnan(own) else square / 4 - (1 - own) ** 2
    limits = [
        square / 4 - (1 - max_weight) ** 2,
        square - entropy**2,
        square - trace**2,
        _of_root(square, trace),
        _of_root(gradient, trace * distance / divisor),
        saturated * (1 - saturated),
        0.0,
        _of_root(of_keys, trace * query / divisor),
        own_limit,
    ]
    return np.maximum(limits, 0.0)


def _of_root(mean: float, of_root: float) -> float:
    """The least variance of x from E x and an upper limit of E sqrt(x)."""
    return mean**2 * (mean / of_root**2 - 1) if of_root > 0 else 0.0


def _lengths(d_k: float, n_keys: float, law: PairLaw) -> tuple[float, float]:
    """The r.m.s. of |q|, and the largest distance of two keys that any draw has."""
    if law.normalize != "none":
        length = 1.0 if law.normalize == "l2" else math.sqrt(d_k)
        return length, 2 * length
    query = math.sqrt(d_k) * math.hypot(law.query_std, law.query_mean)
    # The largest of n^2 / 2 chi variables of d_k degrees of freedom, times sqrt(2) for a difference.
    largest = math.sqrt(d_k) + 2 * math.sqrt(math.log(n_keys)) + _MARGIN
    return query, math.sqrt(2) * law.key_std * largest
