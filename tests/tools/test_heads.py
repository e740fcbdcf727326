"""Layouts of queries and keys, scores, weights, masks and packed documents as programs save
them.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from safetensors import TensorSpec, serialize_file

from sdpa import attention_weights, diagnose
from sdpa.tools.heads import Options, read_heads
from sdpa.tools.heads.table import table_of
from tests.numerics import normals

HEADS, N, D = 3, 5, 4
LENGTHS = [5, 3]  # of two sequences without their padding
# Numbers of bfloat16 are the same in any other type.
Q, K = (normals(2, 2, HEADS, N, D).astype("f4").view("u4") & 0xFFFF0000).view("f4")
SCORES = Q @ K.swapaxes(-2, -1) / 2
WEIGHTS = attention_weights(Q, K, mask="causal")


def saved(arrays, suffix="npz"):
    path = Path(f"qk.{suffix}")
    if suffix == "npz":
        np.savez(path, **arrays)
    else:
        whole = {name: np.ascontiguousarray(one) for name, one in arrays.items()}
        given = {
            name: TensorSpec(
                dtype="bfloat16" if one.dtype == "V2" else one.dtype.name,
                shape=one.shape,
                data_ptr=one.ctypes.data,
                data_len=one.nbytes,
            )
            for name, one in whole.items()
        }
        serialize_file(given, path)
    return path


def pair(change=np.asarray, suffix=""):
    return {f"q{suffix}": change(Q), f"k{suffix}": change(K)}


def bits_of_bfloat16(array):
    """As NumPy stores the type, which it does not know."""
    return (array.view("<u4") >> 16).astype("<u2").view("V2")


def token_first(array):
    return array.swapaxes(-3, -2)


def packed(array):
    return np.concatenate([one[:n] for one, n in zip(token_first(array), LENGTHS, strict=True)])


PACKED = pair(packed)
ENDS = np.array([0, 5, 8], "i4")
IS_TOKEN = np.arange(N) < np.array(LENGTHS)[:, None]
ADDITIVE = np.where(IS_TOKEN, 0, -65504.0)[:, None, None]
LAYOUTS = {
    "bfloat16": (pair(bits_of_bfloat16), {}),
    "flash-attention": (pair(token_first), {"axes": ("batch", "position", "head")}),
    "packed": (PACKED | {"cu_seqlens": ENDS}, {}),
    "mask": (pair() | {"attention_mask": IS_TOKEN}, {}),
    "additive mask": (pair(suffix=".0") | {"mask.0": ADDITIVE}, {}),
    "scores of layers": ({f"scores.{layer}": SCORES for layer in (1, 0)} | {"q.0": Q}, {}),
    "weights of layers": ({"weights.0": WEIGHTS.astype("f2"), "weights.1": WEIGHTS}, {}),
}


def entropy(lengths):
    """By head, the mean over causal rows of two keys and more of sequences of these lengths."""
    rows = [
        -sum(w[:, row, j] * np.log(w[:, row, j]) for j in range(row + 1))
        for w, length in zip(WEIGHTS, lengths, strict=True)
        for row in range(1, length)
    ]
    return np.mean(rows, axis=0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_read_by_names_or_options(name):
    arrays, options = LAYOUTS[name]
    kind = next((kind for kind in ("scores", "weights") if kind in name), "q")
    path = saved(arrays, "npz" if kind == "weights" else "safetensors")
    actual = read_heads([path], Options(kind, mask="causal", **options))
    assert [layer.number for layer in actual] in ([None], [0], [0, 1])
    table = pd.DataFrame(table_of(actual))
    is_shorter = any("mask" in one or "cu_seq" in one for one in arrays)
    expected = entropy(LENGTHS if is_shorter else [N, N])
    assert_allclose(table["entropy"], np.tile(expected, len(actual)), rtol=1e-3)
    assert (table["sequences"] == 2).all()


def test_layers_come_before_sequences_and_k_may_have_fewer_heads():
    layers = {name: np.stack([one, 3 * one]) for name, one in pair().items()}
    layers["k"] = layers["k"][:, :, :1]
    table = pd.DataFrame(table_of(read_heads([saved(layers)])))
    assert [*zip(table["layer"], table["head"], strict=True)] == [*np.ndindex(2, HEADS)]
    by_layer = [diagnose(*(one[layer] for one in layers.values())) for layer in (0, 1)]
    assert_allclose(table["entropy"], np.ravel([one["entropy"].value for one in by_layer]))


@pytest.mark.parametrize(
    "name", ["attentions", "arr_0", "blocks.{}.attn.hook_pattern", "h/{}/weights_2"]
)
def test_weights_are_read_by_one_name_or_by_the_number_that_names_differ_in(name):
    layers = range(8, 11) if "{}" in name else [None]
    arrays = {name.format(layer): WEIGHTS * 1.0 for layer in layers}
    actual = read_heads([saved(arrays | {"mask": IS_TOKEN})], Options("weights", mask="causal"))
    assert [layer.number for layer in actual] == [*layers]
    assert_allclose(pd.DataFrame(table_of(actual))["entropy"][:HEADS], entropy(LENGTHS), rtol=1e-6)


MANY = np.zeros((2, 7, 3, 4))  # 7 heads of 3 positions, or the other way
REFUSED = {
    r"same d_k .* got q .* = \(3, 5, 4\) and k \(3, 5, 3\)": {"q": Q[0], "k": K[0, ..., :3]},
    r"256 at most.*q\.reshape": dict.fromkeys("qk", np.zeros((5, 512))),
    r"--axes batch,head for \(head, .*--axes batch,position,head for": dict.fromkeys("qk", MANY),
    "--axes batch,position": {name: one[None] for name, one in PACKED.items()}
    | {"cu_seqlens": ENDS},
    r"8 tokens, got \[0, 5\]; .* add --axes head,position": PACKED | {"cu_seqlens": ENDS[:2]},
    r"mask: .* got \(2, 4\)": pair() | {"mask": IS_TOKEN[:, 1:]},
    "hides the own key": pair() | {"mask": ~np.tri(N, dtype=bool)},
    r"mask: \(5, 5\) may be \(batch, n_keys\), of padding": pair(lambda x: x.repeat(N, 0)[:N])
    | {"mask": np.tri(N, dtype=bool)},
    "True is a visible key in some": pair() | {"attn_mask": IS_TOKEN},
    "or for each layer .*got q.1, k.1, q.2": {"q.1": Q, "k.1": K, "q.2": Q},
    "or for each layer .*got q_0, k_0; .* names that differ in one number": {"q_0": Q, "k_0": K},
    "expected arrays of numbers, as np.save.* got text, Python objects": {
        "q": Q,
        "k": np.array([{}]),
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_told_is_refused_with_the_option(message):
    with pytest.raises(ValueError, match=f"qk.npz: .*{message}"):
        read_heads([saved(REFUSED[message])])


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_a_missing_an_empty_and_a_damaged_file_are_named(suffix):
    file = Path(f"qk.{suffix}")
    with pytest.raises(ValueError, match=f"{file}: cannot read: No such file"):
        read_heads([file])
    if suffix == "npy":
        np.save(file, Q)
    else:
        saved(pair(), suffix)
    header = (2).to_bytes(8, "little") + b"[]"
    for content in (b"", b"\x80\x04N.", header, file.read_bytes()[:-100]):  # the second is a pickle
        file.write_bytes(content)
        with pytest.raises(ValueError, match=f"{file}: expected arrays of numbers"):
            read_heads([file])
