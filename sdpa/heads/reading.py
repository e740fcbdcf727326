"""Queries and keys, scores and weights in files, by declared names of arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sdpa.heads.arrays import HeadArrays, Kind
from sdpa.heads.formats import Array, FilesError, arrays_in, in_a_known_type
from sdpa.heads.layout import SAVED, Layout, documents, in_order, mask_of_scores, sequences

Key = tuple[str, int | None]  # role, and number of the layer
_LAYER = "([0-9]+)"
_HOOK = rf"blocks\.{_LAYER}\.attn\.hook_"
# Names of other programs by the pattern that has the layer, and the role of the array. The first
# that matches counts.
_OTHERS = {
    f"{_HOOK}rot_q": "q",
    f"{_HOOK}rot_k": "k",
    f"{_HOOK}q": "q",
    f"{_HOOK}k": "k",
    f"{_HOOK}attn_scores": "scores",
    f"{_HOOK}pattern": "weights",
    rf"model\.layers\.{_LAYER}\.self_attn\.sinks": "sinks",
}
_MASKS = ("mask", "attention_mask", "key_padding_mask")
_ROLES = ("q", "k", "scores", "weights", "cu_seqlens", "sinks", *_MASKS)
_NAMES = {rf"{role}(?:\.{_LAYER})?": role for role in _ROLES} | _OTHERS


def read_heads(
    paths: Sequence[Path], layout: Layout | None = None, kind: Kind = "q"
) -> list[HeadArrays]:
    """The queries and keys in one or two files, or the scores or weights in one, by layer.

    Files of one array each hold q and k, or the scores or weights. One .npz or .safetensors file
    has arrays `q` and `k`, or a pair for each layer, `q.3` and `k.3`, or so `scores` or `weights`;
    or they have the names of TransformerLens (`_OTHERS`). Arrays `mask` or `attention_mask` (True:
    visible), `key_padding_mask` (True: hidden), `cu_seqlens` and `sinks` belong to all layers, or
    to that of their number. Other arrays do not count.

    Args:
        paths: .npy files, which stay on the disk, or .npz or .safetensors files.
        layout: what names do not tell; None if nothing is told.
        kind: of the numbers in the arrays; q stands for queries and keys.

    Raises:
        FilesError: a file cannot be read, holds no such arrays, or can be read in two ways.
    """
    layout = layout or Layout()
    files = [arrays_in(path) for path in paths]
    place = " and ".join(map(str, paths))
    try:
        return _of_files(files, layout, kind, place)
    except ValueError as error:
        raise FilesError(f"{place}: {error}") from None


def _of_files(
    files: Sequence[dict[str, Array]], layout: Layout, kind: Kind, place: str
) -> list[HeadArrays]:
    """The arrays of each layer; ValueError where they are not those that `read_heads` names."""
    roles = ["q", "k"] if kind == "q" else [kind]
    named: dict[Key, Array] = {}
    if [*map(len, files)] == [1] * len(roles):
        named = {(role, None): file.popitem()[1] for role, file in zip(roles, files, strict=True)}
    elif len(files) == 1:
        named = _named(files[0])
        if kind == "q" and any(re.match(_HOOK, name) for name in files[0]):
            layout = replace(layout, axes=layout.axes or SAVED)
    layers = {layer for role, layer in named if role in roles}
    if not layers or any((role, layer) not in named for role in roles for layer in layers):
        names = ", ".join([repr(name) for file in files for name in file][:5])
        raise FilesError(
            f"expected arrays {' and '.join(roles)}, or so for each layer ({kind}.3), or "
            f"{len(roles)} files of one array, got {names or 'none'}"
        )
    for role, path in layout.beside.items():
        named |= _told(role, path)
    order = sorted(layers, key=lambda layer: -1 if layer is None else layer)
    return [_of_layer(named, kind, layer, layout, place) for layer in order]


def _named(file: Mapping[str, Array]) -> dict[Key, Array]:
    """The arrays of a file that have a declared name."""
    found: dict[Key, Array] = {}
    for pattern, role in _NAMES.items():
        for name, array in file.items():
            if match := re.fullmatch(pattern, name):
                layer = int(match[1]) if match[1] else None
                found.setdefault((role, layer), array)
    for name in file:
        if "mask" in name and not any(re.fullmatch(each, name) for each in _NAMES):
            raise FilesError(
                f"{name}: True is a visible key in some programs and a hidden one in others; name "
                "the array mask (True: visible) or key_padding_mask (True: hidden)"
            )
    return found


def _told(role: str, path: Path) -> dict[Key, Array]:
    """The arrays of a role in a file of its own: its only array, or those of that name."""
    file = arrays_in(path)
    if len(file) == 1:
        return {(role, None): file.popitem()[1]}
    found = {key: array for key, array in _named(file).items() if key[0] == role}
    if not found:
        raise FilesError(f"{path}: expected one array, or arrays {role}.0, got {len(file)} others")
    return found


def _of_layer(
    named: Mapping[Key, Array], kind: Kind, layer: int | None, layout: Layout, place: str
) -> HeadArrays:
    """The arrays of a layer in the usual order of axes, with what belongs to them.

    Raises:
        ValueError: the arrays, the mask or the places of sequences do not fit.
    """
    q = _of_floats(named[kind, layer])
    k = _of_floats(named["k", layer]) if kind == "q" else None
    masks = [(role, array) for role in _MASKS if (array := _beside(named, role, layer)) is not None]
    ends = _beside(named, "cu_seqlens", layer)
    sinks = _beside(named, "sinks", layer)
    if len(masks) + (ends is not None) > 1:
        raise FilesError("expected one mask, or cu_seqlens, got several")
    if k is None and sinks is not None:
        raise FilesError("expected sinks beside q and k alone")
    axes, mask, packed = layout.axes, None, None
    if k is not None:
        q, k, axes = in_order(q, k, layout, is_packed=ends is not None)
        if ends is not None:
            q, k, mask = sequences(q, k, ends)
            axes = ("batch", "head")
    elif ends is not None:
        if kind == "scores":
            raise FilesError("expected cu_seqlens beside q and k or weights, got scores")
        packed = documents(ends, q.shape)
    found = HeadArrays(q, k, layer, place, axes, mask, kind, sinks, packed)
    for role, array in masks:
        visible = array == 0 if role == "key_padding_mask" else in_a_known_type(array)
        found = replace(found, mask=mask_of_scores(np.asarray(visible), found))
    return found


def _of_floats(array: Array) -> Array:
    """The array in a type that NumPy knows; FilesError for whole numbers, or without entries."""
    if array.dtype.kind in "iu":
        raise FilesError(
            f"expected floating-point numbers, got {array.dtype}; the bits of bfloat16 are "
            "read after bits.view('V2'), and quantised numbers after a product with their scale"
        )
    if array.ndim < 2 or not array.size:
        raise FilesError(
            f"expected 2 axes or more, none of them empty, got an array of shape {array.shape}"
        )
    return in_a_known_type(array)


def _beside(named: Mapping[Key, Array], role: str, layer: int | None) -> Array | None:
    """The array of a role for this layer, or for all; None if no layer has one."""
    found = named.get((role, layer), named.get((role, None)))
    if found is None and any(each == role for each, _ in named):
        raise FilesError(f"expected an array {role}, or one for each layer ({role}.3)")
    return found
