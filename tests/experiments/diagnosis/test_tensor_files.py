"""Queries and keys from files: good files of each format give their arrays, and each bad file gives one sentence."""

import io
import json
import os
import pickle
import re
import socket
import struct
import tracemalloc
import zipfile
from pathlib import Path
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy
from safetensors.numpy import save, save_file

from experiments.diagnosis import files, formats
from experiments.diagnosis.files import FilesError, read_heads

DTYPES = [np.dtype(name) for name in ("<f2", ">f2", "<f4", ">f4", "<f8", ">f8")]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = "float16, bfloat16, float32 or float64"
NAMED = "arrays named q and k, a pair for each layer (q.3, k.3), or for each layer and head (3.5.q, 3.5.k)"


def normal(shape, dtype="<f4", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def pair(q=(2, 8, 5, 4), k=(2, 2, 7, 4), dtype="<f4"):
    return {"q": normal(q, dtype), "k": normal(k, dtype, seed=1)}


def npy_bytes(array=None, *, shape=(5, 4), descr="<f4", content=b"", fortran=False):
    """A .npy file of an array, or of a header and any content."""
    buffer = io.BytesIO()
    if array is not None:
        np.save(buffer, array)
    else:
        npy.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": fortran, "shape": shape})
    return buffer.getvalue() + content


def raw_header(text, version=(1, 0), length=None):
    """A .npy file with any text as header."""
    form = "<H" if version == (1, 0) else "<I"
    return npy.magic(*version) + struct.pack(form, len(text) if length is None else length) + text.encode("latin1")


def npz_bytes(members, compression=zipfile.ZIP_DEFLATED):
    """An .npz file with any bytes as members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def arrays_npz(arrays, **options):
    return npz_bytes([(name, npy_bytes(array)) for name, array in arrays.items()], **options)


def tensors_bytes(header, content=b"", length=None):
    """A .safetensors file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + content


def tensor(shape, start=0, dtype="F32", size=4):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, start + int(np.prod(shape)) * size]}


def replaced(content, old, new):
    assert old in content
    return content.replace(old, new)


def write(folder, **contents):
    """Files with these names, `__` for a dot; their paths."""
    paths = [folder / name.replace("__", ".") for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    return paths


def problem(paths):
    """The message about files, without their folder."""
    with pytest.raises(FilesError) as caught:
        read_heads(paths)
    assert caught.value.__cause__ is None
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{paths[0].parent}{os.sep}", "")


def assert_same(array, expected):
    assert type(array) is np.ndarray
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array.astype("f8"), expected.astype("f8"), strict=True)


def assert_pair(heads, expected, layer=None, head=None):
    (found,) = heads
    assert (found.layer, found.head) == (layer, head)
    for name, array in expected.items():
        assert_same(getattr(found, name), array)


# Good files


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_two_npy_files_are_mapped(tmp_path, dtype):
    arrays = pair(dtype=dtype)
    heads = read_heads(write(tmp_path, q__npy=npy_bytes(arrays["q"]), k__NPY=npy_bytes(arrays["k"])))
    assert_pair(heads, arrays)
    assert not heads[0].q.flags.writeable


def test_an_array_in_fortran_order_keeps_its_order(tmp_path):
    arrays = {name: np.asfortranarray(array) for name, array in pair().items()}
    heads = read_heads(write(tmp_path, q__npy=npy_bytes(arrays["q"]), k__npy=npy_bytes(arrays["k"])))
    assert_pair(heads, arrays)
    assert heads[0].q.flags.f_contiguous


def test_a_header_of_version_2_and_one_of_python_2_are_read(tmp_path):
    arrays = pair((5, 4), (7, 4))
    q, k = (array.tobytes() for array in arrays.values())
    old = raw_header("{'descr': '<f4', 'fortran_order': False, 'shape': (5L, 4L)}")
    new = raw_header("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 4)}", (2, 0))
    assert_pair(read_heads(write(tmp_path, q__npy=old + q, k__npy=new + k)), arrays)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("saved", [np.savez, np.savez_compressed])
def test_an_npz_file_of_both_is_read(tmp_path, dtype, saved):
    arrays = pair(dtype=dtype)
    saved(tmp_path / "both.npz", **arrays, v=np.arange(3), names=np.array([None]))
    assert_pair(read_heads([tmp_path / "both.npz"]), arrays)


def test_an_array_in_fortran_order_in_npz_is_read(tmp_path):
    arrays = {name: np.asfortranarray(array) for name, array in pair().items()}
    np.savez(tmp_path / "both.npz", **arrays)
    assert_pair(read_heads([tmp_path / "both.npz"]), arrays)


@pytest.mark.parametrize("dtype", ["<f2", BFLOAT16, "<f4", "<f8"], ids=str)
def test_a_safetensors_file_of_both_is_mapped(tmp_path, dtype):
    arrays = pair(dtype=dtype)
    others = {"a": np.arange(3, dtype=np.uint8), "z": np.ones(2, dtype=bool)}
    save_file({**others, **arrays}, tmp_path / "both.safetensors", metadata={"by": "a test"})
    heads = read_heads([tmp_path / "both.safetensors"])
    assert_pair(heads, arrays)
    assert not heads[0].q.flags.writeable


def test_unaligned_tensors_are_read(tmp_path):
    arrays = pair((5, 4), (7, 4), dtype="<f8")
    header = {"a": tensor((3,), 0, "U8", 1), "q": tensor((5, 4), 3, "F64", 8), "k": tensor((7, 4), 163, "F64", 8)}
    content = b"abc" + arrays["q"].tobytes() + arrays["k"].tobytes()
    assert_pair(read_heads(write(tmp_path, both__safetensors=tensors_bytes(header, content))), arrays)


def test_two_files_of_one_array_each_are_read_in_their_order_whatever_their_names(tmp_path):
    arrays = pair()
    first, second = write(tmp_path, a__npz=arrays_npz({"x": arrays["q"]}), b__safetensors=save({"y": arrays["k"]}))
    assert_pair(read_heads([first, second]), arrays)


@pytest.mark.parametrize(
    ("names", "layer", "head"),
    [
        (("q", "k"), None, None),
        (("Q", "K"), None, None),
        (("query", "key"), None, None),
        (("q_proj", "k_proj"), None, None),
        (("q.3", "k.3"), 3, None),
        (("q3", "k3"), 3, None),
        (("3.5.q", "3.5.k"), 3, 5),
        (("layers.3.self_attn.q_proj", "layers.3.self_attn.k_proj"), 3, None),
        (("layer3.head5.q", "layer3.head5.k"), 3, 5),
        (("layer_03/head-12 query", "layer_3/head-12 key"), 3, 12),
        (("blocks[0].attn.q", "blocks[0].attn.k"), 0, None),
        (("head.4.q", "head.4.k"), None, 4),
        (("head.4.layer.2.q", "heads.4.layer.2.k"), 2, 4),
    ],
)
@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_names_give_layer_and_head(tmp_path, kind, names, layer, head):
    arrays = pair()
    named = dict(zip(names, arrays.values(), strict=True)) | {
        "qk.1": np.arange(3),
        "q.k": np.arange(3),
        "v": np.ones(1),
    }
    path = tmp_path / f"both.{kind}"
    path.write_bytes(arrays_npz(named) if kind == "npz" else save(named))
    assert_pair(read_heads([path]), arrays, layer, head)


def test_pairs_come_in_the_order_of_layer_and_head(tmp_path):
    labels = ["10", "2", "2.10", "2.9", "0.1"]
    named = {f"{label}.{role}": normal((3, 4), seed=i) for i, label in enumerate(labels) for role in "kq"}
    path = tmp_path / "heads.safetensors"
    save_file({**named, "q": normal((3, 4)), "k": normal((3, 4))}, path)
    found = read_heads([path])
    assert [(one.layer, one.head) for one in found] == [(None, None), (0, 1), (2, None), (2, 9), (2, 10), (10, None)]
    assert_same(found[-1].q, named["10.q"])


def test_more_tensors_than_open_files_are_read(tmp_path):
    tile = normal((2, 4))
    path = tmp_path / "heads.safetensors"
    save_file({f"{layer}.{head}.{role}": tile for layer in range(40) for head in range(20) for role in "qk"}, path)
    assert len(read_heads([path])) == 800


def test_a_link_to_a_file_is_followed(tmp_path):
    arrays = pair()
    (path,) = write(tmp_path, both__npz=arrays_npz(arrays))
    (tmp_path / "link.npz").symlink_to(path)
    assert_pair(read_heads([tmp_path / "link.npz"]), arrays)


# Bad files: what two .npy files, of which the first is bad, give

NOT_NPY = "q.npy: expected an array in the .npy format, got"
BAD_HEADER = "q.npy: expected a complete .npy header, got other or damaged bytes"
GOOD = npy_bytes(normal((5, 4)))
HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 4)}"
BAD_NPY = {
    "empty": (b"", "q.npy: expected arrays, got an empty file"),
    "text": (b"1,2\n3,4\n", f"{NOT_NPY} other bytes"),
    "zip": (arrays_npz(pair()), f"{NOT_NPY} other bytes"),
    "pickle": (pickle.dumps(normal((5, 4))), f"{NOT_NPY} a pickle, which can run code"),
    "objects": (
        npy_bytes(np.array([[1, None]])),
        f"q.npy: expected {FLOATS}, got Python objects, which can run code when they are loaded",
    ),
    "objects in fields": (
        npy_bytes(np.zeros((2, 2), dtype=[("a", "f4"), ("b", "O")])),
        f"q.npy: expected {FLOATS}, got Python objects, which can run code when they are loaded",
    ),
    "no version": (GOOD[:6], BAD_HEADER),
    "half a header": (GOOD[:50], BAD_HEADER),
    "version 3": (raw_header("", (3, 0)), "q.npy: expected version 1.0 or 2.0 of the .npy format, got 3.0"),
    "header of 4 GiB": (raw_header(HEADER, (2, 0), 2**32 - 1), BAD_HEADER),
    "header without shape": (raw_header("{'descr': '<f4'}"), BAD_HEADER),
    "header that calls": (raw_header("__import__('os').abort()"), BAD_HEADER),
    "header of brackets": (raw_header("(" * 9000), BAD_HEADER),
    "header of minus signs": (raw_header("-" * 9000 + "1"), BAD_HEADER),
    "header with a shape of fractions": (raw_header(replaced(HEADER, "5", "5.0")), BAD_HEADER),
    "header of an endless number": (raw_header(replaced(HEADER, "5", "9" * 9000)), BAD_HEADER),
    "int64": (npy_bytes(np.ones((5, 4), "i8")), f"q.npy: expected {FLOATS}, got 'int64'"),
    "complex": (npy_bytes(np.ones((5, 4), "c8")), f"q.npy: expected {FLOATS}, got 'complex64'"),
    "bool": (npy_bytes(np.ones((5, 4), "?")), f"q.npy: expected {FLOATS}, got 'bool'"),
    "text values": (npy_bytes(np.full((5, 4), "a")), f"q.npy: expected {FLOATS}, got '<U1'"),
    "dates": (npy_bytes(np.zeros((5, 4), "M8[s]")), f"q.npy: expected {FLOATS}, got 'datetime64[s]'"),
    "fields": (
        npy_bytes(np.zeros((5, 4), [("a", "<f4"), ("b", "<f4")])),
        f"q.npy: expected {FLOATS}, got \"[('a', '<f4'), ('b', '<f4')]\"",
    ),
    "bfloat16": (
        npy_bytes(normal((5, 4), BFLOAT16)),
        f"q.npy: expected {FLOATS}, got bytes of unknown type; NumPy saves bfloat16 so: save it as float32, or as "
        ".safetensors",
    ),
    "float8": (npy_bytes(descr="float8_e4m3fn"), f"q.npy: expected {FLOATS}, got 'float8_e4m3fn'"),
    "one axis": (
        npy_bytes(normal(5)),
        "q.npy: expected 2 to 64 axes, the last of size d_k, got shape (5,)",
    ),
    "no axis": (npy_bytes(np.float32(1)), "q.npy: expected 2 to 64 axes, the last of size d_k, got shape ()"),
    "70 axes": (
        npy_bytes(shape=(1,) * 70, content=b"\0\0\0\0"),
        "q.npy: expected 2 to 64 axes, the last of size d_k, got shape (1, 1, 1, 1, 1, 1, 1, 1, ...)",
    ),
    "no queries": (npy_bytes(np.ones((0, 4), "f4")), "q.npy: expected no axis of size 0, got shape (0, 4)"),
    "negative axes": (
        npy_bytes(shape=(-5, -4), content=bytes(80)),
        "q.npy: expected no axis of negative size, got shape (-5, -4)",
    ),
    "truncated": (GOOD[:-1], "q.npy: expected 208 bytes for float32 of shape (5, 4), got 207"),
    "longer": (GOOD + b"\0", "q.npy: expected 208 bytes for float32 of shape (5, 4), got 209"),
    "4 TB declared": (
        npy_bytes(shape=(10**6, 10**6), content=bytes(80)),
        "q.npy: expected 4,000,000,000,128 bytes for float32 of shape (1000000, 1000000), got 208",
    ),
    "more than any memory declared": (
        npy_bytes(shape=(2**62, 2**62, 2**62), content=bytes(80)),
        "q.npy: expected more bytes than any file has for float32 of shape (4611686018427387904, 4611686018427387904, "
        "4611686018427387904), got 272",
    ),
    "NaN": (
        npy_bytes(np.where(np.arange(20).reshape(5, 4) % 7 == 6, np.nan, 1).astype("f4")),
        "q.npy: expected finite numbers, got 2 NaN (the first at [1, 2])",
    ),
    "infinity": (
        npy_bytes(np.where(np.arange(20).reshape(5, 4) == 19, -np.inf, 1).astype("f2")),
        "q.npy: expected finite numbers, got 1 infinite (the first at [4, 3])",
    ),
}


@pytest.mark.parametrize("name", BAD_NPY)
def test_a_bad_npy_file_gives_one_sentence(tmp_path, name):
    content, expected = BAD_NPY[name]
    found = problem(write(tmp_path, q__npy=content, k__npy=npy_bytes(normal((7, 4)))))
    assert found == expected


# Bad archives and tensors: what one file gives

NPZ = arrays_npz(pair())
STORED = arrays_npz(pair(), compression=zipfile.ZIP_STORED)
TENSORS = save(pair())
BAD_NPZ = "both.npz: expected a complete .npz file, got other or damaged bytes"
BAD_MEMBER = "both.npz: 'q': expected an intact array, got other or damaged bytes"
BAD_TENSORS = "both.safetensors: expected a complete .safetensors file, got other or damaged bytes"
Q_AND_K = {"q": tensor((2, 2), 0), "k": tensor((2, 2), 16)}


def changed_directory(content, offset, value, form="<H"):
    """An archive with a field of its first entry in the list of members changed."""
    at = content.index(b"PK\1\2") + offset
    return content[:at] + struct.pack(form, value) + content[at + struct.calcsize(form) :]


def declared_size(content, size):
    """An archive whose first member declares another uncompressed size."""
    return changed_directory(content, 24, size, "<I")


SMALL_NPZ = npz_bytes([("q", npy_bytes(shape=(2**14, 2**14))), ("k", npy_bytes(np.ones((2, 2**14))))])
BAD_NPZ_FILES = {
    "empty": (b"", "both.npz: expected arrays, got an empty file"),
    "npy": (GOOD, f"{BAD_NPZ} ('File is not a zip file')"),
    "truncated": (NPZ[:-30], f"{BAD_NPZ} ('File is not a zip file')"),
    "no arrays": (npz_bytes([]), f"both.npz: expected {NAMED}, got none"),
    "encrypted": (
        changed_directory(NPZ, 8, 1),
        "both.npz: 'q': expected an array without a password, got an encrypted one",
    ),
    "bzip2": (
        arrays_npz(pair(), compression=zipfile.ZIP_BZIP2),
        "both.npz: 'q': expected an array as NumPy saves it, stored or deflated, got compression method 12",
    ),
    "lzma": (
        arrays_npz(pair(), compression=zipfile.ZIP_LZMA),
        "both.npz: 'q': expected an array as NumPy saves it, stored or deflated, got compression method 14",
    ),
    "bad checksum": (changed_directory(NPZ, 16, 0, "<I"), f"{BAD_MEMBER} (\"Bad CRC-32 for file 'q.npy'\")"),
    "changed number": (
        replaced(STORED, pair()["q"].tobytes(), pair()["q"].tobytes()[:-4] + b"\0\0\0\0"),
        f"{BAD_MEMBER} (\"Bad CRC-32 for file 'q.npy'\")",
    ),
    "member of objects": (
        npz_bytes([("q", npy_bytes(np.array([[1, None]]))), ("k", GOOD)]),
        f"both.npz: 'q': expected {FLOATS}, got Python objects, which can run code when they are loaded",
    ),
    "member of other bytes": (
        npz_bytes([("q", b"abc"), ("k", GOOD)]),
        "both.npz: 'q': expected an array in the .npy format, got other bytes",
    ),
    "truncated member": (
        npz_bytes([("q", GOOD[:-1]), ("k", GOOD)]),
        "both.npz: 'q': expected 208 bytes for float32 of shape (5, 4), got 207",
    ),
    "member declared larger": (
        declared_size(NPZ, 1409),
        "both.npz: 'q': expected 1,408 bytes for float32 of shape (2, 8, 5, 4), got 1,409",
    ),
    "stored member declared larger": (
        declared_size(STORED, 2**31),
        "both.npz: 'q': expected at most 1,408 bytes in a member of this length, got 2,147,483,648",
    ),
    "compressed member declared larger than possible": (
        declared_size(SMALL_NPZ, 2**30 + 128),
        "both.npz: 'q': expected at most 77,400 bytes in a member of this length, got 1,073,741,952",
    ),
    "compressed member declared larger than the file": (
        changed_directory(declared_size(SMALL_NPZ, 2**30 + 128), 20, 2**30, "<I"),
        f"both.npz: 'q': expected at most {1032 * len(SMALL_NPZ):,} bytes in a member of this length, got "
        "1,073,741,952",
    ),
    "more declared than compressed": (
        declared_size(npz_bytes([("q", npy_bytes(shape=(24, 256))), ("k", npy_bytes(np.ones((2, 256))))]), 24_704),
        f"{BAD_MEMBER} ('fewer bytes than declared')",
    ),
    "header of a member declares 20 GiB": (
        npz_bytes([("q", npy_bytes(shape=(5 * 2**20, 2**10))), ("k", GOOD)]),
        "both.npz: 'q': expected 21,474,836,608 bytes for float32 of shape (5242880, 1024), got 128",
    ),
    "a long list of members": (
        bytes(2**24 + 1) + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 2**24 + 1, 0, 0),
        BAD_NPZ,
    ),
    "q twice": (
        arrays_npz({"q.3": normal((5, 4)), "query_3": normal((5, 4)), "k.3": normal((5, 4))}),
        "both.npz: 'query_3': expected one q for each layer and head, got 'q.3' and 'query_3'",
    ),
    "q without k": (
        arrays_npz({"q": normal((5, 4)), "keys": normal((5, 4))}),
        "both.npz: 'q': expected k for the same layer and head, got none",
    ),
    "k without q": (
        arrays_npz({"3.1.q": normal((5, 4)), "3.2.k": normal((5, 4)), "3.1.k": normal((5, 4))}),
        "both.npz: '3.2.k': expected q for the same layer and head, got '3.1.q'",
    ),
    "other names": (
        arrays_npz({f"tensor_{i}": np.ones((2, 2)) for i in range(8)}),
        f"both.npz: expected {NAMED}, got 'tensor_0', 'tensor_1', 'tensor_2', 'tensor_3', 'tensor_4' and 3 more",
    ),
    "a name that controls the terminal": (
        arrays_npz({"\33[31m\n" + "x" * 99: np.ones((2, 2))}),
        f"both.npz: expected {NAMED}, got '\\x1b[31m\\n{'x' * 27}...{'x' * 38}'",
    ),
    "three numbers": (
        arrays_npz({f"model.1.layer.2.head.3.{role}": normal((5, 4)) for role in "qk"}),
        "both.npz: 'model.1.layer.2.head.3.q': expected at most two numbers, layer and head, of at most 6 digits in "
        "the name, got ('1', '2', '3')",
    ),
    "an endless number": (
        arrays_npz({f"{role}{10**6}": normal((5, 4)) for role in "qk"}),
        "both.npz: 'q1000000': expected at most two numbers, layer and head, of at most 6 digits in the name, got "
        "('1000000',)",
    ),
}
BAD_TENSOR_FILES = {
    "empty": (b"", "both.safetensors: expected arrays, got an empty file"),
    "text": (b"abc", f"{BAD_TENSORS} ('header too small')"),
    "truncated": (TENSORS[:-1], f"{BAD_TENSORS} ('incomplete metadata, file not fully covered')"),
    "longer": (TENSORS + b"\0", f"{BAD_TENSORS} ('incomplete metadata, file not fully covered')"),
    "half a header": (TENSORS[:60], f"{BAD_TENSORS} ('invalid header length')"),
    "header of 8 EiB": (tensors_bytes({}, length=2**63), f"{BAD_TENSORS} ('header too large')"),
    "header of 17 MB": (
        tensors_bytes(b"{}" + b" " * 2**24),
        "both.safetensors: expected a header of at most 16,777,216 bytes, got 16,777,218",
    ),
    "no tensors": (tensors_bytes({}), f"both.safetensors: expected {NAMED}, got none"),
    "shape and size differ": (
        tensors_bytes({"q": tensor((2, 2)) | {"shape": [2, 3]}}, bytes(16)),
        f"{BAD_TENSORS} ('invalid shape, data type, or offset for tensor')",
    ),
    "overlap": (
        tensors_bytes({"q": tensor((2, 2), 0), "k": tensor((2, 2), 8)}, bytes(24)),
        f"{BAD_TENSORS} ('invalid offset for tensor `k`')",
    ),
    "a gap": (
        tensors_bytes({"q": tensor((2, 2), 0), "k": tensor((2, 2), 24)}, bytes(40)),
        f"{BAD_TENSORS} ('invalid offset for tensor `k`')",
    ),
    "overflow": (
        tensors_bytes({"q": tensor((2, 2)) | {"shape": [2**62, 2**62]}}, bytes(16)),
        f"{BAD_TENSORS} ('overflow computing buffer size from shape and/or element type')",
    ),
    "nested without end": (
        tensors_bytes(
            json.dumps(Q_AND_K).encode().replace(b'"dtype"', b'"x": ' + b"[" * 9000 + b"]" * 9000 + b', "dtype"'),
            bytes(32),
        ),
        f"{BAD_TENSORS} ('invalid JSON in header: recursion limit exceeded at line 1 column 138')",
    ),
    "int32": (
        save({name: a.astype("i4") for name, a in pair().items()}),
        f"both.safetensors: 'q': expected {FLOATS}, got I32",
    ),
    "float8": (
        tensors_bytes({"q": tensor((2, 2), 0, "F8_E4M3", 1), "k": tensor((2, 2), 4, "F8_E4M3", 1)}, bytes(8)),
        f"both.safetensors: 'q': expected {FLOATS}, got F8_E4M3",
    ),
    "no d_k": (
        tensors_bytes({"q": tensor((2, 0)), "k": tensor((2, 0))}),
        "both.safetensors: 'q': expected no axis of size 0, got shape (2, 0)",
    ),
    "weights of projections": (
        save({f"layers.{i}.self_attn.{role}_proj.weight": normal((4, 4)) for i in range(2) for role in "qk"}),
        f"both.safetensors: expected {NAMED}, got 'layers.0.self_attn.k_proj.weight', "
        "'layers.0.self_attn.q_proj.weight', 'layers.1.self_attn.k_proj.weight' and "
        "'layers.1.self_attn.q_proj.weight'; the weights of projections are no queries and keys",
    ),
    "NaN of bfloat16 and infinity": (
        save(
            {"q": normal((5, 4), BFLOAT16), "k": np.array([[1, np.inf], [np.nan, -np.inf]] * 2, BFLOAT16).reshape(2, 4)}
        ),
        "both.safetensors: 'k': expected finite numbers, got 2 NaN (the first at [0, 2]) and 4 infinite (the first at "
        "[0, 1])",
    ),
}


@pytest.mark.parametrize("name", BAD_NPZ_FILES)
def test_a_bad_npz_file_gives_one_sentence(tmp_path, name):
    content, expected = BAD_NPZ_FILES[name]
    assert problem(write(tmp_path, both__npz=content)) == expected


@pytest.mark.parametrize("name", BAD_TENSOR_FILES)
def test_a_bad_safetensors_file_gives_one_sentence(tmp_path, name):
    content, expected = BAD_TENSOR_FILES[name]
    assert problem(write(tmp_path, both__safetensors=content)) == expected


@pytest.mark.parametrize(
    ("q", "k", "expected"),
    [
        ((5, 4), (7, 3), "the d_k of q as last axis"),
        ((2, 5, 4), (5, 4), "as many axes as q"),
        ((2, 8, 5, 4), (3, 8, 5, 4), "the leading axes of q, except for fewer heads"),
        ((2, 3, 8, 5, 4), (3, 2, 8, 5, 4), "the leading axes of q, except for fewer heads"),
        ((2, 8, 5, 4), (2, 3, 5, 4), "(..., head, position, d_k) with heads that divide the 8 of q"),
        ((2, 5, 4), (8, 5, 4), "(..., head, position, d_k) with heads that divide the 2 of q"),
    ],
)
def test_shapes_that_do_not_fit_give_one_sentence(tmp_path, q, k, expected):
    arrays = pair(q, k)
    paths = write(tmp_path, q__npy=npy_bytes(arrays["q"]), k__npy=npy_bytes(arrays["k"]))
    assert problem(paths) == f"k.npy: expected {expected}, got shape {k} beside {q} of q.npy"


def test_one_key_gives_one_sentence(tmp_path):
    paths = write(tmp_path, both__npz=arrays_npz(pair((5, 4), (1, 4))))
    assert problem(paths) == "both.npz: 'k': expected at least 2 keys, got shape (1, 4)"


# Paths


def test_a_missing_file_and_a_forbidden_one_give_one_sentence(tmp_path, monkeypatch):
    paths = [tmp_path / "q.npy", tmp_path / "k.npy"]
    assert problem(paths) == "q.npy: cannot read: No such file or directory"
    paths[0].write_bytes(GOOD)
    assert problem(paths) == "k.npy: cannot read: No such file or directory"

    def forbidden(*_):  # no permission hinders root
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(formats.io, "FileIO", forbidden)
    assert problem(paths) == "q.npy: cannot read: Permission denied"


@pytest.mark.parametrize(("name", "content"), [("q.npy", GOOD), ("q.safetensors", TENSORS)], ids=["npy", "safetensors"])
def test_a_disk_that_fails_gives_one_sentence(tmp_path, monkeypatch, name, content):
    def failing(*_):
        raise OSError(5, "Input/output error")

    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(formats._Bounded, "read", failing)
    assert problem([tmp_path / name, tmp_path / name]) == f"{name}: cannot read: Input/output error"


def test_a_loop_of_links_gives_one_sentence(tmp_path):
    (tmp_path / "q.npz").symlink_to(tmp_path / "q.npz")
    assert problem([tmp_path / "q.npz"]) == "q.npz: cannot read: Too many levels of symbolic links"


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_only_files_are_opened(tmp_path, suffix):
    folder, pipe, address = (tmp_path / f"{name}.{suffix}" for name in ("folder", "pipe", "socket"))
    folder.mkdir()
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        (tmp_path / f"device.{suffix}").symlink_to("/dev/zero")
        for name in ("folder", "pipe", "socket", "device"):
            assert problem([tmp_path / f"{name}.{suffix}"]) == f"{name}.{suffix}: expected a file, got a {name}"


@pytest.mark.parametrize("name", ["q", "q.csv", "q.npy.gz"])
def test_other_formats_give_one_sentence(tmp_path, name):
    (tmp_path / name).write_bytes(GOOD)
    assert (
        problem([tmp_path / name]) == f"{name}: expected a name that ends in .npy, .npz or .safetensors, got '{name}'"
    )


@pytest.mark.parametrize("suffix", [".pt", ".pth"])
def test_a_file_of_pytorch_gives_two_lines_that_convert_it(tmp_path, monkeypatch, suffix):
    """The lines run with a stand-in of PyTorch, which is not in the lock."""
    monkeypatch.chdir(tmp_path)
    path, arrays = Path("all" + suffix), pair((5, 4), (7, 4))
    path.write_bytes(GOOD)
    tensors = {name: Mock() for name in arrays}
    for name, array in arrays.items():
        tensors[name].detach().float().numpy.return_value = array
    torch = Mock()
    torch.load.return_value = tensors
    with pytest.raises(
        FilesError, match=f"^all{suffix}: expected a name .*; to convert a dictionary of tensors"
    ) as caught:
        read_heads([path])
    _, *lines = str(caught.value).split("\n")
    assert len(lines) == 2
    exec("\n".join(lines), {"torch": torch, "np": np})
    torch.load.assert_called_once_with(str(path), map_location="cpu", weights_only=True)
    (found,) = read_heads([Path("qk.npz")])
    np.testing.assert_array_equal(found.q, arrays["q"])
    np.testing.assert_array_equal(found.k, arrays["k"])


def test_the_number_of_files_and_of_their_arrays_counts(tmp_path):
    paths = write(
        tmp_path, q__npy=GOOD, k__npz=arrays_npz({"a": normal((5, 4)), "b": normal((5, 4))}), none__npz=npz_bytes([])
    )
    for count, given_paths in ((0, []), (3, paths)):
        with pytest.raises(
            FilesError, match=rf"^expected one file with q and k, or a file for each, got {count} files$"
        ):
            read_heads(given_paths)
    expected = "q.npy: expected a file with q and a file with k, or .npz or .safetensors with both, got one .npy file"
    assert problem(paths[:1]) == expected
    expected = "expected one array, q or k, because there are two files, got"
    assert problem(paths[:2]) == f"k.npz: {expected} 'a' and 'b'"
    assert problem([paths[0], paths[2]]) == f"none.npz: {expected} none"


# Memory


def peak(action):
    """Bytes that an action has allocated at its peak, mapped files aside."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


HUGE = {
    "npy shape": ("q.npy", BAD_NPY["4 TB declared"][0]),
    "npy header": ("q.npy", BAD_NPY["header of 4 GiB"][0]),
    "header of a member": ("both.npz", BAD_NPZ_FILES["header of a member declares 20 GiB"][0]),
    "stored member": ("both.npz", BAD_NPZ_FILES["stored member declared larger"][0]),
    "compressed member": ("both.npz", BAD_NPZ_FILES["compressed member declared larger than possible"][0]),
    "list of members": ("both.npz", BAD_NPZ_FILES["a long list of members"][0]),
    "safetensors header": ("both.safetensors", BAD_TENSOR_FILES["header of 8 EiB"][0]),
    "safetensors shape": ("both.safetensors", BAD_TENSOR_FILES["overflow"][0]),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_declared_size_allocates_nothing(tmp_path, name):
    path, content = tmp_path / HUGE[name][0], HUGE[name][1]
    path.write_bytes(content)
    (tmp_path / "k.npy").write_bytes(GOOD)
    paths = [path, tmp_path / "k.npy"] if path.suffix == ".npy" else [path]
    assert peak(lambda: problem(paths)) < 2**20


def test_a_bomb_is_refused_before_it_is_decompressed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MOST_IN_MEMORY", 2**25)
    zeros = npy_bytes(shape=(2**12, 2**10), content=bytes(2**24))
    paths = write(tmp_path, both__npz=npz_bytes([("q", zeros), ("k", zeros)]))
    assert paths[0].stat().st_size < 2**16
    assert peak(lambda: problem(paths)) < 2**20
    assert problem(paths) == (
        "both.npz: expected at most 33,554,432 bytes of arrays in .npz, because they have to fit into memory, got "
        "33,554,688; save them as .npy or .safetensors"
    )
    monkeypatch.setattr(files, "_MOST_IN_MEMORY", 2**25 + 256)
    assert len(read_heads(paths)) == 1


def test_too_little_memory_gives_one_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise MemoryError

    paths = write(tmp_path, both__npz=NPZ)
    monkeypatch.setattr(formats.np, "empty", full)
    assert problem(paths) == "both.npz: 'q': expected 1,408 bytes of free memory, got fewer"


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", BFLOAT16], ids=str)
def test_a_search_for_nan_keeps_to_tiles(order, dtype):
    array = np.ones((64, 512, 64), dtype, order=order)
    array[-1, 2, 3] = array[3, 500, 7] = np.nan
    array[-1, 2, 2] = -np.inf

    def search():
        with pytest.raises(FilesError, match=re.escape(expected)):
            files._expect_finite("q", array)

    expected = "got 2 NaN (the first at [3, 500, 7]) and 1 infinite (the first at [63, 2, 2])"
    assert peak(search) < 2**20


def test_every_bit_pattern_of_16_bits_is_finite_or_counted():
    for dtype, nan in ((BFLOAT16, 254), (np.dtype("<f2"), 2046), (np.dtype(">f2"), 2046)):
        array = np.arange(2**16, dtype=np.uint16).view(dtype).reshape(256, 256)
        with pytest.raises(FilesError, match=rf"got {nan:,} NaN .* and 2 infinite"):
            files._expect_finite("q", array)


# Fuzzing

SEEDS = {
    "q.npy": GOOD,
    "stored.npz": STORED,
    "both.npz": NPZ,
    "both.safetensors": TENSORS,
    "bfloat16.safetensors": save(pair(dtype=BFLOAT16)),
}


@st.composite
def damaged(draw, content):
    """A file after some of: a cut, changed bits and bytes, a part removed, repeated or overwritten with another."""
    content = bytearray(content)
    header = min(len(content), 200)  # most of what a parser reads is near the start, or the end of an archive
    places = st.one_of(st.integers(0, header - 1), st.integers(0, len(content) - 1), st.integers(-header, -1))
    for _ in range(draw(st.integers(1, 4))):
        if not content:
            break
        at = draw(places) % len(content)
        match draw(st.sampled_from(["bit", "byte", "number", "cut", "remove", "repeat", "copy"])):
            case "bit":
                content[at] ^= 1 << draw(st.integers(0, 7))
            case "byte":
                content[at] = draw(st.sampled_from([0, 1, 0x28, 0x2D, 0x30, 0x39, 0x7B, 0x80, 0xFF]))
            case "number":
                content[at : at + 4] = draw(
                    st.sampled_from([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"9999"])
                )
            case "cut":
                del content[at:]
            case "remove":
                del content[at : at + draw(st.integers(1, 64))]
            case "repeat":
                content[at:at] = content[at : at + draw(st.integers(1, 64))]
            case "copy":
                length, source = draw(st.integers(1, 16)), draw(places) % len(content)
                content[at : at + length] = content[source : source + length]
    return bytes(content)


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_file_gives_arrays_or_one_sentence(tmp_path_factory, name, data):
    content = data.draw(damaged(SEEDS[name]))
    (tmp_path_factory.getbasetemp() / "k.npy").write_bytes(npy_bytes(normal((7, 4))))
    path = tmp_path_factory.getbasetemp() / name
    path.unlink(missing_ok=True)  # a file that was mapped keeps its size
    path.write_bytes(content)
    heads, message = [], None
    try:
        heads = read_heads([path] if name != "q.npy" else [path, path.with_name("k.npy")])
    except FilesError as error:
        message = str(error)
    assert (not heads and message and message.isprintable()) or (heads and message is None)
    for head in heads:
        assert np.isfinite(head.q.astype("f8")).all()
        assert np.isfinite(head.k.astype("f8")).all()
        assert head.q.shape[-1] == head.k.shape[-1]
