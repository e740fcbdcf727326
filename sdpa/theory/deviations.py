"""Exact standard deviations of the metrics of a row, and lower limits for means of a draw.

Deviations are exact for independent Gaussian entries. Correlated and normalized vectors have lower
limits: where few unsaturated rows carry a mean, draws that miss them have a small spread, which
such a limit reveals.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from sdpa.pairs import PairLaw
from sdpa.theory.gaussian_rows import ROW_SPREADS, row_values
from sdpa.theory.integrals import FloatArray
from sdpa.theory.row_law import RowLaw
from sdpa.theory.row_lengths import mean_over_lengths
from sdpa.theory.row_metrics import ZERO, RowMetrics, means_by_length, saturated_share
from sdpa.theory.row_moments import row_moments
from sdpa.theory.row_variance import spread_of_row_variance

_MIN_VARIANCE = 2e-8
_OF_ENTROPY = 0.7
_LEAST = 1e-150
# How often a factor of all keys multiplies the metric outside the softmax: |dL/dq|^2 has two such
# factors. A factor of all queries multiplies |dL/dk|^2 twice, which one of the keys does not.
_KEY_FACTORS = np.array(ZERO._replace(query_gradient_square=2.0, key_gradient_square=-2.0))


@cache
def attention_deviations(
    d_k: float,
    n_keys: int,
    divisor: float,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
) -> RowMetrics[float]:
    """Standard deviations of the metrics of one row, from Var f = E Var[f | q] + Var E[f | q].

    Up to a factor key_std^2, |K^T J|_F^2 is F = |J z|^2 + |J G|_F^2, with z the part of the keys
    along q and G the d_k - 1 parts across it: standard normal columns, independent of the scores.
    Given w, |J G|_F^2 has the mean (d_k - 1) |J|_F^2 and the variance 2 (d_k - 1) tr J^4, so that

        E F^2 = E |J z|^4 + 2 (d_k - 1) E[|J z|^2 |J|_F^2] + (d_k - 1)^2 E |J|_F^4
            + 2 (d_k - 1) E tr J^4.

    Given |q|, the variance of the n scores is sigma^2 / n times a chi-squared variable of n - 1
    degrees of freedom, and the weight of any one key has the mean square E sum w^2 / n. A variance
    below 2e-8 of the mean square, beyond the precision of the moments, comes out as 0.

    Rows of several lengths have the root mean square over them, with 2e-8 of the mean square in
    place of a smaller variance: an upper limit for the mean over a draw, whose lengths are always
    the same.

    Arguments and errors as in `attention_expectations`, of whole n_keys and of independent Gaussian
    entries.

    >>> round(attention_deviations(d_k=64, n_keys=64, divisor=8.0).max_weight, 5)
    0.04808
    """
    _, most = _variances(RowLaw.checked(d_k, n_keys, divisor, law), shortest)
    return _roots(most)


@cache
def _variances(rows: RowLaw, shortest: int | None) -> tuple[FloatArray, FloatArray]:
    """Lower and upper limits of the mean variance over the lengths of rows; both are exact for rows
    of one length.
    """

    def limits(length: float) -> FloatArray:
        exact, square = _row_variances(replace(rows, n_keys=length))
        # Rounding errors reach this share of the mean square.
        least = _MIN_VARIANCE * square
        known = np.where(exact > least, exact, 0.0)
        return np.concatenate([known, known if shortest is None else np.maximum(known, least)])

    found = mean_over_lengths(limits, np.tile(ZERO, 2), int(rows.n_keys), shortest)
    low, high = np.split(np.maximum(found, 0.0), 2)
    return low, high


def _roots(variances: FloatArray) -> RowMetrics[float]:
    return RowMetrics(*np.sqrt(variances).tolist())


@cache
def least_draw_deviations(
    d_k: float,
    n_keys: int,
    n_queries: int,
    divisor: float,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
) -> RowMetrics[float]:
    """Lower limits of the standard deviations of means over n_queries rows with the same keys.

    With V = Var f of one row and C = Var E[f | K], the mean has the variance
    (V + (n_queries - 1) C) / n_queries, and C >= Cov(f, h)^2 / Var h for any h(K) (Cauchy and
    Schwarz). Here h = sum_i |k_i - mean of k|^2 / key_std^2, which is chi-squared of (n_keys - 1)
    d_k degrees of freedom: long keys saturate all rows together. For a factor L of all keys

        dE f / d ln L = Cov(f, h),   Var h = 2 (n_keys - 1) d_k

    (the score identity, as in the bound of Cramer and Rao). This is the derivative by a factor of
    all |q| (`QueryLengths.slope`) but for the factors `_KEY_FACTORS`. V has the lower limit Cov(f,
    |q|^2)^2 / Var |q|^2, for rows so equal that `attention_deviations` does not know V.

    For rows of several lengths, h is that of all n_keys keys; V, its lower limit and dE f / d ln L
    are means over the lengths, as if rows of different lengths vary together as equal ones do.
    Correlated and normalized vectors have the limits of `least_row_variances`, as if rows were
    independent.

    >>> least_draw_deviations(64, 64, 1, 8.0) == attention_deviations(64, 64, 8.0)
    True
    >>> row, draw = attention_deviations(64, 2, 8.0), least_draw_deviations(64, 2, 10**9, 8.0)
    >>> round(draw.entropy / row.entropy, 3)  # below 1: all queries see the same pair of keys
    0.115
    """
    rows = RowLaw.checked(d_k, n_keys, divisor, law)
    if n_queries < 1:
        raise ValueError(f"n_queries: expected at least 1, got {n_queries}")
    if law.correlation or law.normalize != "none":

        def limits(length: float) -> FloatArray:
            of_length = replace(rows, n_keys=length)
            of_row = least_row_variances(*row_moments(of_length))
            variance = spread_of_row_variance(of_length)
            return np.array(of_row._replace(row_variance=variance))

        least = np.maximum(mean_over_lengths(limits, np.array(ZERO), n_keys, shortest), 0.0)
        return _roots(least / n_queries)
    found = mean_over_lengths(
        lambda length: _sensitivities(replace(rows, n_keys=length)),
        np.tile(ZERO, 2),
        n_keys,
        shortest,
    )
    of_keys, of_query = np.split(found, 2)
    per_key = of_keys**2 / (2 * (n_keys - 1) * d_k)
    known, _ = _variances(rows, shortest)
    variance = np.maximum(known, of_query + per_key)
    return _roots((variance + (n_queries - 1) * per_key) / n_queries)


def _sensitivities(rows: RowLaw) -> FloatArray:
    """dE f / d ln L of every metric, and Cov(f, |q|^2)^2 / Var |q|^2, of rows of one length."""
    lengths, of_metric = means_by_length(rows)
    share = lengths.share
    means = np.column_stack(of_metric)
    mean = share @ means
    square = lengths.length**2
    of_query = (share * (square - share @ square)) @ (means - mean)
    of_keys = (share * lengths.slope) @ (means - mean) + _KEY_FACTORS * mean
    return np.concatenate([of_keys, of_query**2 / lengths.variance])


def _row_variances(rows: RowLaw) -> tuple[FloatArray, FloatArray]:
    """Variances of the metrics of one row, and their mean squares over |q|."""
    lengths, of_metric = means_by_length(rows)
    n_keys = rows.n_keys
    sigma = rows.unit * lengths.length
    spread = row_values(sigma, n_keys, ROW_SPREADS)
    across = rows.d_k - 1
    second = (
        spread["along_fourth"]
        + 2 * across * (spread["along_times_square"] + spread["trace_fourth"])
        + across**2 * spread["jacobian_fourth"]
    )
    of_query = second * rows.to_query**4 - of_metric.query_gradient_square**2
    given_length = RowMetrics(
        max_weight=spread["max_weight"],
        entropy=spread["entropy"],
        jacobian_trace=spread["jacobian_trace"],
        jacobian_square=spread["jacobian_square"],
        query_gradient_square=of_query,
        saturated_rows=of_metric.saturated_rows * (1 - of_metric.saturated_rows),
        row_variance=2 * (n_keys - 1) / n_keys**2 * sigma**4,
        collision=spread["jacobian_trace"],
        key_gradient_square=spread["jacobian_square"] * (rows.to_key * lengths.length) ** 4,
        own_weight=of_metric.collision / n_keys - 1 / n_keys**2,
    )
    means = np.column_stack(of_metric)
    mean = lengths.share @ means
    of_means = (means - mean) ** 2
    variance = lengths.share @ (np.column_stack(given_length) + of_means)
    square = lengths.share @ means**2
    saturated = saturated_share(rows)
    place = RowMetrics._fields.index("saturated_rows")
    variance[place] = saturated * (1 - saturated)
    square[place] = 0.0
    return variance, square


def least_row_variances(means: RowMetrics[float], squares: RowMetrics[float]) -> RowMetrics[float]:
    """Lower limits of the variances of one row's metrics; 0 where none is known.

    The mean squares of max w, t = tr J, |J|_F^2 and the own weight are exact, and
    E (1 - w)^2 >= E t^2 / 4 for any weight w, since t <= 1 - w^2 <= 2 (1 - w). E H^2 / (E H)^2 is
    about that of t, and those of the squared gradients about that of |J|_F^2. No inequality gives
    it; a factor of 0.7 leaves the limits below the exact deviations of independent rows, from
    d_k = 1 to 2^20 and from 2 to 1000 keys.
    """
    trace = means.jacobian_trace
    square = means.jacobian_square
    # 0, which is a limit too, where a square is too small for a double.
    relative_trace = squares.jacobian_trace / trace**2 - 1 if trace > _LEAST else 0.0
    relative_square = squares.jacobian_square / square**2 - 1 if square > _LEAST else 0.0

    def of_weight(mean: float, mean_square: float) -> float:
        return max(mean_square - mean**2, squares.jacobian_trace / 4 - (1 - mean) ** 2)

    limits = RowMetrics(
        max_weight=of_weight(means.max_weight, squares.max_weight),
        entropy=(_OF_ENTROPY * means.entropy) ** 2 * relative_trace,
        jacobian_trace=trace**2 * relative_trace,
        jacobian_square=square**2 * relative_square,
        query_gradient_square=means.query_gradient_square**2 * relative_square,
        saturated_rows=means.saturated_rows * (1 - means.saturated_rows),
        row_variance=0.0,
        collision=trace**2 * relative_trace,
        key_gradient_square=means.key_gradient_square**2 * relative_square,
        own_weight=of_weight(means.own_weight, squares.own_weight),
    )
    return RowMetrics(*np.maximum(limits, 0.0).tolist())
