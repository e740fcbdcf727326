"""Queries and keys, scores and weights in files, by declared names of arrays, with masks and packed
documents, in the order that `sdpa.diagnose` takes.

Nothing is guessed: where shapes allow another order than the documented one, the error has the
option that decides.
"""

import math
import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from sdpa._arrays import Array, BoolArray
from sdpa.masks import broadcast_mask, named_mask
from sdpa.scaling import SCALED
from sdpa.tools.diagnosis.head_rows import (
    BATCH,
    Heads,
    default_axis_names,
    hidden_scores,
    numbers_of,
    prefixed_errors,
)
from sdpa.tools.heads.formats import arrays_in, in_a_known_type
from sdpa.tools.heads.weights import equal_rows, scores_of

Kind = Literal["q", "scores", "weights"]
Arrays = dict[str, Array]  # by name
_NAME = re.compile(r"(q|k|scores|weights|cu_seqlens|mask|attention_mask)(?:\.([0-9]+))?")
_WIDEST = 256  # of one head in published models


@dataclass(frozen=True)
class Options:
    """What names of arrays do not tell.

    Attributes:
        kind: of the numbers in the arrays; q stands for queries and keys.
        scaling: the rule for q and k; other arrays are divided already.
        mask: names of masks and of files with a mask, between commas; `padding` leaves out rows of
            equal numbers.
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


@dataclass(frozen=True, kw_only=True)
class Layer(Heads):
    """The heads of one layer, or of all in one pair of arrays; weights have become scores, ln w.

    Attributes:
        options: those of its files.
        number: in the names of the arrays; None if the names have none.
        saved: shape of q, scores or weights in the file.
        shown: share of the pairs of a query and a key of its document that are not hidden.
        shown_keys: share of keys that masks show to any query, in the sequence where it is most; 0
            if they show none in a sequence, as the opposite of a mask of tokens in the longest.
        padding: number of rows of q that look like padding, and count; without one, of k.
        rounded: number of weights of 0 that count as the smallest number of their type.
    """

    options: Options
    number: int | None
    saved: tuple[int, ...]
    shown: float
    shown_keys: float
    padding: int
    rounded: int

    @property
    def may_be_causal(self) -> bool:
        """True if the model may have a causal mask that the file does not tell."""
        n_queries, n_keys = self.mask.shape[-2:]
        return self.options.kind != "weights" and self.shown == 1 and 1 < n_queries <= n_keys


def read_heads(paths: Sequence[Path], options: Options = Options()) -> list[Layer]:
    """The queries and keys in one or two files, or the scores or weights in one, by layer.

    Files of one array each hold q and k, or the scores or weights. One .npz or .safetensors file
    has arrays `q` and `k`, or a pair for each layer, `q.3` and `k.3`, or so `scores` or `weights`.
    Scores or weights may also have any name if they are one array, or names that differ in the
    number of the layer alone. Arrays `mask` or `attention_mask` (True: visible) and `cu_seqlens`
    belong to all layers, or to that of their number. Other arrays do not count.

    Args:
        paths: .npy files, which stay on the disk, or .npz or .safetensors files.
        options: what names do not tell.

    Raises:
        ValueError: a file cannot be read, holds no such arrays, or can be read in two ways, or a
            mask or `sdpa.diagnose` refuses them.
    """
    roles = ["q", "k"] if options.kind == "q" else [options.kind]
    if len(paths) > len(roles):
        raise ValueError(
            f"expected at most one file each of {' and '.join(roles)}, got "
            f"{', '.join(map(str, paths))}"
        )
    files = [arrays_in(path, role) for path, role in zip(paths, roles, strict=False)]
    if options.kind != "q":
        files = [_renamed(file, options.kind) for file in files]
    others = {
        f"mask {name}": _only(Path(name)) for name in options.mask.split(",") if Path(name).suffix
    }
    if options.cu_seqlens:
        others["cu_seqlens"] = _only(options.cu_seqlens)
    with prefixed_errors(*paths):
        layers = _by_layer(files, roles)
        shared = layers.get(None, {})
        return [
            _layer(number, shared | own | others, options)
            for number, own in sorted(layers.items(), key=lambda item: item[0] or 0)
            if options.kind in own
        ]


def _renamed(file: Arrays, kind: str) -> Arrays:
    """The arrays, with names of the kind for one of another name, or for those whose names differ in
    one number alone.
    """
    known = [match[1] for name in file if (match := _NAME.fullmatch(name))]
    others = [name for name in file if not _NAME.fullmatch(name) and "mask" not in name]
    if kind in known or not others:
        return file
    first, *rest = others
    if not rest:
        return file | {kind: file[first]}
    for number in re.finditer("[0-9]+", first):
        before, after = first[: number.start()], first[number.end() :]
        pattern = f"{re.escape(before)}([0-9]+){re.escape(after)}"
        matches = [re.fullmatch(pattern, name) for name in others]
        if all(matches) and len({int(match[1]) for match in matches if match}) == len(others):
            return file | {f"{kind}.{match[1]}": file[match[0]] for match in matches if match}
    return file


def _by_layer(files: Sequence[Arrays], roles: Sequence[str]) -> dict[int | None, Arrays]:
    """The arrays of files by layer and role; ValueError unless each layer has all roles, once."""
    names = [name for file in files for name in file]
    if len({*names}) < len(names):
        raise ValueError(f"expected different names of arrays, got {', '.join(names)}")
    by_layer: dict[int | None, Arrays] = {}
    for name, array in (pair for file in files for pair in file.items()):
        if match := _NAME.fullmatch(name):
            by_layer.setdefault(int(match[2]) if match[2] else None, {})[match[1]] = array
        elif "mask" in name:
            raise ValueError(
                f"{name}: True is a visible key in some programs and a hidden one in others; name "
                "the array mask (True: visible)"
            )
    if {len(own.keys() & {*roles}) for own in by_layer.values()} - {0} != {len(roles)}:
        raise ValueError(
            f'expected arrays {" and ".join(roles)}, in one file as np.savez("qk.npz", q=q, k=k) saves '
            f"q and k, or for each layer ({roles[0]}.0, {roles[0]}.1), got "
            f"{', '.join(names[:5]) or 'none'}; --scores and --weights read files of these, of any name "
            "for one array, or of names that differ in one number alone"
        )
    return by_layer


def _only(path: Path) -> Array:
    """The array of a file with one."""
    file = arrays_in(path)
    if len(file) != 1:
        raise ValueError(f"{path}: expected one array, got {len(file)}")
    return file.popitem()[1]


def _layer(number: int | None, arrays: Arrays, options: Options) -> Layer:
    """The heads of a layer; ValueError where arrays, masks or documents do not fit."""
    heads = _without_mask(arrays, options)
    if "cu_seqlens" in arrays:
        heads = replace(heads, documents=_documents(arrays["cu_seqlens"], heads))
    within = heads.within
    padding, padded_keys = equal_rows(heads.q), _equal_keys(heads)
    visible = _visible(heads, padding, padded_keys, arrays, options)
    rounded = 0
    if options.kind == "weights":
        scores, rounded = scores_of(heads.q, visible, within)
        heads = replace(heads, q=scores)
    key_shares = visible.any(axis=-2).mean(axis=-1)
    seen = visible & within
    if heads.k is None:
        seen = seen & ~hidden_scores(heads.q)
    heads = replace(heads, mask=np.broadcast_to(visible, heads.mask.shape))
    return Layer(
        **vars(heads),
        options=options,
        number=number,
        saved=arrays[options.kind].shape,
        shown=seen.mean() / within.mean(),
        shown_keys=key_shares.max() * key_shares.all(),
        padding=(padding & (seen.sum(axis=-1) > 1)).sum()
        or (padded_keys & seen.any(axis=-2)).sum(),
        rounded=rounded,
    )


def _without_mask(arrays: Arrays, options: Options) -> Heads:
    """q and k with positions before d_k, or scores or weights."""
    q, axes = _as_floats(arrays[options.kind]), options.axes
    if options.kind == "scores":
        return Heads.of_scores(q, None, axes)
    if options.kind == "weights":
        return Heads.of(q, None, None, axes)
    k = _as_floats(arrays["k"])
    if axes is None and "cu_seqlens" in arrays and q.ndim == 3:
        axes = "position", "head"
    if axes is None:
        _check(q.shape, k.shape)
    elif "position" in axes:
        place = axes.index("position")
        q, k = (np.moveaxis(array, place, -2) for array in (q, k))
        axes = axes[:place] + axes[place + 1 :]
    return Heads.of(q, k, None, axes, options.scaling)


def _equal_keys(heads: Heads) -> BoolArray:
    """True for the keys of equal numbers, as empty places of a cache, (..., n_keys) with the heads
    of q; one False beside scores.
    """
    if heads.k is None:
        return np.zeros(1, bool)
    equal = equal_rows(heads.k)
    for axis, (length, shared) in enumerate(zip(heads.q.shape[:-2], equal.shape, strict=False)):
        equal = equal.repeat(length // shared, axis)  # of grouped queries
    return equal


def _visible(
    heads: Heads, padding: BoolArray, padded_keys: BoolArray, arrays: Arrays, options: Options
) -> BoolArray:
    """The keys that all masks show, by name, from files and from arrays; it broadcasts."""
    n_queries, n_keys = heads.mask.shape[-2:]
    masks = [_mask_of(array, heads) for name, array in arrays.items() if "mask" in name]
    for name in options.mask.split(","):
        if name == "padding":
            is_token = ~padding[..., None]
            masks += [is_token, ~padded_keys[..., None, :]]
            if heads.k is not None and n_queries == n_keys:
                masks.append(is_token.mT)
        elif not Path(name).suffix:
            masks.append(named_mask(name, n_queries, n_keys))
    return reduce(np.logical_and, masks)


def _as_floats(array: Array) -> Array:
    """The array in a type that NumPy knows; ValueError for whole numbers, or without entries."""
    if array.dtype.kind in "iu":
        raise ValueError(
            f"expected floating-point numbers, got {array.dtype}; the bits of bfloat16 are "
            "read after bits.view('V2'), and quantised numbers after a product with their scale"
        )
    return numbers_of("array", in_a_known_type(array))


def _check(q: Sequence[int], k: Sequence[int]) -> None:
    """Refuse shapes that may have several heads in the last axis, or heads and positions exchanged.

    Raises:
        ValueError: q and k can be read in two ways, or in none.
    """
    if q[-1] > _WIDEST:
        raise ValueError(
            f"expected a d_k (last axis) of {_WIDEST} at most, got q {q} and k {k}; heads "
            "side by side in the last axis need q.reshape(*q.shape[:-1], H, d_k), and "
            "--axes batch,position,head unless they are packed"
        )
    if len(q) > 2 and 1 < q[-3] >= k[-2]:
        order = ",".join(default_axis_names(len(q) - 2))
        raise ValueError(
            f"expected fewer heads than keys, got q {q} and k {k}; choose --axes {order} for "
            f"(head, position, d_k), or --axes {order.removesuffix('head')}position,head for "
            "(position, head, d_k)"
        )


def _documents(array: Array, heads: Heads) -> list[slice]:
    """The places of the documents that `cu_seqlens` names, without empty ones."""
    places = array.astype(np.int64).ravel().tolist()
    n_queries, n_keys = heads.mask.shape[-2:]
    ends = places[:1] + places[-1:]
    if n_queries != n_keys or ends != [0, n_keys] or places != sorted(places):
        raise ValueError(
            f"cu_seqlens: expected numbers from 0 up to the {n_keys} tokens, got "
            f"{reprlib.repr(places)}; for q of (head, position, d_k), add --axes head,position"
        )
    return [slice(first, end) for first, end in pairwise(places) if first < end]


def _mask_of(saved: Array, heads: Heads) -> BoolArray:
    """A saved mask as booleans, True where the query may attend, that broadcast to the scores.

    Args:
        saved: of tokens, (n_keys,) or (batch, n_keys); it hides padded queries, too, where there
            are as many queries as keys. Or of axes that broadcast to the scores. Booleans, ones and
            zeros, or numbers to add to scores (0, or -10,000 and less).
        heads: those that have the scores.

    Raises:
        ValueError: the mask has other numbers, does not fit the scores, or fits in two ways.
    """
    mask = in_a_known_type(saved)
    *leading, n_queries, n_keys = heads.mask.shape
    is_flags = np.isin(mask, (0, 1)).all() and mask.any()
    allowed = np.atleast_2d(mask == 1 if is_flags else broadcast_mask(mask, mask.shape))
    sizes = [n if name == BATCH else 1 for name, n in zip(heads.axes, leading, strict=True)]
    if allowed.shape == (math.prod(sizes), n_keys):
        if allowed.shape == (n_queries, n_keys) and n_queries > 1:
            raise ValueError(
                f"mask: {allowed.shape} may be (batch, n_keys), of padding, or (n_queries, n_keys); "
                "save it as (batch, 1, 1, n_keys) or as (1, 1, n_queries, n_keys)"
            )
        allowed = allowed.reshape(*sizes, 1, n_keys)
    broadcast_mask(allowed, heads.mask.shape)
    is_square = n_queries == n_keys
    if is_square and allowed.shape[-2] == 1:
        allowed = allowed & allowed.mT  # padded positions are no queries, either
    elif is_square and not np.diagonal(allowed, axis1=-2, axis2=-1).any():
        raise ValueError(
            "mask: expected True where the query may attend, got one that hides the own key of "
            "each query; save its opposite"
        )
    return allowed
