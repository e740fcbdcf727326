"""Mean metrics of rows of one length, for the three laws of queries and keys that allow them.

Given an independent Gaussian query q, its scaled scores are independent N(0, sigma^2) but for a shift of all, sigma =
key_std |q| / divisor, so that `GaussianRow` gives everything for that |q|, and the means over |q| follow. A correlation
gives the own key of a query a score of another law. Normalized vectors have cosines as scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from sdpa.metrics import SATURATED
from sdpa.pairs import PairLaw
from sdpa.scaling import Scaling, refuse_multiplier
from sdpa.theory.cosine_law import CosineLaw
from sdpa.theory.cosine_rows import cosine_rows
from sdpa.theory.gaussian_rows import ROW_MEANS, row_values, saturated_rows
from sdpa.theory.integrals import FloatArray, UnknownError, span
from sdpa.theory.normal_law import NormalLaw
from sdpa.theory.normal_rows import normal_rows
from sdpa.theory.query_lengths import QueryLengths, gaussian_queries, mean_share, query_lengths
from sdpa.theory.row_variance import expected_row_variance
from sdpa.theory.rows import Row

Number = TypeVar("Number", float, FloatArray)

_HALVINGS, _ACCURACY = 7, 1e-9
_SHORTEST = 1e-14  # almost all unsaturated rows of a strong correlation are those of short queries
_MAX_GAIN = 1e5


class RowMetrics(NamedTuple, Generic[Number]):
    """The metrics of one row as in `AttentionExpectations`, each with a mean, a variance or the like; norms squared."""

    max_weight: Number
    entropy: Number
    jacobian_trace: Number
    jacobian_square: Number
    query_gradient_square: Number  # |K^T J|_F^2 / divisor^2
    saturated_rows: Number
    row_variance: Number
    collision: Number  # sum w^2
    key_gradient_square: (
        Number  # |J|_F^2 |q|^2 / divisor^2, the part of a row in the mean square over the keys
    )
    own_weight: Number


RowMoments = tuple[RowMetrics[float], RowMetrics[float]]  # means and mean squares
ZERO = RowMetrics(*[0.0] * len(RowMetrics._fields))
OF_ONE_KEY = ZERO._replace(max_weight=1.0, saturated_rows=1.0, collision=1.0, own_weight=1.0)


def check_arguments(d_k: float, divisor: float | Scaling) -> None:
    """ValueError unless d_k is at least 1 and the divisor above 0 and not 1/sqrt(d_k); UnknownError for a rule."""
    if isinstance(divisor, Scaling):
        raise UnknownError(
            f"deviations of rows with divisors of their own are unknown, got {divisor}"
        )
    if not (d_k >= 1 and 0 < divisor < math.inf):
        raise ValueError(
            f"expected d_k of at least 1, and a divisor above 0, got {d_k} and {divisor}"
        )
    refuse_multiplier("divisor", divisor, d_k)


def row_means(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> RowMetrics[float]:
    """Means over rows of n_keys keys of any law that theory knows; UnknownError for others."""
    if law.correlation or law.normalize != "none":
        return row_moments(d_k, n_keys, divisor, law)[0]
    lengths, means = means_by_length(d_k, n_keys, divisor, law)
    found = RowMetrics(*(lengths.share @ np.column_stack(means)).tolist())
    return found._replace(
        saturated_rows=saturated_share(d_k, n_keys, divisor, law), own_weight=1 / n_keys
    )


def means_by_length(
    d_k: float, n_keys: float, divisor: float, law: PairLaw
) -> tuple[QueryLengths, RowMetrics[FloatArray]]:
    """The law of |q| of independent Gaussian entries, and the means over rows given |q|, (nodes,) each."""
    scale = law.query_std * law.key_std / divisor
    lengths = gaussian_queries(d_k, law, scale=scale)
    sigma = scale * lengths.length
    row = row_values(sigma, n_keys)
    to_query = row.pop("along") + (d_k - 1) * row["jacobian_square"]
    return lengths, RowMetrics(
        **row,
        query_gradient_square=to_query * (law.key_std / divisor) ** 2,
        saturated_rows=saturated_rows(sigma, n_keys),
        row_variance=(1 - 1 / n_keys) * sigma**2,
        key_gradient_square=row["jacobian_square"]
        * (law.query_std / divisor * lengths.length) ** 2,
        own_weight=np.full(len(sigma), 1 / n_keys),
    )


@cache
def saturated_share(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> float:
    """P(max w > SATURATED) over independent Gaussian queries and keys."""
    return mean_share(d_k, divisor, law, lambda sigma: saturated_rows(sigma, n_keys))


@cache
def row_moments(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> RowMoments:
    """Means over rows with a correlation or normalization, and E of max w^2, (tr J)^2, |J|_F^4 and w_own^2."""
    of_law = _normalized_moments if law.normalize != "none" else _correlated_moments
    means, squares = of_law(d_k, n_keys, divisor, law)
    return means._replace(row_variance=expected_row_variance(d_k, n_keys, divisor, law)), squares


def _correlated_moments(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> RowMoments:
    """Rows of queries whose entries have the correlation rho with those of their own key.

    Given q, in units of sigma = key_std |q| / divisor and up to a shift of all, the scores of other keys are N(0, 1),
    and that of the own key is N(rho |q| / query_std, 1 - rho^2). With c = 1 - rho^2 for the own key, the variance of
    its entries across the query over key_std^2, and 1 for the others,

        E |dL/dq|^2 = (E |J x|^2 + (d_k - 1) E sum_j (J^2)_jj c_j) key_std^2 / divisor^2.
    """
    if law.spectrum:
        raise UnknownError("softmax rows are unknown for entries of unequal variance")
    if n_keys != int(n_keys):
        raise ValueError(f"expected a whole number of keys beside a correlation, got {n_keys}")
    scale = law.key_std / divisor

    def row_of(length: float) -> Row:
        sigma, rest = law.query_std * scale * length, 1.0 - float(law.correlation) ** 2
        own = NormalLaw(sigma, law.correlation * length, math.sqrt(rest), rest)
        return Row(
            normal_rows((own, NormalLaw(sigma)), ((1.0, 1.0), span(n_keys - 1))), (1, n_keys - 1)
        )

    def values(length: float) -> list[float]:
        row = row_of(length)
        return [
            *_values(row),
            row.jacobian_square() * length**2,
            row.power_sum(1, group=0),
            row.power_sum(2, group=0),
        ]

    def saturation(group: int, length: float) -> list[float]:
        return [row_of(length).saturated_by(group, SATURATED)]

    *found, to_keys, own, own_square = _mean_over_queries(d_k, values).tolist()
    of = dict(zip(_FUNCTIONS, found, strict=True))
    return _named(
        of,
        own_square,
        query_gradient_square=(of["along"] + (d_k - 1) * of["across"]) * scale**2,
        saturated_rows=sum(
            float(_mean_over_queries(d_k, partial(saturation, group))[0]) for group in (0, 1)
        ),
        key_gradient_square=to_keys * (law.query_std / divisor) ** 2,
        own_weight=own,
    )


def _mean_over_queries(d_k: float, function: Callable[[float], list[float]]) -> FloatArray:
    """E of smooth functions of |q|: if steps of twice the width give the same within 3e-5, the error is below 1e-9."""
    lengths = query_lengths(d_k, halvings=0, shortest=_SHORTEST)
    values = np.array([function(length) for length in lengths.length])
    for halvings in range(1, _HALVINGS + 1):
        mean = lengths.share @ values
        twice = lengths.share[::2] @ values[::2] / lengths.share[::2].sum()
        most = np.maximum(np.abs(values).max(axis=0), 1e-3)
        if (
            np.abs(mean - twice)
            <= np.sqrt(_ACCURACY * most * np.maximum(np.abs(mean), 1e-6 * most))
        ).all():
            break
        lengths = query_lengths(d_k, halvings=halvings, shortest=_SHORTEST)
        finer = np.empty((len(lengths.length), values.shape[1]))
        finer[::2], finer[1::2] = values, [function(length) for length in lengths.length[1::2]]
        values = finer
    return np.asarray(lengths.share @ values)


def _normalized_moments(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> RowMoments:
    """Rows of vectors of length 1 (`l2`) or sqrt(d_k) (`rms`) in isotropic directions.

    The scores are length^2 t / divisor with the cosines t of `CosineLaw`. K^T v, v = J g, has the part length t.v along
    the query, and across it independent parts of mean square length^2 v_j^2 (1 - t_j^2); to the normalized query

        E |dL/dq|^2 = (E |J t|^2 + E sum_j (J^2)_jj (1 - t_j^2)) length^2 / divisor^2.
    """
    if law.entries.name != "gaussian" or law.query_mean or law.key_mean or law.spectrum:
        raise UnknownError(
            "normalized vectors are known only for gaussian entries of mean 0 without a spectrum"
        )
    if d_k != int(d_k) or n_keys != int(n_keys):
        raise ValueError(f"expected whole numbers beside a normalization, got {d_k} and {n_keys}")
    square = 1.0 if law.normalize == "l2" else float(d_k)
    gain = square / divisor
    if d_k < 2 or gain > _MAX_GAIN:
        raise UnknownError(
            f"rows of normalized vectors are unknown for d_k = 1 and for a gain above {_MAX_GAIN:g}"
        )
    row = Row(cosine_rows(CosineLaw(gain, int(d_k)), span(n_keys)), (n_keys,))
    of, scale = dict(zip(_FUNCTIONS, _values(row), strict=True)), square / divisor**2
    # All weights of a row are alike, so that any one has the mean 1 / n and the mean square E sum w^2 / n.
    return _named(
        of,
        of["collision"] / n_keys,
        query_gradient_square=(of["along"] + of["across"]) * scale,
        saturated_rows=row.max_weight_survival(SATURATED),
        key_gradient_square=of["jacobian_square"] * scale,
        own_weight=1 / n_keys,
    )


_FUNCTIONS: dict[str, Callable[[Row], float]] = ROW_MEANS | {
    "across": lambda row: row.metric_mean("JJ.c"),
    "max_weight_square": Row.max_weight_square,
    "jacobian_trace_square": lambda row: row.metric_mean("(tr J)^2"),
    "jacobian_fourth": lambda row: row.metric_mean("|J|^4"),
}


def _values(row: Row) -> list[float]:
    return [function(row) for function in _FUNCTIONS.values()]


def _named(of: dict[str, float], own_square: float, **others: float) -> RowMoments:
    """Means and mean squares from those of _FUNCTIONS, that of the own weight, and other means."""
    means = {name: of[name] for name in ROW_MEANS if name != "along"} | others
    squares = (
        of["max_weight_square"],
        of["jacobian_trace_square"],
        of["jacobian_fourth"],
        own_square,
    )
    names = "max_weight", "jacobian_trace", "jacobian_square", "own_weight"
    return ZERO._replace(**means), ZERO._replace(**dict(zip(names, squares, strict=True)))
