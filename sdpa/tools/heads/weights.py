"""Attention weights as scores: ln w has the softmax w, and differs from the scores by a number for
each row.

A weight of 0 is either that of a hidden key, or a small weight that its type rounds to 0. Rounded
ones are the end of a tail: weights just above the smallest number of the type are then about as
many as larger ones. So in a head with at least half as many weights in [least, 16 least) as in [16
least, 256 least), a 0 on a visible key stands for `least`; in other heads, and if no query gives the
key weight, as padding, it hides the key.
"""

import numpy as np

from sdpa._arrays import Array, BoolArray
from sdpa.tools.diagnosis.head_rows import are_weights

_HIDDEN = 0.01  # of the weight: what rounding may leave on hidden keys
_STEP = 16  # between the numbers where a tail of small weights is counted


def _check(weights: Array, visible: BoolArray) -> None:
    """ValueError unless rows are those of weights, or zeros, on the keys that a mask shows, which
    are not causal unless the mask is.
    """
    if not are_weights(weights):
        sums = weights.sum(axis=-1, dtype=np.float64)
        raise ValueError(
            "weights: expected rows that are non-negative and sum to 1, as without dropout, got "
            f"sums from {sums.min():.4g} to {sums.max():.4g}; --mask causal,padding leaves out rows "
            "of NaN, and --mask causal,FILE those that a mask of tokens hides"
        )
    equal = equal_rows(weights) & weights.any(axis=-1)
    later = np.triu(visible & ~equal[..., None], 1)
    if weights.shape[-1] == weights.shape[-2] and later.any() and not weights[later].any():
        raise ValueError(
            "weights: causal? All above the diagonal are 0; add --mask causal, and beside "
            "padding --mask causal,FILE with the mask of the tokenizer, or --mask causal,padding"
        )
    hidden, whole = (array.sum(dtype=np.float64) for array in (weights * ~visible, weights))
    if hidden > _HIDDEN * whole:
        raise ValueError(
            f"mask: expected one that hides no weight, got one that hides {hidden / whole:.0%} of it, "
            f"beside {equal.sum()} rows of equal weights, as padding has: leave these out with --mask "
            "causal,padding, or causal,FILE with a mask of tokens (True: visible)"
        )


def equal_rows(weights: Array) -> BoolArray:
    """True for the rows whose numbers are equal to the last bit, or NaN, as in padding; a single
    number is 0 there.
    """
    first = weights[..., :1] if weights.shape[-1] > 1 else 0
    equal: BoolArray = ((weights == first) | np.isnan(weights)).all(axis=-1)
    return equal


def scores_of(weights: Array, visible: BoolArray, within: BoolArray) -> tuple[Array, int]:
    """ln w, -inf where a weight of 0 hides its key, and ln of the least number of the type where it
    is rounded, with the number of these.

    Args:
        weights: rows that see no key may hold anything.
        visible: True for the keys that a mask shows.
        within: True for a query and a key of one document.

    Raises:
        ValueError: the numbers are no weights, or the mask does not fit them.
    """
    w = np.where(visible.any(axis=-1, keepdims=True), weights, 0)
    _check(w, visible)
    is_half = (w == w.astype(np.float16)).all()
    least = np.finfo(np.float16 if is_half else w.dtype).smallest_subnormal
    seen = visible & within
    shown = w * seen
    last, before = (
        ((shown >= low) & (shown < _STEP * low)).sum(axis=(-2, -1), keepdims=True)
        for low in (least, _STEP * least)
    )
    is_rounded = (last > 0) & (2 * last >= before) & seen & (w == 0)
    is_rounded &= shown.any(axis=-2, keepdims=True) & shown.any(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.where(is_rounded, least, w), dtype=np.float64)
    return logarithms, int(is_rounded.sum())
