"""Queries and keys, scores and weights in files, by declared names of arrays, with masks and packed
documents, in the order that `sdpa.diagnose` takes.

Nothing is guessed: where shapes allow another order than the documented one, the error has the
option that decides.
"""

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.diagnosis.head_rows import BATCH, Heads, numbers_of, usual_axes
from sdpa.heads.formats import Array, FilesError, arrays_in, in_a_known_type
from sdpa.heads.weights import check_weights, equal_rows, scores_of
from sdpa.masks import broadcast_mask, named_mask
from sdpa.scaling import Rule, resolve_divisor

Kind = Literal["q", "scores", "weights"]
Key = tuple[str, int | None]  # role, and number of the layer
_MASKS = ("mask", "attention_mask")
_ROLES = ("q", "k", "scores", "weights", "cu_seqlens", *_MASKS)
_NAME = re.compile(rf"({'|'.join(_ROLES)})(?:\.([0-9]+))?")
_POSITION = "position"
_WIDEST = 256  # of one head in published models


@dataclass(frozen=True)
class Layout:
    """What names of arrays do not tell.

    Attributes:
        mask: name of a mask.
        mask_file, cu_seqlens: a file with a mask, and one with the places of packed documents; None
            for arrays of that name in the file of q and k.
        drops_padding: True to leave out rows of equal weights or scores, and of zeros in q.
        axes: names of the axes of q but the last; `position` may be left out where it is the last
            of them. None for the usual ones.
    """

    mask: str = "none"
    mask_file: Path | None = None
    cu_seqlens: Path | None = None
    drops_padding: bool = False
    axes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Layer:
    """The heads of one layer, or of all in one pair of arrays.

    Attributes:
        heads: weights have become scores, ln w.
        kind: of the numbers in the file.
        read_as: shape of the array q, scores or weights, and names of its axes.
        number: in the names of the arrays; None if the names have none.
        documents: places of those that follow each other in a sequence; none for a single one.
        shown: share of the pairs of a query and a key that masks and dropped rows leave.
        noted: numbers of cases by what they are.
    """

    heads: Heads
    kind: Kind
    read_as: tuple[tuple[int, ...], tuple[str, ...]]
    number: int | None
    documents: list[slice]
    shown: float
    noted: Mapping[str, int]

    @property
    def parts(self) -> list[Heads]:
        """The heads of each document."""
        return [self.heads.part(place) for place in self.documents] or [self.heads]

    def divisor(self, rule: Rule) -> float:
        """The divisor of q.k; 1 for scores and weights."""
        if self.heads.k is None:
            return 1.0
        n_keys = max(part.mask.shape[-1] for part in self.parts)
        mask = "none" if self.shown == 1 else "some"
        return resolve_divisor(rule, self.heads.q.shape[-1], n_keys, mask)


def read_heads(
    paths: Sequence[Path], layout: Layout | None = None, kind: Kind = "q"
) -> list[Layer]:
    """The queries and keys in one or two files, or the scores or weights in one, by layer.

    Files of one array each hold q and k, or the scores or weights. One .npz or .safetensors file
    has arrays `q` and `k`, or a pair for each layer, `q.3` and `k.3`, or so `scores` or `weights`.
    Arrays `mask` or `attention_mask` (True: visible) and `cu_seqlens` belong to all layers, or to
    that of their number. Other arrays do not count.

    Args:
        paths: .npy files, which stay on the disk, or .npz or .safetensors files.
        layout: what names do not tell; None if nothing is told.
        kind: of the numbers in the arrays; q stands for queries and keys.

    Raises:
        FilesError: a file cannot be read, holds no such arrays, or can be read in two ways, or a
            mask or `sdpa.diagnose` refuses them.
    """
    layout = layout or Layout()
    files = [arrays_in(path) for path in paths]
    try:
        named = _named(files, ["q", "k"] if kind == "q" else [kind])
        for role, path in (("mask", layout.mask_file), ("cu_seqlens", layout.cu_seqlens)):
            if path:
                named[role, None] = _only(path)
        numbers = [number for role, number in named if role == kind]
        ordered = sorted(numbers, key=lambda number: number or 0)
        return [_layer(named, kind, number, layout) for number in ordered]
    except ValueError as error:
        raise FilesError(f"{' and '.join(map(str, paths))}: {error}") from None


def _named(files: Sequence[dict[str, Array]], roles: Sequence[str]) -> dict[Key, Array]:
    """The arrays by role and layer; FilesError unless each layer has all roles."""
    found: dict[Key, Array] = {}
    for role, file in zip(roles, files, strict=False):
        for name, array in file.items():
            if match := _NAME.fullmatch(name or role):
                found[match[1], int(match[2]) if match[2] else None] = array
            elif "mask" in name:
                raise FilesError(
                    f"{name}: True is a visible key in some programs and a hidden one in others; "
                    "name the array mask (True: visible)"
                )
    layers = {layer for role, layer in found if role in roles}
    if not layers or any((role, layer) not in found for role in roles for layer in layers):
        names = ", ".join([repr(name) for file in files for name in file][:5])
        raise FilesError(
            f"expected arrays {' and '.join(roles)}, or so for each layer ({roles[0]}.3), or "
            f"{len(roles)} files of one array, got {names or 'none'}"
        )
    return found


def _only(path: Path) -> Array:
    """The array of a file with one."""
    file = arrays_in(path)
    if len(file) != 1:
        raise FilesError(f"{path}: expected one array, got {len(file)}")
    return file.popitem()[1]


def _layer(named: Mapping[Key, Array], kind: Kind, number: int | None, layout: Layout) -> Layer:
    """The heads of a layer; ValueError where arrays, masks or documents do not fit."""
    q = _of_floats(named[kind, number])
    k = _of_floats(named["k", number]) if kind == "q" else None
    beside = {
        role: in_a_known_type(array)
        for role in ("cu_seqlens", *_MASKS)
        if (array := named.get((role, number), named.get((role, None)))) is not None
    }
    ends = beside.pop("cu_seqlens", None)
    axes = layout.axes or usual_axes(q.ndim - 2)
    if k is not None and layout.axes is None:
        _check(q.shape, k.shape, is_packed=ends is not None)
        axes = axes if ends is None else (_POSITION, "head")
    if k is not None and _POSITION in axes:
        q, k = (np.moveaxis(array, axes.index(_POSITION), -2) for array in (q, k))
        axes = tuple(name for name in axes if name != _POSITION)
    read_as = q.shape, (*axes, *(("query", "key") if k is None else (_POSITION, "d_k")))
    scores = (*q.shape[:-1], q.shape[-1] if k is None else k.shape[-2])
    visible = named_mask(layout.mask, *scores[-2:])
    for mask in beside.values():
        visible = visible & _mask_of(mask, scores, axes)
    padding = np.asarray(~q.any(axis=-1)) if kind == "q" else equal_rows(q)
    if layout.drops_padding:
        visible = visible & ~padding[..., np.newaxis]
        if kind == "q" and scores[-1] == scores[-2]:
            visible = visible & ~padding[..., np.newaxis, :]
    noted = {"padding": 0 if layout.drops_padding or beside else int(padding.sum())}
    if kind == "weights":
        noted["zeros"] = int(((q == 0) & visible).sum())
        check_weights(q, visible, is_named=layout.mask != "none")
        q = scores_of(q, visible)
    heads = Heads.of(q, k, visible, axes)
    documents = [] if ends is None else _documents(ends, scores)
    return Layer(heads, kind, read_as, number, documents, float(visible.mean()), noted)


def _of_floats(array: Array) -> Array:
    """The array in a type that NumPy knows; FilesError for whole numbers, or without entries."""
    if array.dtype.kind in "iu":
        raise FilesError(
            f"expected floating-point numbers, got {array.dtype}; the bits of bfloat16 are "
            "read after bits.view('V2'), and quantised numbers after a product with their scale"
        )
    return numbers_of("array", in_a_known_type(array))


def _check(q: Sequence[int], k: Sequence[int], *, is_packed: bool) -> None:
    """Refuse shapes that may have several heads in the last axis, or heads and positions exchanged.

    Raises:
        FilesError: q and k can be read in two ways, or in none.
    """
    if q[-1] != k[-1] or q[-1] > _WIDEST:
        raise FilesError(
            f"expected q and k with the same d_k (last axis), {_WIDEST} at most, got q {q} and k "
            f"{k}; heads side by side in the last axis need q.reshape(*q.shape[:-1], H, d_k), and "
            "--axes batch,position,head unless they are packed"
        )
    if len(q) > 2 and 1 < q[-3] >= k[-2] and not is_packed:
        order = ",".join(usual_axes(len(q) - 2))
        raise FilesError(
            f"expected fewer heads than keys, got q {q} and k {k}; choose --axes {order} for "
            f"(head, position, d_k), or --axes {order.removesuffix('head')}position,head for "
            "(position, head, d_k)"
        )


def _documents(array: Array, scores: Sequence[int]) -> list[slice]:
    """The places of the documents that `cu_seqlens` names, without empty ones."""
    places = array.astype(np.int64).ravel().tolist()
    ends = [*places[:1], *places[-1:]]
    if ends != [0, scores[-2]] or ends != [0, scores[-1]] or places != sorted(places):
        raise FilesError(
            f"cu_seqlens: expected numbers from 0 up to the {scores[-1]} tokens of scores "
            f"{scores}, got {reprlib.repr(places)}"
        )
    return [slice(first, end) for first, end in pairwise(places) if first < end]


def _mask_of(mask: Array, scores: tuple[int, ...], axes: tuple[str, ...]) -> BoolArray:
    """A saved mask as booleans, True where the query may attend, that broadcast to the scores.

    Args:
        mask: of tokens, (n_keys,) or (batch, n_keys), also if that is (n_queries, n_keys); it hides
            padded queries, too, where there are as many queries as keys. Or of axes that broadcast
            to the scores. Booleans, ones and zeros, or numbers to add to scores (0, or -10,000 and
            less).
        scores: their shape.
        axes: names of the leading ones.

    Raises:
        ValueError: the mask has other numbers, does not fit the scores, or fits in two ways.
    """
    *leading, n_queries, n_keys = scores
    batch = dict(zip(axes, leading, strict=False)).get(BATCH, 1)
    of_tokens = mask.shape in ((n_keys,), (batch, n_keys))
    is_flags = np.isin(mask, (0, 1)).all() and mask.any()
    allowed: BoolArray = np.asarray(mask == 1) if is_flags else broadcast_mask(mask, mask.shape)
    if of_tokens:
        lengths = [len(mask) if name == BATCH and mask.ndim == 2 else 1 for name in axes]
        allowed = allowed.reshape(*lengths, 1, n_keys)
    broadcast_mask(allowed, scores)
    if n_queries != n_keys:
        return allowed
    if allowed.shape[-2:-1] == (1,):  # of keys alone: the padded positions are no queries, either
        return np.asarray(allowed & allowed.mT)
    if not np.diagonal(allowed, axis1=-2, axis2=-1).any():
        raise ValueError(
            "mask: expected True where the query may attend, got one that hides the own key of "
            "each query; save its opposite"
        )
    return allowed
