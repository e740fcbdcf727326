"""Expectations of attention rows behind a soft cap, beside a sink, or under the sigmoid.

Given an independent Gaussian query q, the scores of `sdpa.theory.special.capped_rows` have the deviation
sigma = key_std |q| / divisor. K is split along and across q as in `attention_expectations`:

    E |dL/dq|^2 = E (|(diag(w) - w w^T) x|^2 + (d_k - 1) |J|_F^2) key_std^2 / divisor^2.
"""

from functools import cache
from math import log
from typing import NamedTuple

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.pairs import PairLaw
from sdpa.row_maps import RowMap
from sdpa.scaling import Rule, resolve_divisor
from sdpa.theory.attention import attention_expectations
from sdpa.theory.gaussian_rows import interpolated
from sdpa.theory.integrals import UnknownError, check_sizes
from sdpa.theory.query_lengths import gaussian_queries
from sdpa.theory.row_law import RowLaw, RowLengths, lengths_of, mean_over_lengths, rows_under
from sdpa.theory.special.capped_rows import mapped_row, sigmoid_row

# Beside a higher sink, rare long queries carry the norms, beyond the precision of the integrals.
_LEAST_MASS = 1e-4
_LEAST = 1e-12  # smaller values are lost in the interpolation over the deviation of the scores
_SINGLE_KEY = np.array([1.0, 1.0, 0.0, 0.0, 0.0])  # of a key without others and without a sink


class MappedExpectations(NamedTuple):
    """Exact values of the metrics of the experiment `mechanisms`, 0 below 1e-12."""

    visible_mass: float
    max_weight: float
    entropy: float
    jacobian_norm: float
    query_gradient_norm: float


def mapped_expectations(
    d_k: float,
    n_keys: int,
    divisor: Rule,
    law: PairLaw,
    row_map: RowMap,
    mask: str = "none",
    n_queries: int | None = None,
) -> MappedExpectations:
    """E sum w, E max w, E H of w / sum w, sqrt(E |J|_F^2) and sqrt(E |dL/dq|^2) under a row map.

    Args:
        d_k, n_keys, divisor, law: as in `attention_expectations`; a rotation (RoPE) of isotropic
            vectors changes nothing.
        row_map: with the normalizer `softmax` or `sigmoid`, and one sink.
        mask, n_queries: a name of `sdpa.masks`, and the number of queries, by default n_keys.

    Raises:
        TypeError: the map has a sink for each head.
        UnknownError: rows of this law under this map are unknown, or a sink leaves the keys less
            than 1e-4 of a row.

    >>> means = mapped_expectations(64, 64, 8.0, PairLaw(), RowMap(sink=0.0))
    >>> round(means.visible_mass, 5), round(means.max_weight, 5)
    (0.99034, 0.10617)
    """
    check_sizes(d_k, n_keys)
    lengths = rows_under(mask, n_queries or n_keys, n_keys)
    divisor = resolve_divisor(divisor, d_k, n_keys)
    rows = d_k, n_keys, divisor, law, lengths
    values = _plain_means(*rows) if row_map.is_plain else _mapped_means(*rows, row_map)
    if values[0] < _LEAST_MASS:
        raise UnknownError(
            f"norms are unknown where the keys have the mass {values[0]:.1e} of a row"
        )
    means = np.concatenate([values[:3], np.sqrt(values[3:])])
    return MappedExpectations(*np.where(means < _LEAST, 0.0, means).tolist())


def _plain_means(
    d_k: float,
    n_keys: int,
    divisor: float,
    law: PairLaw,
    rows: RowLengths,
) -> FloatArray:
    means = attention_expectations(d_k, n_keys, divisor, law, rows)
    squares = means.jacobian_norm**2, means.query_gradient_norm**2
    return np.array([1.0, means.max_weight, means.entropy, *squares])


@cache
def _mapped_means(
    d_k: float,
    n_keys: int,
    divisor: float,
    law: PairLaw,
    rows: RowLengths,
    row_map: RowMap,
) -> FloatArray:
    """Means over rows; the n of the sigmoid is n_keys."""
    if law.key_mean:
        raise UnknownError("capped scores and those beside a sink are unknown for keys with a mean")

    def values(n: float) -> FloatArray:
        row_law = RowLaw(d_k, n, divisor, law)
        lengths = gaussian_queries(d_k, law, halvings=1)
        sigma = row_law.unit * lengths.length
        if row_map.normalizer == "softmax":
            means = _softmax_rows(sigma, n, row_map)
        else:
            means = _sigmoid_rows(sigma, n, row_map, log(n_keys))
        across = (d_k - 1) * means[:, 3]
        means[:, 4] = (means[:, 4] + across) * row_law.to_query**2
        return lengths.share @ means

    one_key = values(1) if lengths_of(rows, n_keys).min() == 1 else np.zeros(5)
    return mean_over_lengths(values, one_key, n_keys, rows)


def _sigmoid_rows(
    sigma: FloatArray,
    n_keys: float,
    row_map: RowMap,
    bias: float,
) -> FloatArray:
    return np.array([sigmoid_row(deviation, n_keys, row_map.softcap, bias) for deviation in sigma])


def _softmax_rows(sigma: FloatArray, n_keys: float, row_map: RowMap) -> FloatArray:
    """The means of `mapped_row` at each sigma, rising, (rows, 5); interpolated from two keys on."""
    if n_keys >= 2:
        return interpolated(sigma, n_keys, mapped_row, row_map.softcap, row_map.one_sink)
    if row_map.one_sink is None:
        return np.tile(_SINGLE_KEY, (len(sigma), 1))
    # The weight of the only key is the sigmoid of its score less the logit of the sink.
    rows = _sigmoid_rows(sigma, 1, row_map, row_map.one_sink)
    rows[:, 2] = 0.0
    return rows
