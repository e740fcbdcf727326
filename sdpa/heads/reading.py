"""Queries and keys, scores and weights in files, by declared names of arrays, with masks and packed
documents, in the order that `sdpa.diagnose` takes.

Nothing is guessed: where shapes allow another order than the documented one, the error has the
option that decides.
"""

import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.diagnosis.head_rows import BATCH, Heads, hidden_scores, numbers_of, usual_axes
from sdpa.heads.formats import Array, FilesError, arrays_in, in_a_known_type, naming
from sdpa.heads.weights import equal_rows, scores_of
from sdpa.masks import broadcast_mask, named_mask
from sdpa.scaling import SCALED, resolve_divisor

Kind = Literal["q", "scores", "weights"]
Arrays = dict[str, Array]  # by name
_MASKS = {"mask", "attention_mask"}
_ROLES = {"q", "k", "scores", "weights", "cu_seqlens"} | _MASKS
_NAME = re.compile(rf"({'|'.join(_ROLES)})(?:\.([0-9]+))?")
_POSITION = "position"
_PADDING = "padding"
_WIDEST = 256  # of one head in published models


@dataclass(frozen=True)
class Options:
    """What names of arrays do not tell.

    Attributes:
        kind: of the numbers in the arrays; q stands for queries and keys.
        scaling: the rule for q and k; other arrays are divided already.
        mask: names of masks and of files with a mask, between commas; `padding` leaves out rows of
            equal weights or scores, and of zeros in q.
        cu_seqlens: a file with the places of packed documents; None for an array of that name
            beside q and k.
        axes: names of the axes of q but the last; `position` may be left out where it is the last
            of them. None for the usual ones.
    """

    kind: Kind = "q"
    scaling: str = SCALED
    mask: str = "none"
    cu_seqlens: Path | None = None
    axes: tuple[str, ...] | None = None

    @property
    def masks(self) -> list[str]:
        """The names and files in `mask`."""
        return self.mask.split(",")


@dataclass(frozen=True)
class Layer:
    """The heads of one layer, or of all in one pair of arrays.

    Attributes:
        heads: weights have become scores, ln w.
        parts: those of each document.
        within: True for a query and a key of one document, (n_queries, n_keys).
        options: those of its files.
        read_as: shape of the array q, scores or weights, and names of its axes.
        number: in the names of the arrays; None if the names have none.
        shown: share of the pairs of a query and a key of its document that are not hidden.
        padding: number of rows that look like padding, and count.
        rounded: number of weights of 0 that count as the smallest number of their type.
    """

    heads: Heads
    parts: list[Heads]
    within: BoolArray
    options: Options
    read_as: tuple[tuple[int, ...], tuple[str, ...]]
    number: int | None
    shown: float
    padding: int
    rounded: int

    @property
    def name(self) -> str:
        """The name of its first array."""
        return self.options.kind if self.number is None else f"{self.options.kind}.{self.number}"

    @property
    def may_be_causal(self) -> bool:
        """True if the model may have a causal mask that the file does not tell."""
        n_queries, n_keys = self.within.shape
        return self.options.kind != "weights" and self.shown == 1 and n_queries <= n_keys


def read_heads(paths: Sequence[Path], options: Options = Options()) -> list[Layer]:
    """The queries and keys in one or two files, or the scores or weights in one, by layer.

    Files of one array each hold q and k, or the scores or weights. One .npz or .safetensors file
    has arrays `q` and `k`, or a pair for each layer, `q.3` and `k.3`, or so `scores` or `weights`.
    Arrays `mask` or `attention_mask` (True: visible) and `cu_seqlens` belong to all layers, or to
    that of their number. Other arrays do not count.

    Args:
        paths: .npy files, which stay on the disk, or .npz or .safetensors files.
        options: what names do not tell.

    Raises:
        FilesError: a file cannot be read, holds no such arrays, or can be read in two ways, or a
            mask or `sdpa.diagnose` refuses them.
    """
    files = [arrays_in(path) for path in paths]
    others = {name: _only(Path(name)) for name in options.masks if Path(name).suffix}
    if options.cu_seqlens:
        others["cu_seqlens"] = _only(options.cu_seqlens)
    with naming(paths):
        named = _named(files, ["q", "k"] if options.kind == "q" else [options.kind])
        of_all = named.get(None, {})
        return [
            _layer(of_all | own | others, number, options)
            for number, own in sorted(named.items(), key=lambda item: item[0] or 0)
            if options.kind in own
        ]


def _named(files: Sequence[Arrays], roles: Sequence[str]) -> dict[int | None, Arrays]:
    """The arrays by layer and role; FilesError unless each layer has all roles."""
    found: dict[int | None, Arrays] = {}
    expected = " and ".join(roles)
    if len(files) > len(roles):
        raise FilesError(f"expected no more files than arrays ({expected}), got {len(files)}")
    for role, file in zip(roles, files, strict=False):
        for name, array in file.items():
            if match := _NAME.fullmatch(name or role):
                own = found.setdefault(int(match[2]) if match[2] else None, {})
                if match[1] in own:
                    raise FilesError(f"expected one array {match[0]}, got two")
                own[match[1]] = array
            elif "mask" in name:
                raise FilesError(
                    f"{name}: True is a visible key in some programs and a hidden one in others; "
                    "name the array mask (True: visible)"
                )
    of_layers = [own.keys() & {*roles} for own in found.values()]
    if {len(own) for own in of_layers if own} != {len(roles)}:
        names = [repr(name) if name else "one without a name" for file in files for name in file]
        arguments = ", ".join(f"{role}={role}" for role in roles)
        raise FilesError(
            f'expected arrays {expected}, as np.savez("{"".join(roles)}.npz", {arguments}) saves them '
            f"in one file, or so for each layer ({roles[0]}.0, {roles[0]}.1), got "
            f"{', '.join(names[:5]) or 'none'}"
        )
    return found


def _only(path: Path) -> Array:
    """The array of a file with one."""
    file = arrays_in(path)
    if len(file) != 1:
        raise FilesError(f"{path}: expected one array, got {len(file)}")
    return file.popitem()[1]


def _layer(arrays: Arrays, number: int | None, options: Options) -> Layer:
    """The heads of a layer; ValueError where arrays, masks or documents do not fit."""
    q, k, axes = _in_order(arrays, options)
    read_as = q.shape, (*axes, *(("query", "key") if k is None else (_POSITION, "d_k")))
    scores = (*q.shape[:-1], q.shape[-1] if k is None else k.shape[-2])
    documents = _documents(arrays.get("cu_seqlens"), scores)
    within = np.zeros(scores[-2:], bool)
    for place in documents:
        within[place, place] = True
    visible = _visible(options.masks, arrays, scores, axes)
    padding = equal_rows(q) if k is None else np.asarray(~q.any(axis=-1))
    if _PADDING in options.masks:
        is_token = ~padding[..., np.newaxis]
        visible = visible & is_token
        if k is not None and scores[-1] == scores[-2]:
            visible = visible & is_token.mT
    rounded = 0
    if options.kind == "weights":
        q, rounded = scores_of(q, visible, within)
    seen = visible & within
    if k is None:
        seen = seen & ~hidden_scores(q)
    longest = within.sum(axis=-1).max()
    divisor = 1.0 if k is None else resolve_divisor(options.scaling, q.shape[-1], longest)
    heads = Heads.of(q, k, visible, axes, divisor)
    return Layer(
        heads,
        [heads.part(place) for place in documents],
        within,
        options,
        read_as,
        number,
        float(seen.mean() / within.mean()),
        int((padding & (seen.sum(axis=-1) > 1)).sum()),
        rounded,
    )


def _in_order(arrays: Arrays, options: Options) -> tuple[Array, Array | None, tuple[str, ...]]:
    """q and k with positions before d_k, or scores or weights, and their leading axes."""
    q = _of_floats(arrays[options.kind])
    k = _of_floats(arrays["k"]) if options.kind == "q" else None
    axes = options.axes or usual_axes(q.ndim - 2)
    if k is not None and options.axes is None:
        is_packed = "cu_seqlens" in arrays and q.ndim == 3
        _check(q.shape, k.shape, is_packed=is_packed)
        axes = (_POSITION, "head") if is_packed else axes
    if k is not None and _POSITION in axes:
        q, k = (np.moveaxis(array, axes.index(_POSITION), -2) for array in (q, k))
        axes = tuple(name for name in axes if name != _POSITION)
    return q, k, axes


def _visible(
    names: Sequence[str],
    arrays: Arrays,
    scores: tuple[int, ...],
    axes: tuple[str, ...],
) -> BoolArray:
    """The keys that all masks show, by name, from files and from arrays; it broadcasts."""
    visible = named_mask("none", *scores[-2:])
    for name in (*names, *(_MASKS & arrays.keys())):
        if name in arrays:
            visible = visible & _mask_of(in_a_known_type(arrays[name]), scores, axes)
        elif name != _PADDING:
            visible = visible & named_mask(name, *scores[-2:])
    return visible


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
    if q[-1] > _WIDEST:
        raise FilesError(
            f"expected a d_k (last axis) of {_WIDEST} at most, got q {q} and k {k}; heads "
            "side by side in the last axis need q.reshape(*q.shape[:-1], H, d_k), and "
            "--axes batch,position,head unless they are packed"
        )
    if len(q) > 2 and 1 < q[-3] >= k[-2] and not is_packed:
        order = ",".join(usual_axes(len(q) - 2))
        raise FilesError(
            f"expected fewer heads than keys, got q {q} and k {k}; choose --axes {order} for "
            f"(head, position, d_k), or --axes {order.removesuffix('head')}position,head for "
            "(position, head, d_k)"
        )


def _documents(array: Array | None, scores: Sequence[int]) -> list[slice]:
    """The places of the documents that `cu_seqlens` names, without empty ones; all are one without
    it.
    """
    if array is None:
        return [slice(None)]
    places = array.astype(np.int64).ravel().tolist()
    n_queries, n_keys = scores[-2:]
    is_whole = n_queries == n_keys and places[:1] + places[-1:] == [0, n_keys]
    if not is_whole or places != sorted(places):
        raise FilesError(
            f"cu_seqlens: expected numbers from 0 up to the {n_keys} tokens, got "
            f"{reprlib.repr(places)}; for q of (head, position, d_k), add --axes head,position"
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
