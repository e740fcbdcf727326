"""Exact expectations of attention rows, and the divisor with a wanted expectation.

Rows have n_keys scores q.k / divisor, weights w = softmax, and J = diag(w) - w w^T. H is the entropy
in nats, g a standard normal gradient to the weights. A mean over rows of many lengths and over |q| is
a sum of means over rows of one length (`row_law`, `row_moments`, `rows`); norms are root mean squares.
The divisor with a wanted value is the root of a monotonic function of ln divisor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import exp, fsum, inf, isnan, log, nan, sqrt
from typing import Literal, get_args

import numpy as np
import scipy  # loads scipy.optimize at its first use, which takes long

from sdpa._arrays import FloatArray
from sdpa.pairs import PairLaw
from sdpa.scaling import Rule, resolve_divisor
from sdpa.theory.integrals import check_sizes
from sdpa.theory.row_law import RowLaw, RowLengths, lengths_of, mean_over_lengths
from sdpa.theory.row_moments import ONE_KEY_MEANS, RowMetrics, row_means
from sdpa.theory.scores import row_variance

# Where a correlation saturates all but one in 10^10 rows, integrals lose the few that carry these
# means.
_UNSATURATED_MEANS = (
    "entropy",
    "jacobian_trace",
    "jacobian_square",
    "query_gradient_square",
    "key_gradient_square",
)
_LEAST_TRACE = 1e-10
_LEAST_SHARE = 1e-40  # down to which `saturated_share` has seven digits
# Smaller shares are lost in the inversion of Laplace transforms, or in the interpolation over
# lengths.
_LEAST_INVERTED, _LEAST_INTERPOLATED = 1e-10, 1e-12

Target = Literal["entropy", "entropy_share", "max_weight", "row_variance"]

# Divisors around the one with scores of variance 1, up to those of one-hot and uniform rows. Each
# octave of new spreads costs a table of exact rows, for each length of a mask.
_RANGES = (2, 16, 1e3)
_ACCURACY = 1e-12  # of the logarithm of a divisor, finer than the expectations
_STEP = 0.25  # of the logarithm of the least divisor, up to the first with a known value


@dataclass(frozen=True)
class AttentionExpectations:
    """Exact values of the metrics of a row; NaN where a correlation saturates almost all rows.

    Attributes:
        max_weight: E max w.
        entropy: E H in nats.
        jacobian_trace: E tr J = 1 - E sum w^2.
        jacobian_norm: sqrt(E |J|_F^2).
        query_gradient_norm: sqrt(E |dL/dq|^2), dL/dq = K^T J g / divisor, over standard normal
            gradients g to the weights too.
        saturated_rows: P(max w > SATURATED); 0 below 1e-10 for correlated or normalized vectors,
            1e-12 for rows of several lengths and 1e-40 for others.
        row_variance: of the scaled scores of a row, E (1/n) sum_j (s_j - mean of s)^2.
        output_std: sqrt(E sum w^2), the standard deviation of the output for independent values of
            variance 1.
        key_gradient_norm: sqrt(E |dL/dk|^2), dL/dk_j = sum_i (J_i g_i)_j q_i / divisor over as many
            queries as keys. For n_queries of them, this norm and the next are
            sqrt(n_queries / n_keys) times as large.
        value_gradient_norm: sqrt(E (dL/dv)^2) of an entry of a value, for a standard normal
            gradient to the output.
        own_weight: E of the weight of the query's own key; without a correlation the mean of 1/n
            over the rows.
    """

    max_weight: float
    entropy: float
    jacobian_trace: float
    jacobian_norm: float
    query_gradient_norm: float
    saturated_rows: float
    row_variance: float
    output_std: float
    key_gradient_norm: float
    value_gradient_norm: float
    own_weight: float


def attention_expectations(
    d_k: float,
    n_keys: float,
    divisor: Rule,
    law: PairLaw = PairLaw(),
    lengths: RowLengths = None,
) -> AttentionExpectations:
    """E max w, E H, E tr J, sqrt(E |J|_F^2), P(max w > SATURATED), and sqrt(E |dL/dq|^2) with

        E |dL/dq|^2 = ((d_k - 1) E |J|_F^2 + E |J z|^2) key_std^2 / divisor^2.

    Here dL/dq = K^T J g / divisor. Split every key into its part along q, key_std z_i, and the
    d_k - 1 parts across it, which are independent of the scores: K^T v has the mean square
    (z.v)^2 + (d_k - 1) |v|^2 over them, times key_std^2. For v = J g with standard normal g these
    have the means |J z|^2 and |J|_F^2. The entries of v sum to 0, so that the mean of the keys adds
    nothing. Likewise E |dL/dk|^2 = E[|J|_F^2 |q|^2] / divisor^2.

    Args:
        d_k: width of q and k, any real number from 1.
        n_keys: keys, a whole number from 2.
        divisor: above 0, or a rule such as `d_k^1/2`.
        law: of queries and keys.
        lengths: with a causal mask, the number of keys that the first query sees: rows of every
            length from it to n_keys, a whole number, occur equally often, and norms are root mean
            squares over all rows. With another mask, such as `local-64`, what
            `sdpa.theory.row_law.rows_under` returns.

    Raises:
        ValueError: an argument out of its range.
        TypeError: the law is no `PairLaw`, or the lengths are of another type.
        UnknownError: rows of this law are unknown.

    >>> round(attention_expectations(d_k=64, n_keys=64, divisor=8.0).max_weight, 5)
    0.10717
    >>> round(attention_expectations(64, 64, "d_k^1/2", lengths=1).max_weight, 5)
    0.2192
    """
    if not isinstance(law, PairLaw):
        raise TypeError(f"law: expected a PairLaw, got {law!r}")
    if not isinstance(lengths, int | np.integer | tuple | None):
        raise TypeError(f"lengths: expected a whole number, runs or None, got {lengths!r}")
    check_sizes(d_k, n_keys)
    divisor = resolve_divisor(divisor, d_k, n_keys)
    return _expectations(float(d_k), float(n_keys), divisor, law, lengths)


@cache
def _expectations(
    d_k: float,
    n_keys: float,
    divisor: float,
    law: PairLaw,
    lengths: RowLengths,
) -> AttentionExpectations:
    def values(length: float) -> FloatArray:
        return np.array(row_means(RowLaw(d_k, length, divisor, law)))

    # Interpolated over lengths, a probability near 0 may come out below it.
    means = np.maximum(mean_over_lengths(values, np.array(ONE_KEY_MEANS), n_keys, lengths), 0.0)
    row = RowMetrics(*means.tolist())
    least = _LEAST_SHARE if lengths is None else _LEAST_INTERPOLATED
    if law.correlation or law.normalize != "none":
        least = _LEAST_INVERTED
    if row.saturated_rows < least:
        row = row._replace(saturated_rows=0.0)
    if law.correlation and row.jacobian_trace < _LEAST_TRACE:
        row = row._replace(**dict.fromkeys(_UNSATURATED_MEANS, nan))
    return AttentionExpectations(
        max_weight=row.max_weight,
        entropy=row.entropy,
        jacobian_trace=min(
            row.jacobian_trace, 1 - 1 / n_keys
        ),  # interpolated, it may come out above
        jacobian_norm=sqrt(row.jacobian_square),
        query_gradient_norm=sqrt(row.query_gradient_square),
        saturated_rows=row.saturated_rows,
        row_variance=row_variance(d_k, n_keys, divisor, law, lengths),
        output_std=sqrt(row.collision),
        key_gradient_norm=sqrt(row.key_gradient_square),
        value_gradient_norm=sqrt(row.collision),
        own_weight=row.own_weight,
    )


def divisor_for(
    target: Target,
    value: float,
    d_k: int,
    n_keys: int,
    law: PairLaw = PairLaw(),
    lengths: RowLengths = None,
) -> float:
    """The divisor c at which the exact expectation of a metric has a wanted value.

    A larger divisor makes a row more uniform. The variance is proportional to 1/c^2.

    Args:
        target: `entropy`, E H in nats; `entropy_share`, E H over `largest_entropy`, from 0 to 1;
            `max_weight`, E max w; or `row_variance`, of the scaled scores in a row.
        value: of the target.
        d_k, n_keys, law, lengths: as in `attention_expectations`.

    Raises:
        ValueError: no divisor gives the value; the message has the range of possible values.
        UnknownError: as in `attention_expectations`.

    >>> round(divisor_for("row_variance", 0.75, d_k=64, n_keys=4), 9)
    8.0
    >>> divisor = divisor_for("entropy_share", 0.9, d_k=128, n_keys=8192)
    >>> round(attention_expectations(128, 8192, divisor).entropy / log(8192), 9)
    0.9
    """
    if target not in get_args(Target):
        raise ValueError(f"target: expected one of {', '.join(get_args(Target))}, got {target!r}")
    check_sizes(d_k, n_keys)
    if lengths_of(lengths, n_keys).max() < 2:
        raise ValueError("expected a mask under which a query sees two keys, got one key for each")
    unit = sqrt(row_variance(d_k, n_keys, 1.0, law, lengths))

    def value_at(divisor: float) -> float:
        means = _expectations(float(d_k), float(n_keys), divisor, law, lengths)
        if target == "max_weight":
            return means.max_weight
        return means.entropy / (largest_entropy(n_keys, lengths) if target != "entropy" else 1)

    return divisor_with(target, value, unit, value_at)


def divisor_with(
    target: Target,
    value: float,
    unit: float,
    value_at: Callable[[float], float],
) -> float:
    """The divisor c with value_at(c) = value; for `row_variance`, c = unit / sqrt(value).

    The search is in ln c. Rows have the variance 1 at the divisor `unit`. The search starts above
    divisors at which value_at is NaN.
    """
    if target == "row_variance":
        if not 0 < value < inf:
            raise ValueError(f"row_variance: expected a finite number above 0, got {value}")
        return unit / sqrt(value)
    for factor in _RANGES:
        low, high = log(unit / factor), log(unit * factor)
        while isnan(value_at(exp(low))):  # a correlation saturates almost all rows
            low += _STEP
        least, most = sorted(value_at(exp(end)) for end in (low, high))
        if least < value < most:
            return exp(
                scipy.optimize.brentq(lambda x: value_at(exp(x)) - value, low, high, xtol=_ACCURACY)
            )
    expected = f"a value above {least:.6g} and below {most:.6g}"
    raise ValueError(f"{target}: expected {expected}, got {value}")


def largest_entropy(n_keys: int, lengths: RowLengths = None) -> float:
    """The mean of ln n over rows of n visible keys: the entropy of equal weights, in nats.

    >>> round(largest_entropy(4), 6), round(largest_entropy(4, lengths=1), 6)
    (1.386294, 0.794513)
    """
    rows = lengths_of(lengths, n_keys).tolist()
    return fsum(map(log, rows)) / len(rows)
