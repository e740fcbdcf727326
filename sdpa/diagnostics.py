"""What is measured of each row of scores, for several divisors of the same scores in one pass.

Per row, let s be the scores, s1 the largest and s2 the second largest, c a divisor and gap = s1 - s2. The weights
are split into the largest one and the others, so that nothing cancels or underflows in a saturated row:

    e_j = exp((s_j - s2) / c) over the others, so that 1 <= E1 = sum e <= n - 1;   u_j = e_j / E1
    t = exp(-gap / c) E1 is the sum of the other weights over the largest one
    max weight a = 1 / (1 + t),   r = 1 - a = t / (1 + t),   other weights w_j = r u_j

and with U2 = sum e^2 / E1^2, U3 = sum e^3 / E1^3 (see `sdpa.gradients` for the trace and the norm of J):

    entropy = log(1 + t) + r (gap - sum e (s - s2) / E1) / c       from H = log Z - sum w (s - max)

The gradient to the query is dL/dq = K^T J g / c with g the gradient to the weights. With h = g - (g at the largest
weight), m = w.h = r sum e h / E1: J g has the entries r e_j (h_j - m) / E1, and minus their sum at the largest weight.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float
from sdpa.gradients import norm_from_shares, trace_from_shares

_SMALLEST_DIVISOR = 1e-300


@dataclass(frozen=True)
class RowDiagnostics:
    """Per row of scores under one divisor, each (n_draws, n_queries): what the softmax makes of the scaled scores."""

    max_weight: FloatArray
    entropy: FloatArray
    jacobian_trace: FloatArray
    jacobian_norm: FloatArray
    query_gradient_norm: FloatArray


def row_diagnostics(
    scores: npt.ArrayLike, keys: npt.ArrayLike, weights_gradient: npt.ArrayLike, divisors: Sequence[float]
) -> list[RowDiagnostics]:
    """Max weight, entropy H (nats), tr J, |J|_F and |dL/dq| = |K^T J g| / divisor of every row, for every divisor.

    Args:
        scores: q.k before any divisor, (n_draws, n_queries, n_keys), n_keys at least 2.
        keys: (n_draws, n_keys, d_k).
        weights_gradient: g = dL/dw, of the shape of scores.
        divisors: one or more numbers above 0 (from 1e-300).

    Returns:
        One `RowDiagnostics` per divisor, in order; each is the same whatever the other divisors are.

    Raises:
        ValueError: shapes that do not fit each other, or scores or divisors that are not finite.

    >>> rows = row_diagnostics(np.zeros((1, 1, 4)), np.eye(4)[None], np.zeros((1, 1, 4)), [1.0])
    >>> rows[0].max_weight, rows[0].entropy.round(4)
    (array([[0.25]]), array([[1.3863]]))
    """
    scores, keys = as_float("scores", scores), as_float("keys", keys)
    weights_gradient = as_float("weights_gradient", weights_gradient)
    _check(scores, keys, weights_gradient, divisors)
    block = _prepare(scores, keys, weights_gradient)
    return [_under(block, divisor) for divisor in divisors]


@dataclass(frozen=True)
class _Block:
    """What all divisors share; the names are those of this module's docstring."""

    top: npt.NDArray[np.intp]  # where the largest score stands, (n_draws, n_queries, 1)
    gap: FloatArray  # (n_draws, n_queries)
    below: FloatArray  # s - s2, and 0 at the largest score
    h: FloatArray
    metric: FloatArray  # |K^T v|^2 is v . metric . v: K K^T, or K where that is the smaller matrix
    metric_is_gram: bool


def _prepare(scores: FloatArray, keys: FloatArray, weights_gradient: FloatArray) -> _Block:
    top = scores.argmax(axis=-1, keepdims=True)
    below = scores.copy()
    np.put_along_axis(below, top, -np.inf, axis=-1)
    # argmax and a gather: along a short last axis NumPy's argmax is several times faster than its max.
    second = np.take_along_axis(below, below.argmax(axis=-1, keepdims=True), axis=-1)
    below -= second
    np.put_along_axis(below, top, 0.0, axis=-1)
    n_keys, d_k = keys.shape[-2:]
    return _Block(
        top=top,
        gap=(np.take_along_axis(scores, top, axis=-1) - second)[..., 0],
        below=below,
        h=weights_gradient - np.take_along_axis(weights_gradient, top, axis=-1),
        metric=_gram(keys) if n_keys < d_k else keys,
        metric_is_gram=n_keys < d_k,
    )


def _gram(keys: FloatArray) -> FloatArray:
    """K K^T of the centred keys.

    The entries of v = J g sum to 0, so that what all keys have in common has no part in K^T v; v.(K K^T v) would lose
    digits to it.
    """
    centred = keys - keys.mean(axis=-2, keepdims=True)
    return np.asarray(centred @ centred.swapaxes(-1, -2))


def _under(block: _Block, divisor: float) -> RowDiagnostics:
    e = np.multiply(block.below, 1 / divisor)
    np.exp(e, out=e)
    np.put_along_axis(e, block.top, 0.0, axis=-1)
    e_squared = e * e
    ones = np.ones(e.shape[-1])
    e1 = e @ ones
    t = np.exp(-block.gap / divisor) * e1
    r = t / (1 + t)
    u2, u3 = (e_squared @ ones) / (e1 * e1), np.vecdot(e_squared, e) / (e1 * e1 * e1)
    m = r * np.vecdot(e, block.h) / e1
    v = np.subtract(block.h, m[..., None], out=e_squared)
    v *= e
    np.put_along_axis(v, block.top, -(v @ ones)[..., None], axis=-1)
    through = v @ block.metric
    # Never below 0, but for rounding where keys lie in fewer dimensions than they are.
    squared = np.maximum(np.vecdot(v if block.metric_is_gram else through, through), 0.0)
    return RowDiagnostics(
        max_weight=1 / (1 + t),
        entropy=np.log1p(t) + r * (block.gap - np.vecdot(e, block.below) / e1) / divisor,
        jacobian_trace=trace_from_shares(r, u2),
        jacobian_norm=norm_from_shares(r, u2, u3),
        query_gradient_norm=r / (e1 * divisor) * np.sqrt(squared),
    )


def _check(scores: FloatArray, keys: FloatArray, weights_gradient: FloatArray, divisors: Sequence[float]) -> None:
    for divisor in divisors:
        if not _SMALLEST_DIVISOR <= divisor < math.inf:
            raise ValueError(f"divisors: expected finite numbers from {_SMALLEST_DIVISOR}, got {divisor}")
    if scores.ndim != 3 or scores.shape[-1] < 2:
        raise ValueError(f"scores: expected (n_draws, n_queries, n_keys) with 2 keys or more, got {scores.shape}")
    n_draws, _, n_keys = scores.shape
    if keys.ndim != 3 or keys.shape[:2] != (n_draws, n_keys):
        raise ValueError(f"keys: expected ({n_draws}, {n_keys}, d_k), got {keys.shape}")
    if weights_gradient.shape != scores.shape:
        raise ValueError(f"weights_gradient: expected the scores' shape {scores.shape}, got {weights_gradient.shape}")
    if not np.isfinite(np.vecdot(scores, np.ones(n_keys))).all():
        raise ValueError("scores: expected finite numbers")
