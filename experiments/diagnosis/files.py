"""Queries and keys from a user's files: pairs of arrays by name, of fitting shapes and finite.

Files are untrusted: `experiments/diagnosis/formats.py` compares every declared size with the real one, and loads no
pickle.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.diagnosis.formats import Array, FilesError, Header, Stored, quoted, stored_arrays

__all__ = ["FilesError", "HeadArrays", "read_heads"]

_MOST_IN_MEMORY = 2**32  # bytes from .npz, which compresses 1,000 to 1: half the memory of a small computer
_TILE = 2**16  # numbers that are looked at together
_SHOWN = 5  # names in a message
_HEADS = {"head", "heads"}  # before a number in a name: that of the head, not of the layer
_Numbers = tuple[int | None, int | None]  # of a layer and a head
_MOST_DIGITS = 6  # of the number of a layer or head
_ROLES = {"q": "q", "query": "q", "k": "k", "key": "k"}
_PARAMETERS = {"weight", "bias"}
_ASKED = "arrays named q and k, a pair for each layer (q.3, k.3), or for each layer and head (3.5.q, 3.5.k)"


@dataclass(frozen=True)
class HeadArrays:
    """Queries and keys of one layer or head, or of all of them in one pair of arrays.

    Attributes:
        layer, head: the numbers in the names of the arrays; None if the names have none.
        q: (..., n_queries, d_k), finite, of a float type; the arrays may be read-only and mapped from a file.
        k: (..., n_keys, d_k); the leading axes of q, or fewer heads (the last of them), whose number divides that of q.
    """

    layer: int | None
    head: int | None
    q: Array
    k: Array


@dataclass(frozen=True)
class _Pair:
    """The queries and keys of a layer and head in their files, not read yet."""

    numbers: _Numbers
    q: Stored
    k: Stored


def read_heads(paths: Sequence[Path]) -> list[HeadArrays]:
    """The queries and keys in one or two files, in the order of layer and head.

    Two files hold one array each: q in the first, k in the second. One .npz or .safetensors file has a pair of arrays
    such as `q` and `k`, a pair for each layer, such as `q.3` and `k.3`, or one for each layer and head, such as
    `layers.3.heads.5.q_proj` and the same with `k_proj`. The parts of a name are its runs of letters and of digits. One
    part is q, k, query or key; the numbers are the layer, or layer and head, and one after `head` is that of the head.
    Other arrays do not count, and neither do weights and biases of projections.

    The arrays of .npy and .safetensors files stay on the disk, and reading them takes no memory. So these files must
    not change while the arrays are in use. The arrays of .npz files take at most 4 GiB of memory.

    Args:
        paths: .npy, .npz or .safetensors files.

    Raises:
        FilesError: a file is missing, damaged or unsafe, or it holds no pair of arrays of finite float16, bfloat16,
            float32 or float64 numbers with fitting shapes; the message names the file and the array.
    """
    if not 1 <= len(paths) <= 2:
        raise FilesError(f"expected one file with q and k, or a file for each, got {len(paths)} files")
    with ExitStack() as opened:
        files = [opened.enter_context(stored_arrays(path)) for path in paths]
        pairs = _pairs(paths[0], files[0]) if len(files) == 1 else [_Pair((None, None), *map(_only, paths, files))]
        headers = [(pair, pair.q.header(), pair.k.header()) for pair in pairs]
        for pair, q, k in headers:
            _expect_fitting(pair, q.shape, k.shape)
        _expect_room(paths, [header for _, *both in headers for header in both])
        return [_loaded(pair, q, k) for pair, q, k in headers]


def _only(path: Path, arrays: list[Stored]) -> Stored:
    """The one array in one of two files."""
    if len(arrays) != 1:
        raise FilesError(f"{path}: expected one array, q or k, because there are two files, got {_listed(arrays)}")
    return arrays[0]


def _pairs(path: Path, arrays: list[Stored]) -> list[_Pair]:
    """The pairs in one file by the names of its arrays, in the order of layer and head."""
    if path.suffix.lower() == ".npy":
        raise FilesError(
            f"{path}: expected a file with q and a file with k, or .npz or .safetensors with both, got one .npy file"
        )
    found: dict[_Numbers, dict[str, Stored]] = {}
    for array in arrays:
        role = _role(array.name)
        if role and not _is_parameter(array.name):
            other = found.setdefault(_numbers(array), {}).setdefault(role, array)
            if other is not array:
                raise FilesError(
                    f"{array.place}: expected one {role} for each layer and head, got {_listed([other, array])}"
                )
    if not found:
        weights = any(_role(array.name) and _is_parameter(array.name) for array in arrays)
        hint = "; the weights of projections are no queries and keys" if weights else ""
        raise FilesError(f"{path}: expected {_ASKED}, got {_listed(arrays)}{hint}")
    for pair in found.values():
        for role, other_role in (("q", "k"), ("k", "q")):
            if other_role not in pair:
                others = [both[other_role] for both in found.values() if other_role in both]
                raise FilesError(
                    f"{pair[role].place}: expected {other_role} for the same layer and head, got {_listed(others)}"
                )
    return [_Pair(numbers, **found[numbers]) for numbers in sorted(found, key=_order)]


def _parts(name: str) -> list[str]:
    """The runs of letters and of digits in a name, in lower case.

    >>> _parts("layers.3.self_attn.q_proj"), _parts("Layer3.head5.Q")
    (['layers', '3', 'self', 'attn', 'q', 'proj'], ['layer', '3', 'head', '5', 'q'])
    """
    return re.findall(r"[0-9]+|[^\W\d_]+", name.lower())


def _role(name: str) -> str | None:
    """The role that a name gives, q or k; None if it gives none or several."""
    roles = [_ROLES[part] for part in _parts(name) if part in _ROLES]
    return roles[0] if len(roles) == 1 else None


def _is_parameter(name: str) -> bool:
    """True for a weight or bias, which a projection of the same name has in a checkpoint."""
    return not _PARAMETERS.isdisjoint(_parts(name))


def _numbers(array: Stored) -> _Numbers:
    """The layer and the head in the name of an array; None for each that it does not have."""
    parts = _parts(array.name)
    numbers = [part for part in parts if "0" <= part[0] <= "9"]
    if len(numbers) > 2 or any(len(number) > _MOST_DIGITS for number in numbers):
        expected = f"at most two numbers, layer and head, of at most {_MOST_DIGITS} digits"
        raise FilesError(f"{array.place}: expected {expected} in the name, got {quoted(tuple(numbers))}")
    places = [i for i, part in enumerate(parts) if part in numbers]
    heads = [i for i in places if i and parts[i - 1] in _HEADS]
    if len(heads) == 1:  # the name says which number is that of the head
        layer = next((int(parts[i]) for i in places if i != heads[0]), None)
        return layer, int(parts[heads[0]])
    layer, head = (*map(int, numbers), None, None)[:2]
    return layer, head


def _order(numbers: _Numbers) -> tuple[int, ...]:
    """A key to sort by layer, then by head; no number comes first."""
    return tuple(-1 if number is None else number for number in numbers)


def _listed(arrays: Sequence[Stored]) -> str:
    """The names of arrays, at most five and then a count."""
    names = [quoted(array.name) for array in arrays]
    rest = [f"{len(names) - _SHOWN:,} more"] if len(names) > _SHOWN else []
    *first, last = [*names[:_SHOWN], *rest] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def _expect_fitting(pair: _Pair, q: tuple[int, ...], k: tuple[int, ...]) -> None:
    """FilesError unless the shapes are those of queries and keys of the same heads, or of grouped-query attention."""
    got = f"got shape {quoted(k)} beside {quoted(q)} of {pair.q.place}"
    if len(q) != len(k):
        raise FilesError(f"{pair.k.place}: expected as many axes as q, {got}")
    if q[-1] != k[-1]:
        raise FilesError(f"{pair.k.place}: expected the d_k of q as last axis, {got}")
    if q[:-3] != k[:-3]:
        raise FilesError(f"{pair.k.place}: expected the leading axes of q, except for fewer heads, {got}")
    if len(q) > 2 and q[-3] % k[-3]:
        raise FilesError(
            f"{pair.k.place}: expected (..., head, position, d_k) with heads that divide the {q[-3]} of q, {got}"
        )
    if k[-2] < 2:
        raise FilesError(f"{pair.k.place}: expected at least 2 keys, got shape {quoted(k)}")


def _expect_room(paths: Sequence[Path], headers: Sequence[Header]) -> None:
    """FilesError if the arrays would fill the memory."""
    total = sum(header.in_memory for header in headers)
    if total > _MOST_IN_MEMORY:
        raise FilesError(
            f"{' and '.join(map(str, paths))}: expected at most {_MOST_IN_MEMORY:,} bytes of arrays in .npz, "
            f"because they have to fit into memory, got {total:,}; save them as .npy or .safetensors"
        )


def _loaded(pair: _Pair, q: Header, k: Header) -> HeadArrays:
    """The arrays of a pair; FilesError unless they are finite."""
    arrays = q.load(), k.load()
    for stored, array in zip((pair.q, pair.k), arrays, strict=True):
        _expect_finite(stored.place, array)
    return HeadArrays(*pair.numbers, *arrays)


def _expect_finite(place: str, array: Array) -> None:
    """FilesError if there are NaN or infinite numbers; looks at a tile at a time, so that memory stays bounded."""
    tests = {"NaN": np.isnan, "infinite": np.isinf}
    counts = dict.fromkeys(tests, 0)
    first: dict[str, int] = {}
    start = 0
    with (
        np.errstate(invalid="ignore"),  # of signalling NaN
        np.nditer(array, ["external_loop", "buffered"], ["readonly"], order="C", buffersize=_TILE) as tiles,
    ):
        for numbers in tiles:
            tile: Array = np.asarray(numbers)
            if not np.isfinite(tile).all():
                for kind, test in tests.items():
                    bad = np.flatnonzero(test(tile))
                    counts[kind] += bad.size
                    if bad.size:
                        first.setdefault(kind, start + int(bad[0]))
            start += tile.size
    if first:
        places = {kind: [int(i) for i in np.unravel_index(at, array.shape)] for kind, at in first.items()}
        found = (f"{counts[kind]:,} {kind} (the first at {places[kind]})" for kind in tests if kind in first)
        raise FilesError(f"{place}: expected finite numbers, got {' and '.join(found)}")
