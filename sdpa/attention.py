"""Softmax, attention weights and scaled dot-product attention (Vaswani et al. 2017, equation 1), and
its gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float, row_label
from sdpa.gradients import softmax_vjp
from sdpa.masks import masked
from sdpa.row_maps import RowMap
from sdpa.scaling import Rule, resolve_divisor


def softmax(x: npt.ArrayLike, axis: int = -1) -> FloatArray:
    """softmax(x)_i = exp(x_i - max x) / sum_j exp(x_j - max x), of any shape, with the sum 1 along
    one axis.

    Subtracting the maximum changes no weight and prevents overflow of exp. An entry of -inf gets
    the weight 0.

    Raises:
        ValueError: the axis does not exist or is empty, or a row contains a NaN, a +inf or only
            -inf (the message names the row).

    >>> softmax([1000.0, 1000.0])
    array([0.5, 0.5])
    """
    array = as_float("x", x)
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(
            f"softmax: expected an axis of an array with {array.ndim} axes, got axis {axis}"
        )
    if array.shape[axis] == 0:
        raise ValueError(
            f"softmax: expected at least one entry along axis {axis}, got shape {array.shape}"
        )
    exponentials = shifted_exponentials(array, axis)
    return np.asarray(exponentials / exponentials.sum(axis=axis, keepdims=True))


def shifted_exponentials(scores: FloatArray, axis: int = -1) -> FloatArray:
    """exp(x - max x) along an axis, of the shape of x; errors as in `softmax`."""
    largest = scores.max(axis=axis, keepdims=True)
    if not np.isfinite(largest).all():
        index = np.argwhere(~np.isfinite(largest.squeeze(axis)))[0]
        raise ValueError(
            f"softmax: expected every row to have a finite largest score, got "
            f"{largest.squeeze(axis)[tuple(index)]}"
            f" in {row_label(tuple(index))}"
        )
    with np.errstate(
        over="ignore"
    ):  # the difference of scores may be -inf if it exceeds the largest float
        return np.asarray(np.exp(scores - largest))


def attention_weights(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    scaling: Rule = "d_k^1/2",
    mask: npt.ArrayLike | None = None,
    softcap: float = 0.0,
    sink: npt.ArrayLike | None = None,
    normalizer: str = "softmax",
    alibi: float = 0.0,
) -> FloatArray:
    """W = softmax(q k^T / divisor), each row over the keys.

    Args:
        q: queries, (..., n_queries, d_k).
        k: keys, (..., n_keys, d_k); leading axes broadcast against those of q.
        scaling: a rule, its name (`unscaled`, `d_k^1/2`, ...), or the divisor itself as a number.
        mask: `none`; `causal`, where the last query sees every key; `window-512`, causal and of at
            most 512 keys; `local-64`, the own key and 64 on both sides; or an array, broadcast
            to (..., n_queries, n_keys), of booleans (True where the query may attend to the key) or
            of 0 and -10,000 or less. The other scores become -inf.
        softcap, sink, normalizer: as in `sdpa.row_maps.RowMap`, between the divisor and the
            weights; a sink for each head belongs to the axis before n_queries.
        alibi: slope of `alibi_bias`, added behind the soft cap; 0 for none.

    Returns:
        Weights, (..., n_queries, n_keys); rows sum to 1, but not beside a sink or under `sigmoid`.

    Raises:
        ValueError: a wrong shape, different d_k in q and k, a mask that is neither boolean nor
            additive, or a row whose keys are all masked (the message names the row), a scaling that
            is neither a rule nor above 0, a softcap, sink or normalizer that `RowMap` refuses, or a
            slope beyond ±1e6.
        TypeError: a scaling of another type.

    Source: Vaswani et al. (2017), section 3.2.1.

    >>> attention_weights([[1.0, 0.0]], [[1.0, 0.0], [1.0, 5.0]])
    array([[0.5, 0.5]])
    """
    queries, keys = queries_and_keys(q, k)
    divisor = resolve_divisor(scaling, d_k=queries.shape[-1], n_keys=keys.shape[-2], mask=mask)
    scores = masked(queries @ keys.swapaxes(-1, -2) / divisor, mask)
    row_map = RowMap.of(softcap, sink, normalizer)
    if row_map.is_plain and isinstance(alibi, Real) and alibi == 0:
        return softmax(scores)
    return row_map.weights(scores, alibi_bias(alibi, *scores.shape[-2:]))


@overload
def scaled_dot_product_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    scaling: Rule = ...,
    mask: npt.ArrayLike | None = ...,
    softcap: float = ...,
    sink: npt.ArrayLike | None = ...,
    normalizer: str = ...,
    alibi: float = ...,
    return_weights: Literal[False] = ...,
) -> FloatArray: ...
@overload
def scaled_dot_product_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    scaling: Rule = ...,
    mask: npt.ArrayLike | None = ...,
    softcap: float = ...,
    sink: npt.ArrayLike | None = ...,
    normalizer: str = ...,
    alibi: float = ...,
    return_weights: Literal[True],
) -> tuple[FloatArray, FloatArray]: ...
def scaled_dot_product_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    scaling: Rule = "d_k^1/2",
    mask: npt.ArrayLike | None = None,
    softcap: float = 0.0,
    sink: npt.ArrayLike | None = None,
    normalizer: str = "softmax",
    alibi: float = 0.0,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, FloatArray]:
    """output = softmax(q k^T / divisor) v.

    Args:
        q, k, scaling, mask, softcap, sink, normalizer, alibi: as in `attention_weights`; PyTorch's
            `scale` is the reciprocal of the divisor, and its `is_causal=True` is `mask="causal"` if
            there are as many queries as keys.
        v: values, (..., n_keys, d_v); leading axes of q, k and v broadcast. Those of hidden keys
            must be finite, too: 0 times NaN is NaN.
        return_weights: return (output, weights) instead of the output alone.

    Returns:
        Output, (..., n_queries, d_v), in the units of v; with return_weights also the weights.

    Raises:
        ValueError: as `attention_weights`, or v does not have one row per key.
        TypeError: as `attention_weights`.

    Source: Vaswani et al. (2017), equation 1.

    >>> scaled_dot_product_attention([[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[2.0], [4.0]])
    array([[3.]])
    """
    queries, keys = queries_and_keys(q, k)
    values = values_for(v, queries, keys)
    chosen: dict[str, Any] = {
        "softcap": softcap,
        "sink": sink,
        "normalizer": normalizer,
        "alibi": alibi,
    }
    weights = attention_weights(queries, keys, scaling=scaling, mask=mask, **chosen)
    output = weights @ values
    return (output, weights) if return_weights else output


@dataclass(frozen=True)
class Trace:
    """The arrays between q, k and v and the output, in the order of their computation."""

    q: FloatArray
    k: FloatArray
    v: FloatArray | None
    scores: FloatArray  # q k^T, (..., n_queries, n_keys)
    divisor: float  # the divisor of the scores
    scaled_scores: FloatArray  # scores / divisor, and -inf where the mask hides the key
    exponentials: (
        FloatArray  # exp(scaled_scores - the largest of the row); subtracting it changes no weight
    )
    sums: FloatArray  # the sum of the exponentials of a row, (..., n_queries, 1)
    weights: FloatArray  # exponentials / sums; rows sum to 1
    output: FloatArray | None  # weights v, (..., n_queries, d_v), or None without v


def trace(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike | None = None,
    *,
    scaling: Rule = "d_k^1/2",
    mask: npt.ArrayLike | None = None,
) -> Trace:
    """Every step of softmax(q k^T / divisor) v, with its value.

    Args:
        q, k, scaling, mask: as in `attention_weights`.
        v: values, (..., n_keys, d_v); without them the trace ends at the weights.

    Returns:
        `Trace`; its weights and output are those of `scaled_dot_product_attention`.

    >>> steps = trace([[3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [0.0]], scaling=1)
    >>> steps.scores, steps.exponentials.round(4), steps.sums.round(4), steps.output.round(4)
    (array([[3., 4.]]), array([[0.3679, 1.    ]]), array([[1.3679]]), array([[0.2689]]))
    """
    queries, keys = queries_and_keys(q, k)
    values = None if v is None else values_for(v, queries, keys)
    divisor = resolve_divisor(scaling, d_k=queries.shape[-1], n_keys=keys.shape[-2], mask=mask)
    scores = queries @ keys.swapaxes(-1, -2)
    scaled = masked(scores / divisor, mask)
    exponentials = shifted_exponentials(scaled)
    sums = exponentials.sum(axis=-1, keepdims=True)
    weights = exponentials / sums
    output = None if values is None else weights @ values
    return Trace(
        queries, keys, values, scores, divisor, scaled, exponentials, sums, weights, output
    )


def trace_shapes(
    q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike | None = None
) -> dict[str, tuple[int, ...]]:
    """Q, K, V, K^T, Q K^T, scaled scores, weights, output: the shape of each, in this order, from
    arguments of `trace`.

    >>> trace_shapes([[3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])["Q K^T"]
    (1, 3)
    """
    steps = trace(q, k, v)
    arrays = {
        "Q": steps.q,
        "K": steps.k,
        "V": steps.v,
        "K^T": steps.k.swapaxes(-1, -2),
        "Q K^T": steps.scores,
        "scaled scores": steps.scaled_scores,
        "weights": steps.weights,
        "output": steps.output,
    }
    return {step: array.shape for step, array in arrays.items() if array is not None}


class AttentionGradients(NamedTuple):
    """Gradients of a loss: to the scores q.k (before the divisor), to q, to k and to v, each of its
    array's shape.
    """

    scores: FloatArray
    q: FloatArray
    k: FloatArray
    v: FloatArray


def attention_gradients(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    output_gradient: npt.ArrayLike,
    *,
    scaling: Rule = "d_k^1/2",
    mask: npt.ArrayLike | None = None,
) -> AttentionGradients:
    """dL/dS = J (dL/dO v^T) / divisor, dL/dq = dL/dS k, dL/dk = dL/dS^T q, dL/dv = w^T dL/dO.

    With S = q k^T, w = softmax(S / divisor), O = w v, and J the Jacobian of each softmax row.

    Args:
        q, k, v, scaling, mask: as in `scaled_dot_product_attention`.
        output_gradient: dL/dO, of the output's shape (..., n_queries, d_v).

    Returns:
        `AttentionGradients`; if q, k or v broadcasts over leading axes, its gradient is summed over
        them.

    Raises:
        ValueError: as `scaled_dot_product_attention`, or output_gradient does not have the output's
            shape.
        TypeError: as `scaled_dot_product_attention`.

    >>> gradients = attention_gradients([[1.0]], [[0.0], [0.0]], [[1.0], [0.0]], [[1.0]])
    >>> gradients.scores
    array([[ 0.25, -0.25]])
    """
    output, weights = scaled_dot_product_attention(
        q, k, v, scaling=scaling, mask=mask, return_weights=True
    )
    queries, keys, values = as_float("q", q), as_float("k", k), as_float("v", v)
    upstream = as_float("output_gradient", output_gradient)
    if upstream.shape != output.shape:
        raise ValueError(
            f"output_gradient: expected the output's shape {output.shape}, got {upstream.shape}"
        )
    divisor = resolve_divisor(scaling, d_k=queries.shape[-1], n_keys=keys.shape[-2])
    to_scaled_scores = softmax_vjp(weights, upstream @ values.swapaxes(-1, -2))
    to_scores = _sum_to(to_scaled_scores / divisor, weights.shape)
    return AttentionGradients(
        scores=to_scores,
        q=_sum_to(to_scores @ keys, queries.shape),
        k=_sum_to(to_scores.swapaxes(-1, -2) @ queries, keys.shape),
        v=_sum_to(weights.swapaxes(-1, -2) @ upstream, values.shape),
    )


def _sum_to(gradient: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Undo broadcasting: sum over the axes that broadcasting added or stretched from length 1."""
    added = gradient.ndim - len(shape)
    stretched = tuple(
        added + i for i, size in enumerate(shape) if size == 1 and gradient.shape[added + i] != 1
    )
    return np.asarray(gradient.sum(axis=(*range(added), *stretched)).reshape(shape))


def alibi_bias(slope: float, n_queries: int, n_keys: int) -> FloatArray:
    """slope (key position - query position), (n_queries, n_keys), for queries at the last of n_keys
    positions.

    Source: ALiBi, Press et al. 2022, arXiv:2108.12409, under a causal mask.

    >>> alibi_bias(0.5, 2, 3)
    array([[-0.5,  0. ,  0.5],
           [-1. , -0.5,  0. ]])
    """
    if not (isinstance(slope, Real) and abs(slope) <= 1e6):
        raise ValueError(f"alibi: expected a slope within ±1e6, or 0 for none, got {slope!r}")
    return np.asarray(slope * (np.arange(n_keys) - np.arange(n_keys - n_queries, n_keys)[:, None]))


def queries_and_keys(q: npt.ArrayLike, k: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """q and k as arrays of floats; ValueError unless their shapes match."""
    queries, keys = as_float("q", q, min_ndim=2), as_float("k", k, min_ndim=2)
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"expected q and k with the same d_k (last axis), got {queries.shape[-1]} in q "
            f"{queries.shape}"
            f" and {keys.shape[-1]} in k {keys.shape}"
        )
    if queries.shape[-1] == 0 or keys.shape[-2] == 0:
        raise ValueError(
            f"expected at least one key and d_k of at least 1, got k of shape {keys.shape}"
        )
    _broadcast_leading("q and k", queries, keys)
    return queries, keys


def values_for(v: npt.ArrayLike, queries: FloatArray, keys: FloatArray) -> FloatArray:
    """v as an array of floats; ValueError unless it has one row per key and leading axes that
    broadcast.
    """
    values = as_float("v", v, min_ndim=2)
    if values.shape[-2] != keys.shape[-2]:
        raise ValueError(
            f"v: expected {keys.shape[-2]} rows, one per key, got shape {values.shape}"
        )
    _broadcast_leading("q, k and v", queries, keys, values)
    return values


def _broadcast_leading(names: str, *arrays: FloatArray) -> None:
    leading = [array.shape[:-2] for array in arrays]
    try:
        np.broadcast_shapes(*leading)
    except ValueError:
        got = ", ".join(map(str, leading))
        raise ValueError(f"expected leading axes of {names} that broadcast, got {got}") from None
