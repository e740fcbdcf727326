"""Attention weights as scores, and refusals of those that their mask does not explain.

ln w has the softmax w, and differs from the scores by a number for each row. A weight of 0 that a
mask shows stands for the smallest number of its type. Zeros by a pattern, and not by rounding,
would make the spread of the scores many times too large.
"""

from __future__ import annotations

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.diagnosis.heads import are_weights
from sdpa.heads.formats import Array
from sdpa.masks import Reach

ROUNDED = 0.01  # of the weights of all keys, as in `are_weights`
_CHANCE = 1e-4  # that rounding alone makes the zeros of a pattern
# The largest weight at the end of a band; where weights fall to 0 by rounding, it is far smaller.
_AT_END = 1e-4
_TOKENS = "--skip-padded, or a mask of tokens, as in --mask causal,FILE"


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


def uniform_rows(values: Array) -> BoolArray:
    """True for rows of equal numbers, hidden keys among them; of shape (...) for (..., n_keys)."""
    return np.asarray((values == values[..., :1]).all(axis=-1))


def check_visible(weights: Array, visible: BoolArray, empty: BoolArray) -> None:
    """ValueError if a mask hides weight, or shows keys whose weights are 0 by a pattern.

    Args:
        weights: (..., n_queries, n_keys).
        visible: the mask, which broadcasts; queries without a visible key are padding.
        empty: keys without weight in all heads of a sequence, (..., n_keys), which broadcast.
    """
    counted = visible.any(axis=-1, keepdims=True)
    hidden = (weights * (counted & ~visible)).sum(axis=-1, dtype=np.float64)
    share = hidden.sum() / ((weights * counted).sum(dtype=np.float64) or 1.0)
    uniform = uniform_rows(weights)
    if share > ROUNDED:
        breaks = hidden > ROUNDED
        padded = (breaks & uniform).sum()
        rest = "if these rows are padded, add a mask of tokens, as in --mask causal,FILE"
        if padded:
            rest = f"{padded} of them uniform to the last bit: padded? add {_TOKENS}"
        raise ValueError(
            f"mask: expected one that hides no weight, got one that hides {share:.0%} of it, in "
            f"{breaks.sum()} of {breaks.size} rows; {rest}"
        )
    pairs = visible & ~uniform[..., np.newaxis]
    leading = tuple(range(weights.ndim - 2))
    largest = np.max(weights, axis=leading, where=pairs, initial=0)
    shown = np.asarray(pairs.any(axis=leading))
    if name := _band(largest, shown):
        where = "above the diagonal" if name == "causal" else "outside of a band"
        raise ValueError(
            f"mask: all weights {where} are 0: {name}? pass --mask {name}, or {name},FILE beside "
            "a mask in a file; without a mask, zeros hide their keys"
        )
    lost = pairs & empty[..., np.newaxis, :]
    kept = pairs & ~lost
    if lost.any() and (kept & (weights == 0)).sum() < ROUNDED * kept.sum():
        share = lost.any(axis=-2).mean()
        raise ValueError(
            f"mask: expected weight on the keys that it shows, got 0 from every query for "
            f"{share:.0%} of the keys: padded? add {_TOKENS}"
        )


def _band(largest: Array, shown: BoolArray) -> str:
    """The named mask that explains why all weights beyond a band are 0; empty if there is none, or
    rounding may leave so many zeros.

    Args:
        largest: weight of a query and a key over all heads and sequences, (n_queries, n_keys).
        shown: True where the mask shows the key in one of them.
    """
    n_queries, n_keys = largest.shape
    ahead = np.arange(n_keys) - np.arange(n_keys - n_queries, n_keys)[:, np.newaxis]
    reached = ahead[largest > 0]
    if not reached.size:
        return ""
    first, last = int(reached.min()), int(reached.max())
    in_band = Reach(-first, last).sees(0, ahead)
    zeros = (largest[in_band & shown] == 0).mean()

    def ends(at: int, beyond: BoolArray) -> bool:
        is_sharp = largest[ahead == at].max() > _AT_END
        return bool(is_sharp and zeros < 0.5 and zeros ** (beyond & shown).sum() < _CHANCE)

    begins, stops = ends(first, ahead < first), ends(last, ahead > last)
    if last == 0:
        return f"window-{1 - first}" if begins else "causal" * stops
    return f"local-{last}" * (last == -first and stops)


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
