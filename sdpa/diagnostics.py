"""Diagnostics of each row of scores, for several divisors of the same scores in one pass.

Per row, let s be the scores, s1 the largest and s2 the second largest, c a divisor and gap = s1 - s2. The weights
are split into the largest one and the others, so that nothing cancels or underflows in a saturated row:

    e_j = exp((s_j - s2) / c) over the others, and 0 at the largest, so that 1 <= E1 = sum e <= n - 1
    b = exp(-gap / c), the second largest weight over the largest;   t = b E1, the sum of the others over the largest
    max weight a = 1 / (1 + t),   other weights w_j = a b e_j,   r = 1 - a = a t

and with U2 = sum e^2 / E1^2, U3 = sum e^3 / E1^3 (see `sdpa.gradients` for the trace and the norm of J):

    entropy = log(1 + t) + a b (gap E1 - sum e (s - s2)) / c       from H = log Z - sum w (s - max)

The gradient to the query is dL/dq = K^T J g / c with g the gradient to the weights. With h = g - (g at the largest
weight), P = sum e h and m = w.h = a b P, J g has the entries a b e_j (h_j - m), and minus their sum, which is
a b P a, at the largest weight. So J g = a b v with v_j = e_j (h_j - m) and v = -P a at the largest weight.

The kernel takes a tile of scores at a time through all divisors, in buffers that stay in cache. Each score and divisor
takes four passes and four sums over the keys; the gradient takes two more passes, two more sums and a matrix product.
All work per row happens once, for all rows and divisors together.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float
from sdpa.gradients import norm_from_shares, trace_from_shares

_SMALLEST_DIVISOR = 1e-300
# Scores of a tile, chosen by measurement among 2^13 to 2^16. In smaller tiles NumPy's calls cost more than their work;
# larger tiles leave the second-level cache (buffers of 256 KiB, three of them in use at a time).
_TILE_SCORES = 2**15
# But long rows go 128 at a time, up to 8 MiB: the product with the keys then reads the keys once for 128 rows.
_PRODUCT_ROWS, _MAX_TILE_SCORES = 128, 2**20
_SHORT_ROW = 32


@dataclass(frozen=True)
class RowDiagnostics:
    """Properties of the softmax of each row of scaled scores, each of shape (n_divisors, n_draws, n_queries)."""

    max_weight: FloatArray
    entropy: FloatArray
    jacobian_trace: FloatArray
    jacobian_norm: FloatArray
    query_gradient_norm: FloatArray  # (0, n_draws, n_queries) if no gradient to the weights was given


def row_diagnostics(
    scores: npt.ArrayLike,
    divisors: Sequence[float],
    keys: npt.ArrayLike | None = None,
    weights_gradient: npt.ArrayLike | None = None,
) -> RowDiagnostics:
    """Max weight, entropy H (nats), tr J, |J|_F and |dL/dq| = |K^T J g| / divisor of every row, for every divisor.

    Args:
        scores: q.k before any divisor, (n_draws, n_queries, n_keys), n_keys at least 2.
        divisors: one or more numbers above 0 (from 1e-300).
        keys: (n_draws, n_keys, d_k); with weights_gradient, for |dL/dq|.
        weights_gradient: g = dL/dw, of the shape of scores; with keys.

    Returns:
        `RowDiagnostics` in double precision; the values under a divisor do not depend on the other divisors.

    Raises:
        ValueError: shapes do not match, or scores or divisors are not finite.

    >>> rows = row_diagnostics(np.zeros((1, 1, 4)), [1.0, 2.0])
    >>> rows.max_weight[0], rows.entropy[0].round(4)
    (array([[0.25]]), array([[1.3863]]))
    """
    scores = _doubles("scores", scores)
    _check(scores, divisors)
    n_draws, n_queries, n_keys = scores.shape
    upstream = _upstream(scores.shape, keys, weights_gradient)
    gap = np.empty((n_draws, n_queries))
    sums = np.zeros((5, len(divisors), n_draws, n_queries))
    rows = tile_rows(n_keys)
    buffers = np.empty((5, min(rows * n_keys, scores.size)))
    for draws in _runs(n_draws, rows // max(1, n_queries)):
        key_norm = None if upstream is None else _KeyNorm.of(upstream.keys[draws])
        for queries in _runs(n_queries, rows):
            tile = _Tile.of(scores[draws, queries], buffers)
            gap[draws, queries] = tile.gap
            if upstream is not None:
                tile.set_upstream(upstream.g[draws, queries])
            for i, divisor in enumerate(divisors):
                sums[:4, i, draws, queries] = tile.sums(divisor)
                if key_norm is not None:
                    sums[4, i, draws, queries] = tile.gradient_square(divisor, key_norm)
    return _metrics(np.reshape(divisors, (-1, 1, 1)), gap, sums, with_gradient=upstream is not None)


def tile_rows(n_keys: int) -> int:
    """Number of rows of this many scores that `row_diagnostics` processes at a time; it determines its memory."""
    return max(1, _TILE_SCORES // n_keys, min(_PRODUCT_ROWS, _MAX_TILE_SCORES // n_keys))


def _doubles(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return as_float(name, values).astype(np.float64, copy=False)


def _runs(length: int, size: int) -> Iterator[slice]:
    """Consecutive slices of that size, at least 1."""
    step = max(1, size)
    return (slice(first, min(first + step, length)) for first in range(0, length, step))


@dataclass(frozen=True)
class _Upstream:
    """The gradient g to the weights, and the keys that carry it on to the query."""

    keys: FloatArray
    g: FloatArray


def _upstream(
    shape: tuple[int, ...], keys: npt.ArrayLike | None, weights_gradient: npt.ArrayLike | None
) -> _Upstream | None:
    if keys is None and weights_gradient is None:
        return None
    if keys is None or weights_gradient is None:
        raise ValueError("keys and weights_gradient: expected both or neither, got one of them")
    keys, g = _doubles("keys", keys), _doubles("weights_gradient", weights_gradient)
    if keys.ndim != 3 or keys.shape[:2] != (shape[0], shape[2]):
        raise ValueError(f"keys: expected ({shape[0]}, {shape[2]}, d_k), got {keys.shape}")
    if g.shape != shape:
        raise ValueError(f"weights_gradient: expected the scores' shape {shape}, got {g.shape}")
    return _Upstream(keys, g)


@dataclass(frozen=True)
class _KeyNorm:
    """The matrix that gives |K^T v|^2: K K^T as v . (K K^T) v, or K itself, whichever is smaller."""

    matrix: FloatArray
    is_gram: bool

    @classmethod
    def of(cls, keys: FloatArray) -> "_KeyNorm":
        """From keys (n_draws, n_keys, d_k).

        The entries of v sum to 0, so a part common to all keys cancels in K^T v; v . (K K^T) v would lose digits to it,
        and so the keys are centred there. If only the keys that have weight are nearly equal, it still loses digits:
        twice as many as |K^T v| / |K| |v| is short of 1.
        """
        if keys.shape[1] >= keys.shape[2]:
            return cls(keys, is_gram=False)
        centred = keys - keys.mean(axis=-2, keepdims=True)
        return cls(centred @ centred.swapaxes(-1, -2), is_gram=True)

    def square(self, v: FloatArray, buffer: FloatArray) -> FloatArray:
        """|K^T v|^2 of each row v; below 0 only by rounding, where keys span fewer dimensions than their number."""
        through = np.matmul(v, self.matrix, out=_shaped(buffer, (*v.shape[:-1], self.matrix.shape[-1])))
        return np.asarray(np.maximum(np.vecdot(v if self.is_gram else through, through), 0.0))


class _Tile:
    """Rows of scores; computes and sums e for one divisor after the other, in the same buffers."""

    def __init__(self, top: npt.NDArray[np.intp], gap: FloatArray, below: FloatArray, buffers: FloatArray) -> None:
        self.gap = gap  # (n_draws, n_queries)
        self._top = top  # index of each row's largest score in the raveled scores
        self._below = below  # s - s2, and 0 at the largest score
        self._h, self._e, self._scratch = (_shaped(buffer, below.shape) for buffer in buffers[1:4])
        self._through = buffers[4]
        self._ones = np.ones(below.shape[-1])

    @classmethod
    def of(cls, scores: FloatArray, buffers: FloatArray) -> "_Tile":
        below = _shaped(buffers[0], scores.shape)
        np.copyto(below, scores)
        flat = below.reshape(-1)
        starts = np.arange(0, flat.size, scores.shape[-1])
        # argmax and a gather: along a short last axis NumPy's argmax is several times faster than its max.
        top = starts + below.argmax(axis=-1).reshape(-1)
        largest = flat[top]
        flat[top] = -np.inf
        second = flat[starts + below.argmax(axis=-1).reshape(-1)]
        flat[top] = second
        below -= second.reshape(*scores.shape[:-1], 1)
        return cls(top, (largest - second).reshape(scores.shape[:-1]), below, buffers)

    def set_upstream(self, g: FloatArray) -> None:
        """Keep h of the gradient to the weights."""
        np.subtract(g, np.take(g, self._top).reshape(*g.shape[:-1], 1), out=self._h)

    def sums(self, divisor: float) -> list[FloatArray]:
        """Sums of e, e (s - s2), e^2 and e^3 over the keys, each (n_draws, n_queries)."""
        e, ones = self._e, self._ones
        np.multiply(self._below, 1 / divisor, out=e)
        np.exp(e, out=e)
        e.reshape(-1)[self._top] = 0.0
        self._e1 = e @ ones
        with_below = self._dot(e, self._below)
        squared = np.multiply(e, e, out=self._scratch)
        return [self._e1, with_below, squared @ ones, self._dot(squared, e)]

    def _dot(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """The dot products of rows; the scratch buffer is overwritten."""
        if one.shape[-1] >= _SHORT_ROW:
            return np.asarray(np.vecdot(one, other))
        # A BLAS call per row costs more than the arithmetic of a short row.
        return np.asarray(np.multiply(one, other, out=self._scratch) @ self._ones)

    def gradient_square(self, divisor: float, key_norm: _KeyNorm) -> FloatArray:
        """|K^T v|^2 of each row, for the divisor of the last sums."""
        b = np.exp(-self.gap / divisor)
        a = 1 / (1 + b * self._e1)
        p = self._dot(self._e, self._h)
        v = np.subtract(self._h, (a * b * p)[..., None], out=self._scratch)
        v *= self._e
        v.reshape(-1)[self._top] = (-a * p).reshape(-1)
        return key_norm.square(v, self._through)


def _shaped(buffer: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """The beginning of a buffer, with the given shape."""
    return buffer[: math.prod(shape)].reshape(shape)


def _metrics(c: FloatArray, gap: FloatArray, sums: FloatArray, *, with_gradient: bool) -> RowDiagnostics:
    """From divisors c, (n_divisors, 1, 1), and the gap and the sums of each row; the last sum is |K^T v|^2."""
    e1, es, e2, e3, gradient_square = sums
    b = np.exp(-gap / c)
    t = b * e1
    a = 1 / (1 + t)
    r = t * a
    u2, u3 = e2 / (e1 * e1), e3 / (e1 * e1 * e1)
    return RowDiagnostics(
        max_weight=a,
        entropy=np.log1p(t) + a * b * (gap / c * e1 - es / c),
        jacobian_trace=trace_from_shares(r, u2),
        jacobian_norm=norm_from_shares(r, u2, u3),
        query_gradient_norm=(a * b / c * np.sqrt(gradient_square))[: None if with_gradient else 0],
    )


def _check(scores: FloatArray, divisors: Sequence[float]) -> None:
    for divisor in divisors:
        if not _SMALLEST_DIVISOR <= divisor < math.inf:
            raise ValueError(f"divisors: expected finite numbers from {_SMALLEST_DIVISOR}, got {divisor}")
    if scores.ndim != 3 or scores.shape[-1] < 2:
        raise ValueError(f"scores: expected (n_draws, n_queries, n_keys) with 2 keys or more, got {scores.shape}")
    with np.errstate(over="ignore"):  # sums are faster than testing each entry, but may overflow for large numbers
        sums = scores @ np.ones(scores.shape[-1])
    if not np.isfinite(sums).all() and not np.isfinite(scores).all():
        raise ValueError("scores: expected finite numbers")
