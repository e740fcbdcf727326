"""Queries and keys, scores and weights in files, found by the names of their arrays.

The parts of a name are its runs of letters and of digits. The numbers are the layer, or layer and
head.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sdpa.heads.arrays import HeadArrays, Kind
from sdpa.heads.formats import Array, FilesError, arrays_in, in_a_known_type
from sdpa.heads.layout import Layout, documents, in_order, mask_of_scores

_ROLES = {
    "q": {"q", "xq", "query", "queries"},
    "k": {"k", "xk", "key", "keys"},
    "scores": {"score", "scores", "logits"},
    "weights": {"attentions", "pattern", "probs", "weights"},
}
# names may also have q and k
_BESIDE = {"mask": {"mask", "padding"}, "cu_seqlens": {"cu", "loc"}, "sinks": {"sink", "sinks"}}
_OTHERS = {"weight", "bias", "input", "scale", "norm"}  # parts of names of other arrays of a model
_ROTATED = {"rot", "rotary", "rope"}  # parts of names that count before others
_TRUE_IN_TWO_WAYS = {"attn", "src", "tgt", "padding"}  # parts of names of boolean masks
Numbers = tuple[int, ...]
_USUAL = Layout()


def read_heads(
    paths: Sequence[Path], layout: Layout = _USUAL, kind: Kind = "q"
) -> list[HeadArrays]:
    """The queries and keys in one or two files, or the scores or weights in one, in the order of
    layer and head.

    Files of one array each hold q and k, or the scores or weights. One .npz or .safetensors file
    has a pair of arrays such as `q` and `k`, a pair for each layer, such as `q.3` and `k.3`, or one
    for each layer and head, such as `layers.3.heads.5.q_proj` and the same with `k_proj`. One part
    of a name is q, xq, query or queries, or so for k; or one that tells scores or weights, if any
    name has such a part. Names with the part rot, rotary or rope count before others. Arrays
    `mask` and `cu_seqlens` belong to all others, or to those of their numbers, `sinks` to all heads or to those of
    a layer. Other arrays do not count, and neither do weights and biases of projections.

    Args:
        paths: .npy files, which stay on the disk, or .npz or .safetensors files.
        layout: what names and shapes do not tell.
        kind: of the numbers in the arrays; q stands for queries and keys.

    Raises:
        FilesError: a file cannot be read, holds no such arrays, or can be read in two ways.
    """
    files = [arrays_in(path) for path in paths]
    roles = ["q", "k"] if kind == "q" else [kind]
    place = " and ".join(map(str, paths))
    if len(paths) > len(roles):
        raise FilesError(f"expected at most {len(roles)} of these files, got {place}")
    if kind == "q" and len(files) == 1 and [*files[0]] == [""]:
        raise FilesError(
            f"{place} has one array without a name: give a second file, with k, or --scores "
            "or --weights for an array of these"
        )
    if [_roles(_parts(path.stem)) for path in paths] == [["k"], ["q"]]:
        raise FilesError(f"expected the file of q before that of k, got {place}")
    are_single = [*map(len, files)] == [1] * len(roles)
    file = files[0] if len(files) == 1 else {}
    if are_single:
        file = {role: one.popitem()[1] for role, one in zip(roles, files, strict=True)}
    named = [_named(file, role) for role in roles]
    if not any(named) and kind != "q":
        named = [_named(file, "")]
    found = []
    for numbers in sorted(set().union(*named)) or [()]:
        of_roles = [_preferred(names.get(numbers, [])) for names in named]
        names = [name for of_role in of_roles for name in of_role]
        if {*map(len, of_roles)} != {1} or len(numbers) > 2:
            raise FilesError(
                f"{place}: expected one {' and one '.join(roles)}, or so for each layer "
                f"({kind}.3), or layer and head ({kind}.3.5), or {len(roles)} files of one array, "
                f"got {_listed(names or file)}"
            )
        layer, head = (*numbers, None, None)[:2]
        of_file = place if are_single else f"{place}: {' and '.join(map(repr, names))}"
        q, *k = (_of_floats(file[name], of_file) for name in names)
        arrays = HeadArrays(layer, head, q, k[0] if k else None, of_file, layout.axes, kind=kind)
        words = _parts(paths[0].stem if are_single else names[0])
        found.append(_completed(arrays, words, file, layout))
    return found


def _of_floats(array: Array, place: str) -> Array:
    """The array in a type that NumPy knows; FilesError for whole numbers."""
    if array.dtype.kind in "iu":
        raise FilesError(
            f"{place}: expected floating-point numbers, got {array.dtype}; the bits of bfloat16 are "
            "read after bits.view('V2'), and quantised numbers after a product with their scale"
        )
    return in_a_known_type(array)


def _preferred(names: list[str]) -> list[str]:
    """The names of rotated arrays, or all names if no array is rotated."""
    return [name for name in names if _ROTATED & _parts(name)] or names


def _completed(
    arrays: HeadArrays, words: set[str], file: Mapping[str, Array], layout: Layout
) -> HeadArrays:
    """Arrays in the usual order of axes, with the mask in their file or in one of its own.

    Raises:
        FilesError: the arrays, the mask or the places of sequences do not fit.
    """
    numbers = (*arrays.numbers.values(),)
    k = arrays.k
    try:
        shapes = [one.shape for one in (arrays.q, k) if one is not None]
        if min(map(len, shapes)) < 2 or not all(map(all, shapes)):
            received = " and ".join(map(str, shapes))
            raise FilesError(f"expected 2 axes or more, none of them empty, got shape {received}")
        mask = _beside(file, "mask", numbers, layout.mask)
        ends = _beside(file, "cu_seqlens", numbers, layout.cu_seqlens)
        sinks = _beside(file, "sinks", numbers[:1], layout.sinks)
        if len(mask) + bool(ends) > 1:
            raise FilesError("expected one mask, or cu_seqlens, got several")
        if len(sinks) > (k is not None):
            raise FilesError(f"expected one array of sinks, beside q and k, got {len(sinks)}")
        if k is not None:
            arrays = in_order(arrays, k, words, layout, ends)
            if sinks:
                arrays = replace(arrays, sinks=_of_head(sinks[0], arrays.head))
        elif ends:
            if arrays.kind == "scores":
                raise FilesError("expected cu_seqlens beside q and k or weights, got scores")
            arrays = replace(arrays, documents=documents(ends, arrays.shape))
        return replace(arrays, mask=mask_of_scores(mask[0], arrays)) if mask else arrays
    except ValueError as error:
        raise FilesError(f"{arrays.place}: {error}") from None


def _of_head(sinks: Array, head: int | None) -> Array:
    """The sinks of all heads, or that of one."""
    if head is None:
        return sinks
    if sinks.ndim != 1 or head >= len(sinks):
        raise FilesError(f"expected a sink for each head, got shape {sinks.shape} and head {head}")
    return np.asarray(sinks[head : head + 1])


def _beside(
    file: Mapping[str, Array], role: str, numbers: Numbers, path: Path | None
) -> list[Array]:
    """The arrays of a role for these numbers, or for all; that with q first."""
    if path:
        # The array of a .npy file has no name; that of its file tells padding from a mask.
        told = {"key", *_TRUE_IN_TWO_WAYS} & _parts(path.stem)
        named = " ".join([role, *sorted(told)]) if role == "mask" else role
        file = {name or named: array for name, array in arrays_in(path).items()}
    found = _named(file, role)
    of_all = found.get((), [])
    of_layer = found.get(numbers[:1], of_all)
    names = found.get(numbers, of_layer)
    if not names and (found or path):
        raise FilesError(
            f"expected an array {role}, or one for each layer ({role}.3), got {_listed(file)}"
        )
    return [_as_mask(name, file[name]) for name in sorted(names, reverse=True)]


def _as_mask(name: str, mask: Array) -> Array:
    """A mask in which True and 1 are visible keys; they are padding in a `key_padding_mask`."""
    words = _parts(name)
    if {"key", "padding"} <= words and mask.dtype.kind in "biu":
        return np.asarray(mask == 0)
    if mask.dtype == bool and words & _TRUE_IN_TWO_WAYS:
        raise FilesError(
            f"{name}: True is a visible key in some programs and a hidden one in others; name the "
            "array mask (True: visible) or key_padding_mask (True: hidden)"
        )
    return in_a_known_type(mask)


def _named(file: Iterable[str], role: str) -> dict[Numbers, list[str]]:
    """The names of arrays with this role, or with none of all roles, by their numbers."""
    found: dict[Numbers, list[str]] = {}
    for name in file:
        words = _parts(name)
        roles = [one for one in _BESIDE if words & _BESIDE[one]]
        roles = roles or _roles(words)
        if roles == [role] * bool(role) and not words & _OTHERS:
            numbers = tuple(map(int, re.findall("[0-9]+", name)))
            found.setdefault(numbers, []).append(name)
    return found


def _roles(words: set[str]) -> list[str]:
    """The roles, but those of `_BESIDE`, that the parts of a name tell."""
    return [role for role in _ROLES if words & _ROLES[role]]


def _parts(name: str) -> set[str]:
    return {*re.findall(r"[0-9]+|[^\W\d_]+", name.lower())}


def _listed(names: Iterable[str]) -> str:
    """At most five names."""
    shown = [*map(repr, names)]
    if len(shown) > 5:
        shown[5:] = ["..."]
    return ", ".join(shown) or "none"
