"""Exact mean metrics of rows of one length, for the three laws of queries and keys for which they
can be computed.

Given an independent Gaussian query, the scaled scores are independent N(0, sigma^2), sigma = key_std
|q| / divisor, but for a shift of all scores. A correlation gives the own key of a query a score of
another law. Normalized vectors have cosines as scores.

A metric of a row is averaged twice: over the scores given q (`rows`), one integral, and over |q|,

    E f = sum_i share_i f(sigma_i),   sigma_i = unit length_i,

with nodes of length = |q| / query_std, and unit = query_std key_std / divisor. rho is the
correlation of an entry of a query with that of its own key; t the cosine of two directions.
"""

from collections.abc import Callable
from functools import cache, partial
from math import floor, log10, sqrt
from typing import NamedTuple

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.theory.cosine_rows import CosineLaw, cosine_rows
from sdpa.theory.gaussian_rows import LOG_UNSATURATED, ROW_MEANS, row_values, saturated_rows
from sdpa.theory.integrals import UnknownError, span
from sdpa.theory.normal_law import NormalLaw
from sdpa.theory.normal_rows import normal_rows
from sdpa.theory.query_lengths import LONGEST, gaussian_queries, query_lengths
from sdpa.theory.row_law import RowLaw
from sdpa.theory.rows import Row
from sdpa.theory.scores import score_variance

# At most; of four correlated setups, with rho from 0.5 to 0.999, none needs more than three.
_HALVINGS = 7
_ACCURACY = 1e-9  # of a mean; 1e-6, which leaves wider steps, changes one by 2e-10
_SHORTEST = 1e-14  # short queries have almost all unsaturated rows of a strong correlation
# The entropy of sharper rows loses digits: 8 keys and d = 8 lose 1e-6 of it at 1e7, 2e-4 at 1e8.
_MAX_GAIN = 1e5
_MAX_UNIT = 1e9  # the entropy of sharper rows loses its digits

_FUNCTIONS: dict[str, Callable[[Row], float]] = ROW_MEANS | {
    "across": lambda row: row.metric_mean("JJ.c"),
}


class RowMetrics(NamedTuple):
    """Means of the metrics of a row, which are those of `AttentionExpectations`; norms squared."""

    max_weight: float
    entropy: float
    jacobian_trace: float
    jacobian_square: float
    collision: float  # sum w^2
    query_gradient_square: float  # |K^T J|_F^2 / divisor^2
    saturated_rows: float
    # |J|_F^2 |q|^2 / divisor^2, what a row adds to the mean square over keys
    key_gradient_square: float
    own_weight: float


ONE_KEY_MEANS = RowMetrics(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0)


def row_means(rows: RowLaw) -> RowMetrics:
    """Means over rows of n_keys keys of any law that theory knows; UnknownError for others."""
    if rows.law.normalize != "none":
        return _normalized_means(rows)
    if rows.unit > _MAX_UNIT:
        reason = f"exceeds {_MAX_UNIT:g}, got {rows.unit:g}"
        raise UnknownError(f"softmax rows are unknown if query_std key_std / divisor {reason}")
    return _correlated_means(rows) if rows.law.correlation else _independent_means(rows)


def _independent_means(rows: RowLaw) -> RowMetrics:
    lengths = gaussian_queries(rows.d_k, rows.law, unit=rows.unit)
    row = row_values(rows.unit * lengths.length, rows.n_keys)
    square = row["jacobian_square"]
    row["to_keys"] = square * lengths.length**2
    row["to_query"] = row.pop("along") + (rows.d_k - 1) * square
    means = {name: float(lengths.share @ values) for name, values in row.items()}
    return RowMetrics(
        query_gradient_square=means.pop("to_query") * rows.to_query**2,
        key_gradient_square=means.pop("to_keys") * rows.to_key**2,
        saturated_rows=saturated_share(rows),
        own_weight=1 / rows.n_keys,
        **means,
    )


@cache
def saturated_share(rows: RowLaw) -> float:
    """P(max w > SATURATED) of independent Gaussian entries, with seven digits down to 1e-40.

    The longest queries decide where it is small: finer nodes then omit less than 1e-10 of it.
    """
    lengths = gaussian_queries(rows.d_k, rows.law)
    mean = float(lengths.share @ saturated_rows(rows.unit * lengths.length, rows.n_keys))
    if mean > 1e10 * LONGEST:
        return mean
    tens = floor(log10(max(mean, 1e-270)) / 10)
    longest = 10.0 ** (10 * tens - 10)
    lengths = gaussian_queries(rows.d_k, rows.law, halvings=5, longest=longest)
    return float(lengths.share @ saturated_rows(rows.unit * lengths.length, rows.n_keys))


@cache
def _correlated_means(rows: RowLaw) -> RowMetrics:
    """Rows of queries whose entries have the correlation rho with those of their own key.

    Given q, in units of sigma = key_std |q| / divisor and up to a shift of all scores, the scores
    of other keys are N(0, 1), and that of the own key is N(rho |q| / query_std, 1 - rho^2). Let c
    be the variance of the entries of a key across the query, over key_std^2: 1 - rho^2 for the own
    key and 1 for the others. Then

        E |dL/dq|^2 = (E |J x|^2 + (d_k - 1) E sum_j (J^2)_jj c_j) key_std^2 / divisor^2.
    """
    n_keys = rows.n_keys
    law = rows.law
    if law.spectrum:
        raise UnknownError("softmax rows are unknown for entries of unequal variance")
    if n_keys % 1:
        raise ValueError(f"expected a whole number of keys beside a correlation, got {n_keys}")

    def row_of(length: float) -> Row:
        return correlated_row(rows.unit * length, n_keys, length, law.correlation)

    def values(length: float) -> list[float]:
        row = row_of(length)
        metrics = _values(row)
        to_keys = metrics["jacobian_square"] * length**2
        return [*metrics.values(), to_keys, row.power_sum(1, group=0)]

    def saturation(group: int, length: float) -> list[float]:
        return [row_of(length).remainder_below(LOG_UNSATURATED, group)]

    *row_means, to_keys, own = _mean_over_queries(rows.d_k, values).tolist()
    saturated = 0.0
    for group in (0, 1):
        saturated += float(_mean_over_queries(rows.d_k, partial(saturation, group))[0])
    means = dict(zip(_FUNCTIONS, row_means, strict=True))
    to_query = means.pop("along") + (rows.d_k - 1) * means.pop("across")
    return RowMetrics(
        query_gradient_square=to_query * rows.to_query**2,
        saturated_rows=saturated,
        key_gradient_square=to_keys * rows.to_key**2,
        own_weight=own,
        **means,
    )


def correlated_row(
    sigma: float,
    n_keys: float,
    length: float,
    correlation: float,
) -> Row:
    """A row of N(0, sigma^2) scores whose own key correlates with a query.

    `length` is |q| / query_std.
    """
    rest = 1.0 - float(correlation) ** 2
    own = NormalLaw(sigma, correlation * length, sqrt(rest), rest)
    ranges = (1.0, 1.0), span(n_keys - 1)
    laws = normal_rows((own, NormalLaw(sigma)), ranges)
    return Row(laws, (1, n_keys - 1))


def _mean_over_queries(d_k: float, function: Callable[[float], list[float]]) -> FloatArray:
    """E of smooth functions of |q|, with an error below 1e-9.

    Steps are halved until steps of twice the width agree within 3e-5.
    """
    lengths = query_lengths(d_k, halvings=0, shortest=_SHORTEST)
    values = np.array([function(length) for length in lengths.length])
    for halvings in range(1, _HALVINGS + 1):
        mean = lengths.share @ values
        coarse = lengths.share[::2]
        twice = coarse @ values[::2] / coarse.sum()
        most = np.maximum(np.abs(values).max(axis=0), 1e-3)
        least = np.maximum(np.abs(mean), 1e-6 * most)
        tolerance = np.sqrt(_ACCURACY * most * least)
        if (np.abs(mean - twice) <= tolerance).all():
            break
        lengths = query_lengths(d_k, halvings=halvings, shortest=_SHORTEST)
        finer = np.empty((len(lengths.length), values.shape[1]))
        finer[::2] = values
        finer[1::2] = [function(length) for length in lengths.length[1::2]]
        values = finer
    return np.asarray(lengths.share @ values)


@cache
def _normalized_means(rows: RowLaw) -> RowMetrics:
    """Rows of vectors of length 1 (`l2`) or sqrt(d_k) (`rms`) in isotropic directions.

    The scores are length^2 t / divisor with the cosines t of `CosineLaw`. K^T v, v = J g, has the
    part length t.v along the query, and across it independent parts of mean square length^2 v_j^2
    (1 - t_j^2). To the normalized query

        E |dL/dq|^2 = (E |J t|^2 + E sum_j (J^2)_jj (1 - t_j^2)) length^2 / divisor^2.
    """
    d_k = rows.d_k
    n_keys = rows.n_keys
    score_variance(d_k, rows.divisor, rows.law)  # for its UnknownError
    if d_k % 1 or n_keys % 1:
        expected = "whole numbers beside a normalization"
        raise ValueError(f"expected {expected}, got {d_k} and {n_keys}")
    square = 1.0 if rows.law.normalize == "l2" else float(d_k)
    gain = square / rows.divisor
    if d_k < 2 or gain > _MAX_GAIN:
        reason = f"for d_k = 1 and for a gain above {_MAX_GAIN:g}"
        raise UnknownError(f"rows of normalized vectors are unknown {reason}")
    laws = cosine_rows(CosineLaw(gain, int(d_k)), span(n_keys))
    row = Row(laws, (n_keys,))
    means = _values(row)
    scale = square / rows.divisor**2
    to_query = means.pop("along") + means.pop("across")
    return RowMetrics(
        query_gradient_square=to_query * scale,
        saturated_rows=row.remainder_below(LOG_UNSATURATED),
        key_gradient_square=means["jacobian_square"] * scale,
        own_weight=1 / n_keys,
        **means,
    )


def _values(row: Row) -> dict[str, float]:
    return {name: function(row) for name, function in _FUNCTIONS.items()}
