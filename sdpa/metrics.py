"""Metrics of softmax rows: concentration, spread of scores, and the softmax Jacobian and its norms.

For a softmax row w, J = diag(w) - w w^T is the derivative of the weights to the scaled scores. Its
norms cancel catastrophically where one weight is near 1, so they are computed from r = 1 - max(w),
summed from the other weights, and from the shares u = (other weights) / r, whose powers sum to U2 =
sum u^2 and U3 = sum u^3:

    1 - sum w^2 = r (2 - r (1 + U2))
    |J|_F^2     = r^2 (a^2 + U2 (1 + 2 a^2) - 2 r U3 + r^2 U2^2),   a = 1 - r

from S2 = a^2 + r^2 U2, S3 = a^3 + r^3 U3 in |J|_F^2 = S2 - 2 S3 + S2^2. In the second line 2 r U3
is at most U2 (no other weight exceeds 1/2), so nothing cancels, and both keep their relative
precision down to r = 1e-308.

Weights are (..., n_keys), with rows that sum to 1. Functions of weights return a number without unit
for each row, (...), and raise ValueError for a row that is no softmax row; the message names it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float, row_label

# A row with a weight above it counts as saturated: |J|_F is then below 4% of its largest value,
# that of two equal keys.
SATURATED = 0.99
_SUM_TOLERANCE = 1e-5
_ROUNDED = 0.01  # the same for weights in float16 or bfloat16


def max_weight(weights: npt.ArrayLike) -> FloatArray:
    """max_i w_i of each row, from 1/n_keys (uniform) to 1 (one-hot).

    >>> float(max_weight([0.5, 0.25, 0.25]))
    0.5
    """
    return np.asarray(_softmax_rows(weights).max(axis=-1))[()]


def entropy(weights: npt.ArrayLike) -> FloatArray:
    """H = -sum_i w_i ln w_i of each row in nats, with 0 ln 0 = 0, from 0 (one-hot) to ln n_keys
    (uniform).

    The term of the largest weight a comes from the sum r of the others, which is not 0 where a
    rounds to 1; but from a itself where a + r differs from 1 by more than a / 2, as in long rows of
    float16. Source: Shannon (1948), section 6.

    >>> float(entropy([0.5, 0.5, 0.0]).round(4))  # ln 2
    0.6931
    """
    w = _softmax_rows(weights)
    others = _other_weights(w)
    a, r = w.max(axis=-1), others.sum(axis=-1)
    logarithms = np.log(others, out=np.zeros_like(others), where=others > 0)
    r = np.where(np.abs(a + r - 1) > a / 2, 1 - a, r)
    largest_term = (r - 1) * np.log1p(-r)
    return np.asarray(largest_term - (others * logarithms).sum(axis=-1))[()]


def effective_keys(weights: npt.ArrayLike) -> FloatArray:
    """e^H of each row: the number of equal weights of the same entropy, from 1 (one-hot) to n_keys
    (uniform).

    >>> float(effective_keys([0.5, 0.5, 0.0]).round(4))
    2.0
    """
    return np.asarray(np.exp(entropy(weights)))[()]


def collision(weights: npt.ArrayLike) -> FloatArray:
    """sum_i w_i^2 of each row, from 1/n_keys (uniform) to 1 (one-hot).

    It is the probability that two keys drawn by weight are the same, and the variance of an output
    w v whose values v are independent, of mean 0 and variance 1.

    >>> float(collision([0.5, 0.25, 0.25]))
    0.375
    """
    w = _softmax_rows(weights)
    return np.asarray(np.vecdot(w, w))[()]


def row_variance(scores: npt.ArrayLike) -> FloatArray:
    """(1/n) sum_j (s_j - mean)^2 over the n visible keys of each row, (...); scores (..., n_keys),
    -inf where masked.

    ValueError if a row contains a NaN, a +inf or only -inf; the message names the row.

    >>> float(row_variance([3.0, 1.0, -np.inf]))
    1.0
    """
    s = as_float("scores", scores)
    is_visible = np.isfinite(s)
    if is_visible.all():
        sums = s @ np.ones(s.shape[-1], s.dtype)
        deviations = s - (sums / s.shape[-1])[..., None]
        return np.asarray(np.vecdot(deviations, deviations) / s.shape[-1])[()]
    n_visible = is_visible.sum(axis=-1)
    has_wrong = (np.isnan(s) | np.isposinf(s)).any(axis=-1)
    wrong = np.argwhere((n_visible == 0) | has_wrong)
    if len(wrong):
        raise ValueError(
            "scores: expected every row to have a finite number, and otherwise only finite "
            "numbers or -inf; "
            f"{row_label(tuple(wrong[0]))} has not"
        )
    mean = np.where(is_visible, s, 0).sum(axis=-1) / n_visible
    deviations = np.where(is_visible, s - mean[..., None], 0)
    return np.asarray(np.vecdot(deviations, deviations) / n_visible)[()]


def softmax_jacobian(weights: npt.ArrayLike) -> FloatArray:
    """J_ij = dw_i / ds_j = w_i (delta_ij - w_j) at scaled scores s: (..., n_keys, n_keys),
    symmetric, rows of sum 0.

    >>> softmax_jacobian([0.5, 0.5])
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    w = _softmax_rows(weights)
    identity = np.eye(w.shape[-1], dtype=w.dtype)
    return np.asarray(w[..., :, None] * (identity - w[..., None, :]))


def softmax_vjp(weights: npt.ArrayLike, weights_gradient: npt.ArrayLike) -> FloatArray:
    """J g = w (g - w.g): the gradient to the scaled scores, (..., n_keys), given the gradient g to
    the weights.

    The entry of the largest weight is minus the sum of the others (rows of J sum to 0), which keeps
    its precision where the row is saturated. g has n_keys entries, and leading axes that broadcast
    with those of weights.

    >>> softmax_vjp([0.5, 0.5], [1.0, 0.0])
    array([ 0.25, -0.25])
    """
    w, g = _softmax_rows(weights), as_float("weights_gradient", weights_gradient)
    try:
        shape = np.broadcast_shapes(w.shape, g.shape)
    except ValueError:
        shape = ()
    if not shape or not w.shape[-1] == g.shape[-1] == shape[-1]:
        raise ValueError(
            f"weights_gradient: expected shape {w.shape}, as the weights, got {g.shape}"
        )
    w, g = np.broadcast_to(w, shape), np.broadcast_to(g, shape)
    top = w.argmax(axis=-1, keepdims=True)
    relative = g - np.take_along_axis(g, top, axis=-1)
    mean = (w * relative).sum(axis=-1, keepdims=True)
    gradient = w * (relative - mean)
    np.put_along_axis(gradient, top, 0.0, axis=-1)
    top_gradient = -gradient.sum(axis=-1, keepdims=True)
    np.put_along_axis(gradient, top, top_gradient, axis=-1)
    return np.asarray(gradient)


def jacobian_trace(weights: npt.ArrayLike) -> FloatArray:
    """tr J = 1 - sum_i w_i^2 of each row, (...), from 0 (one-hot) to 1 - 1/n_keys (uniform).

    >>> float(jacobian_trace([0.5, 0.25, 0.25]))
    0.625
    """
    return trace_from_shares(*_remainder_and_shares(_softmax_rows(weights))[:2])


def jacobian_norm(weights: npt.ArrayLike) -> FloatArray:
    """|J|_F = sqrt(S2 - 2 S3 + S2^2) with S_m = sum_i w_i^m of each row, (...), from 0 (one-hot) to
    1/2 (two equal).

    >>> float(jacobian_norm([0.5, 0.5]))
    0.5
    """
    return norm_from_shares(*_remainder_and_shares(_softmax_rows(weights)))


def trace_from_shares(r: FloatArray, u2: FloatArray) -> FloatArray:
    """tr J = r (2 - r (1 + U2)), with r and U2 as this module defines them."""
    return np.asarray(r * (2 - r * (1 + u2)))[()]


def norm_from_shares(r: FloatArray, u2: FloatArray, u3: FloatArray) -> FloatArray:
    """|J|_F = r sqrt(a^2 + U2 (1 + 2 a^2) - 2 r U3 + r^2 U2^2), with r, a, U2 and U3 as this module
    defines them.
    """
    a2 = (1 - r) * (1 - r)
    square = a2 + u2 * (1 + 2 * a2) - 2 * r * u3 + r * r * u2 * u2
    return np.asarray(r * np.sqrt(square))[()]


def _softmax_rows(weights: npt.ArrayLike) -> FloatArray:
    """The weights as an array of floats; ValueError unless each row holds non-negative numbers that
    sum to 1.
    """
    w = as_float("weights", weights)
    sums = w.sum(axis=-1)
    given = weights if hasattr(weights, "dtype") else np.asarray(weights)
    tolerance = _ROUNDED if "float16" in str(given.dtype) else _SUM_TOLERANCE
    is_one = np.abs(sums - 1) <= tolerance
    wrong = np.argwhere(~(is_one & (w >= 0).all(axis=-1)))
    if len(wrong):
        index = tuple(wrong[0])
        got = "a negative number" if (w[index] < 0).any() else f"sum {sums[index]}"
        raise ValueError(
            "weights: expected rows of non-negative numbers that sum to 1, got "
            f"{got} in {row_label(index)}"
        )
    return w


def _other_weights(w: FloatArray) -> FloatArray:
    """A copy of softmax rows with 0 in the place of the largest weight: their sum is r, to its own
    precision.
    """
    others = w.copy()
    largest = w.argmax(axis=-1, keepdims=True)
    np.put_along_axis(others, largest, 0.0, axis=-1)
    return others


def _remainder_and_shares(w: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """r, U2 and U3 of softmax rows; a row without remainder (r = 0) has U2 = U3 = 0."""
    others = _other_weights(w)
    r = others.sum(axis=-1, keepdims=True)
    u = np.divide(others, r, out=others, where=r > 0)
    u_squared = u * u
    return r[..., 0], u_squared.sum(axis=-1), (u_squared * u).sum(axis=-1)
