"""Rows of scores a tile at a time, in buffers that stay in cache, and the products with their keys.

`sdpa.softmax_rows` defines a, b, e, E1 and p, and fills the buffers. Each score and divisor takes
four passes and four sums over the keys. With m = k_top + a b p,

    |K^T J|_F^2 = (a b)^2 (a^2 |p|^2 + sum e_i^2 |k_i - m|^2)

    few keys    D_ij = |k_i - k_j|^2: with y = e D, h = e.y / 2 and D_top, y_top at the largest weight's key,
                |p|^2 = E1 y_top - h  and  |k_i - m|^2 = a (D_top,i + b (y_i - a y_top - a b h))
    many keys   K itself: e K gives p, and
                sum e^2 |k - m|^2 = sum e^2 |k|^2 - 2 (e^2 K).m + |m|^2 sum e^2

For a gradient g to the weights, with f = g - g_top, J g is a b y with

    y = e (f - a b sum e f)  over the others, and minus their sum at the largest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdpa._arrays import BoolArray, FloatArray

# Bytes of the scores of a tile, chosen by measurement among 2^16 to 2^19. In smaller tiles NumPy's
# calls cost more than their work; larger tiles leave the second-level cache (three buffers of 256
# KiB are in use at a time).
_TILE_BYTES = 2**18
# But long rows with a gradient go 128 at a time, up to 8 MiB: the product then reads the keys once
# for 128 rows.
_PRODUCT_ROWS = 128
_MAX_TILE_BYTES = 2**23
_SHORT_ROW = 32
_SMALLEST = np.finfo(float).tiny  # normal number
# Fitted to measured times: see `products_with`.
_KEYS_PER_QUERY = 12
_MORE_QUERIES = 8


def tile_rows(n_keys: int, *, with_gradient: bool) -> int:
    """Number of rows of n_keys scores that `row_diagnostics` processes at a time; it determines its
    memory.
    """
    row = 8 * n_keys
    rows = max(1, _TILE_BYTES // row)
    return max(rows, min(_PRODUCT_ROWS, _MAX_TILE_BYTES // row)) if with_gradient else rows


class Exponentials(NamedTuple):
    """e = exp((s - s2) / divisor) of the rows of a tile, and numbers of each row."""

    e: FloatArray  # (n_draws, n_queries, n_keys), in the tile's buffers; 0 at the largest score
    squared: FloatArray  # e^2
    b: FloatArray  # (n_draws, n_queries), as all that follow
    e1: FloatArray  # sum e
    with_below: FloatArray  # sum e (s - s2)
    e2: FloatArray  # sum e^2
    e3: FloatArray  # sum e^3

    @property
    def a(self) -> FloatArray:
        """The largest weight of each row."""
        return np.asarray(1 / (1 + self.b * self.e1))


class Tile:
    """Rows of scores, and the buffers of their exponentials under one divisor after the other.

    Arrays as large as the tile are views of eight buffers, which all tiles of a call share:

        buffer   filled once for a tile            filled again for each divisor
        0        below, by the constructor
        1                                          e
        2                                          squared
        3                                          scratch of `dot`, then `other_product`
        4        top_rows, by `gather`
        5                                          `product`
        6        f, by `keep_gradients`
        7                                          y of `query_gradient_square`

    So the result of `product` lasts until the next `product`, and that of `other_product` until the
    next `dot` of short rows. `query_gradient_square` uses 3 and 5, and comes last.

    Attributes:
        below: s - s2, and 0 at the largest score and at masked keys, (n_draws, n_queries, n_keys):
            NumPy takes long for exp(-inf).
        gap: s1 - s2 of each row, (n_draws, n_queries); infinite in a row with one visible key.
        e, squared: buffers of the shape of `below`.
        top_rows: the rows of a matrix that `gather` found.
    """

    def __init__(self, scores: FloatArray, buffers: FloatArray, *, has_masked: bool) -> None:
        below = shaped(buffers[0], scores.shape)
        np.copyto(below, scores)
        flat = below.reshape(-1)
        starts = np.arange(0, flat.size, scores.shape[-1])
        # argmax and a gather: along a short last axis NumPy's argmax is several times faster than
        # its max.
        top = starts + below.argmax(axis=-1).reshape(-1)  # of the flat scores
        self._top = top
        largest = flat[top]
        flat[top] = -np.inf
        second = flat[starts + below.argmax(axis=-1).reshape(-1)]
        self.gap = (largest - second).reshape(scores.shape[:-1])
        second_of_row = second.reshape(*scores.shape[:-1], 1)
        # True at the largest score and at masked keys; None if no key is masked.
        self._without_weight: BoolArray | None = None
        if has_masked:
            self._without_weight = np.isneginf(below)
            second[np.isneginf(second)] = 0.0  # a row with one visible key
            np.copyto(below, second_of_row, where=self._without_weight)
        else:
            flat[top] = second
        below -= second_of_row
        self.below = below
        self.e, self.squared, self._scratch = (
            shaped(buffer, below.shape) for buffer in buffers[1:4]
        )
        # for `dot` and `other_product`, for `gather`, for `product`, and for gradients
        self._free = buffers[3:]
        self._ones = np.ones(below.shape[-1])

    def clear(self, e: FloatArray) -> None:
        """Write 0 at the largest score of each row and at masked keys."""
        if self._without_weight is None:
            e.reshape(-1)[self._top] = 0.0
        else:
            np.copyto(e, 0.0, where=self._without_weight)

    def sum(self, rows: FloatArray) -> FloatArray:
        """The sums of rows of the shape of the scores."""
        return np.asarray(rows @ self._ones)

    def dot(self, rows: FloatArray, other: FloatArray) -> FloatArray:
        """The dot products of rows of the shape of the scores."""
        if rows.shape[-1] >= _SHORT_ROW:
            return np.asarray(np.vecdot(rows, other))
        # A BLAS call per row costs more than the arithmetic of a short row.
        return self.sum(np.multiply(rows, other, out=self._scratch))

    def at_top(self, rows: FloatArray) -> FloatArray:
        """The entry of each row at its largest score."""
        entries = rows.reshape(-1)[self._top]
        return np.asarray(entries.reshape(self.gap.shape))

    def gather(self, matrix: FloatArray) -> None:
        """Keep the row of a matrix (n_draws, n_keys, width) at the key of each row's largest
        score.
        """
        n_draws, n_queries, n_keys = self.e.shape
        draws = np.arange(len(self._top)) // n_queries
        rows = self._top % n_keys + n_keys * draws
        width = matrix.shape[-1]
        self.top_rows = shaped(self._free[1], (n_draws, n_queries, width))
        flat = matrix.reshape(n_draws * n_keys, width)
        np.take(flat, rows, axis=0, out=self.top_rows.reshape(len(rows), width), mode="clip")

    def product(self, rows: FloatArray, matrix: FloatArray) -> FloatArray:
        """Rows times a matrix (n_draws, n_keys, width), in a buffer of its own."""
        shape = (*rows.shape[:-1], matrix.shape[-1])
        return np.matmul(rows, matrix, out=shaped(self._free[2], shape))

    def other_product(self, rows: FloatArray, matrix: FloatArray) -> FloatArray:
        """As `product`, in the buffer of `dot` for short rows."""
        shape = (*rows.shape[:-1], matrix.shape[-1])
        return np.matmul(rows, matrix, out=shaped(self._free[0], shape))

    def keep_gradients(self, gradients: FloatArray) -> None:
        """Keep f = g - g_top of gradients of the shape of the scores."""
        self._differences = shaped(self._free[3], self.e.shape)
        top = self.at_top(np.ascontiguousarray(gradients))
        np.subtract(gradients, top[..., None], out=self._differences)

    def query_gradient_square(self, exponentials: Exponentials, keys: FloatArray) -> FloatArray:
        """|K^T J g|^2 / (a b)^2 of each row."""
        y = np.multiply(exponentials.e, self._differences, out=shaped(self._free[4], self.e.shape))
        mean_term = exponentials.a * exponentials.b * self.sum(y)
        y -= np.multiply(exponentials.e, mean_term[..., None], out=self._scratch)
        y.reshape(-1)[self._top] = -self.sum(y).reshape(-1)
        p = self.product(y, keys)
        return np.asarray(np.vecdot(p, p))


def shaped(buffer: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """The beginning of a buffer, with the given shape."""
    return buffer[: math.prod(shape)].reshape(shape)


@dataclass(frozen=True)
class Distances:
    """The squared distances of all pairs of keys, (n_draws, n_keys, n_keys)."""

    matrix: FloatArray

    @classmethod
    def between(cls, keys: FloatArray) -> Distances:
        """From keys (n_draws, n_keys, d_k) without a long mean."""
        squares = np.vecdot(keys, keys)
        matrix = keys @ keys.swapaxes(-1, -2)
        matrix *= -2
        matrix += squares[..., None]
        matrix += squares[..., None, :]
        np.maximum(matrix, 0.0, out=matrix)
        n_keys = matrix.shape[-1]
        flat = matrix.reshape(len(matrix), -1)
        flat[:, :: n_keys + 1] = 0.0
        return cls(matrix)

    def jacobian_square(self, tile: Tile, exponentials: Exponentials) -> FloatArray:
        """|K^T J|_F^2 / (a b)^2 of each row of a tile."""
        a, b = exponentials.a, exponentials.b
        y = tile.product(exponentials.e, self.matrix)
        y_top = tile.at_top(y)
        half = tile.dot(exponentials.e, y) / 2
        mean_term = a * a * (exponentials.e1 * y_top - half)
        spread = tile.dot(exponentials.squared, y) - a * exponentials.e2 * (y_top + b * half)
        key_terms = tile.dot(exponentials.squared, tile.top_rows) + b * spread
        return np.asarray(mean_term + a * key_terms)


@dataclass(frozen=True)
class Vectors:
    """Keys without a long mean, (n_draws, n_keys, d_k)."""

    matrix: FloatArray
    squares: FloatArray  # of their lengths, (n_draws, n_keys, 1)

    def jacobian_square(self, tile: Tile, exponentials: Exponentials) -> FloatArray:
        """|K^T J|_F^2 / (a b)^2 of each row of a tile."""
        a, b, squared = exponentials.a, exponentials.b, exponentials.squared
        # Processors multiply numbers below the smallest normal one slowly.
        np.copyto(squared, 0.0, where=squared < _SMALLEST)
        p = tile.product(exponentials.e, self.matrix)
        p -= exponentials.e1[..., None] * tile.top_rows
        top_term = a * a * np.vecdot(p, p)
        p *= (a * b)[..., None]
        mean = np.add(p, tile.top_rows, out=p)
        key_terms = (squared @ self.squares)[..., 0]
        squares = key_terms + exponentials.e2 * np.vecdot(mean, mean)
        with_squares = tile.other_product(squared, self.matrix)
        return np.asarray(top_term + squares - 2 * np.vecdot(with_squares, mean))


def products_with(keys: FloatArray, n_queries: int) -> Distances | Vectors:
    """The faster way to |K^T J|_F for keys (n_draws, n_keys, d_k) without a long mean.

    Per row and divisor, distances take a product of width n_keys, and vectors two of width d_k; per
    draw, distances take a product of the keys, too. With four divisors, both ways take the same
    measured time where 1/n_keys is about 1/(2 d_k) + 1/(12 (n_queries + 8)): with 64 queries at 110
    keys for d_k = 64, and at 470 for d_k = 512.
    """
    n_keys, d_k = keys.shape[-2:]
    shared = _KEYS_PER_QUERY * (n_queries + _MORE_QUERIES)
    if n_keys * (shared + 2 * d_k) <= 2 * d_k * shared:
        return Distances.between(keys)
    return Vectors(keys, np.vecdot(keys, keys)[..., None])


def centred(keys: FloatArray) -> FloatArray:
    """The keys less their mean; the keys themselves, without a copy, if it makes up at most half of
    their squares.
    """
    mean = keys.mean(axis=-2, keepdims=True)
    mean_term = keys.shape[-2] * np.vecdot(mean, mean)[..., 0]
    squares = np.vecdot(keys, keys).sum(axis=-1)
    if (2 * mean_term <= squares).all():
        return keys
    return np.asarray(keys - mean)
