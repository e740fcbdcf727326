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

A masked key has the score -inf and so e = 0: it takes no part in any sum. A row with one visible key has no second
largest score; with gap = inf and E1 = 1 in place of 0, the same formulas give b = t = r = 0 without dividing by 0.

The kernel takes a tile of scores at a time through all divisors, in buffers that stay in cache. Each score and divisor
takes four passes and four sums over the keys; the gradient takes two more passes, two more sums and a matrix product.
All work per row happens once, for all rows and divisors together.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray, as_float, row_label
from sdpa.attention import masked
from sdpa.gradients import norm_from_shares, trace_from_shares
from sdpa.metrics import row_variance

_SMALLEST_DIVISOR = 1e-300
# Scores of a tile, chosen by measurement among 2^13 to 2^16. In smaller tiles NumPy's calls cost more than their work;
# larger tiles leave the second-level cache (buffers of 256 KiB, three of them in use at a time).
_TILE_SCORES = 2**15
# But long rows go 128 at a time, up to 8 MiB: the product with the keys then reads the keys once for 128 rows.
_PRODUCT_ROWS, _MAX_TILE_SCORES = 128, 2**20
_SHORT_ROW = 32
# A gap of that many divisors gives b = 0 just as an infinite one does, but its product with b is 0 and not NaN.
_LARGEST_GAP = 1e300


@dataclass(frozen=True)
class RowDiagnostics:
    """Properties of the softmax of each row of scaled scores, each of the shape that `row_diagnostics` describes."""

    max_weight: FloatArray
    entropy: FloatArray
    jacobian_trace: FloatArray
    jacobian_norm: FloatArray
    query_gradient_norm: FloatArray  # empty if no gradient to the weights was given
    row_variance: FloatArray  # empty unless requested
    own_weight: FloatArray  # empty if no keys were named

    @property
    def effective_keys(self) -> FloatArray:
        """e^H: the number of equal weights that have the same entropy."""
        return np.exp(self.entropy)

    @property
    def collision(self) -> FloatArray:
        """sum w^2 = 1 - tr J, with a relative rounding error of at most about n_keys 2^-52."""
        return 1 - self.jacobian_trace

    @property
    def participation(self) -> FloatArray:
        """1 / sum w^2: the number of equal weights that have the same sum of squares."""
        return 1 / self.collision


def row_diagnostics(
    scores: npt.ArrayLike,
    divisors: Sequence[float] | float,
    keys: npt.ArrayLike | None = None,
    weights_gradient: npt.ArrayLike | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    with_variance: bool = False,
    own_keys: npt.ArrayLike | None = None,
) -> RowDiagnostics:
    """Max weight, entropy H (nats), tr J, |J|_F and |dL/dq| = |K^T J g| / divisor of every row, for every divisor.

    On request also the variance of a row's scaled scores, and the weight of one key that the caller names for each row.

    Args:
        scores: q.k before any divisor, (..., n_queries, n_keys), n_keys at least 2; -inf where a key is masked.
        divisors: one or more numbers above 0 (from 1e-300), or a single number.
        keys: (..., n_keys, d_k); with weights_gradient, for |dL/dq|. Leading axes as those of scores.
        weights_gradient: g = dL/dw, of the shape of scores; with keys.
        mask: boolean, broadcast to the shape of scores; True where the query may attend to the key. The other scores
            become -inf, as in `attention_weights`.
        with_variance: compute row_variance, as in `sdpa.row_variance`.
        own_keys: for own_weight, the index of a key for each row, broadcast to (..., n_queries); its weight is 0 where
            it is masked.

    Returns:
        `RowDiagnostics` in double precision, of shape (n_divisors, ..., n_queries), or (..., n_queries) for a single
        number as divisor; what was not requested has the shape (0, ..., n_queries). The values under a divisor do not
        depend on the other divisors, nor on what keys and weights_gradient contain where a key is masked.

    Raises:
        ValueError: shapes do not match, a row of scores contains a NaN, a +inf or only -inf (the message names the
            row), or divisors are not finite.

    >>> rows = row_diagnostics(np.zeros((1, 1, 4)), [1.0, 2.0])
    >>> rows.max_weight[0], rows.entropy[0].round(4)
    (array([[0.25]]), array([[1.3863]]))
    >>> row_diagnostics(np.zeros((2, 4)), 1.0, mask=np.tri(2, 4, dtype=bool)).max_weight
    array([1. , 0.5])
    """
    given = masked(_doubles("scores", scores), mask)
    several, each = np.ndim(divisors) > 0, np.ravel(divisors).tolist()
    has_masked = _check(given, each)
    own_scores = None if own_keys is None else _own_scores(given, own_keys)
    variance = row_variance(_draws(given)) if with_variance else None
    upstream = _upstream(given.shape, keys, weights_gradient)
    if upstream is not None and has_masked:
        upstream = upstream.without_unseen_keys(_draws(given))
    largest, gap, sums = _sums(_draws(given), each, upstream, has_masked=has_masked)
    own_gap = None if own_scores is None else largest - own_scores
    rows = _metrics(np.reshape(each, (-1, 1, 1)), gap, sums, variance, own_gap, with_gradient=upstream is not None)
    if several and given.ndim == 3:
        return rows
    leading = given.shape[:-1]
    return RowDiagnostics(
        *(
            values.reshape(leading if len(values) and not several else (len(values), *leading))
            for values in vars(rows).values()
        )
    )


def _sums(
    scores: FloatArray, divisors: Sequence[float], upstream: "_Upstream | None", *, has_masked: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of each row of checked scores the largest and the gap, (n_draws, n_queries), and the sums.

    The five sums have the shape (5, n_divisors, n_draws, n_queries).
    """
    n_draws, n_queries, n_keys = scores.shape
    largest, gap = np.empty((2, n_draws, n_queries))
    sums = np.zeros((5, len(divisors), n_draws, n_queries))
    rows = tile_rows(n_keys)
    buffers = np.empty((5, min(rows * n_keys, scores.size)))
    for draws in _runs(n_draws, rows // max(1, n_queries)):
        key_norm = None if upstream is None else _KeyNorm.of(upstream.keys[draws])
        for queries in _runs(n_queries, rows):
            tile = _Tile.of(scores[draws, queries], buffers, has_masked=has_masked)
            largest[draws, queries], gap[draws, queries] = tile.largest, tile.gap
            if upstream is not None:
                tile.set_upstream(upstream.g[draws, queries])
            for i, divisor in enumerate(divisors):
                sums[:4, i, draws, queries] = tile.sums(divisor)
                if key_norm is not None:
                    sums[4, i, draws, queries] = tile.gradient_square(divisor, key_norm)
    return largest, gap, sums


def tile_rows(n_keys: int) -> int:
    """Number of rows of this many scores that `row_diagnostics` processes at a time; it determines its memory."""
    return max(1, _TILE_SCORES // n_keys, min(_PRODUCT_ROWS, _MAX_TILE_SCORES // n_keys))


def _doubles(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return as_float(name, values).astype(np.float64, copy=False)


def _draws(array: FloatArray) -> FloatArray:
    """The array with all axes before the last two as one."""
    return array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def _runs(length: int, size: int) -> Iterator[slice]:
    """Consecutive slices of that size, at least 1."""
    step = max(1, size)
    return (slice(first, min(first + step, length)) for first in range(0, length, step))


@dataclass(frozen=True)
class _Upstream:
    """The gradient g to the weights, and the keys that carry it on to the query, with one axis before the last two."""

    keys: FloatArray
    g: FloatArray

    def without_unseen_keys(self, scores: FloatArray) -> "_Upstream":
        """Put a visible key in the place of those that no query of a draw sees: padding may be huge or NaN."""
        is_seen = np.asarray(np.isfinite(scores).any(axis=-2))
        if is_seen.all():
            return self
        visible = np.take_along_axis(self.keys, is_seen.argmax(axis=-1)[:, None, None], axis=-2)
        return _Upstream(np.where(is_seen[..., None], self.keys, visible), self.g)


def _upstream(
    shape: tuple[int, ...], keys: npt.ArrayLike | None, weights_gradient: npt.ArrayLike | None
) -> _Upstream | None:
    if keys is None and weights_gradient is None:
        return None
    if keys is None or weights_gradient is None:
        raise ValueError("keys and weights_gradient: expected both or neither, got one of them")
    keys, g = _doubles("keys", keys), _doubles("weights_gradient", weights_gradient)
    of_keys = (*shape[:-2], shape[-1])
    if keys.shape[:-1] != of_keys:
        raise ValueError(f"keys: expected ({', '.join(map(str, of_keys))}, d_k), got {keys.shape}")
    if g.shape != shape:
        raise ValueError(f"weights_gradient: expected the scores' shape {shape}, got {g.shape}")
    return _Upstream(_draws(keys), _draws(g))


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

    def __init__(
        self,
        top: npt.NDArray[np.intp],
        largest: FloatArray,
        gap: FloatArray,
        below: FloatArray,
        buffers: FloatArray,
        without_weight: BoolArray | None,
    ) -> None:
        self.largest, self.gap = largest, gap  # (n_draws, n_queries)
        self._top = top  # index of each row's largest score in the raveled scores
        self._without_weight = without_weight  # True at the largest score and at masked keys; None if no key is masked
        self._below = below  # s - s2, and 0 at the largest score and at masked keys: NumPy takes long for exp(-inf)
        self._h, self._e, self._scratch = (_shaped(buffer, below.shape) for buffer in buffers[1:4])
        self._through = buffers[4]
        self._ones = np.ones(below.shape[-1])

    @classmethod
    def of(cls, scores: FloatArray, buffers: FloatArray, *, has_masked: bool) -> "_Tile":
        below = _shaped(buffers[0], scores.shape)
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

    def set_upstream(self, g: FloatArray) -> None:
        """Keep h of the gradient to the weights."""
        np.subtract(g, np.take(g, self._top).reshape(*g.shape[:-1], 1), out=self._h)
        if self._without_weight is not None:
            np.copyto(self._h, 0.0, where=self._without_weight)  # e h is then 0 even where g is NaN

    def sums(self, divisor: float) -> list[FloatArray]:
        """Sums of e, e (s - s2), e^2 and e^3 over the keys, each (n_draws, n_queries)."""
        e, ones = self._e, self._ones
        np.multiply(self._below, 1 / divisor, out=e)
        np.exp(e, out=e)
        if self._without_weight is None:
            e.reshape(-1)[self._top] = 0.0
            self._e1 = e @ ones
        else:
            np.copyto(e, 0.0, where=self._without_weight)
            self._e1 = np.maximum(e @ ones, 1.0)  # below 1 only in a row with one visible key
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


def _metrics(
    c: FloatArray,
    gap: FloatArray,
    sums: FloatArray,
    variance: FloatArray | None,
    own_gap: FloatArray | None,
    *,
    with_gradient: bool,
) -> RowDiagnostics:
    """From divisors c, (n_divisors, 1, 1), and the gap and the sums of each row; the last sum is |K^T v|^2.

    On request also from the variance of each row of scores, and from the distance of its own key's score from the
    largest.
    """
    empty = np.empty((0, *gap.shape))
    e1, es, e2, e3, gradient_square = sums
    scaled_gap = gap / c
    np.minimum(scaled_gap, _LARGEST_GAP, out=scaled_gap)
    b = np.exp(-scaled_gap)
    t = b * e1
    a = 1 / (1 + t)
    r = t * a
    u2, u3 = e2 / (e1 * e1), e3 / (e1 * e1 * e1)
    return RowDiagnostics(
        max_weight=a,
        entropy=np.log1p(t) + a * b * (scaled_gap * e1 - es / c),
        jacobian_trace=trace_from_shares(r, u2),
        jacobian_norm=norm_from_shares(r, u2, u3),
        query_gradient_norm=(a * b / c * np.sqrt(gradient_square))[: None if with_gradient else 0],
        row_variance=empty if variance is None else variance / c / c,
        own_weight=empty if own_gap is None else a * np.exp(-own_gap / c),
    )


def _own_scores(scores: FloatArray, own_keys: npt.ArrayLike) -> FloatArray:
    """The score of the named key of each row, (n_draws, n_queries)."""
    keys, n_keys = np.asarray(own_keys), scores.shape[-1]
    if keys.dtype.kind not in "iu" or not ((keys >= 0) & (keys < n_keys)).all():
        raise ValueError(f"own_keys: expected integers from 0 to {n_keys - 1}, got {own_keys!r}")
    try:
        keys = np.broadcast_to(keys, scores.shape[:-1])
    except ValueError:
        raise ValueError(
            f"own_keys: expected a shape that broadcasts to {scores.shape[:-1]}, got {keys.shape}"
        ) from None
    return _draws(np.take_along_axis(scores, keys[..., None], axis=-1))[..., 0]


def _check(scores: FloatArray, divisors: Sequence[float]) -> bool:
    """True if a key is masked; ValueError for invalid scores or divisors."""
    for divisor in divisors:
        if not _SMALLEST_DIVISOR <= divisor < math.inf:
            raise ValueError(f"divisors: expected finite numbers from {_SMALLEST_DIVISOR}, got {divisor}")
    if scores.ndim < 2 or scores.shape[-1] < 2:
        raise ValueError(f"scores: expected (..., n_queries, n_keys) with 2 keys or more, got {scores.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        # Sums are faster than testing each entry, but may overflow for large numbers.
        sums = scores @ np.ones(scores.shape[-1])
    if np.isfinite(sums).all() or np.isfinite(scores).all():
        return False
    largest = np.take_along_axis(scores, scores.argmax(axis=-1, keepdims=True), axis=-1)[
        ..., 0
    ]  # NaN in a row with NaN
    wrong = np.argwhere(~np.isfinite(largest))
    if len(wrong):
        row = tuple(wrong[0])
        raise ValueError(
            f"scores: expected every row to have a finite largest score, got {largest[row]} in {row_label(row)}"
        )
    return True
