"""Mean metrics of rows of one length given |q|, for independent Gaussian entries.

Given q, the scaled scores are independent N(0, sigma^2), sigma = key_std |q| / divisor, but for a
shift of all scores. So `GaussianRow` gives everything for that |q|.
"""

from functools import cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from sdpa.theory.gaussian_rows import row_values, saturated_rows
from sdpa.theory.integrals import FloatArray
from sdpa.theory.query_lengths import QueryLengths, gaussian_queries, mean_share
from sdpa.theory.row_law import RowLaw

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


def means_by_length(rows: RowLaw) -> tuple[QueryLengths, RowMetrics[FloatArray]]:
    """The law of |q|, and the means over rows given |q|, (nodes,) each."""
    n_keys = rows.n_keys
    lengths = gaussian_queries(rows.d_k, rows.law, unit=rows.unit)
    sigma = rows.unit * lengths.length
    row = row_values(sigma, n_keys)
    square = row["jacobian_square"]
    to_query = row.pop("along") + (rows.d_k - 1) * square
    return lengths, RowMetrics(
        **row,
        query_gradient_square=to_query * rows.to_query**2,
        saturated_rows=saturated_rows(sigma, n_keys),
        row_variance=(1 - 1 / n_keys) * sigma**2,
        key_gradient_square=square * (rows.to_key * lengths.length) ** 2,
        own_weight=np.full(len(sigma), 1 / n_keys),
    )


@cache
def saturated_share(rows: RowLaw) -> float:
    """P(max w > SATURATED) over independent Gaussian queries and keys."""
    return mean_share(rows, lambda sigma: saturated_rows(sigma, rows.n_keys))
