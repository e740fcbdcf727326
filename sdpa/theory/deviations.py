"""Exact standard deviations of the metrics of one attention row, and lower limits of those of a draw's mean.

For independent Gaussian entries, with averages over |q| as in `attention`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa.pairs import PairLaw
from sdpa.theory.attention import check_arguments, gaussian_queries, row_moments, saturated_share
from sdpa.theory.deviation_limits import least_row_variances
from sdpa.theory.lengths import mean_over_lengths
from sdpa.theory.queries import QueryLengths
from sdpa.theory.row_tables import row_spreads, row_values, saturated_rows
from sdpa.theory.row_variance import spread_of_row_variance

FloatArray = npt.NDArray[np.float64]

_MIN_VARIANCE = 2e-8
_COUNT = 9  # fields of `AttentionDeviations`
_SATURATED, _ROW_VARIANCE = 5, 6  # places among them
# The power of a factor of all keys in a metric beside its effect on the scores: |dL/dq|^2 has two. |dL/dk|^2 lacks the
# two that a factor of all queries gives it.
_KEY_FACTORS = np.array([0, 0, 0, 0, 2, 0, 0, -2, 0])


@dataclass(frozen=True)
class AttentionDeviations:
    """Standard deviations of the metrics of one row; for the norms, those of their squares.

    `query_gradient_square` is that of |K^T J|_F^2 / divisor^2, the mean of |dL/dq|^2 over standard normal gradients to
    the weights, `key_gradient_square` that of |J|_F^2 |q|^2 / divisor^2, the part of a row in the mean square over the
    keys, and `own_weight` that of the weight of any one key.
    """

    max_weight: float
    entropy: float
    jacobian_trace: float
    jacobian_square: float
    query_gradient_square: float
    saturated_rows: float
    row_variance: float
    key_gradient_square: float
    own_weight: float


@cache
def attention_deviations(
    d_k: float, n_keys: int, divisor: float, law: PairLaw = PairLaw(), shortest: int | None = None
) -> AttentionDeviations:
    """Standard deviations of max w, H, tr J, |J|_F^2, |K^T J|_F^2, 1[max w > SATURATED] and others of one row.

    Each variance is the mean over |q| of the variance given |q| plus the variance over |q| of the mean given |q|. Up to
    a factor key_std^2, |K^T J|_F^2 is F = |J z|^2 + |J G|_F^2, with z the part of the keys along q and G the d_k - 1
    parts across it: standard normal columns, independent of the scores. Given w, |J G|_F^2 has the mean
    (d_k - 1) |J|_F^2 and the variance 2 (d_k - 1) tr J^4, so that

        E F^2 = E |J z|^4 + 2 (d_k - 1) E[|J z|^2 |J|_F^2] + (d_k - 1)^2 E |J|_F^4 + 2 (d_k - 1) E tr J^4.

    Given |q|, the variance of the n scores is sigma^2 / n times a chi-squared variable of n - 1 degrees of freedom, and
    the weight of any one key has the mean square E sum w^2 / n.

    The mean of N rows of different queries and keys has a standard error of these / sqrt(N). A variance that is below
    2e-8 of the mean square comes out as 0: it is a difference of two moments that are good to 1e-9.

    Rows of several lengths have the root mean square of the deviations of each length, where 2e-8 of the mean square
    stand for a smaller variance: an upper limit for the mean over a draw, whose lengths are always the same.

    Args:
        d_k: width of q and k, from 1; any real number.
        n_keys: keys, a whole number from 2.
        divisor: above 0.
        law: of queries and keys.
        shortest: as in `attention_expectations`.

    Raises:
        ValueError: an argument out of its range.
        UnknownError: the entries are not Gaussian and independent.

    >>> round(attention_deviations(d_k=64, n_keys=64, divisor=8.0).max_weight, 5)
    0.04808
    """
    if n_keys != int(n_keys):
        raise ValueError(f"expected a whole number of keys, got {n_keys}")
    check_arguments(d_k, divisor)

    def variances(length: float) -> FloatArray:
        exact, square = _row_variances(d_k, length, divisor, law)
        known = _known(exact, square)
        return known if shortest is None else np.where(known > 0, known, _MIN_VARIANCE * square)

    variance = mean_over_lengths(variances, np.zeros(_COUNT), n_keys, shortest)
    return AttentionDeviations(*np.sqrt(np.maximum(variance, 0.0)).tolist())


@cache
def least_draw_deviations(
    d_k: float, n_keys: int, n_queries: int, divisor: float, law: PairLaw = PairLaw(), shortest: int | None = None
) -> AttentionDeviations:
    """Lower limits of the standard deviations of the means over the n_queries rows of a draw, which share its keys.

    With V the variance of one row's value f, and C = Var E[f | K] the covariance of two rows of the same keys, the mean
    has the variance (V + (n_queries - 1) C) / n_queries. For any h(K), C >= Cov(f, h)^2 / Var h (Cauchy and Schwarz).
    Here h is sum_i |k_i - mean of k|^2 over key_std^2, chi-squared of (n_keys - 1) d_k degrees of freedom: the long
    keys of a draw saturate all of its rows together. A factor L of all keys changes f in expectation by

        dE f / d ln L = Cov(f, h),   Var h = 2 (n_keys - 1) d_k

    (the score identity, as in the bound of Cramer and Rao). Scores depend on |q| in the same way, so that this is the
    derivative by a factor of all |q| (`QueryLengths.slope`) for all metrics but two: |dL/dq|^2 has a further factor
    L^2, + 2 E f, and |J|_F^2 |q|^2 has its factor |q|^2 from the queries alone, - 2 E f. V has a lower limit of the
    same kind, Cov(f, |q|^2)^2 / Var |q|^2 over the queries, for rows so equal that `attention_deviations` does not know
    it. For one query and a known V, the limit is the deviation.

    For rows of several lengths, h is that of all n_keys keys, dE f / d ln L a mean over the lengths, and so is the
    lower limit of the variance over the queries given the keys, divided by n_queries.

    Correlated and normalized vectors have the limits of `deviation_limits`, as if rows of the same keys were
    independent.

    Args:
        d_k, n_keys, divisor, law, shortest: as in `attention_deviations`.
        n_queries: rows of a draw.

    >>> least_draw_deviations(64, 64, 1, 8.0) == attention_deviations(64, 64, 8.0)
    True
    >>> row, draw = attention_deviations(64, 2, 8.0), least_draw_deviations(64, 2, 10**9, 8.0)
    >>> round(draw.entropy / row.entropy, 3)  # below 1: any number of queries sees no more than one pair of keys
    0.115
    """
    check_arguments(d_k, divisor)
    if law.correlation or law.normalize != "none":

        def limits(length: float) -> FloatArray:
            limit = least_row_variances(*row_moments(d_k, length, divisor, law))
            limit[_ROW_VARIANCE] = spread_of_row_variance(d_k, length, divisor, law)
            return limit

        of_row = np.maximum(mean_over_lengths(limits, np.zeros(_COUNT), n_keys, shortest), 0.0)
        return AttentionDeviations(*np.sqrt(of_row / n_queries).tolist())

    def sensitivities(length: float) -> FloatArray:
        return _sensitivities(d_k, length, divisor, law)

    of_keys, of_query = np.split(mean_over_lengths(sensitivities, np.zeros(2 * _COUNT), n_keys, shortest), 2)
    per_key = of_keys**2 / (2 * (n_keys - 1) * d_k)
    if shortest is None:
        row = np.array(dataclasses.astuple(attention_deviations(d_k, n_keys, divisor, law)))
        variance = np.maximum(row**2, of_query + per_key)
        return AttentionDeviations(*np.sqrt((variance + (n_queries - 1) * per_key) / n_queries).tolist())
    return AttentionDeviations(*np.sqrt(per_key + np.maximum(of_query, 0.0) / n_queries).tolist())


def _sensitivities(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> FloatArray:
    """dE f / d ln L of every metric, and Cov(f, |q|^2)^2 / Var |q|^2, of rows of one length."""
    lengths, means = _metrics(d_k, n_keys, divisor, law)
    mean = lengths.share @ means
    of_query = (lengths.share * (lengths.length**2 - lengths.share @ lengths.length**2)) @ (means - mean)
    of_keys = (lengths.share * lengths.slope) @ (means - mean) + _KEY_FACTORS * mean
    return np.concatenate([of_keys, of_query**2 / lengths.variance])


def _metrics(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> tuple[QueryLengths, FloatArray]:
    """The law of |q|, and the means given |q| of the metrics of `AttentionDeviations`, (nodes, 9)."""
    lengths = gaussian_queries(d_k, law)
    sigma = law.query_std * law.key_std / divisor * lengths.length
    values, per_key = row_values(sigma, n_keys)[:, :5], np.full(len(sigma), 1 / n_keys)
    of_key = values[:, 3] * (law.query_std / divisor * lengths.length) ** 2
    of_scores = (1 - 1 / n_keys) * sigma**2
    values[:, 4] += (d_k - 1) * values[:, 3]
    values[:, 4] *= (law.key_std / divisor) ** 2
    return lengths, np.column_stack([values, saturated_rows(sigma, n_keys), of_scores, of_key, per_key])


def _row_variances(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> tuple[FloatArray, FloatArray]:
    """Variances of the metrics of one row, and their mean squares over |q|."""
    lengths, means = _metrics(d_k, n_keys, divisor, law)
    sigma = law.query_std * law.key_std / divisor * lengths.length
    spreads, collision = row_spreads(sigma, n_keys), row_values(sigma, n_keys)[:, 5]
    fourth_along, both, fourth, trace_fourth = spreads[:, 4:].T
    across = d_k - 1
    second = fourth_along + 2 * across * (both + trace_fourth) + across**2 * fourth
    of_gradient = second * (law.key_std / divisor) ** 4 - means[:, 4] ** 2
    of_saturation = means[:, _SATURATED] * (1 - means[:, _SATURATED])
    of_scores = 2 * (n_keys - 1) / n_keys**2 * sigma**4
    of_key = spreads[:, 3] * (law.query_std / divisor * lengths.length) ** 4
    of_weight = collision / n_keys - 1 / n_keys**2
    given_length = np.column_stack([spreads[:, :4], of_gradient, of_saturation, of_scores, of_key, of_weight])
    mean = lengths.share @ means
    variance = lengths.share @ (given_length + (means - mean) ** 2)
    saturated = saturated_share(d_k, n_keys, divisor, law)
    variance[_SATURATED] = saturated * (1 - saturated)
    square = lengths.share @ means**2
    square[_SATURATED] = 0.0
    return variance, square


def _known(variance: Any, square: Any) -> Any:
    """Variances, 0 where their share of the mean square is so small that rounding errors reach it."""
    return np.where(variance > _MIN_VARIANCE * square, variance, 0.0)
