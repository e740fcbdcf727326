"""Exact expectations of attention rows at finite d_k and n_keys, for the laws of queries and keys that allow them.

Given a Gaussian query q, its scaled scores are independent N(0, sigma^2) up to a shift of all, sigma = key_std |q| /
divisor, so that `GaussianRow` gives everything for that |q|, and these functions average over |q| (`queries`). Other
laws have rows of their own: `normalized` and `correlated`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from sdpa._arrays import as_float
from sdpa.pairs import PairLaw
from sdpa.scaling import Scaling, resolve_divisor
from sdpa.theory.correlated import correlated_means
from sdpa.theory.lengths import mean_over_lengths
from sdpa.theory.normalized import normalized_means
from sdpa.theory.queries import LONGEST, QueryLengths, query_lengths
from sdpa.theory.row_tables import row_values, saturated_rows
from sdpa.theory.row_variance import row_variance
from sdpa.theory.unknown import UnknownError

FloatArray = npt.NDArray[np.float64]
Number = TypeVar("Number", float, FloatArray)


@dataclass(frozen=True)
class AttentionExpectations(Generic[Number]):
    """Exact values of the metrics of a row, by their names; NaN where a correlation saturates almost all rows.

    Each is a float, or an array if one of the arguments was.

    Attributes:
        max_weight, entropy, jacobian_trace: E max w, E H in nats, E tr J = 1 - E sum w^2.
        jacobian_norm: sqrt(E |J|_F^2).
        query_gradient_norm: sqrt(E |dL/dq|^2), dL/dq = K^T J g / divisor, over standard normal gradients g to the
            weights too.
        saturated_rows: P(max w > SATURATED).
        row_variance: of the scaled scores of a row, E (1/n) sum_j (s_j - mean of s)^2.
        output_std: sqrt(E sum w^2), the standard deviation of the output for independent values of variance 1.
        key_gradient_norm: sqrt(E |dL/dk|^2), dL/dk_j = sum_i (J_i g_i)_j q_i / divisor over as many queries as keys;
            sqrt(n_queries / n_keys) times that for n_queries of them.
        value_gradient_norm: sqrt(E (dL/dv)^2) of an entry of a value, for a standard normal gradient to the output and
            as many queries as keys; otherwise as `key_gradient_norm`.
        own_weight: E of the weight of the query's own key; without a correlation the mean of 1/n over the rows.
    """

    max_weight: Number
    entropy: Number
    jacobian_trace: Number
    jacobian_norm: Number
    query_gradient_norm: Number
    saturated_rows: Number
    row_variance: Number
    output_std: Number
    key_gradient_norm: Number
    value_gradient_norm: Number
    own_weight: Number


@overload
def attention_expectations(
    d_k: float, n_keys: float, divisor: float | Scaling | str, law: PairLaw = ..., shortest: int | None = ...
) -> AttentionExpectations[float]: ...


@overload
def attention_expectations(
    d_k: npt.ArrayLike,
    n_keys: npt.ArrayLike,
    divisor: npt.ArrayLike | Scaling | str,
    law: PairLaw = ...,
    shortest: int | None = ...,
) -> AttentionExpectations[FloatArray]: ...


def attention_expectations(
    d_k: npt.ArrayLike,
    n_keys: npt.ArrayLike,
    divisor: npt.ArrayLike | Scaling | str,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
) -> AttentionExpectations[float] | AttentionExpectations[FloatArray]:
    """E max w, E H, E tr J, sqrt(E |J|_F^2), P(max w > SATURATED), and sqrt(E |dL/dq|^2) with

        E |dL/dq|^2 = ((d_k - 1) E |J|_F^2 + E |J z|^2) key_std^2 / divisor^2.

    The last: dL/dq = K^T J g / divisor. Split every key into its part along q, key_std z_i, and the d_k - 1 parts
    across it, which are independent of the scores: K^T v has the mean square (z.v)^2 + (d_k - 1) |v|^2 over them,
    times key_std^2, and for v = J g with standard normal g these have the means |J z|^2 and |J|_F^2. The mean of the
    keys adds nothing, because the entries of v sum to 0.

    The gradient to the keys has the mean square E[|J|_F^2 |q|^2] / divisor^2 over the keys, since gradients g of
    different queries are independent.

    Args:
        d_k: width of q and k, from 1; like n_keys any real number, or an array of them.
        n_keys: keys, from 2.
        divisor: above 0, an array of such numbers, or a rule such as `d_k^1/2`. Arrays are broadcast together.
        law: of queries and keys.
        shortest: with a causal mask, the number of keys that the first query sees: rows of every length from it to
            n_keys, a whole number, occur equally often, and the norms are root mean squares over all of them.

    Raises:
        ValueError: an argument out of its range.
        TypeError: the law is no `PairLaw`, or the shortest row no whole number.
        UnknownError: rows of this law are unknown.

    >>> round(attention_expectations(d_k=64, n_keys=64, divisor=8.0).max_weight, 5)
    0.10717
    >>> round(attention_expectations(64, 64, 8.0, shortest=1).max_weight, 5)
    0.2192
    >>> attention_expectations([64, 4096], 64, "d_k^1/2").max_weight.round(5)
    array([0.10717, 0.10727])
    """
    if not isinstance(law, PairLaw):
        raise TypeError(f"law: expected a PairLaw, got {law!r}")
    if not isinstance(shortest, int | np.integer | None):
        raise TypeError(f"shortest: expected a whole number or None, got {shortest!r}")
    sizes = as_float("d_k", d_k, min_ndim=0), as_float("n_keys", n_keys, min_ndim=0)
    if isinstance(divisor, str | Scaling):
        pairs = np.broadcast(*sizes)
        divisor = np.reshape([resolve_divisor(divisor, *pair) for pair in pairs], pairs.shape)
    given = np.broadcast(*sizes, as_float("divisor", divisor, min_ndim=0))
    found = [_expectations(*map(float, each), law, shortest) for each in given]
    if not given.shape:
        return found[0]
    names = [field.name for field in fields(AttentionExpectations)]
    return AttentionExpectations(
        **{name: np.reshape([getattr(each, name) for each in found], given.shape) for name in names}
    )


@cache
def _expectations(
    d_k: float, n_keys: float, divisor: float, law: PairLaw, shortest: int | None
) -> AttentionExpectations[float]:
    """`attention_expectations` of numbers."""
    check_arguments(d_k, divisor)

    def values(length: float) -> FloatArray:
        return row_means(d_k, length, divisor, law)

    # Interpolated over lengths, a probability near 0 may come out below it.
    means = np.maximum(mean_over_lengths(values, _OF_ONE_KEY, n_keys, shortest), 0.0)
    of = dict(zip(OF_ROWS, means.tolist(), strict=True))
    if law.correlation and of["jacobian_trace"] < _LEAST_TRACE:
        of |= dict.fromkeys(_OF_UNSATURATED, math.nan)
    return AttentionExpectations(
        of["max_weight"],
        of["entropy"],
        of["jacobian_trace"],
        math.sqrt(of["jacobian_square"]),
        math.sqrt(of["query_gradient_square"]),
        of["saturated_rows"],
        row_variance(d_k, n_keys, divisor, law, shortest),
        math.sqrt(of["collision"]),
        math.sqrt(of["key_gradient_square"]),
        math.sqrt(of["collision"]),
        of["own_weight"],
    )


OF_ROWS = (
    "max_weight",
    "entropy",
    "jacobian_trace",
    "jacobian_square",
    "query_gradient_square",
    "saturated_rows",
    "collision",
    "key_gradient_square",
    "own_weight",
)
# Where a correlation saturates all but one in 10^10 rows, integrals lose the few that carry these means.
_OF_UNSATURATED = ("entropy", "jacobian_trace", "jacobian_square", "query_gradient_square", "key_gradient_square")
_LEAST_TRACE = 1e-10
_OF_ONE_KEY = np.array([1.0, 0, 0, 0, 0, 1, 1, 0, 1])  # whose weight is 1


def row_means(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> FloatArray:
    """The means of `OF_ROWS` over rows of n_keys keys."""
    if law.correlation or law.normalize != "none":
        means, _ = row_moments(d_k, n_keys, divisor, law)
        return means
    lengths = gaussian_queries(d_k, law)
    sigma = law.query_std * law.key_std / divisor * lengths.length
    values = row_values(sigma, n_keys)
    max_weight, entropy, trace, square, score_square, collision = lengths.share @ values
    gradient = ((d_k - 1) * square + score_square) * (law.key_std / divisor) ** 2
    of_keys = (lengths.share * lengths.length**2) @ values[:, 3] * (law.query_std / divisor) ** 2
    saturated = saturated_share(d_k, n_keys, divisor, law)
    return np.array([max_weight, entropy, trace, square, gradient, saturated, collision, of_keys, 1 / n_keys])


def row_moments(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> tuple[FloatArray, FloatArray]:
    """The means of `OF_ROWS` and the mean squares of `deviation_limits`, for a correlation or a normalization."""
    of_law = normalized_means if law.normalize != "none" else correlated_means
    return of_law(d_k, n_keys, divisor, law)


@cache
def saturated_share(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> float:
    """P(max w > SATURATED) over independent Gaussian queries and keys."""
    return mean_share(d_k, divisor, law, lambda sigma: saturated_rows(sigma, n_keys))


def mean_share(d_k: float, divisor: float, law: PairLaw, share: Callable[[FloatArray], FloatArray]) -> float:
    """E of a probability that rises with the deviation of the scores of a row, with seven digits down to 1e-40.

    Where it is small, the longest queries decide, and finer nodes reach further: queries beyond them have a share of
    less than 1e-10 of the mean.
    """
    scale = law.query_std * law.key_std / divisor
    lengths = gaussian_queries(d_k, law)
    mean = float(lengths.share @ share(scale * lengths.length))
    if mean > 1e10 * LONGEST:
        return mean
    longest = 10.0 ** (10 * math.floor(math.log10(max(mean, 1e-270)) / 10) - 10)
    lengths = gaussian_queries(d_k, law, halvings=5, longest=longest)
    return float(lengths.share @ share(scale * lengths.length))


def gaussian_queries(
    d_k: float, law: PairLaw, *, halvings: int | None = None, longest: float = LONGEST
) -> QueryLengths:
    """|q| of independent Gaussian queries and keys, as in `query_lengths`; UnknownError for any other law."""
    if law.entries.name != "gaussian":
        raise UnknownError("softmax rows are known only for gaussian entries")
    if law.spectrum:
        raise UnknownError("softmax rows are unknown for entries of unequal variance")
    if law.correlation:
        raise UnknownError("deviations of rows are unknown for queries that correlate with their keys")
    if law.normalize != "none":
        raise UnknownError("deviations of rows are unknown for normalized vectors")
    return query_lengths(d_k, d_k * (law.query_mean / law.query_std) ** 2, halvings, longest=longest)


def check_arguments(d_k: float, divisor: float) -> None:
    """ValueError unless d_k is at least 1 and the divisor is above 0."""
    if not (d_k >= 1 and 0 < divisor < math.inf):
        raise ValueError(f"expected d_k of at least 1, and a divisor above 0, got {d_k} and {divisor}")
