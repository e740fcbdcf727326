"""Rows of scores through all divisors, a tile of rows at a time, in buffers that stay in cache.

`sdpa.diagnostics` defines e and its sums. Each score and divisor takes four passes and four sums over the keys.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Scores of a tile, chosen by measurement among 2^13 to 2^16. In smaller tiles NumPy's calls cost more than their work;
# larger tiles leave the second-level cache (buffers of 256 KiB, three of them in use at a time).
_TILE_SCORES = 2**15
# But long rows go 128 at a time, up to 8 MiB: the product with the keys then reads the keys once for 128 rows.
_PRODUCT_ROWS, _MAX_TILE_SCORES = 128, 2**20
_SHORT_ROW = 32
# A key of smaller e changes no digit of a sum whose largest e is 1. Sparse products are faster up to this share of the
# keys, estimated from so many rows of each draw.
_NEGLIGIBLE, _FEW, _SAMPLED_ROWS = 1e-20, 0.04, 4


def tile_rows(n_keys: int) -> int:
    """Number of rows of this many scores that `row_diagnostics` processes at a time; it determines its memory."""
    return max(1, _TILE_SCORES // n_keys, min(_PRODUCT_ROWS, _MAX_TILE_SCORES // n_keys))


class Tile:
    """Rows of scores; computes and sums e for one divisor after the other, in the same buffers.

    Attributes:
        largest, gap: of each row of scores, (n_draws, n_queries).
        e, squared: e and e^2 for the divisor of the last sums, (n_draws, n_queries, n_keys).
        e1, e2: their sums, (n_draws, n_queries).
        of_top: the rows of a matrix that `gather` found.
    """

    def __init__(
        self,
        top: npt.NDArray[np.intp],
        largest: FloatArray,
        gap: FloatArray,
        below: FloatArray,
        buffers: FloatArray,
        without_weight: BoolArray | None,
    ) -> None:
        self.largest, self.gap = largest, gap
        self._top = top  # index of each row's largest score in the raveled scores
        self._without_weight = without_weight  # True at the largest score and at masked keys; None if no key is masked
        self._below = below  # s - s2, and 0 at the largest score and at masked keys: NumPy takes long for exp(-inf)
        self.e, self.squared, self._scratch = (shaped(buffer, below.shape) for buffer in buffers[1:4])
        self._free = buffers[3:]  # for `dot` and `other_product`, for `gather`, and for `product`
        self._ones = np.ones(below.shape[-1])

    @classmethod
    def of(cls, scores: FloatArray, buffers: FloatArray, *, has_masked: bool) -> "Tile":
        """From scores (n_draws, n_queries, n_keys)."""
        below = shaped(buffers[0], scores.shape)
        np.copyto(below, scores)
        flat = below.reshape(-1)
        starts = np.arange(0, flat.size, scores.shape[-1])
        # argmax and a gather: along a short last axis NumPy's argmax is several times faster than its max.
        top = starts + below.argmax(axis=-1).reshape(-1)
        largest = flat[top]
        flat[top] = -np.inf
        second = flat[starts + below.argmax(axis=-1).reshape(-1)]
        gap = (largest - second).reshape(scores.shape[:-1])
        without_weight = None
        if has_masked:
            without_weight = np.isneginf(below)
            second[np.isneginf(second)] = 0.0  # a row with one visible key
            np.copyto(below, second.reshape(*scores.shape[:-1], 1), where=without_weight)
        else:
            flat[top] = second
        below -= second.reshape(*scores.shape[:-1], 1)
        return cls(top, largest.reshape(scores.shape[:-1]), gap, below, buffers, without_weight)

    def gather(self, matrix: FloatArray) -> None:
        """Keep the row of a matrix (n_draws, n_keys, width) at the key of each row's largest score."""
        n_draws, n_queries, n_keys = self.e.shape
        rows = self._top % n_keys + n_keys * (np.arange(len(self._top)) // n_queries)
        width = matrix.shape[-1]
        self.of_top = shaped(self._free[1], (n_draws, n_queries, width))
        flat = matrix.reshape(n_draws * n_keys, width)
        np.take(flat, rows, axis=0, out=self.of_top.reshape(len(rows), width), mode="clip")

    def sums(self, divisor: float) -> list[FloatArray]:
        """Sums of e, e (s - s2), e^2 and e^3 over the keys, each (n_draws, n_queries)."""
        e, ones = self.e, self._ones
        np.multiply(self._below, 1 / divisor, out=e)
        np.exp(e, out=e)
        if self._without_weight is None:
            e.reshape(-1)[self._top] = 0.0
            self.e1 = e @ ones
        else:
            np.copyto(e, 0.0, where=self._without_weight)
            self.e1 = np.maximum(e @ ones, 1.0)  # below 1 only in a row with one visible key
        with_below = self.dot(e, self._below)
        np.multiply(e, e, out=self.squared)
        self.e2 = self.squared @ ones
        return [self.e1, with_below, self.e2, self.dot(self.squared, e)]

    def shares(self, divisor: float) -> tuple[FloatArray, FloatArray]:
        """a and b of each row, for the divisor of the last sums."""
        b = np.exp(-self.gap / divisor)
        return np.asarray(1 / (1 + b * self.e1)), np.asarray(b)

    def few(self) -> "list[csr_array] | None":
        """The e of each draw that are not negligible, as sparse rows, if they are few; else None."""
        n_keys = self.e.shape[-1]
        if np.count_nonzero(self.e[:, :_SAMPLED_ROWS] > _NEGLIGIBLE) > _FEW * self.e[:, :_SAMPLED_ROWS].size:
            return None
        from scipy.sparse import csr_array  # here, because other rows need only NumPy

        found = []
        for rows in self.e:
            counts = (kept := rows > _NEGLIGIBLE).sum(axis=-1)
            places = np.flatnonzero(kept)
            starts = np.concatenate([[0], np.cumsum(counts)])
            found.append(csr_array((rows.reshape(-1)[places], places % n_keys, starts), shape=rows.shape))
        return found

    def dot(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """The dot products of rows of the shape of the scores."""
        if one.shape[-1] >= _SHORT_ROW:
            return np.asarray(np.vecdot(one, other))
        # A BLAS call per row costs more than the arithmetic of a short row.
        return np.asarray(np.multiply(one, other, out=self._scratch) @ self._ones)

    def at_top(self, rows: FloatArray) -> FloatArray:
        """The entry of each row at its largest score."""
        return rows.reshape(-1)[self._top].reshape(self.gap.shape)

    def product(self, rows: FloatArray, matrix: FloatArray) -> FloatArray:
        """Rows times a matrix (n_draws, n_keys, width), in a buffer of its own."""
        return np.matmul(rows, matrix, out=shaped(self._free[2], (*rows.shape[:-1], matrix.shape[-1])))

    def other_product(self, rows: FloatArray, matrix: FloatArray) -> FloatArray:
        """As `product`, in the buffer of `dot` for short rows."""
        return np.matmul(rows, matrix, out=shaped(self._free[0], (*rows.shape[:-1], matrix.shape[-1])))


def shaped(buffer: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """The beginning of a buffer, with the given shape."""
    return buffer[: math.prod(shape)].reshape(shape)
