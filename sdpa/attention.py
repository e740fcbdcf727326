"""Softmax, attention weights and scaled dot-product attention (Vaswani et al. 2017, equation 1).

A mask is boolean, True where a query may attend to a key, or additive: 0 there, and -10,000 or
less, such as -inf, for the other keys. These get the score -inf, and so the weight 0. Every query
needs a visible key. The words `none`, `causal` and `window-512`, with any whole number, stand for
masks; a window is causal, and shows each query at most so many keys, the last ones.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray, as_float, row_label
from sdpa._names import not_among
from sdpa.row_maps import RowMap
from sdpa.scaling import Rule, resolve_divisor

MaskName = Literal["none", "causal"]
HIDDEN = -9984.0  # -1e4 in bfloat16; an additive mask hides a key by this or less


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
    sink: float | None = None,
    normalizer: str = "softmax",
    alibi: float = 0.0,
) -> FloatArray:
    """W = softmax(q k^T / divisor), each row over the keys.

    Args:
        q: queries, (..., n_queries, d_k).
        k: keys, (..., n_keys, d_k); leading axes broadcast against those of q.
        scaling: a rule, its name (`unscaled`, `d_k^1/2`, ...), or the divisor itself as a number.
        mask: `none`; `causal`, where the last query sees every key; `window-512`, causal and of at
            most 512 keys; or an array, broadcast to (..., n_queries, n_keys), of booleans (True
            where the query may attend to the key) or of 0 and -10,000 or less. The other scores
            become -inf.
        softcap, sink, normalizer: as in `sdpa.row_maps.RowMap`, between the divisor and the
            weights.
        alibi: slope of `alibi_bias`, added behind the soft cap; 0 for none.

    Returns:
        Weights, (..., n_queries, n_keys); rows sum to 1, but not beside a sink or under `sigmoid`.

    Raises:
        ValueError: a wrong shape, different d_k in q and k, a mask that is neither boolean nor
            additive, or a row whose keys are all masked (the message names the row), a scaling that
            is neither a rule nor above 0, or the number 1/sqrt(d_k), a softcap, sink or normalizer
            that `RowMap` refuses, or a slope beyond ±1e6.
        TypeError: a scaling of another type.

    Source: Vaswani et al. (2017), section 3.2.1.

    >>> attention_weights([[1.0, 0.0]], [[1.0, 0.0], [1.0, 5.0]])
    array([[0.5, 0.5]])
    """
    queries, keys = queries_and_keys(q, k)
    divisor = resolve_divisor(scaling, d_k=queries.shape[-1], n_keys=keys.shape[-2], mask=mask)
    scores = masked(queries @ keys.swapaxes(-1, -2) / divisor, mask)
    row_map = RowMap(softcap, sink, normalizer)
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
    sink: float | None = ...,
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
    sink: float | None = ...,
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
    sink: float | None = None,
    normalizer: str = "softmax",
    alibi: float = 0.0,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, FloatArray]:
    """output = softmax(q k^T / divisor) v.

    Args:
        q, k, scaling, mask, softcap, sink, normalizer, alibi: as in `attention_weights`; PyTorch's
            `scale` is the reciprocal of the divisor, and its `is_causal=True` is `mask="causal"` if
            there are as many queries as keys.
        v: values, (..., n_keys, d_v); leading axes of q, k and v broadcast.
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


def causal_mask(n_queries: int, n_keys: int, window: float = math.inf) -> BoolArray:
    """The mask of n_keys positions whose last n_queries, 1 to n_keys, ask: each sees the keys up to
    its own position.

    Of these it sees the last `window`, at least 1.

    >>> causal_mask(2, 3)
    array([[ True,  True, False],
           [ True,  True,  True]])
    """
    if not 1 <= n_queries <= n_keys:
        raise ValueError(
            f"causal_mask: expected n_queries from 1 to n_keys, got {n_queries} and {n_keys}"
        )
    own = np.arange(n_keys - n_queries, n_keys)[:, None]
    keys = np.arange(n_keys)
    return np.asarray((keys <= own) & (keys > own - window))


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


def most_visible(name: str) -> float | None:
    """The most keys that a query sees under a named mask: W of `window-W`, infinity of `causal`,
    None of `none`.

    >>> most_visible("window-512"), most_visible("causal"), most_visible("none")
    (512.0, inf, None)
    """
    if window := re.fullmatch(r"window-([1-9][0-9]{0,8})", name):
        return float(window[1])
    names = get_args(MaskName)
    if name.startswith("window"):
        raise ValueError(
            f"mask: expected window-N with a whole number N from 1 to 999999999, got {name!r}"
        )
    if name not in names:
        raise ValueError(f"mask: {not_among(name, [*names, 'window-512'])}")
    return math.inf if name == "causal" else None


def is_causal(name: str) -> bool:
    """True for the name of the causal mask, False for `none`; ValueError for another name, also
    that of a window.
    """
    if (most := most_visible(name)) not in (None, math.inf):
        raise ValueError(f"mask: expected none or causal, got {name!r}")
    return most is not None


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


def masked(scores: FloatArray, mask: npt.ArrayLike | None) -> FloatArray:
    """The scores, with -inf where the mask hides the key; ValueError for an invalid mask."""
    return scores if mask is None else np.where(allowed_keys(mask, scores.shape), scores, -np.inf)


def allowed_keys(mask: npt.ArrayLike, shape: tuple[int, ...]) -> BoolArray:
    """The mask as booleans in the shape of the scores; ValueError unless it broadcasts and shows
    each query a key.
    """
    if isinstance(mask, str):
        n_queries, n_keys = (1, *shape)[-2:]
        mask = (
            np.True_
            if (most := most_visible(mask)) is None
            else causal_mask(n_queries, n_keys, most)
        )
    allowed = broadcast_mask(mask, shape)
    empty = np.argwhere(~allowed.any(axis=-1))
    if len(empty):
        raise ValueError(
            f"mask: expected every query to see a key, got none in {row_label(tuple(empty[0]))}"
        )
    return allowed


def broadcast_mask(mask: npt.ArrayLike, shape: tuple[int, ...]) -> BoolArray:
    """A mask as booleans in the shape of the scores; ValueError unless it is boolean or additive,
    and broadcasts.
    """
    given = np.asarray(mask)
    allowed = given if given.dtype == np.bool_ else given == 0
    if (
        given.dtype != np.bool_
        and not (as_float("mask", given, min_ndim=0)[~allowed] <= HIDDEN).all()
    ):
        raise ValueError(
            "mask: expected booleans (True: may attend; of ones and zeros, mask == 1), or numbers "
            "to add to scores"
            f" (0, or -10,000 and less), got an array of {given.dtype} with {given[~allowed].max()}"
        )
    try:
        return np.broadcast_to(allowed, shape)
    except ValueError:
        raise ValueError(
            f"mask: expected a shape that broadcasts to {shape}, got {allowed.shape}"
        ) from None


def _broadcast_leading(names: str, *arrays: FloatArray) -> None:
    leading = [array.shape[:-2] for array in arrays]
    try:
        np.broadcast_shapes(*leading)
    except ValueError:
        got = ", ".join(map(str, leading))
        raise ValueError(f"expected leading axes of {names} that broadcast, got {got}") from None
