"""Diagnostics of each row of scores, for several divisors of the same scores in one pass.

Per row, let s be the scores, s1 the largest and s2 the second largest, c a divisor and gap = s1 -
s2. The weights are split into the largest one and the others, so that nothing cancels or underflows
in a saturated row:

    e_j = exp((s_j - s2) / c) over the others, and 0 at the largest, so that 1 <= E1 = sum e <= n -
    1
    b = exp(-gap / c), the second largest weight over the largest;   t = b E1, the sum of the others over the largest
    max weight a = 1 / (1 + t),   other weights w_j = a b e_j,   r = 1 - a = a t

and with U2 = sum e^2 / E1^2, U3 = sum e^3 / E1^3 (see `sdpa.metrics` for the trace and the norm
of J):

    entropy = log(1 + t) + a b (gap E1 - sum e (s - s2)) / c       from H = log Z - sum w (s - max)

The gradient to the query is dL/dq = K^T J g / c with g the gradient to the weights. Over standard
normal g, its square has the expectation |dw/dq|_F^2 = |K^T J|_F^2 / c^2 = sum w_i^2 |k_i - m|^2 / c^2
with m = sum w k, and

    |K^T J|_F^2 = (a b)^2 (a^2 |p|^2 + sum e_i^2 |k_i - m|^2),   p = sum e_j (k_j - k_top),   m = k_top + a b p

The first term is that of the largest weight. `sdpa.row_tiles` computes both from the distances of
all pairs of keys, or from the keys less their mean. The relative error of |dL/dq| is of the order
of 1e-15 (|k| / distance)^2, with the distance between the keys that have weight: digits are lost
only where these nearly coincide and others lie far away.

A masked key has the score -inf and so e = 0: it takes no part in any sum. A row with one visible
key has no second largest score; with gap = inf and E1 = 1 in place of 0, the same formulas give b =
t = r = 0 without dividing by 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float, row_label
from sdpa.masks import masked
from sdpa.metrics import norm_from_shares, row_variance, trace_from_shares
from sdpa.row_tiles import Distances, Tile, Vectors, centred, takes_distances, tile_rows

_SMALLEST_DIVISOR = 1e-300
# A gap of that many divisors gives b = 0 just as an infinite one does, but its product with b is 0
# and not NaN.
_LARGEST_GAP = 1e20


@dataclass(frozen=True)
class RowDiagnostics:
    """Properties of the softmax of each row of scaled scores, each of the shape that
    `row_diagnostics` describes.
    """

    max_weight: FloatArray
    entropy: FloatArray
    jacobian_trace: FloatArray
    jacobian_norm: FloatArray
    weight_jacobian_norm: FloatArray  # |dw/dq|_F = |K^T J|_F / divisor; empty if no keys were given
    query_gradient_norm: FloatArray  # |dL/dq|; empty if no gradients were given
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
    divisors: npt.ArrayLike,
    keys: npt.ArrayLike | None = None,
    *,
    gradients: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    with_variance: bool = False,
    own_keys: npt.ArrayLike | None = None,
) -> RowDiagnostics:
    """Max weight, entropy H (nats), tr J and |J|_F of every row, for every divisor.

    On request also |dw/dq|_F = |K^T J|_F / divisor, |dL/dq| of given gradients to the weights, the
    variance of a row's scaled scores, and the weight of a key that the caller names for each row.
    All sums are in double precision.

    Args:
        scores: q.k before any divisor, (..., n_queries, n_keys), n_keys at least 2; -inf where a
            key is masked.
        divisors: one or more numbers from 1e-300, or a single one.
        keys: (..., n_keys, d_k), for weight_jacobian_norm. Leading axes as those of scores.
        gradients: dL/dw for query_gradient_norm, of the shape of scores; needs keys. What it has at
            masked keys does not count.
        mask: as in `attention_weights`; booleans broadcast to the shape of scores.
        with_variance: compute row_variance, as in `sdpa.row_variance`.
        own_keys: for own_weight, the index of a key for each row, broadcast to (..., n_queries);
            its weight is 0 where it is masked.

    Returns:
        `RowDiagnostics` in double precision, of shape (n_divisors, ..., n_queries), or (...,
        n_queries) for a single divisor; what was not requested has the shape (0, ...,
        n_queries). The values under a divisor do not depend on the other divisors, nor on what a
        key contains that no query of its draw sees.

    Raises:
        TypeError: divisors is the text of a rule.
        ValueError: shapes do not match, a row of scores contains a NaN, a +inf or only -inf (the
            message names the row), or divisors are not finite.

    >>> row_diagnostics(np.zeros((2, 4)), 1.0, mask=np.tri(2, 4, dtype=bool)).max_weight
    array([1. , 0.5])
    >>> row_diagnostics([[0.0, 0.0]], 1.0, keys=[[3.0], [1.0]]).weight_jacobian_norm
    array([0.70710678])
    """
    if isinstance(divisors, str):
        raise TypeError(
            f"divisors: expected numbers, because scores tell no d_k, got the rule {divisors!r}; its "
            f"number is sdpa.Scaling.parse({divisors!r}).divisor(d_k, n_keys)"
        )
    given = masked(as_float("scores", scores), mask).astype(np.float64, copy=False)
    checked = as_float("divisors", divisors, min_ndim=0)
    several = checked.ndim > 0
    each = checked.ravel().tolist()
    has_masked = _check(given, each)
    own_scores = None if own_keys is None else _own_scores(given, own_keys)
    variance = row_variance(_draws(given)) if with_variance else None
    vectors = None if keys is None else _keys(given, keys, has_masked=has_masked)
    drawn = None if gradients is None else _gradients(given, gradients, vectors)
    largest, gap, sums = _sums(_draws(given), each, vectors, drawn, has_masked=has_masked)
    own_gap = None if own_scores is None else largest - own_scores
    rows = _metrics(
        np.reshape(each, (-1, 1, 1)),
        gap,
        sums,
        variance,
        own_gap,
        with_keys=vectors is not None,
        with_gradients=drawn is not None,
    )
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
    scores: FloatArray,
    divisors: Sequence[float],
    keys: FloatArray | None,
    gradients: FloatArray | None,
    *,
    has_masked: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The largest score and the gap of each row of checked scores, (n_draws, n_queries), and sums.

    The six sums have the shape (6, n_divisors, n_draws, n_queries).
    """
    n_draws, n_queries, n_keys = scores.shape
    largest, gap = np.empty((2, n_draws, n_queries))
    sums = np.zeros((6, len(divisors), n_draws, n_queries))
    rows = tile_rows(n_keys, with_gradient=keys is not None)
    d_k = 0 if keys is None else keys.shape[-1]
    way = Distances if takes_distances(n_keys, d_k, n_queries) else Vectors
    width = n_keys if way is Distances and gradients is None else max(n_keys, d_k)
    buffers = np.empty((6 if gradients is None else 8, min(rows, n_draws * n_queries) * width))
    for draws in _runs(n_draws, rows // max(1, n_queries)):
        apart = None if keys is None else centred(keys[draws])
        spread = None if apart is None else way.of(apart)
        for queries in _runs(n_queries, rows):
            tile = Tile(scores[draws, queries], buffers, has_masked=has_masked)
            largest[draws, queries], gap[draws, queries] = tile.largest, tile.gap
            if spread is not None:
                tile.gather(spread.matrix)
            if gradients is not None:
                tile.keep_gradients(gradients[draws, queries])
            for i, divisor in enumerate(divisors):
                sums[:4, i, draws, queries] = tile.sums(divisor)
                if spread is not None:
                    sums[4, i, draws, queries] = spread.jacobian_square(tile, divisor)
                if gradients is not None and apart is not None:
                    sums[5, i, draws, queries] = tile.query_gradient_square(divisor, apart)
    return largest, gap, sums


def _draws(array: FloatArray) -> FloatArray:
    """The array with all axes before the last two as one."""
    return array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def _runs(length: int, size: int) -> Iterator[slice]:
    """Consecutive slices of that size, at least 1."""
    step = max(1, size)
    return (slice(first, min(first + step, length)) for first in range(0, length, step))


def _keys(scores: FloatArray, keys: npt.ArrayLike, *, has_masked: bool) -> FloatArray:
    """The keys behind scores, with one axis before the last two, and no key that no query sees."""
    vectors: FloatArray = as_float("keys", keys).astype(np.float64, copy=False)
    of_keys = (*scores.shape[:-2], scores.shape[-1])
    if vectors.shape[:-1] != of_keys:
        raise ValueError(
            f"keys: expected ({', '.join(map(str, of_keys))}, d_k), got {vectors.shape}"
        )
    vectors = _draws(vectors)
    return _without_unseen(vectors, _draws(scores)) if has_masked else vectors


def _gradients(scores: FloatArray, gradients: npt.ArrayLike, keys: FloatArray | None) -> FloatArray:
    """The gradients to weights, with one axis before the last two."""
    found: FloatArray = as_float("gradients", gradients).astype(np.float64, copy=False)
    if keys is None or found.shape != scores.shape:
        got = f"{found.shape}{' without keys' if keys is None else ''}"
        raise ValueError(f"gradients: expected {scores.shape} beside keys, got {got}")
    return _draws(found)


def _without_unseen(keys: FloatArray, scores: FloatArray) -> FloatArray:
    """The keys, with a visible one in the place of those that no query of a draw sees: padding may
    be huge or NaN.
    """
    is_seen = np.asarray(np.isfinite(scores).any(axis=-2))
    if is_seen.all():
        return keys
    first_seen = is_seen.argmax(axis=-1)[:, None, None]
    visible = np.take_along_axis(keys, first_seen, axis=-2)
    return np.where(is_seen[..., None], keys, visible)


def _metrics(
    c: FloatArray,
    gap: FloatArray,
    sums: FloatArray,
    variance: FloatArray | None,
    own_gap: FloatArray | None,
    *,
    with_keys: bool,
    with_gradients: bool,
) -> RowDiagnostics:
    """From divisors c, (n_divisors, 1, 1), and the gap and the sums of each row; the last sums are
    |K^T J|_F^2 and |K^T J g|^2 over (a b)^2.

    own_gap is the distance of the score of a row's own key from the largest.
    """
    empty = np.empty((0, *gap.shape))
    e1, es, e2, e3, *squares = sums
    scaled_gap = gap / c
    np.minimum(scaled_gap, _LARGEST_GAP, out=scaled_gap)
    b = np.exp(-scaled_gap)
    t = b * e1
    a = 1 / (1 + t)
    r = t * a
    u2 = e2 / (e1 * e1)
    u3 = e3 / (e1 * e1 * e1)
    of_weights, of_query = (a * b / c * np.sqrt(np.maximum(each, 0.0)) for each in squares)
    return RowDiagnostics(
        max_weight=a,
        entropy=np.log1p(t) + a * b * (scaled_gap * e1 - es / c),
        jacobian_trace=trace_from_shares(r, u2),
        jacobian_norm=norm_from_shares(r, u2, u3),
        weight_jacobian_norm=of_weights[: None if with_keys else 0],
        query_gradient_norm=of_query[: None if with_gradients else 0],
        row_variance=empty if variance is None else variance / c / c,
        own_weight=empty if own_gap is None else a * np.exp(-own_gap / c),
    )


def _own_scores(scores: FloatArray, own_keys: npt.ArrayLike) -> FloatArray:
    """The score of the named key of each row, (n_draws, n_queries)."""
    keys = np.asarray(own_keys)
    n_keys = scores.shape[-1]
    if keys.dtype.kind not in "iu" or not ((keys >= 0) & (keys < n_keys)).all():
        raise ValueError(f"own_keys: expected integers from 0 to {n_keys - 1}, got {own_keys!r}")
    try:
        keys = np.broadcast_to(keys, scores.shape[:-1])
    except ValueError:
        raise ValueError(
            f"own_keys: expected a shape that broadcasts to {scores.shape[:-1]}, got {keys.shape}"
        ) from None
    found = np.take_along_axis(scores, keys[..., None], axis=-1)
    return _draws(found)[..., 0]


def _check(scores: FloatArray, divisors: Sequence[float]) -> bool:
    """True if a key is masked; ValueError for invalid scores or divisors."""
    for divisor in divisors:
        if not _SMALLEST_DIVISOR <= divisor < math.inf:
            raise ValueError(
                f"divisors: expected finite numbers from {_SMALLEST_DIVISOR}, got {divisor}"
            )
    if scores.ndim < 2 or scores.shape[-1] < 2:
        raise ValueError(
            f"scores: expected (..., n_queries, n_keys) with 2 keys or more, got {scores.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        # Sums are faster than testing each entry, but may overflow for large numbers.
        sums = scores @ np.ones(scores.shape[-1])
    if np.isfinite(sums).all() or np.isfinite(scores).all():
        return False
    top = scores.argmax(axis=-1, keepdims=True)
    largest = np.take_along_axis(scores, top, axis=-1)[..., 0]  # NaN in a row with NaN
    wrong = np.argwhere(~np.isfinite(largest))
    if len(wrong):
        row = tuple(wrong[0])
        raise ValueError(
            f"scores: expected every row to have a finite largest score, got {largest[row]} in "
            f"{row_label(row)}"
        )
    return True
