"""Arrays in .npy, .npz and .safetensors files, checked before they are read; nothing here loads a pickle.

A header may declare any shape. So each reader compares the declared size with the real one before it allocates memory.
Arrays in .npy and .safetensors files are memory-mapped, so their size has no limit; those in .npz are decompressed.
"""

import io
import json
import math
import os
import reprlib
import stat
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16
from numpy.lib import format as npy
from safetensors import SafetensorError, safe_open

Array = npt.NDArray[Any]

_MOST_AXES = 64  # of a NumPy array
_LONGEST_HEADER = 10_000  # bytes of a .npy header that NumPy reads by default
_LONGEST_READ = 2**24  # bytes at once: the header of 100,000 tensors, or the list of as many members of an archive
_CHUNK = 2**20  # bytes to decompress at once
_OTHER_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_NPY_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_NPZ_COMPRESSION = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}  # with the largest ratio of sizes
_SAFETENSORS = {"F16": "<f2", "BF16": bfloat16, "F32": "<f4", "F64": "<f8"}
_ENCRYPTED = 1  # the flag of a member of a zip archive
_LARGEST = 2**63 - 1  # bytes of a file
_SAFETENSORS_PREFIX = "Error while deserializing header: "
_FLOATS = "float16, bfloat16, float32 or float64"
_PYTORCH = (".pt", ".pth")  # pickles, which only PyTorch should read
_FROM_PYTORCH = """; to convert a dictionary of tensors q.0, k.0, ... (of two files: tensors = {"q": ..., "k": ...}):
tensors = torch.load(FILE, map_location="cpu", weights_only=True)
np.savez("qk.npz", **{name: tensor.detach().float().numpy() for name, tensor in tensors.items()})"""
_SHORT = reprlib.Repr()
_SHORT.maxstring = 80
_SHORT.maxtuple = 8


class FilesError(ValueError):
    """A file holds no queries and keys; the message names the file, and says what was expected and received."""


@dataclass(frozen=True)
class Header:
    """The checked description of an array that is not read yet.

    Attributes:
        shape: at least 2 axes, none of size 0.
        in_memory: bytes of memory that `load` takes; 0 if it maps the file.
        load: reads or maps the array, of a float type in either byte order; FilesError if its bytes are damaged.
    """

    shape: tuple[int, ...]
    in_memory: int
    load: Callable[[], Array]


@dataclass(frozen=True)
class Stored:
    """An array in a file.

    Attributes:
        place: the file, with the name of the array if the format has names; for messages.
        name: as in the file; empty for .npy.
        header: reads and checks the header; FilesError if the file or the array is not as expected.
    """

    place: str
    name: str
    header: Callable[[], Header]


@dataclass(frozen=True)
class _Layout:
    """Shape and type of an array, and the place of its numbers in the bytes of a file or member."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int
    order: Literal["C", "F"] = "C"

    @property
    def end(self) -> int:
        """The place after the numbers."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


class _Bounded(io.BufferedReader):
    """A file without long reads: `zipfile` would read a list of members of any size."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LONGEST_READ:
            raise ValueError(f"a part of {size:,} bytes")
        return super().read(size)


@contextmanager
def stored_arrays(path: Path) -> Iterator[list[Stored]]:
    """The arrays in a file, in its order; headers and arrays can be read until the context ends.

    Mapped arrays stay valid after it, as long as the file does not change.

    Raises:
        FilesError: the path is no regular file in one of the formats, or is damaged.
    """
    with _intact(str(path), "a file"):
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind != stat.S_IFREG:  # opening a pipe would wait for its writer
            raise FilesError(f"{path}: expected a file, got {_OTHER_KINDS.get(kind, 'something else')}")
        if path.suffix.lower() not in _READERS:
            expected = "a name that ends in .npy, .npz or .safetensors"
            hint = _FROM_PYTORCH.replace("FILE", repr(str(path))) if path.suffix.lower() in _PYTORCH else ""
            raise FilesError(f"{path}: expected {expected}, got {quoted(path.name)}{hint}")
        file = _Bounded(io.FileIO(path))
    with file:
        if not _size(file):
            raise FilesError(f"{path}: expected arrays, got an empty file")
        yield _READERS[path.suffix.lower()](path, file)


def quoted(value: object) -> str:
    """A short form of a name, a shape or a message from a file, with control characters escaped.

    >>> quoted("q"), quoted((1,) * 20)
    ("'q'", '(1, 1, 1, 1, 1, 1, 1, 1, ...)')
    """
    return _SHORT.repr(value)


def _npy(path: Path, file: _Bounded) -> list[Stored]:
    """The one array of a .npy file."""
    return [Stored(str(path), "", partial(_npy_header, path, file))]


def _npy_header(path: Path, file: _Bounded) -> Header:
    """The header of a .npy file of the declared size."""
    layout = _npy_layout(str(path), file)
    _expect_size(str(path), layout, _size(file))
    return _header(str(path), layout, partial(_mapped, path, file))


def _npy_layout(place: str, file: IO[bytes]) -> _Layout:
    """The layout in the header of a .npy file, whose numbers stay unread."""
    with _intact(place, "an intact array"):
        start = file.read(npy.MAGIC_LEN + 4 + _LONGEST_HEADER)
    if not start.startswith(npy.MAGIC_PREFIX):
        got = "a pickle, which can run code" if start.startswith(b"\x80") else "other bytes"
        raise FilesError(f"{place}: expected an array in the .npy format, got {got}")
    header = io.BytesIO(start)  # from a file, NumPy would allocate any length that the header declares for itself
    with _intact(place, "a complete .npy header"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about doubtful syntax in a damaged header
        version = npy.read_magic(header)
        if version not in _NPY_HEADERS:
            raise FilesError(f"{place}: expected version 1.0 or 2.0 of the .npy format, got {version[0]}.{version[1]}")
        shape, fortran, dtype = _NPY_HEADERS[version](header, max_header_size=_LONGEST_HEADER)
    _expect_float(place, dtype)
    return _Layout(_checked(place, shape), dtype, header.tell(), "F" if fortran else "C")


def _npz(path: Path, file: _Bounded) -> list[Stored]:
    """The members of an .npz file whose names end in .npy."""
    with _intact(str(path), "a complete .npz file"):
        archive = zipfile.ZipFile(file)
    return [
        Stored(place := f"{path}: {quoted(name)}", name, partial(_npz_header, place, _size(file), archive, member))
        for member in archive.infolist()
        if (name := member.filename.removesuffix(".npy")) != member.filename
    ]


def _npz_header(place: str, size: int, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Header:
    """The header of a member of the declared size."""
    if member.flag_bits & _ENCRYPTED:
        raise FilesError(f"{place}: expected an array without a password, got an encrypted one")
    if member.compress_type not in _NPZ_COMPRESSION:  # `zipfile` decompresses only these two in bounded memory
        expected = "an array as NumPy saves it, stored or deflated"
        raise FilesError(f"{place}: expected {expected}, got compression method {member.compress_type}")
    most = min(member.compress_size, size) * _NPZ_COMPRESSION[member.compress_type]
    if member.file_size > most:
        raise FilesError(
            f"{place}: expected at most {most:,} bytes in a member of this length, got {member.file_size:,}"
        )
    with _intact(place, "an intact array"), archive.open(member) as content:
        layout = _npy_layout(place, content)
    _expect_size(place, layout, member.file_size)
    return _header(place, layout, partial(_decompressed, place, archive, member), in_memory=layout.end)


def _decompressed(place: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """The bytes of a member; `zipfile` compares their checksum."""
    try:
        content = np.empty(member.file_size, np.uint8)
    except MemoryError:
        raise FilesError(f"{place}: expected {member.file_size:,} bytes of free memory, got fewer") from None
    with archive.open(member) as file:
        for at in range(0, content.size, _CHUNK):
            part = file.read(size := min(_CHUNK, content.size - at))
            if len(part) < size:
                raise zipfile.BadZipFile("fewer bytes than declared")
            content[at : at + size] = np.frombuffer(part, np.uint8)
    return content


def _safetensors(path: Path, file: _Bounded) -> list[Stored]:
    """The tensors of a .safetensors file.

    The library checks the header: types, sizes, and that the tensors fill the file without overlap. It would copy a
    tensor into memory. So this function takes the offsets from the checked header and maps the file.
    """
    with _intact(str(path), "a .safetensors file"):
        length = int.from_bytes(file.read(8), "little")
    if _LONGEST_READ < length <= _size(file):
        raise FilesError(f"{path}: expected a header of at most {_LONGEST_READ:,} bytes, got {length:,}")
    with _intact(str(path), "a complete .safetensors file"):
        with safe_open(path, framework="numpy"):
            pass
        tensors = json.loads(file.read(length).decode())
    tensors.pop("__metadata__", None)
    content = _mapped(path, file)  # once for all tensors, because each mapping keeps the file open
    return [
        Stored(place := f"{path}: {quoted(name)}", name, partial(_tensor_header, place, 8 + length, tensor, content))
        for name, tensor in tensors.items()
    ]


def _tensor_header(place: str, start: int, tensor: dict[str, Any], content: Array) -> Header:
    """The header of a tensor, whose size the library has checked."""
    if tensor["dtype"] not in _SAFETENSORS:
        raise FilesError(f"{place}: expected {_FLOATS}, got {tensor['dtype']}")
    dtype = np.dtype(_SAFETENSORS[tensor["dtype"]])
    layout = _Layout(_checked(place, tensor["shape"]), dtype, start + tensor["data_offsets"][0])
    return _header(place, layout, lambda: content)


_READERS: dict[str, Callable[[Path, _Bounded], list[Stored]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
}


def _header(place: str, layout: _Layout, content: Callable[[], Array], *, in_memory: int = 0) -> Header:
    """The header of an array in bytes that `content` maps or reads; the array shares their memory."""

    def load() -> Array:
        with _intact(place, "an intact array"):
            numbers = content()[layout.start : layout.end].view(layout.dtype)
            return numbers.reshape(layout.shape, order=layout.order)

    return Header(layout.shape, in_memory, load)


def _mapped(path: Path, file: _Bounded) -> Array:
    """The bytes of a file, which the operating system reads when they are used."""
    with _intact(str(path), "a file"):
        return np.asarray(np.memmap(file, np.uint8, "r"))


def _size(file: _Bounded) -> int:
    return os.fstat(file.fileno()).st_size


@contextmanager
def _intact(place: str, expected: str) -> Iterator[None]:
    """Turn every error of a parser into a FilesError: on damaged bytes, parsers raise many types of errors."""
    try:
        yield
    except FilesError:
        raise
    except OSError as error:
        raise FilesError(f"{place}: cannot read: {error.strerror or error}") from None
    except Exception as error:
        # Only these two write sentences; other messages differ between versions of Python and NumPy.
        told = isinstance(error, zipfile.BadZipFile | SafetensorError)
        reason = f" ({quoted(str(error).removeprefix(_SAFETENSORS_PREFIX))})" if told else ""
        raise FilesError(f"{place}: expected {expected}, got other or damaged bytes{reason}") from None


def _expect_float(place: str, dtype: np.dtype[Any]) -> None:
    """FilesError if the type in a .npy header is no float type of 2, 4 or 8 bytes."""
    if dtype.hasobject:
        raise FilesError(f"{place}: expected {_FLOATS}, got Python objects, which can run code when they are loaded")
    if dtype.type is np.void and dtype.names is None:
        raise FilesError(
            f"{place}: expected {_FLOATS}, got bytes of unknown type; NumPy saves bfloat16 so: save it as float32, or "
            "as .safetensors"
        )
    if dtype != bfloat16 and (dtype.kind != "f" or dtype.itemsize not in (2, 4, 8)):
        raise FilesError(f"{place}: expected {_FLOATS}, got {quoted(str(dtype))}")


def _checked(place: str, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape of at least 2 axes, none empty; FilesError for other shapes."""
    sizes = tuple(map(int, shape))
    if not 2 <= len(sizes) <= _MOST_AXES:
        raise FilesError(f"{place}: expected 2 to {_MOST_AXES} axes, the last of size d_k, got shape {quoted(sizes)}")
    if 0 in sizes:
        raise FilesError(f"{place}: expected no axis of size 0, got shape {quoted(sizes)}")
    if min(sizes) < 0:
        raise FilesError(f"{place}: expected no axis of negative size, got shape {quoted(sizes)}")
    return sizes


def _expect_size(place: str, layout: _Layout, size: int) -> None:
    """FilesError if a file or member does not end with the numbers."""
    if layout.end != size:
        declared = f"{layout.end:,} bytes" if layout.end <= _LARGEST else "more bytes than any file has"
        raise FilesError(
            f"{place}: expected {declared} for {layout.dtype} of shape {quoted(layout.shape)}, got {size:,}"
        )
