"""Lines about what the numbers of arrays suggest: padding, finite masks, and exchanged axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sdpa.diagnosis.heads import hidden_scores
from sdpa.heads.arrays import HeadArrays

# Standard deviation of ln(mean k^2) of a head: in the shipped BERT at most 0.18 over sequences, and
# 0.5 over layers.
_APART = 0.35


def _hidden(arrays: HeadArrays) -> int:
    """The scores, but -inf, that a mask with finite numbers hides."""
    if arrays.kind != "scores":
        return 0
    return int((hidden_scores(arrays.q) & (arrays.q != -np.inf)).sum())


def _zero_rows(arrays: HeadArrays) -> int:
    """Queries and keys whose entries are all 0, as those of padding."""
    if arrays.k is None or arrays.mask is not None:
        return 0
    return sum(int((~array.any(axis=-1)).sum()) for array in (arrays.q, arrays.k))


def _zero_weights(arrays: HeadArrays) -> int:
    return int((arrays.q == 0).sum()) if arrays.kind == "weights" else 0


def _like_layers(arrays: HeadArrays) -> bool:
    """True if keys differ along the axis `batch` as those of layers do."""
    if arrays.k is None or "batch" not in arrays.leading or arrays.mask is not None:
        return False
    keys = np.moveaxis(arrays.k, arrays.leading.index("batch"), 0)
    squares = np.einsum("...nd,...nd->...", keys, keys, dtype=np.float64)
    if len(keys) == 1 or not (squares > 0).all():
        return False
    apart = np.median(np.log(squares).std(axis=0, ddof=1))
    return bool(apart > _APART)


_LINES: dict[Callable[[HeadArrays], int], str] = {
    _hidden: "Hidden keys: {} scores are more than 5,000 below the largest of their row.",
    _zero_rows: (
        "Rows of zeros: {} queries and keys, as padding has; they count, unless a mask hides them "
        "(--mask FILE, or an array `mask` in the file)."
    ),
    _zero_weights: (
        "Weights of 0: {}. They hide their keys, unless --mask names the keys that are visible; "
        "there they count as the smallest number of their type. The spread is a lower bound if "
        "some are rounded."
    ),
    _like_layers: (
        "Keys differ along the axis read as batch as those of layers do, and those of sequences do "
        "not: name the axes in their order, such as --axes layer,batch,head or --axes layer,head."
    ),
}


def notes(heads: Sequence[HeadArrays]) -> list[str]:
    """The lines that hold of some of the arrays, with the number of cases in all of them."""
    counts = {line: sum(map(count, heads)) for count, line in _LINES.items()}
    return [line.format(count) for line, count in counts.items() if count]
