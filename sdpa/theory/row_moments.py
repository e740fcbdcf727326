"""Mean metrics of rows of one length, for the three laws of queries and keys that allow them.

Independent Gaussian entries have the means of `row_metrics` over |q|. A correlation gives the own
key of a query a score of another law. Normalized vectors have cosines as scores.
"""

from collections.abc import Callable
from functools import cache, partial
from math import sqrt

import numpy as np

from sdpa.theory.cosine_law import CosineLaw
from sdpa.theory.cosine_rows import cosine_rows
from sdpa.theory.gaussian_rows import LOG_UNSATURATED, ROW_MEANS
from sdpa.theory.integrals import FloatArray, UnknownError, span
from sdpa.theory.normal_law import NormalLaw
from sdpa.theory.normal_rows import normal_rows
from sdpa.theory.query_lengths import query_lengths
from sdpa.theory.row_law import RowLaw
from sdpa.theory.row_metrics import ZERO, RowMetrics, means_by_length, saturated_share
from sdpa.theory.row_variance import expected_row_variance
from sdpa.theory.rows import Row

_HALVINGS = 7
_ACCURACY = 1e-9
_SHORTEST = 1e-14  # short queries have almost all unsaturated rows of a strong correlation
_MAX_GAIN = 1e5

_FUNCTIONS: dict[str, Callable[[Row], float]] = ROW_MEANS | {
    "across": lambda row: row.metric_mean("JJ.c"),
}


def row_means(rows: RowLaw) -> RowMetrics[float]:
    """Means over rows of n_keys keys of any law that theory knows; UnknownError for others."""
    if rows.law.correlation or rows.law.normalize != "none":
        return row_moments(rows)
    lengths, means = means_by_length(rows)
    over_queries = lengths.share @ np.column_stack(means)
    found = RowMetrics(*over_queries.tolist())
    return found._replace(saturated_rows=saturated_share(rows), own_weight=1 / rows.n_keys)


@cache
def row_moments(rows: RowLaw) -> RowMetrics[float]:
    """Means over rows of a law that has a correlation or a normalization.

    UnknownError as in `score_variance`, too.
    """
    variance = expected_row_variance(rows.d_k, rows.n_keys, rows.divisor, rows.law)
    moments = _correlated_moments if rows.law.normalize == "none" else _normalized_moments
    return moments(rows)._replace(row_variance=variance)


def _correlated_moments(rows: RowLaw) -> RowMetrics[float]:
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
        to_keys = row.jacobian_square() * length**2
        return [*_values(row).values(), to_keys, row.power_sum(1, group=0)]

    def saturation(group: int, length: float) -> list[float]:
        return [row_of(length).remainder_below(LOG_UNSATURATED, group)]

    *found, to_keys, own = _mean_over_queries(rows.d_k, values).tolist()
    saturated = 0.0
    for group in (0, 1):
        saturated += float(_mean_over_queries(rows.d_k, partial(saturation, group))[0])
    means = dict(zip(_FUNCTIONS, found, strict=True))
    to_query = means["along"] + (rows.d_k - 1) * means["across"]
    return _named(
        means,
        query_gradient_square=to_query * rows.to_query**2,
        saturated_rows=saturated,
        key_gradient_square=to_keys * rows.to_key**2,
        own_weight=own,
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


def _normalized_moments(rows: RowLaw) -> RowMetrics[float]:
    """Rows of vectors of length 1 (`l2`) or sqrt(d_k) (`rms`) in isotropic directions.

    The scores are length^2 t / divisor with the cosines t of `CosineLaw`. K^T v, v = J g, has the
    part length t.v along the query, and across it independent parts of mean square length^2 v_j^2
    (1 - t_j^2). To the normalized query

        E |dL/dq|^2 = (E |J t|^2 + E sum_j (J^2)_jj (1 - t_j^2)) length^2 / divisor^2.
    """
    d_k = rows.d_k
    n_keys = rows.n_keys
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
    return _named(
        means,
        query_gradient_square=(means["along"] + means["across"]) * scale,
        saturated_rows=row.remainder_below(LOG_UNSATURATED),
        key_gradient_square=means["jacobian_square"] * scale,
        own_weight=1 / n_keys,
    )


def _values(row: Row) -> dict[str, float]:
    return {name: function(row) for name, function in _FUNCTIONS.items()}


def _named(found: dict[str, float], **others: float) -> RowMetrics[float]:
    """Means from values of _FUNCTIONS and other means."""
    return ZERO._replace(**{name: found[name] for name in ROW_MEANS if name != "along"}, **others)
