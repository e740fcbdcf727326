"""|K^T J|_F^2 of rows from products of e and e^2 with the distances of all pairs of keys, or with the keys.

`sdpa.diagnostics` defines a, b, e, E1 and p. With m = k_top + a b p,

    |K^T J|_F^2 = (a b)^2 (a^2 |p|^2 + sum e_i^2 |k_i - m|^2)

    few keys    D_ij = |k_i - k_j|^2: with y = e D, h = e.y / 2 and D_top, y_top at the largest weight's key,
                |p|^2 = E1 y_top - h  and  |k_i - m|^2 = a (D_top,i + b (y_i - a y_top - a b h))
    many keys   K itself: e K gives p, and sum e^2 |k - m|^2 = sum e^2 |k|^2 - 2 (e^2 K).m + |m|^2 sum e^2;
                if most e are negligible (`Exponential.negligible`), as in saturated rows, the products leave these out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.row_tiles import Tile

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Fitted to measured times: see `takes_distances`.
_KEYS_PER_QUERY, _MORE_QUERIES = 12, 8


def takes_distances(n_keys: int, d_k: int, n_queries: int) -> bool:
    """True if `row_diagnostics` computes the distances of all pairs of keys; it determines its time and memory.

    Per row and divisor, distances take a product of width n_keys, and vectors two of width d_k. Per draw, distances
    also take a product of the keys, whose time the rows of the draw share. With four divisors, both ways take the same
    measured time where 1/n_keys is about 1/(2 d_k) + 1/(12 (n_queries + 8)): with 64 queries at 110 keys for d_k = 64,
    and at 470 for d_k = 512.
    """
    shared = _KEYS_PER_QUERY * (n_queries + _MORE_QUERIES)
    return n_keys * (shared + 2 * d_k) <= 2 * d_k * shared


@dataclass(frozen=True)
class Distances:
    """The squared distances of all pairs of keys, (n_draws, n_keys, n_keys)."""

    matrix: FloatArray

    @classmethod
    def of(cls, keys: FloatArray) -> Distances:
        """From keys (n_draws, n_keys, d_k) without a long mean."""
        squares = np.vecdot(keys, keys)
        matrix = keys @ keys.swapaxes(-1, -2)
        matrix *= -2
        matrix += squares[..., None]
        matrix += squares[..., None, :]
        np.maximum(matrix, 0.0, out=matrix)
        matrix.reshape(len(matrix), -1)[:, :: matrix.shape[-1] + 1] = 0.0
        return cls(matrix)

    def gradient_square(self, tile: Tile, divisor: float) -> FloatArray:
        """|K^T J|_F^2 / (a b)^2 of each row of a tile, for the divisor of its last sums."""
        a, b = tile.shares(divisor)
        y = tile.product(tile.e, self.matrix)
        y_top, half = tile.at_top(y), tile.dot(tile.e, y) / 2
        spread = tile.dot(tile.squared, y) - a * tile.e2 * (y_top + b * half)
        return np.asarray(a * a * (tile.e1 * y_top - half) + a * (tile.dot(tile.squared, tile.of_top) + b * spread))


@dataclass(frozen=True)
class Vectors:
    """Keys without a long mean, (n_draws, n_keys, d_k)."""

    matrix: FloatArray
    squares: FloatArray  # of their lengths, (n_draws, n_keys, 1)

    @classmethod
    def of(cls, keys: FloatArray) -> Vectors:
        """From keys (n_draws, n_keys, d_k) without a long mean."""
        return cls(keys, np.vecdot(keys, keys)[..., None])

    def gradient_square(self, tile: Tile, divisor: float) -> FloatArray:
        """|K^T J|_F^2 / (a b)^2 of each row of a tile, for the divisor of its last sums."""
        a, b = tile.shares(divisor)
        few = tile.few()
        p = tile.product(tile.e, self.matrix) if few is None else _of_few(few, self.matrix)
        p -= tile.e1[..., None] * tile.of_top
        of_top = a * a * np.vecdot(p, p)
        p *= (a * b)[..., None]
        mean = np.add(p, tile.of_top, out=p)
        squares = (tile.squared @ self.squares)[..., 0] + tile.e2 * np.vecdot(mean, mean)
        if few is None:
            with_squares = tile.other_product(tile.squared, self.matrix)
        else:
            with_squares = _of_few([one.power(2) for one in few], self.matrix)
        return np.asarray(of_top + squares - 2 * np.vecdot(with_squares, mean))


def _of_few(rows: Sequence[csr_array], matrix: FloatArray) -> FloatArray:
    """Sparse rows of each draw times a matrix (n_draws, n_keys, width)."""
    return np.stack([one @ of_draw for one, of_draw in zip(rows, matrix, strict=True)])


def centred(keys: FloatArray) -> FloatArray:
    """The keys less their mean; the keys themselves, without a copy, if it makes up at most half of their squares."""
    mean = keys.mean(axis=-2, keepdims=True)
    of_mean = keys.shape[-2] * np.vecdot(mean, mean)[..., 0]
    if (2 * of_mean <= np.vecdot(keys, keys).sum(axis=-1)).all():
        return keys
    return np.asarray(keys - mean)
