"""Queries and keys from a user's .npy, .npz and .safetensors files; nothing here loads a pickle."""

import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 NumPy then knows the bfloat16 of safetensors
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

Array = npt.NDArray[Any]

_DAMAGED = (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, SafetensorError)
_ROLES = {"q": "q", "query": "q", "k": "k", "key": "k"}
_ASKED = (
    "arrays named q and k, a pair for each layer (q.3, k.3), or for each layer and head "
    "(3.5.q, 3.5.k)"
)
_FROM_PYTORCH = """; to convert a dictionary of tensors q.0, k.0, ... (of two files: tensors = {"q": ..., "k": ...}):
tensors = torch.load(FILE, map_location="cpu", weights_only=True)
np.savez("qk.npz", **{name: tensor.detach().float().numpy() for name, tensor in tensors.items()})"""


class FilesError(ValueError):
    """A file holds no queries and keys; the message names the file, and says what was expected and
    received.
    """


@dataclass(frozen=True)
class HeadArrays:
    """Queries and keys of one layer or head, or of all of them in one pair of arrays.

    Attributes:
        layer, head: the numbers in the names of the arrays; None if the names have none.
        q: (..., n_queries, d_k), or scores (..., n_queries, n_keys); it may be read-only and mapped
            from a file.
        k: (..., n_keys, d_k); None beside scores.
        place: the files, and the names of the arrays; for messages.
    """

    layer: int | None
    head: int | None
    q: Array
    k: Array | None
    place: str = "q and k"


def read_heads(paths: Sequence[Path]) -> list[HeadArrays]:
    """The queries and keys in one or two files, in the order of layer and head.

    Two files hold one array each: q in the first, k in the second. One .npz or .safetensors file
    has a pair of arrays such as `q` and `k`, a pair for each layer, such as `q.3` and `k.3`, or one
    for each layer and head, such as `layers.3.heads.5.q_proj` and the same with `k_proj`. The parts
    of a name are its runs of letters and of digits. One part is q, k, query or key; the numbers are
    the layer, or layer and head. Other arrays do not count, and neither do weights and biases of
    projections.

    Args:
        paths: .npy files, which stay on the disk, or .npz or .safetensors files.

    Raises:
        FilesError: a file cannot be read, or it holds no pair of arrays.
    """
    files = [_opened(path) for path in paths]
    if len(files) == 1 and list(files[0]) == [""]:
        raise FilesError(
            f"{paths[0]}: expected queries and keys, got one array; name two files: Q=q.npy K=k.npy"
        )
    if len(files) == 1:
        return _pairs(paths[0], files[0])
    single = len(files) == 2 and all(len(file) == 1 for file in files)
    if not single:
        received = " and ".join(
            f"{path}: {_listed(file)}" for path, file in zip(paths, files, strict=True)
        )
        raise FilesError(
            f"expected a file with q and k, or two files with one array each, got "
            f"{received or 'no file'}"
        )
    q, k = (_checked(str(path), *file.values()) for path, file in zip(paths, files, strict=True))
    return [HeadArrays(None, None, q, k, " and ".join(map(str, paths)))]


def read_scores(path: Path) -> list[HeadArrays]:
    """The scores in a file with one array; `FilesError` for another file."""
    file = _opened(path)
    if len(file) != 1:
        raise FilesError(f"{path}: expected one array of scores, got {_listed(file)}")
    (scores,) = file.values()
    return [HeadArrays(None, None, _checked(str(path), scores, last="n_keys"), None, str(path))]


def _opened(path: Path) -> dict[str, Array]:
    """The arrays in a file by name; the one of a .npy file has an empty name."""
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".npz", ".safetensors"):
        hint = _FROM_PYTORCH.replace("FILE", repr(str(path))) if suffix in (".pt", ".pth") else ""
        raise FilesError(
            f"{path}: expected a name that ends in .npy, .npz or .safetensors, got "
            f"{path.name!r}{hint}"
        )
    with _intact(str(path)):
        if suffix == ".safetensors":
            return load_file(path)
        if suffix == ".npy":
            return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
        # The file is closed here, because np.load leaves a bad one open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            return dict(content)


@contextmanager
def _intact(place: str) -> Iterator[None]:
    """Name the file where it cannot be read."""
    try:
        yield
    except OSError as error:
        raise FilesError(f"{place}: cannot read: {error.strerror or error}") from None
    except _DAMAGED as error:
        raise FilesError(
            f"{place}: expected arrays of numbers, got other or damaged bytes ({error})"
        ) from None


def _pairs(path: Path, file: dict[str, Array]) -> list[HeadArrays]:
    """The pairs in one file by the names of its arrays, in the order of layer and head."""
    found: dict[tuple[int, ...], dict[str, list[str]]] = {}
    for name in file:
        parts = re.findall(r"[0-9]+|[^\W\d_]+", name.lower())
        roles = [_ROLES[part] for part in parts if part in _ROLES]
        if len(roles) == 1 and not {"weight", "bias"}.intersection(parts):
            numbers = tuple(int(part) for part in parts if part.isdecimal())
            found.setdefault(numbers, {"q": [], "k": []})[roles[0]].append(name)
    if not found:
        raise FilesError(f"{path}: expected {_ASKED}, got {_listed(file)}")
    pairs = []
    for numbers in sorted(found):
        queries, keys = found[numbers].values()
        if len(queries) != 1 or len(keys) != 1 or len(numbers) > 2:
            raise FilesError(
                f"{path}: expected one q and one k for each layer, or layer and head, got "
                f"{_listed(queries + keys)}"
            )
        q, k = (_checked(f"{path}: {name!r}", file[name]) for name in (*queries, *keys))
        layer, head = (*numbers, None, None)[:2]
        pairs.append(HeadArrays(layer, head, q, k, f"{path}: {queries[0]!r} and {keys[0]!r}"))
    return pairs


def _checked(place: str, array: Array, *, last: str = "d_k") -> Array:
    if array.ndim < 2:
        raise FilesError(
            f"{place}: expected 2 axes or more, the last of size {last}, got shape {array.shape}"
        )
    return array


def _listed(names: Collection[str]) -> str:
    """At most five names."""
    shown = [*map(repr, names)]
    if len(shown) > 5:
        shown[5:] = ["..."]
    return ", ".join(shown) or "none"
