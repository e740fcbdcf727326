"""Queries and keys from files: good files give their arrays, and bad ones a message that names them."""

import numpy as np
import pytest
from ml_dtypes import bfloat16
from safetensors.numpy import save_file

from experiments.diagnosis.files import FilesError, read_heads

Q, K = np.random.default_rng(0).standard_normal((2, 3, 5, 4))
SAVE = {
    "npz": lambda path, arrays: np.savez(path, **arrays),
    "safetensors": lambda path, arrays: save_file(arrays, path),
}


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Save arrays in the current folder, which is empty otherwise: NAME.npy each, or all in a file."""
    monkeypatch.chdir(tmp_path)

    def save(file=None, /, **arrays):
        if file:
            SAVE[file.split(".")[1]](file, arrays)
            return [tmp_path / file]
        for name, array in arrays.items():
            np.save(f"{name}.npy", array)
        return [tmp_path / f"{name}.npy" for name in arrays]

    return save


def same(head, q=Q, k=K):
    for found, expected in ((head.q, q), (head.k, k)):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
def test_two_npy_files_are_mapped(saved, dtype):
    q, k = np.asfortranarray(Q.astype(dtype)), K.astype(dtype)
    (head,) = read_heads(saved(first=q, second=k))
    same(head, q, k)
    assert isinstance(head.q, np.memmap)
    assert (head.layer, head.head) == (None, None)


@pytest.mark.parametrize(("suffix", "dtype"), [("npz", "f4"), ("safetensors", bfloat16)])
@pytest.mark.parametrize(
    ("q", "k", "numbers"),
    [
        ("q", "k", (None, None)),
        ("Layer3.Q", "layer3.K", (3, None)),
        ("q.3", "k.3", (3, None)),
        ("3.5.q", "3.5.k", (3, 5)),
        ("layers.3.heads.5.q_proj", "layers.3.heads.5.k_proj", (3, 5)),
        ("head5.query.layer3", "head5.key.layer3", (3, 5)),
        ("head.5.q", "head.5.k", (None, 5)),
    ],
)
def test_names_give_layer_and_head(saved, suffix, dtype, q, k, numbers):
    arrays = {q: Q.astype(dtype), k: K.astype(dtype), "v": Q.astype("f4"), "0.q.weight": Q.astype("f4")}
    (head,) = read_heads(saved(f"qk.{suffix}", **arrays))
    same(head, Q.astype(dtype), K.astype(dtype))
    assert (head.layer, head.head) == numbers


def test_pairs_come_in_the_order_of_layer_and_head(saved):
    names = ["10.0", "2.10", "2.9"]
    arrays = {f"{role}.{name}": i * (Q if role == "q" else K) for i, name in enumerate(names) for role in "qk"}
    heads = read_heads(saved("qk.npz", **arrays))
    assert [(head.layer, head.head) for head in heads] == [(2, 9), (2, 10), (10, 0)]
    for head, i in zip(heads, (2, 1, 0), strict=True):
        same(head, i * Q, i * K)


BAD = {
    "no numbers": ({"q": Q, "v": K}, "qk.npz: expected q and k of the same layer and head, got 'q' alone"),
    "no names": ({"x": Q, "q.weight": K}, "qk.npz: expected arrays named q and k, .*, got 'x', 'q.weight'"),
    "twice": ({"q.1": Q, "k.1": K, "1.q": Q}, "qk.npz: expected one q for each layer and head, got 'q.1', '1.q'"),
    "three numbers": ({"q.1.2.3": Q}, "qk.npz: expected at most two numbers in a name, .*, got 'q.1.2.3'"),
    "one axis": ({"q": Q[0, 0], "k": K}, r"qk.npz: 'q': expected 2 axes or more, .*, got shape \(4,\)"),
    "objects": ({"q": Q, "k": np.array([{}])}, "qk.npz: 'k': expected arrays of numbers, got .*Object arrays"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_named(saved, case):
    arrays, message = BAD[case]
    with pytest.raises(FilesError, match=message):
        read_heads(saved("qk.npz", **arrays))


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_a_missing_an_empty_and_a_damaged_file_are_named(saved, tmp_path, suffix):
    saved(q=Q, k=K)
    for file in ("qk.npz", "qk.safetensors"):
        saved(file, q=Q, k=K)
    good = tmp_path / ("q.npy" if suffix == "npy" else f"qk.{suffix}")
    bad, pickled = tmp_path / f"bad.{suffix}", tmp_path / f"pickled.{suffix}"
    pickled.write_bytes(b"\x80\x04N.")
    for path in (bad, pickled):
        for content in (None, b"", good.read_bytes()[:-100]):
            if path == bad and content is not None:
                path.write_bytes(content)
            with pytest.raises(
                FilesError, match=f"{path.name}: (cannot read: No such file|expected arrays of numbers)"
            ):
                read_heads([path, tmp_path / "k.npy"] if suffix == "npy" else [path])


def test_a_file_of_pytorch_gives_the_lines_that_convert_it(tmp_path):
    with pytest.raises(
        FilesError, match=r"expected a name that ends in .npy, .npz or .safetensors, got 'qk.pt'"
    ) as told:
        read_heads([tmp_path / "qk.pt"])
    *_, load, save = str(told.value).split("\n")

    class Tensor:
        def __init__(self, array):
            self.numpy = lambda: array

        def detach(self):
            return self

        float = detach

    class torch:  # noqa: N801
        @staticmethod
        def load(path, map_location, weights_only):
            assert (path, map_location, weights_only) == (str(tmp_path / "qk.pt"), "cpu", True)
            return {"q.0": Tensor(Q), "k.0": Tensor(K)}

    exec(f"{load}\n{save.replace('qk.npz', str(tmp_path / 'qk.npz'))}", {"torch": torch, "np": np})
    same(read_heads([tmp_path / "qk.npz"])[0])


def test_the_number_of_files_and_arrays_counts(saved):
    (one,) = saved(q=Q)
    pair = saved("qk.npz", q=Q, k=K)
    with pytest.raises(FilesError, match=r"q.npy: expected a file with q and a file with k"):
        read_heads([one])
    with pytest.raises(FilesError, match="got 3 files"):
        read_heads([one] * 3)
    with pytest.raises(
        FilesError, match=r"qk.npz: expected one array, q or k, because there are two files, got 'q', 'k'"
    ):
        read_heads([one, *pair])
