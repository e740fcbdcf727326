"""Lines about what the numbers of arrays suggest: padding, and finite masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.diagnosis.heads import hidden_scores
from sdpa.heads.arrays import HeadArrays

_COUNTED = (
    " They count, unless --skip-padded leaves them out, or a mask of tokens (--mask FILE, or an "
    "array `mask` in the file)."
)
_SKIPPED = " They are left out."


def _hidden(arrays: HeadArrays) -> int:
    """The number of scores that a mask of finite numbers hides; -inf does not count."""
    if arrays.kind != "scores":
        return 0
    is_finite = arrays.q != -np.inf
    return int((hidden_scores(arrays.q) & is_finite).sum())


def _zero_rows(arrays: HeadArrays) -> int:
    """Queries and keys whose entries are all 0, as those of padding."""
    if arrays.k is None or arrays.mask is not None:
        return 0
    return sum(int((~array.any(axis=-1)).sum()) for array in (arrays.q, arrays.k))


def _padded(arrays: HeadArrays) -> int:
    """Rows that look padded; for q and k without a mask, `_zero_rows` tells."""
    if arrays.k is not None and arrays.mask is None:
        return 0
    rows, _ = arrays.padding()
    return int(np.broadcast_to(rows, arrays.shape[:-1]).sum())


def _zero_weights(arrays: HeadArrays) -> int:
    return int((arrays.q == 0).sum()) if arrays.kind == "weights" else 0


def _opposite(arrays: HeadArrays) -> int:
    """Sequences whose mask shows keys of zeros and hides others, or hides the first key and shows
    the last one.
    """
    if arrays.mask is None or arrays.kind == "weights":  # whose masks are checked
        return 0
    missing = len(arrays.shape) - arrays.mask.ndim
    mask = arrays.mask[(np.newaxis,) * missing]
    seen = _by_sequence(arrays, np.asarray(mask.any(axis=-2)))
    is_key = np.ones_like(seen)
    if arrays.k is not None:
        is_key = _by_sequence(arrays, np.asarray(arrays.k.any(axis=-1)))
    hidden = is_key & ~seen
    shows_zeros = (seen & ~is_key).any(axis=-1) & hidden.any(axis=-1)
    shows_last = hidden[:, 0] & seen[:, -1]
    return int((shows_zeros | shows_last).sum())


def _by_sequence(arrays: HeadArrays, flags: BoolArray) -> BoolArray:
    """Flags (..., n_keys) that hold in any head, as (sequences, n_keys)."""
    batch = [place for place, name in enumerate(arrays.leading) if name == "batch"]
    others = tuple(place for place in range(flags.ndim - 1) if place not in batch)
    return np.atleast_2d(flags.any(axis=others))


_LINES: dict[Callable[[HeadArrays], int], str] = {
    _hidden: "Hidden keys: {} scores are more than 5,000 below 0 and the largest of their row.",
    _zero_rows: "Rows of zeros: {} queries and keys, as padding has.{end}",
    _padded: (
        "{} of {} query rows are uniform to the last bit, or their own key is hidden: padded?{end}"
    ),
    _zero_weights: (
        "Weights of 0: {}. They hide their keys, unless --mask names the keys that are visible; "
        "there they count as the smallest number of their type. The spread is a lower bound if "
        "some are rounded."
    ),
    _opposite: (
        "Masks: in {} sequences, keys of zeros are visible and others are not, or the first key is "
        "hidden and the last one visible. Padding on the left does so, and a mask in which True "
        "marks padding: save its opposite, or name the array key_padding_mask."
    ),
}


def notes(heads: Sequence[HeadArrays], *, skip_padded: bool = False) -> list[str]:
    """The lines that hold of some of the arrays, with the number of cases in all of them."""
    counts = {line: sum(map(count, heads)) for count, line in _LINES.items()}
    rows = sum(math.prod(one.shape[:-1]) for one in heads)
    end = _SKIPPED if skip_padded else _COUNTED
    return [line.format(count, rows, end=end) for line, count in counts.items() if count]
