"""Attention weights as scores, and refusals of those that their mask does not explain.

ln w has the softmax w, and differs from the scores by a number for each row. A weight of 0 that a
mask shows stands for the smallest number of its type. Zeros that another mask made, and not
rounding, would make the spread of the scores many times too large.
"""

from __future__ import annotations

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.diagnosis.head_rows import are_weights
from sdpa.heads.formats import Array

ROUNDED = 0.01  # of the weights of all keys, as in `are_weights`
_MOST_LOST = 0.05  # of the visible keys whose weight is 0 in all heads


def check_weights(weights: Array) -> None:
    """ValueError unless each row is one of weights, or of zeros as padding."""
    if rows := np.isnan(weights).any(axis=-1).sum():
        raise ValueError(
            f"weights: expected numbers, with zeros as padding, got NaN in {rows} rows"
        )
    if not are_weights(weights):
        sums = weights.sum(axis=-1, dtype=np.float64)
        raise ValueError(
            "weights: expected rows that are non-negative and sum to 1, as without dropout, got "
            f"sums from {sums.min():.4g} to {sums.max():.4g}"
        )


def check_visible(weights: Array, visible: BoolArray, heads: tuple[int, ...]) -> None:
    """ValueError if a mask hides weight, or shows keys whose weight is 0 in all heads.

    Args:
        weights: (..., n_queries, n_keys).
        visible: the mask, which broadcasts; queries without a visible key are padding.
        heads: the leading axes of a sequence.
    """
    counted = visible.any(axis=-1, keepdims=True)
    hidden = (weights * (counted & ~visible)).sum(dtype=np.float64)
    share = hidden / ((weights * counted).sum(dtype=np.float64) or 1.0)
    if share > ROUNDED:
        raise ValueError(
            f"mask: expected one that hides no weight, got one that hides {share:.0%} of it; if "
            "rows are padded, add a mask of tokens, as in --mask causal,FILE"
        )
    pairs = visible & weights.any(axis=-1, keepdims=True)
    lost = (pairs & ~weights.any(axis=heads, keepdims=True)).sum() / (pairs.sum() or 1)
    if lost > _MOST_LOST:
        raise ValueError(
            f"mask: expected weight on the keys that it shows, got 0 in all heads for {lost:.0%} of "
            "them; pass the mask of the model, such as --mask causal, with one of tokens for "
            "padding, as in --mask causal,FILE, or none: then zeros hide their keys"
        )


def scores_of(weights: Array) -> Array:
    """ln w; of a weight of 0, ln of the smallest number of its type, unless the row has no weight
    and is padding.
    """
    least = np.finfo(weights.dtype).smallest_subnormal * weights.any(-1, keepdims=True)
    dtype = np.result_type(weights, np.float32)
    with np.errstate(divide="ignore"):
        found: Array = np.log(np.maximum(weights, least), dtype=dtype)
    return found


def leaving(weights: Array, documents: BoolArray) -> tuple[Array, Array]:
    """The sums of the weights that leave their document, and of all, (..., 1, 1)."""
    kept = (weights * documents).sum((-2, -1), np.float64, keepdims=True)
    whole = weights.sum((-2, -1), np.float64, keepdims=True)
    return whole - kept, whole
