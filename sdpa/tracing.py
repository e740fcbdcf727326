"""Scaled dot-product attention step by step: the value, and the shape, after every step of the formula."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.attention import masked, queries_and_keys, shifted_exponentials, values_for
from sdpa.scaling import Scaling, refuses_scale, resolve_divisor


@dataclass(frozen=True)
class Trace:
    """The arrays between q, k and v and the output, in the order of their computation.

    Attributes:
        q: queries, (..., n_queries, d_k).
        k: keys, (..., n_keys, d_k).
        v: values, (..., n_keys, d_v), or None.
        scores: q k^T, (..., n_queries, n_keys).
        divisor: the divisor of the scores.
        scaled_scores: scores / divisor, and -inf where the mask hides the key.
        exponentials: exp(scaled_scores - the largest of the row); subtracting it changes no weight.
        sums: the sum of the exponentials of a row, (..., n_queries, 1).
        weights: exponentials / sums; rows sum to 1.
        output: weights v, (..., n_queries, d_v), or None without v.
    """

    q: FloatArray
    k: FloatArray
    v: FloatArray | None
    scores: FloatArray
    divisor: float
    scaled_scores: FloatArray
    exponentials: FloatArray
    sums: FloatArray
    weights: FloatArray
    output: FloatArray | None


@refuses_scale
def trace(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike | None = None,
    *,
    scaling: Scaling | str | float = "d_k^1/2",
    mask: npt.ArrayLike | None = None,
) -> Trace:
    """Every step of softmax(q k^T / divisor) v, with its value.

    Args:
        q: queries, (..., n_queries, d_k).
        k: keys, (..., n_keys, d_k).
        v: values, (..., n_keys, d_v); without them the trace ends at the weights.
        scaling: a rule, its name (`unscaled`, `d_k^1/2`, ...), or the divisor itself as a number.
        mask: as in `attention_weights`.

    Returns:
        `Trace`; its weights and output are those of `scaled_dot_product_attention`.

    Raises:
        ValueError, TypeError: as `scaled_dot_product_attention`.

    Source: Vaswani et al. (2017), equation 1.

    >>> steps = trace([[3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [0.0]], scaling=1)
    >>> steps.scores, steps.exponentials.round(4), steps.sums.round(4), steps.output.round(4)
    (array([[3., 4.]]), array([[0.3679, 1.    ]]), array([[1.3679]]), array([[0.2689]]))
    """
    queries, keys = queries_and_keys(q, k)
    values = None if v is None else values_for(v, queries, keys)
    divisor = resolve_divisor(scaling, d_k=queries.shape[-1], n_keys=keys.shape[-2])
    scores = queries @ keys.swapaxes(-1, -2)
    scaled = masked(scores / divisor, mask)
    exponentials = shifted_exponentials(scaled)
    sums = exponentials.sum(axis=-1, keepdims=True)
    weights = exponentials / sums
    output = None if values is None else weights @ values
    return Trace(queries, keys, values, scores, divisor, scaled, exponentials, sums, weights, output)


def trace_shapes(q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike | None = None) -> dict[str, tuple[int, ...]]:
    """Q, K, V, K^T, Q K^T, scaled scores, weights, output: the shape of each, in this order, as `trace` has it.

    Args:
        q: queries, (..., n_queries, d_k).
        k: keys, (..., n_keys, d_k).
        v: values, (..., n_keys, d_v); without them the result has no V and no output.

    Returns:
        The shapes by the names above; they depend on neither scaling nor mask.

    Raises:
        ValueError: as `trace`.

    >>> for step, shape in trace_shapes([[3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).items():
    ...     print(step, shape)
    Q (1, 2)
    K (3, 2)
    K^T (2, 3)
    Q K^T (1, 3)
    scaled scores (1, 3)
    weights (1, 3)
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
