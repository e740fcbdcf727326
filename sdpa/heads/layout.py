"""Axes, masks and packed sequences as they are saved, in the order that `sdpa.diagnose` takes.

Nothing is guessed: where shapes allow another order than the documented one, the error has the
option that decides.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray
from sdpa.diagnosis import AXES
from sdpa.heads.arrays import HeadArrays
from sdpa.heads.formats import Array, FilesError
from sdpa.masks import broadcast_mask

SAVED = ("batch", "position", "head")  # the order of TransformerLens, and of packed sequences
_WIDEST = 256  # of one head in published models
Axes = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """Facts that names of arrays do not tell.

    Attributes:
        axes: names of the axes of q but the last; `position` may be left out where it is the last
            of them. None for the usual ones.
        heads: number of heads in the last axis of q, (..., position, heads d_k); None if they have
            an axis of their own.
        mask, cu_seqlens, sinks: a file with a mask, one with the places of packed sequences, and one
            with the sinks of heads; None for arrays of that name in the file of q and k.
    """

    axes: Axes | None = None
    heads: int | None = None
    mask: Path | None = None
    cu_seqlens: Path | None = None
    sinks: Path | None = None

    @property
    def beside(self) -> dict[str, Path]:
        """The files of arrays beside q and k, by role."""
        roles = {"mask": self.mask, "cu_seqlens": self.cu_seqlens, "sinks": self.sinks}
        return {role: path for role, path in roles.items() if path}


def in_order(
    q: Array, k: Array, layout: Layout, *, is_packed: bool
) -> tuple[Array, Array, Axes | None]:
    """q and k with their axes in order, and the names of the leading ones.

    Raises:
        FilesError: the axes can be in two orders, or do not fit the layout.
    """
    axes = layout.axes
    if layout.heads:
        axes = SAVED[:1][: q.ndim - 2] if axes is None else axes
        axes = (*axes, *{"position"}.difference(axes), "head")
        q, k = _split(q, k, layout.heads)
    elif axes is None and is_packed:
        axes = SAVED[1:]
    elif axes is None:
        _check(q.shape, k.shape)
    elif axes == SAVED:
        axes = SAVED[1 - q.ndim :]  # TransformerLens may leave out the batch
    if axes and "position" in axes:
        place = axes.index("position")
        q, k = (np.moveaxis(array, place, -2) for array in (q, k))
        axes = tuple(name for name in axes if name != "position")
    return q, k, axes


def _split(q: Array, k: Array, heads: int) -> list[Array]:
    """Arrays (..., position, head, d_k); k may have fewer heads."""
    d_k, rest = divmod(q.shape[-1], heads)
    if rest or k.shape[-1] % d_k:
        raise FilesError(
            f"--heads: expected {heads} heads in the last axis of q, and whole ones in that of k, "
            f"got {q.shape[-1]} and {k.shape[-1]}"
        )
    return [array.reshape(*array.shape[:-1], -1, d_k) for array in (q, k)]


def _check(q: Sequence[int], k: Sequence[int]) -> None:
    """Refuse shapes that may have several heads in the last axis, or heads and positions exchanged.

    Raises:
        FilesError: q and k can be read in two ways, or in none.
    """
    if q[-1] != k[-1] or q[-1] > _WIDEST:
        raise FilesError(
            f"expected q and k with the same d_k (last axis), {_WIDEST} at most, got q {q} and k "
            f"{k}; choose --heads H for heads side by side in the last axis (1 for one)"
        )
    if len(q) - 2 in AXES and len(q) > 2 and 1 < q[-3] >= k[-2]:
        order = ",".join(AXES[len(q) - 2])
        raise FilesError(
            f"expected fewer heads than keys, got q {q} and k {k}; choose --axes {order} for "
            f"(head, position, d_k), or --axes {order.removesuffix('head')}position,head for "
            "(position, head, d_k)"
        )


def sequences(q: Array, k: Array, ends: Array) -> tuple[Array, Array, BoolArray]:
    """Packed sequences (head, tokens, d_k) as (batch, head, longest, d_k), and True where query and
    key are tokens, (batch, 1, longest, longest).

    Padding comes first, so that the last query of each sequence sees its last key.
    """
    if {q.ndim, k.ndim} != {3}:
        raise FilesError(f"cu_seqlens: expected arrays (tokens, head, d_k), got {q.shape}")
    batches = []
    for packed in (q, k):
        lengths = _lengths(ends, packed.shape, packed.shape[1])
        longest = max(lengths)
        heads, _, d_k = packed.shape
        batch = np.zeros((len(lengths), heads, longest, d_k), packed.dtype)
        for sequence, length, end in zip(batch, lengths, lengths.cumsum(), strict=True):
            sequence[:, longest - length :] = packed[:, end - length : end]
        batches.append(batch)
    is_token = np.arange(longest) >= longest - lengths[:, None, None]
    return *batches, is_token[..., None] & is_token[:, :, None]


def documents(ends: Array, shape: tuple[int, ...]) -> BoolArray:
    """True where the key is in the document of the query, for scores of this shape.

    Raises:
        FilesError: the numbers do not end at those of queries and keys.
    """
    lengths = [_lengths(ends, shape, tokens) for tokens in shape[-2:]]
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
    """Possible axes of a mask: the last ones of the scores, or `batch` and the last ones."""
    axes = arrays.leading
    batch = axes.index("batch") if "batch" in axes else 0
    missing = len(arrays.shape) - batch - len(shape)
    first, *last = shape
    return {shape, (first, *[1] * missing, *last) if first > 1 else shape}


def _fits(shape: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    """True if a mask of this shape broadcasts to scores, and has their number of keys."""
    pairs = zip(shape[::-1], scores[::-1], strict=False)
    return shape[-1] == scores[-1] and all(n in (1, whole) for n, whole in pairs)
