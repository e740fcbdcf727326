"""Softmax, attention weights and scaled dot-product attention (Vaswani et al. 2017, equation 1), and
its gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray, as_float, largest_scores
from sdpa.masks import masked
from sdpa.metrics import softmax_vjp
from sdpa.row_maps import PLAIN, RowMap
from sdpa.scaling import SCALED, Rule, resolve_divisor


def softmax(x: npt.ArrayLike) -> FloatArray:
    """softmax(x)_i = exp(x_i - max x) / sum_j exp(x_j - max x) along the last axis, of any shape.

    Subtracting the maximum changes no weight and prevents overflow of exp. An entry of -inf gets
    the weight 0.

    Raises:
        ValueError: the last axis is empty, or a row contains a NaN, a +inf or only -inf (the message
            names the row).

    >>> softmax([1000.0, 1000.0])
    array([0.5, 0.5])
    """
    exponentials = _shifted_exponentials(as_float("x", x))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def _shifted_exponentials(scores: FloatArray) -> FloatArray:
    """exp(x - max x) along the last axis, of the shape of x; errors as in `softmax`."""
    if scores.shape[-1] == 0:
        raise ValueError(f"softmax: expected at least one entry per row, got shape {scores.shape}")
    largest = largest_scores("softmax", scores)[..., None]
    # The difference of scores may be -inf if it exceeds the largest float.
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(scores - largest))


def attention_weights(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    scaling: Rule = SCALED,
    mask: npt.ArrayLike | None = None,
    row_map: RowMap = PLAIN,
    bias: FloatArray | float = 0.0,
) -> FloatArray:
    """W = softmax(q k^T / divisor), each row over the keys.

    Args:
        q: queries, (..., n_queries, d_k).
        k: keys, (..., n_keys, d_k); leading axes broadcast against those of q. Heads, the axis before
            n_keys, may be fewer by a whole factor: consecutive heads of q share one.
        scaling: a rule, its name (`unscaled`, `d_k^1/2`, ...), or the divisor itself as a number.
        mask: `none`; `causal`, where the last query sees every key; `window-512`, causal and of at
            most 512 keys; `local-64`, the own key and 64 on both sides; or an array, broadcast
            to (..., n_queries, n_keys), of booleans (True where the query may attend to the key) or
            of 0 and -10,000 or less. The other scores become -inf.
        row_map: the soft cap, sink and normalizer between the divisor and the weights; a sink for
            each head belongs to the axis before n_queries.
        bias: numbers added behind the soft cap, such as `sdpa.positions.alibi_bias`, broadcast to the scores.

    Returns:
        Weights, (..., n_queries, n_keys); rows sum to 1, but not beside a sink or under `sigmoid`.

    Raises:
        ValueError: a wrong shape, different d_k in q and k, a mask that is neither boolean nor
            additive, or a row whose keys are all masked (the message names the row), a scaling that
            is neither a rule nor above 0, or a row map or a bias for another number of heads.
        TypeError: a scaling of another type.

    Source: Vaswani et al. (2017), section 3.2.1.

    >>> attention_weights([[1.0, 0.0]], [[1.0, 0.0], [1.0, 5.0]])
    array([[0.5, 0.5]])
    """
    queries = as_float("q", q, min_ndim=2)
    queries, keys = queries_and_keys(queries, _for_heads("k", k, queries))
    divisor = resolve_divisor(scaling, d_k=queries.shape[-1], n_keys=keys.shape[-2])
    scores = masked(queries @ keys.swapaxes(-1, -2) / divisor, mask)
    return row_map.weights(scores, bias)


def scaled_dot_product_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    scaling: Rule = SCALED,
    mask: npt.ArrayLike | None = None,
    row_map: RowMap = PLAIN,
    bias: FloatArray | float = 0.0,
    scale: float | None = None,
    is_causal: bool = False,
) -> FloatArray:
    """output = softmax(q k^T / divisor) v.

    Args:
        q, k, scaling, mask, row_map, bias: as in `attention_weights`.
        v: values, (..., n_keys, d_v); leading axes of q, k and v broadcast, and heads may be fewer as
            in k. Those of hidden keys must be finite, too: 0 times NaN is NaN.
        scale: as in PyTorch, the factor of the scores, in place of the usual scaling: 1 / divisor.
        is_causal: as in PyTorch, True for a mask where the first query sees the first key alone: that
            of `causal` if there are as many queries as keys.

    Returns:
        Output, (..., n_queries, d_v), in the units of v.

    Raises:
        ValueError: as `attention_weights`, v does not have one row per key, or scale beside a scaling
            or is_causal beside a mask.
        TypeError: as `attention_weights`.

    Source: Vaswani et al. (2017), equation 1.

    >>> scaled_dot_product_attention([[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[2.0], [4.0]])
    array([[3.]])
    """
    queries = as_float("q", q, min_ndim=2)
    queries, keys = queries_and_keys(queries, _for_heads("k", k, queries))
    values = values_for(_for_heads("v", v, queries), queries, keys)
    if scale is not None:
        if scaling != SCALED or not 0 < scale < math.inf:
            raise ValueError(
                "scale: expected a finite factor of the scores above 0, without scaling, got "
                f"{scale} and scaling {scaling}"
            )
        scaling = 1 / scale
    if is_causal:
        if mask is not None:
            raise ValueError("is_causal: expected no mask beside it, got one")
        mask = np.tri(queries.shape[-2], keys.shape[-2], dtype=bool)
    weights = attention_weights(
        queries, keys, scaling=scaling, mask=mask, row_map=row_map, bias=bias
    )
    return np.asarray(weights @ values)


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
    scaling: Rule = SCALED,
    mask: npt.ArrayLike | None = None,
) -> Trace:
    """Every step of softmax(q k^T / divisor) v, with its value.

    Args:
        q, k, scaling, mask: as in `attention_weights`, with as many heads of k as of q.
        v: values, (..., n_keys, d_v); without them the trace ends at the weights.

    Returns:
        `Trace`; its weights and output are those of `scaled_dot_product_attention`.

    >>> steps = trace([[3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [0.0]], scaling=1)
    >>> steps.scores, steps.exponentials.round(4), steps.sums.round(4), steps.output.round(4)
    (array([[3., 4.]]), array([[0.3679, 1.    ]]), array([[1.3679]]), array([[0.2689]]))
    """
    queries, keys = queries_and_keys(q, k)
    values = None if v is None else values_for(v, queries, keys)
    divisor = resolve_divisor(scaling, d_k=queries.shape[-1], n_keys=keys.shape[-2])
    scores = queries @ keys.swapaxes(-1, -2)
    scaled = masked(scores / divisor, mask)
    exponentials = _shifted_exponentials(scaled)
    sums = exponentials.sum(axis=-1, keepdims=True)
    weights = exponentials / sums
    output = None if values is None else weights @ values
    return Trace(
        queries, keys, values, scores, divisor, scaled, exponentials, sums, weights, output
    )


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
    scaling: Rule = SCALED,
    mask: npt.ArrayLike | None = None,
) -> AttentionGradients:
    """dL/dS = J (dL/dO v^T) / divisor, dL/dq = dL/dS k, dL/dk = dL/dS^T q, dL/dv = w^T dL/dO.

    With S = q k^T, w = softmax(S / divisor), O = w v, and J the Jacobian of each softmax row.

    Args:
        q, k, v, scaling, mask: as in `scaled_dot_product_attention`, with as many heads of k and v
            as of q.
        output_gradient: dL/dO, of the output's shape (..., n_queries, d_v).

    Raises:
        ValueError: as `scaled_dot_product_attention`, q, k and v have different leading axes, or
            output_gradient does not have the output's shape.
        TypeError: as `scaled_dot_product_attention`.

    >>> gradients = attention_gradients([[1.0]], [[0.0], [0.0]], [[1.0], [0.0]], [[1.0]])
    >>> gradients.scores
    array([[ 0.25, -0.25]])
    """
    steps = trace(q, k, v, scaling=scaling, mask=mask)
    assert steps.v is not None
    shapes = steps.q.shape, steps.k.shape, steps.v.shape
    if len({shape[:-2] for shape in shapes}) > 1:
        raise ValueError(f"expected the same leading axes of q, k and v, got {shapes}")
    expected = (*steps.weights.shape[:-1], steps.v.shape[-1])
    upstream = as_float("output_gradient", output_gradient)
    if upstream.shape != expected:
        raise ValueError(
            f"output_gradient: expected the output's shape {expected}, got {upstream.shape}"
        )
    to_weights = upstream @ steps.v.swapaxes(-1, -2)
    to_scores = softmax_vjp(steps.weights, to_weights) / steps.divisor
    return AttentionGradients(
        scores=to_scores,
        q=to_scores @ steps.k,
        k=to_scores.swapaxes(-1, -2) @ steps.q,
        v=steps.weights.swapaxes(-1, -2) @ upstream,
    )


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


def _for_heads(name: str, values: npt.ArrayLike, queries: FloatArray) -> FloatArray:
    """Keys or values, (..., n_keys, d); if they have fewer heads than q by a whole factor, each is
    repeated for its group.
    """
    array = as_float(name, values, min_ndim=2)
    heads, query_heads = ((1, *x.shape)[-3] for x in (array, queries))
    is_shared = 1 < heads < query_heads and query_heads % heads == 0
    return array.repeat(query_heads // heads, axis=-3) if is_shared else array


def _broadcast_leading(names: str, *arrays: FloatArray) -> None:
    leading = [array.shape[:-2] for array in arrays]
    try:
        np.broadcast_shapes(*leading)
    except ValueError:
        got = ", ".join(map(str, leading))
        raise ValueError(f"expected leading axes of {names} that broadcast, got {got}") from None
