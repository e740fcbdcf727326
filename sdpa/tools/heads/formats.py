"""Arrays in .npy, .npz and .safetensors files, read with NumPy alone; nothing here loads a pickle.

A .safetensors file has the length of its header, 8 bytes with the lowest first, the header as JSON
(name: dtype, shape and data_offsets), and the numbers.
"""

import json
from pathlib import Path

import numpy as np

from sdpa._arrays import Array

_BFLOAT16 = "V2"  # as NumPy stores a type that it does not know
_TYPES = {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "FIU" for size in (1, 2, 4, 8)}
_TYPES |= {"BF16": _BFLOAT16, "BOOL": "?"}
_RECIPES = """; to convert numbers between commas: np.save("q.npy", np.loadtxt(FILE, delimiter=",")); to convert
a dictionary of tensors q.0, k.0, ... (of two files: tensors = {"q": ..., "k": ...}):
tensors = torch.load(FILE, map_location="cpu", weights_only=True)
np.savez("qk.npz", **{name: tensor.detach().float().numpy() for name, tensor in tensors.items()})"""


def arrays_in(path: Path, name: str = "") -> dict[str, Array]:
    """The arrays in a file by name; that of the one in a .npy file is given.

    Those of .npy and .safetensors files stay on the disk.

    Raises:
        ValueError: the file cannot be read, or holds other or damaged bytes.
    """
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".npz", ".safetensors"):
        raise ValueError(
            f"{path}: expected a name that ends in .npy, .npz or .safetensors, got "
            f"{path.name!r}{_RECIPES}"
        )
    try:
        if suffix == ".safetensors":
            return _safetensors(path)
        if suffix == ".npy":
            return {name: np.load(path, mmap_mode="r", allow_pickle=False)}
        # The file is closed here, because np.load leaves a bad one open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            return dict(content)
    except OSError as error:
        raise ValueError(f"{path}: cannot read: {error.strerror or error}") from None
    except Exception:  # of NumPy, zipfile, zlib, tokenize or json, in their words
        raise ValueError(
            f'{path}: expected arrays of numbers, as np.save("q.npy", q) or np.savez("qk.npz", q=q, '
            "k=k) saves them, got text, Python objects or damaged bytes"
        ) from None


def in_a_known_type(array: Array) -> Array:
    """The array; one of bfloat16, which NumPy does not know, in float32 with the same values."""
    if array.dtype != _BFLOAT16:
        return array
    bits = np.left_shift(array.view(np.uint16), 16, dtype=np.uint32)
    return bits.view(np.float32)


def _safetensors(path: Path) -> dict[str, Array]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    arrays: dict[str, Array] = {}
    for name in header.keys() - {"__metadata__"}:
        dtype, shape, (first, _) = map(header[name].get, ("dtype", "shape", "data_offsets"))
        arrays[name] = np.memmap(path, _TYPES[dtype], "r", 8 + length + first, tuple(shape))
    return arrays
