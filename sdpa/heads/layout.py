"""Axes, masks and packed sequences as they are saved, in the order that `sdpa.diagnose` takes.

Where neither names nor shapes tell the order, the error has the readings and the option that
decides.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray
from sdpa.heads.arrays import HeadArrays
from sdpa.heads.formats import Array, FilesError
from sdpa.masks import broadcast_mask

_PROJECTIONS = {"proj", "lin", "self"}  # parts of names of modules that leave the heads together
_HOOK = "hook"  # a part of the names of TransformerLens
_SAVED = ("batch", "position", "head")  # the order there, and of packed sequences
_WIDEST = 256  # of one head in published models


@dataclass(frozen=True)
class Layout:
    """What names and shapes of arrays do not tell.

    Attributes:
        axes: names of the axes of q but the last; `position` may be left out where it is the last
            of them. None for the usual ones.
        heads: number of heads in the last axis of q, (..., position, heads d_k); None if they have
            an axis of their own.
        mask, cu_seqlens, sinks: a file with a mask, one with the places of packed sequences, and one
            with the sinks of heads; None for arrays of that name in the file of q and k.
    """

    axes: tuple[str, ...] | None = None
    heads: int | None = None
    mask: Path | None = None
    cu_seqlens: Path | None = None
    sinks: Path | None = None


def in_order(
    pair: HeadArrays, k: Array, words: set[str], layout: Layout, ends: Sequence[Array]
) -> HeadArrays:
    """A pair with its axes in order, and packed sequences as a batch.

    Args:
        pair: q as it is in the file.
        k: likewise.
        words: parts of the name of q.
        layout: what the names do not tell.
        ends: `cu_seqlens` of q and of k, or one for both; empty without packed sequences.

    Raises:
        FilesError: the axes can be in two orders, or do not fit the layout.
    """
    names = layout.axes
    arrays = [pair.q, k]
    if layout.heads:
        names = _SAVED[:1][: pair.q.ndim - 2] if names is None else names
        names = (*names, *{"position"}.difference(names), "head")
        arrays = _split(arrays, layout.heads)
    elif names is None:
        is_packed = bool(ends)
        if _HOOK in words or (is_packed and pair.q.shape[-3:-2] == (ends[0][-1],)):
            names = _SAVED[1 - pair.q.ndim :]
        else:
            _check(pair, k.shape, words, is_packed=is_packed)
    if names and "position" in names:
        arrays = [np.moveaxis(array, names.index("position"), -2) for array in arrays]
        names = tuple(name for name in names if name != "position")
    if not ends:
        return replace(pair, q=arrays[0], k=arrays[1], axes=names)
    q, in_q = _sequences(arrays[0], ends[0])
    k, in_k = _sequences(arrays[1], ends[-1])
    mask = in_q[..., None] & in_k[:, :, None]
    return replace(pair, q=q, k=k, axes=("batch", "head"), mask=mask)


def _split(arrays: Sequence[Array], heads: int) -> list[Array]:
    """Arrays (..., position, head, d_k); k may have fewer heads."""
    of_q, of_k = (array.shape[-1] for array in arrays)
    d_k, rest = divmod(of_q, heads)
    if rest or of_k % d_k:
        raise FilesError(
            f"--heads: expected {heads} heads in the last axis of q, and whole ones in that of k, "
            f"got {of_q} and {of_k}"
        )
    return [array.reshape(*array.shape[:-1], -1, d_k) for array in arrays]


def _check(pair: HeadArrays, k: tuple[int, ...], words: set[str], *, is_packed: bool) -> None:
    """Refuse arrays whose axes can be read in two ways: several heads in the last axis, by its name
    or its width, or heads and positions exchanged, as with several heads and at most as many keys.

    Raises:
        FilesError: q and k can be read in two ways, or in none.
    """
    q = pair.q.shape
    if q[-1] % k[-1]:
        hint = "; k looks transposed" * (k[-2] == q[-1])
        raise FilesError(
            f"expected q and k with the same d_k (last axis), got q {q} and k {k}{hint}"
        )
    is_wide = max(q[-1], k[-1]) > _WIDEST or q[-1] != k[-1]
    is_told = is_wide or is_packed or (words & _PROJECTIONS and pair.head is None)
    if is_told and len(q) < 4 - is_packed:
        raise FilesError(
            f"expected an axis of heads{' or the same d_k' * (q[-1] != k[-1])}, got q {q} and k "
            f"{k}; choose --heads H for heads side by side in the last axis (1 for one), or --axes "
            "head for (head, position, d_k)"
        )
    if is_packed or pair.leading[-1:] != ("head",):
        return
    order = ",".join(pair.leading)
    if q[-3] == k[-2] != q[-2]:
        raise FilesError(
            f"expected the same order of axes in q and k, got q {q} and k {k}; transpose one of "
            f"them, or choose --axes {order} for {q[-3]} heads"
        )
    if 1 < q[-3] >= k[-2]:
        raise FilesError(
            f"expected fewer heads than keys, got q {q} and k {k}; choose --axes {order} for "
            f"(head, position, d_k), or --axes {order.removesuffix('head')}position,head for "
            "(position, head, d_k)"
        )


def _sequences(packed: Array, ends: Array) -> tuple[Array, BoolArray]:
    """Packed sequences (head, tokens, d_k) as (batch, head, longest, d_k), and True where the batch
    has a token, (batch, 1, longest).

    Padding comes first, so that the last query of each sequence sees its last key.
    """
    *outer, heads, tokens, d_k = packed.shape
    if math.prod(outer) != 1:
        raise FilesError(f"cu_seqlens: expected arrays (tokens, head, d_k), got {packed.shape}")
    lengths = _lengths(ends, packed.shape, tokens)
    longest = max(lengths)
    batch = np.zeros((len(lengths), heads, longest, d_k), packed.dtype)
    for sequence, length, end in zip(batch, lengths, lengths.cumsum(), strict=True):
        sequence[:, longest - length :] = packed[..., end - length : end, :]
    return batch, np.arange(longest) >= longest - lengths[:, None, None]


def documents(ends: Sequence[Array], shape: tuple[int, ...]) -> BoolArray:
    """True where the key is in the document of the query, for scores of this shape.

    Raises:
        FilesError: the numbers do not end at those of queries and keys.
    """
    both = zip((ends[0], ends[-1]), shape[-2:], strict=True)
    lengths = [_lengths(each, shape, tokens) for each, tokens in both]
    queries, keys = (np.repeat(np.arange(len(one)), one) for one in lengths)
    return np.asarray(queries[:, np.newaxis] == keys)


def _lengths(ends: Array, shape: tuple[int, ...], tokens: int) -> npt.NDArray[np.int64]:
    """The lengths of the sequences that `cu_seqlens` names."""
    places = ends.astype(np.int64).ravel()
    lengths = places[1:] - places[:-1]
    if [*places[:1], *places[-1:]] != [0, tokens] or (lengths < 0).any():
        raise FilesError(
            f"cu_seqlens: expected numbers from 0 up to the {tokens} tokens of an array "
            f"{shape}, got {reprlib.repr(ends.tolist())}"
        )
    return lengths


def mask_of_scores(mask: Array, arrays: HeadArrays) -> BoolArray:
    """A saved mask as booleans, True where the query may attend, that broadcast to the scores.

    A mask of keys alone also hides the padded queries, where there are as many queries as keys.

    Args:
        mask: booleans, ones and zeros, or numbers to add to scores (0, or -10,000 and less). Its
            axes are the last ones of the scores, or `batch` and the last ones.
        arrays: of the scores.

    Raises:
        ValueError: the mask has other numbers, does not fit the scores, or fits in two ways.
    """
    scores = arrays.shape
    mask = np.atleast_2d(mask.reshape(mask.shape[-len(scores) :]))
    readings = [shape for shape in _readings(mask.shape, arrays) if _fits(shape, scores)]
    if len(readings) != 1:
        raise ValueError(
            f"mask: expected one way to broadcast to scores {scores}, got {mask.shape}, which fits "
            f"in {len(readings)} ways{': ' * bool(readings)}{' and '.join(map(str, readings))}; "
            "save it with all of their axes, or name these with --axes"
        )
    is_flags = np.isin(mask, (0, 1)).all() and mask.any()
    allowed = broadcast_mask(mask == 1 if is_flags else mask, mask.shape).reshape(readings[0])
    *_, n_queries, n_keys = scores
    if n_queries != n_keys:
        return allowed
    if allowed.shape[-2] == 1:  # of keys alone: the padded positions are no queries, either
        return allowed & allowed.mT
    if not np.diagonal(allowed, axis1=-2, axis2=-1).any():
        raise ValueError(
            "mask: expected True where the query may attend, got one that hides the own key of "
            "each query; save its opposite"
        )
    return allowed


def _readings(shape: tuple[int, ...], arrays: HeadArrays) -> set[tuple[int, ...]]:
    """What the axes of a mask may be: the last ones of the scores, or `batch` and the last ones."""
    axes = arrays.leading
    batch = axes.index("batch") if "batch" in axes else 0
    missing = len(arrays.shape) - batch - len(shape)
    first, *last = shape
    return {shape, (first, *[1] * missing, *last) if first > 1 else shape}


def _fits(shape: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    """True if a mask of this shape broadcasts to scores, and has their number of keys."""
    pairs = zip(shape[::-1], scores[::-1], strict=False)
    return shape[-1] == scores[-1] and all(n in (1, whole) for n, whole in pairs)
