"""Queries and keys from a user's .npy, .npz and .safetensors files; nothing here loads a pickle."""

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

Array = npt.NDArray[Any]
_Load = Callable[[], Array]

_ROLES = {"q": "q", "query": "q", "k": "k", "key": "k"}
_ASKED = "arrays named q and k, a pair for each layer (q.3, k.3), or for each layer and head (3.5.q, 3.5.k)"
_FROM_PYTORCH = """; to convert a dictionary of tensors q.0, k.0, ... (of two files: tensors = {"q": ..., "k": ...}):
tensors = torch.load(FILE, map_location="cpu", weights_only=True)
np.savez("qk.npz", **{name: tensor.detach().float().numpy() for name, tensor in tensors.items()})"""


class FilesError(ValueError):
    """A file holds no queries and keys; the message names the file, and says what was expected and received."""


@dataclass(frozen=True)
class HeadArrays:
    """Queries and keys of one layer or head, or of all of them in one pair of arrays.

    Attributes:
        layer, head: the numbers in the names of the arrays; None if the names have none.
        q: (..., n_queries, d_k); it may be read-only and mapped from a file.
        k: (..., n_keys, d_k).
        place: the files, and the names of the arrays; for messages.
    """

    layer: int | None
    head: int | None
    q: Array
    k: Array
    place: str = "q and k"


def read_heads(paths: Sequence[Path]) -> list[HeadArrays]:
    """The queries and keys in one or two files, in the order of layer and head.

    Two files hold one array each: q in the first, k in the second. One .npz or .safetensors file has a pair of arrays
    such as `q` and `k`, a pair for each layer, such as `q.3` and `k.3`, or one for each layer and head, such as
    `layers.3.heads.5.q_proj` and the same with `k_proj`. The parts of a name are its runs of letters and of digits. One
    part is q, k, query or key; the numbers are the layer, or layer and head, and one after `head` is that of the head.
    Other arrays do not count, and neither do weights and biases of projections.

    Args:
        paths: .npy files, which stay on the disk, or .npz or .safetensors files.

    Raises:
        FilesError: a file cannot be read, or it holds no pair of arrays.
    """
    if not 1 <= len(paths) <= 2:
        raise FilesError(f"expected one file with q and k, or a file for each, got {len(paths)} files")
    with ExitStack() as opened:
        files = [opened.enter_context(_opened(path)) for path in paths]
        if len(files) == 1:
            return _pairs(paths[0], files[0])
        for path, file in zip(paths, files, strict=True):
            if len(file) != 1:
                raise FilesError(
                    f"{path}: expected one array, q or k, because there are two files, got {_listed(file)}"
                )
        q, k = (_checked(str(path), *file.values()) for path, file in zip(paths, files, strict=True))
        return [HeadArrays(None, None, q, k, " and ".join(map(str, paths)))]


@contextmanager
def _opened(path: Path) -> Iterator[dict[str, _Load]]:
    """The arrays in a file by name, not loaded yet; the one of a .npy file has an empty name."""
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".npz", ".safetensors"):
        hint = _FROM_PYTORCH.replace("FILE", repr(str(path))) if suffix in (".pt", ".pth") else ""
        raise FilesError(f"{path}: expected a name that ends in .npy, .npz or .safetensors, got {path.name!r}{hint}")
    with _intact(str(path)):
        if suffix == ".safetensors":
            with safe_open(path, framework="numpy") as tensors:
                yield {name: partial(tensors.get_tensor, name) for name in tensors.keys()}  # noqa: SIM118
        elif suffix == ".npz":
            with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                yield {name: partial(content.__getitem__, name) for name in content.files}
        else:
            yield {"": partial(np.load, path, mmap_mode="r", allow_pickle=False)}


@contextmanager
def _intact(place: str) -> Iterator[None]:
    """Name the file where it cannot be read."""
    try:
        yield
    except FilesError:
        raise
    except OSError as error:
        raise FilesError(f"{place}: cannot read: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, SafetensorError) as error:
        raise FilesError(f"{place}: expected arrays of numbers, got other or damaged bytes ({error})") from None


def _pairs(path: Path, file: dict[str, _Load]) -> list[HeadArrays]:
    """The pairs in one file by the names of its arrays, in the order of layer and head."""
    if "" in file:
        raise FilesError(
            f"{path}: expected a file with q and a file with k, or .npz or .safetensors with both, got one array"
        )
    found: dict[tuple[int | None, int | None], dict[str, str]] = {}
    for name in file:
        parts = re.findall(r"[0-9]+|[^\W\d_]+", name.lower())
        roles = [_ROLES[part] for part in parts if part in _ROLES]
        if len(roles) != 1 or "weight" in parts or "bias" in parts:
            continue
        other = found.setdefault(_numbers(path, name, parts), {}).setdefault(roles[0], name)
        if other != name:
            raise FilesError(f"{path}: expected one {roles[0]} for each layer and head, got {_listed([other, name])}")
    if not found:
        raise FilesError(f"{path}: expected {_ASKED}, got {_listed(file)}")
    pairs = []
    for numbers in sorted(found, key=lambda numbers: [-1 if number is None else number for number in numbers]):
        names = found[numbers]
        if len(names) < 2:
            raise FilesError(
                f"{path}: expected q and k of the same layer and head, got {_listed(names.values())} alone"
            )
        q, k = (_checked(f"{path}: {names[role]!r}", file[names[role]]) for role in "qk")
        pairs.append(HeadArrays(*numbers, q, k, f"{path}: {names['q']!r} and {names['k']!r}"))
    return pairs


def _numbers(path: Path, name: str, parts: list[str]) -> tuple[int | None, int | None]:
    """The layer and the head in the parts of a name; None for each that it does not have."""
    places = [i for i, part in enumerate(parts) if "0" <= part[0] <= "9"]
    if len(places) > 2:
        raise FilesError(f"{path}: expected at most two numbers in a name, layer and head, got {name!r}")
    heads = [i for i in places if i and parts[i - 1] in ("head", "heads")]
    if len(heads) == 1:  # the name says which number is that of the head
        return next((int(parts[i]) for i in places if i != heads[0]), None), int(parts[heads[0]])
    layer, head = (*(int(parts[i]) for i in places), None, None)[:2]
    return layer, head


def _checked(place: str, load: _Load) -> Array:
    with _intact(place):
        array = load()
    if array.ndim < 2:
        raise FilesError(f"{place}: expected 2 axes or more, the last of size d_k, got shape {array.shape}")
    return array


def _listed(names: Iterable[str]) -> str:
    """At most five names."""
    first, rest = list(names)[:5], len(list(names)) - 5
    return ", ".join([*map(repr, first), *([f"{rest} more"] if rest > 0 else [])]) or "none"
