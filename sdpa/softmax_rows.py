"""The softmax of each row of scores under several divisors, and the properties of its weights.

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

from sdpa._arrays import (
    FloatArray,
    as_float,
    gradients_to_weights,
    keys_of_scores,
    largest_scores,
)
from sdpa.masks import masked
from sdpa.metrics import norm_from_shares, trace_from_shares
from sdpa.row_tiles import Exponentials, Tile, centred, products_with, tile_rows

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
) -> RowDiagnostics:
    """Max weight, entropy H (nats), tr J and |J|_F of every row, for every divisor.

    On request also |dw/dq|_F = |K^T J|_F / divisor, and |dL/dq| of given gradients to the weights.
    All sums are in double precision.

    Args:
        scores: q.k before any divisor, (..., n_queries, n_keys), n_keys at least 2; -inf where a
            key is masked.
        divisors: one or more numbers from 1e-300, or a single one.
        keys: (..., n_keys, d_k), for weight_jacobian_norm. Leading axes as those of scores.
        gradients: dL/dw for query_gradient_norm, of the shape of scores; needs keys. What it has at
            masked keys does not count.
        mask: as in `attention_weights`; booleans broadcast to the shape of scores.

    Returns:
        `RowDiagnostics` in double precision, of shape (n_divisors, ..., n_queries), or (...,
        n_queries) for a single divisor; what was not requested is empty. The values under a
        divisor depend neither on the other divisors nor on keys that no query sees.

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
    c = as_float("divisors", divisors, min_ndim=0)
    has_masked = _check(given, c)
    flat_keys = None if keys is None else _keys(given, keys, has_masked=has_masked)
    flat_gradients = None
    if gradients is not None:
        flat_gradients = _draws(
            gradients_to_weights(given, gradients, keys).astype(float, copy=False)
        )
    gap, sums = _sums(
        _draws(given), c.ravel().tolist(), flat_keys, flat_gradients, has_masked=has_masked
    )
    rows = _from_sums(c.reshape(-1, 1, 1), gap, sums)
    shape = (*c.shape, *given.shape[:-1])
    return RowDiagnostics(*(values.reshape(shape) if len(values) else values for values in rows))


def _sums(
    scores: FloatArray,
    divisors: Sequence[float],
    keys: FloatArray | None,
    gradients: FloatArray | None,
    *,
    has_masked: bool,
) -> tuple[FloatArray, FloatArray]:
    """The gap of each row of checked scores, (n_draws, n_queries), and its sums, a tile at a time.

    The sums have the shape (5 to 7, n_divisors, n_draws, n_queries): b and the sums of
    `Exponentials`, with keys also |K^T J|_F^2 / (a b)^2, with gradients also |K^T J g|^2 / (a b)^2.
    """
    n_draws, n_queries, n_keys = scores.shape
    d_k = 0 if keys is None else keys.shape[-1]
    n_sums = 5 + (keys is not None) + (gradients is not None)
    gap = np.empty((n_draws, n_queries))
    sums = np.empty((n_sums, len(divisors), n_draws, n_queries))
    rows = tile_rows(n_keys, with_gradient=keys is not None)
    buffers = np.empty((8, min(rows, n_draws * n_queries) * max(n_keys, d_k)))
    for draws in _runs(n_draws, rows // max(1, n_queries)):
        centred_keys = None if keys is None else centred(keys[draws])
        products = None if centred_keys is None else products_with(centred_keys, n_queries)
        for queries in _runs(n_queries, rows):
            tile = Tile(scores[draws, queries], buffers, has_masked=has_masked)
            gap[draws, queries] = tile.gap
            if products is not None:
                tile.gather(products.matrix)
            if gradients is not None:
                tile.keep_gradients(gradients[draws, queries])
            for i, divisor in enumerate(divisors):
                exponentials = _exponentials(tile, divisor)
                row_sums = [*exponentials[2:]]
                if products is not None:
                    row_sums.append(products.jacobian_square(tile, exponentials))
                if gradients is not None and centred_keys is not None:
                    row_sums.append(tile.query_gradient_square(exponentials, centred_keys))
                sums[:, i, draws, queries] = row_sums
    return gap, sums


def _exponentials(tile: Tile, divisor: float) -> Exponentials:
    """The softmax of a tile of rows: e, b and the sums over the keys."""
    e = np.multiply(tile.below, 1 / divisor, out=tile.e)
    np.exp(e, out=e)
    tile.clear(e)
    e1 = np.maximum(tile.sum(e), 1.0)  # below 1 only in a row with one visible key
    with_below = tile.dot(e, tile.below)
    squared = np.multiply(e, e, out=tile.squared)
    b = np.exp(-tile.gap / divisor)
    return Exponentials(e, squared, b, e1, with_below, tile.sum(squared), tile.dot(squared, e))


def _from_sums(c: FloatArray, gap: FloatArray, sums: FloatArray) -> list[FloatArray]:
    """The values of `RowDiagnostics` from divisors c, (n_divisors, 1, 1), the gap and the sums."""
    b, e1, with_below, e2, e3, *squares = sums
    t = b * e1
    a = 1 / (1 + t)
    r = t * a
    scaled_gap = np.minimum(gap / c, _LARGEST_GAP)
    entropy = np.log1p(t) + a * b * (scaled_gap * e1 - with_below / c)
    u2 = e2 / (e1 * e1)
    u3 = e3 / (e1 * e1 * e1)
    norms = [a * b / c * np.sqrt(np.maximum(square, 0.0)) for square in squares]
    absent = [np.empty(0)] * (2 - len(norms))
    return [a, entropy, trace_from_shares(r, u2), norm_from_shares(r, u2, u3), *norms, *absent]


def _draws(array: FloatArray) -> FloatArray:
    """The array with all axes before the last two as one."""
    return array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def _runs(length: int, size: int) -> Iterator[slice]:
    """Consecutive slices of that size, at least 1."""
    step = max(1, size)
    return (slice(first, min(first + step, length)) for first in range(0, length, step))


def _keys(scores: FloatArray, keys: npt.ArrayLike, *, has_masked: bool) -> FloatArray:
    """The keys behind scores, (n_draws, n_keys, d_k), with a visible one in the place of those that
    no query of a draw sees: padding may be huge or NaN.
    """
    vectors = _draws(keys_of_scores(scores, keys).astype(np.float64, copy=False))
    if not has_masked:
        return vectors
    is_seen = np.asarray(np.isfinite(_draws(scores)).any(axis=-2))
    if is_seen.all():
        return vectors
    first_seen = is_seen.argmax(axis=-1)[:, None, None]
    visible = np.take_along_axis(vectors, first_seen, axis=-2)
    return np.where(is_seen[..., None], vectors, visible)


def _check(scores: FloatArray, divisors: FloatArray) -> bool:
    """True if a key is masked; ValueError for invalid scores or divisors."""
    for divisor in divisors.ravel().tolist():
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
    largest_scores("scores", scores)
    return True
