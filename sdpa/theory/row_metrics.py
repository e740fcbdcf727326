"""Mean metrics of rows of one length given |q|, for independent Gaussian entries.

Given q, the scaled scores are independent N(0, sigma^2), sigma = key_std |q| / divisor, but for a
shift of all scores. So `GaussianRow` gives everything for that |q|.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from sdpa.pairs import PairLaw
from sdpa.scaling import Scaling, refuse_multiplier
from sdpa.theory.gaussian_rows import row_values, saturated_rows
from sdpa.theory.integrals import FloatArray, UnknownError
from sdpa.theory.query_lengths import QueryLengths, gaussian_queries, mean_share

Number = TypeVar("Number", float, FloatArray)


class RowMetrics(NamedTuple, Generic[Number]):
    """Numbers of one kind, such as means or variances, of the metrics of a row; norms squared.

    The metrics are those of `AttentionExpectations`.
    """

    max_weight: Number
    entropy: Number
    jacobian_trace: Number
    jacobian_square: Number
    query_gradient_square: Number  # |K^T J|_F^2 / divisor^2
    saturated_rows: Number
    row_variance: Number
    collision: Number  # sum w^2
    # |J|_F^2 |q|^2 / divisor^2, what a row adds to the mean square over keys
    key_gradient_square: Number
    own_weight: Number


ZERO = RowMetrics(*[0.0] * len(RowMetrics._fields))
OF_ONE_KEY = ZERO._replace(max_weight=1.0, saturated_rows=1.0, collision=1.0, own_weight=1.0)


def check_arguments(d_k: float, divisor: float | Scaling) -> None:
    """ValueError unless d_k is from 1 and the divisor above 0 and not 1/sqrt(d_k).

    UnknownError for a rule.
    """
    if isinstance(divisor, Scaling):
        reason = "deviations of rows with divisors of their own are unknown"
        raise UnknownError(f"{reason}, got {divisor}")
    if not (d_k >= 1 and 0 < divisor < inf):
        expected = "d_k of at least 1, and a divisor above 0"
        raise ValueError(f"expected {expected}, got {d_k} and {divisor}")
    refuse_multiplier("divisor", divisor, d_k)


def means_by_length(
    d_k: float,
    n_keys: float,
    divisor: float,
    law: PairLaw,
) -> tuple[QueryLengths, RowMetrics[FloatArray]]:
    """The law of |q|, and the means over rows given |q|, (nodes,) each."""
    scale = law.query_std * law.key_std / divisor
    lengths = gaussian_queries(d_k, law, scale=scale)
    sigma = scale * lengths.length
    row = row_values(sigma, n_keys)
    square = row["jacobian_square"]
    to_query = row.pop("along") + (d_k - 1) * square
    return lengths, RowMetrics(
        **row,
        query_gradient_square=to_query * (law.key_std / divisor) ** 2,
        saturated_rows=saturated_rows(sigma, n_keys),
        row_variance=(1 - 1 / n_keys) * sigma**2,
        key_gradient_square=square * (law.query_std / divisor * lengths.length) ** 2,
        own_weight=np.full(len(sigma), 1 / n_keys),
    )


@cache
def saturated_share(
    d_k: float,
    n_keys: float,
    divisor: float,
    law: PairLaw,
) -> float:
    """P(max w > SATURATED) over independent Gaussian queries and keys."""
    return mean_share(d_k, divisor, law, lambda sigma: saturated_rows(sigma, n_keys))
