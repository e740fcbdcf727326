"""Layouts of queries and keys, scores, weights, masks and packed sequences as programs save
them.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors import TensorSpec, serialize_file
from safetensors.numpy import save_file

from sdpa import attention_weights, causal_mask, diagnose, diagnose_scores
from sdpa.command.words import read_as
from sdpa.heads import FilesError, HeadArrays, Layout, notes, read_heads
from sdpa.row_maps import PLAIN, RowMap
from tests.numerics import in_bfloat16, normals

HEADS, N, D = 3, 5, 4
LENGTHS = [5, 3]  # of two sequences without their padding
# The type makes the same numbers in any other type.
Q, K = in_bfloat16(normals(2, 2, HEADS, N, D))
SCORES = Q @ K.swapaxes(-2, -1) / 2
WEIGHTS = attention_weights(Q, K, mask="causal")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def saved(arrays, suffix="npz"):
    path = Path(f"qk.{suffix}")
    if suffix == "npz":
        np.savez(path, **arrays)
    elif all(one.dtype == "V2" for one in arrays.values()):
        given = {
            name: TensorSpec(
                dtype="bfloat16", shape=one.shape, data_ptr=one.ctypes.data, data_len=one.nbytes
            )
            for name, one in arrays.items()
        }
        serialize_file(given, path)
    else:
        save_file({name: np.ascontiguousarray(one) for name, one in arrays.items()}, path)
    return path


def pair(prefix, change=np.asarray, suffix=""):
    return {f"{prefix}q{suffix}": change(Q), f"{prefix}k{suffix}": change(K)}


def bits_of_bfloat16(array):
    """As NumPy stores the type, which it does not know."""
    return (array.view("<u4") >> 16).astype("<u2").view("V2")


def token_first(array):
    return array.swapaxes(-3, -2)


def joined(array):
    return token_first(array).reshape(2, N, -1)


def packed(array):
    return np.concatenate([one[:n] for one, n in zip(token_first(array), LENGTHS, strict=True)])


HOOK = "blocks.0.attn.hook_"
HOOKED = pair(HOOK, token_first)
PACKED = pair("", packed)
ENDS = np.array([0, 5, 8], "i4")
IS_TOKEN = np.arange(N) < np.array(LENGTHS)[:, None]
IN_ORDER = {"axes": ("batch", "position", "head")}
LAYOUTS = {
    "bfloat16": (pair("", bits_of_bfloat16), {}),
    "TransformerLens": (HOOKED | {"blocks.0.hook_q_input": Q}, {}),
    "rotated": (pair(f"{HOOK}rot_", token_first) | pair(HOOK, lambda one: one[:, :1]), {}),
    "flash-attention": (pair("", token_first), IN_ORDER),
    "heads not split": (pair("", joined, ".0"), {"heads": HEADS}),
    "packed, not split": (
        {name: one.reshape(8, -1) for name, one in PACKED.items()} | {"cu_seqlens": ENDS},
        {"heads": HEADS},
    ),
    "mask": (pair("") | {"mask": IS_TOKEN}, {}),
    "mask of 0 and 1": (HOOKED | {"attention_mask": IS_TOKEN.astype(int)}, {}),
    "additive mask": (
        pair("", suffix=".0") | {"mask.0": np.where(IS_TOKEN, 0, -65504.0)[:, None, None]},
        {},
    ),
    "scores of layers": ({f"scores.{layer}": SCORES for layer in (1, 0)} | {"q.0": Q}, {}),
    "weights of layers": ({"weights.0": WEIGHTS.astype("f2"), "weights.1": WEIGHTS}, {}),
    "weights of TransformerLens": ({f"{HOOK}pattern": WEIGHTS}, {}),
}


def kind_of(name):
    return next((kind for kind in ("scores", "weights") if kind in name), "q")


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
    suffix = "npz" if "weights" in name else "safetensors"
    beside = [one for one in arrays if "mask" in one or "cu_seq" in one]
    files = {one: {one: arrays[one]} for one in beside[:1]}
    rest = {one: array for one, array in arrays.items() if one not in beside}
    for of_file in ({}, files):
        for role, array in of_file.items():
            np.save(f"{role}.npy", array[role])
            options = options | {"mask" if "mask" in role else "cu_seqlens": Path(f"{role}.npy")}
        path = saved(rest if of_file else arrays, suffix)
        found = read_heads([path], Layout(**options), kind_of(name))
        assert [one.layer for one in found] in ([None], [0], [0, 1])
        for one in found:
            seen = one.diagnose(mask="causal")
            expected = entropy(LENGTHS if beside else [N, N])
            assert seen.axes == ("head",)
            assert_allclose(seen["entropy"].value, expected, rtol=1e-3)


def test_a_mask_of_padding_says_where_keys_are_hidden():
    (found,) = read_heads([saved(pair("") | {"key_padding_mask": ~IS_TOKEN})])
    assert_array_equal(found.mask, IS_TOKEN[:, None, :, None] & IS_TOKEN[:, None, None])


def test_each_head_of_a_layer_has_its_own_sink():
    sinks = np.linspace(-1, 2, HEADS)
    layers = pair("", suffix=".0") | pair("", suffix=".1")
    in_a_file = {f"model.layers.{layer}.self_attn.sinks": sinks + layer for layer in (0, 1)}
    file = Path("model.npz")
    np.savez(file, **in_a_file)
    sums = np.exp(Q @ K.mT / np.sqrt(D)).sum(axis=-1)
    for found in (
        read_heads([saved(layers | in_a_file)]),
        read_heads([saved(layers, "safetensors")], Layout(sinks=file)),
    ):
        for layer, one in enumerate(found):
            for row_map, logits in ((PLAIN, sinks + layer), (RowMap(sink=3.0), [3.0] * HEADS)):
                mass = one.diagnose(row_map=row_map)["visible_mass"].value
                of_sinks = np.exp(logits)[:, None]
                expected = (sums / (sums + of_sinks)).mean(axis=(0, 2))
                assert_allclose(mass, expected, rtol=1e-6)
    with pytest.raises(FilesError, match="expected sinks beside q and k alone"):
        read_heads([saved({"scores": SCORES, "sinks": sinks})], kind="scores")


def test_sequences_and_layers_may_come_in_any_order_and_k_may_have_fewer_heads():
    layers = {name: np.stack([one, 3 * one]) for name, one in pair("").items()}
    (found,) = read_heads([saved(layers)])
    by_layer = [diagnose(*(one[layer] for one in layers.values())) for layer in (0, 1)]
    seen = found.diagnose()
    assert seen.axes == ("layer", "head")
    assert_allclose(seen["entropy"], np.stack([one["entropy"] for one in by_layer], axis=1))
    assert "(layer, batch, head, position, d_k), assumed from" in read_as(found)
    (found,) = read_heads([saved({"q": joined(Q), "k": joined(K[:, :1])})], Layout(heads=HEADS))
    assert (found.q.shape, found.k.shape) == (Q.shape, K[:, :1].shape)
    reversed_mask = saved(pair("") | {"mask": IS_TOKEN[:, ::-1]})
    assert read_heads([reversed_mask])[0].diagnose(mask="window-2").rows.tolist() == [6, 6, 6]


MANY = np.zeros((2, 7, 3, 4))  # 7 heads of 3 positions, or the other way
REFUSED = [
    ({"q": Q[0], "k": K[0, ..., :3]}, {}, r"same d_k .* got q \(3, 5, 4\) and k \(3, 5, 3\)"),
    ({"q": np.zeros((5, 512)), "k": np.zeros((5, 512))}, {}, "256 at most.*choose --heads H"),
    ({"q": MANY, "k": MANY}, {}, r"--axes batch,head for \(head, .*--axes batch,position,head for"),
    ({"q": MANY[:, :3], "k": MANY[:, :3]}, {}, "fewer heads than keys"),
    (PACKED | {"cu_seqlens": ENDS[:2]}, {}, r"8 tokens .* got \[0, 5\]"),
    (pair("") | {"mask": IS_TOKEN[:, 1:]}, {}, r"mask: .* got \(2, 4\), which fits in 0"),
    (pair("") | {"mask": ~np.tri(N, dtype=bool)}, {}, "hides the own key"),
    (pair("") | {"attn_mask": IS_TOKEN}, {}, "True is a visible key in some"),
    (pair("") | {"mask": IS_TOKEN, "cu_seqlens": ENDS}, {}, "expected one mask, or cu_seqlens"),
    ({"q.1": Q, "k.1": K, "q.2": Q}, {}, "or so for each layer .*got 'q.1', 'k.1', 'q.2'"),
    ({"q": Q, "k": np.array([{}])}, {}, "expected arrays of numbers, got .*Object arrays"),
]


@pytest.mark.parametrize(("arrays", "options", "message"), REFUSED)
def test_what_cannot_be_told_is_refused_with_the_option(arrays, options, message):
    with pytest.raises(FilesError, match=f"qk.npz: .*{message}"):
        read_heads([saved(arrays)], Layout(**options))


def of(array, k=None, **options):
    return HeadArrays(array, k, **options)


def test_weights_give_what_their_scores_give_but_their_size():
    found = of(WEIGHTS, kind="weights").diagnose().estimates
    expected = diagnose_scores(SCORES, "causal").estimates
    of_sizes = {"largest_score", "largest_absolute_score"}
    assert expected.keys() - found.keys() == of_sizes
    for name in found:
        assert_allclose(found[name], expected[name], 1e-4, 1e-5, err_msg=name)


def test_a_weight_of_0_is_a_visible_key_under_a_mask_and_rows_of_zeros_are_padding():
    weights = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], "f2")
    others = np.array([[0.0, 0.5, 0.5], [0.0, 0.5, 0.5], [0.0, 0.0, 0.0]], "f2")
    arrays = of(np.stack([weights, others]), kind="weights")
    hidden, visible = (arrays.diagnose(mask=mask) for mask in (None, "none"))
    assert (hidden.rows.tolist(), hidden["entropy_share"].value[0]) == ([1, 2], 1)
    assert visible["entropy_share"].value[0] == pytest.approx(np.log(2) / np.log(3) / 2, rel=1e-5)
    assert "Weights of 0: 11." in notes([arrays])[1]
    with pytest.raises(ValueError, match="weights: expected rows that are non-negative and sum to"):
        of(2 * weights, kind="weights").diagnose()
    with pytest.raises(ValueError, match="hides no weight, got one that hides 50% of it"):
        arrays.diagnose(mask="causal")
    with pytest.raises(ValueError, match="got NaN in 1 rows"):
        of(np.where(np.tri(3), weights, np.nan)[:2, :2], kind="weights").diagnose()


def test_padding_and_finite_masks_are_named():
    q, k = normals(2, 3, 4, 64, 16, seed=1)
    is_token = np.arange(64)[:, None] < 60
    masked = np.where(causal_mask(N, N), SCORES, -65504)
    for arrays, words in (
        (of(q, k), None),
        (of(is_token * q, is_token * k), "Rows of zeros: 96 queries and keys"),
        (of(is_token * q, is_token * k, mask=is_token & is_token.T), None),
        (of(SCORES, kind="scores"), None),
        (of(masked, kind="scores"), "Hidden keys: 60 scores"),
        (of(np.ones((1, 3, 3)) / 3, kind="weights"), "Rows of equal weights: 3"),
    ):
        told = notes([arrays])
        assert any(words in line for line in told) if words else told == []


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_a_missing_an_empty_and_a_damaged_file_are_named(suffix):
    file = Path(f"qk.{suffix}")
    with pytest.raises(FilesError, match=f"{file}: cannot read: No such file"):
        read_heads([file])
    if suffix == "npy":
        np.save(file, Q)
    else:
        saved(pair(""), suffix)
    header = (2).to_bytes(8, "little") + b"[]"
    for content in (b"", b"\x80\x04N.", header, file.read_bytes()[:-100]):  # the second is a pickle
        file.write_bytes(content)
        with pytest.raises(FilesError, match=f"{file}: expected arrays of numbers"):
            read_heads([file])
