"""Attention weights of padded and packed batches, as Hugging Face models return them, and of sharp
heads in half precision, beside plain loops over the rows of real tokens.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import special

from sdpa.masks import named_mask
from sdpa.tools.heads import Options, read_heads
from sdpa.tools.heads.table import table_of
from tests.numerics import normals
from tests.tools.command import sdpa

BATCH, HEADS, N = 3, 2, 13
LENGTHS = (13, 11, 7)
SCORES = 2 * normals(BATCH, HEADS, N, N, seed=7).astype("f4")
TOKENS = {
    "left": np.array([np.arange(N) >= N - length for length in LENGTHS]),
    "right": np.array([np.arange(N) < length for length in LENGTHS]),
    "none": np.ones((BATCH, N), bool),
}


def weights(side, mask):
    """The least number of the type in place of hidden scores: a row that sees no key is uniform."""
    shown = TOKENS[side][:, None, None, :] & named_mask(mask, N, N)
    return special.softmax(np.where(shown, SCORES, np.finfo("f4").min), axis=-1)


def spread(side, mask):
    """By head, the standard deviation within rows of real tokens that see two keys or more."""
    seen = named_mask(mask, N, N)
    variances = [
        [SCORES[b, :, i, seen[i] & TOKENS[side][b]].var(axis=0, dtype="f8")]
        for b in range(BATCH)
        for i in range(N)
        if TOKENS[side][b, i] and (seen[i] & TOKENS[side][b]).sum() > 1
    ]
    return np.sqrt(np.mean(variances, axis=0)[0])


def read(array, tokens=None, *, mask="none"):
    np.save("w.npy", array)
    if tokens is not None:
        np.save("am.npy", tokens.astype(int))
        mask += ",am.npy"
    (layer,) = read_heads([Path("w.npy")], Options("weights", mask=mask))
    return layer


@pytest.mark.parametrize(
    "side, mask, named",
    [
        ("left", "causal", "causal"),
        ("right", "none", "none"),
        ("left", "local-3", "local-3"),
        ("none", "window-4", "causal"),  # weights of 0 tell the window
    ],
)
def test_the_rows_of_tokens_have_their_spread(side, mask, named):
    """Left padding is uniform to the last bit, and may be left out without a mask of tokens."""
    layers = [read(weights(side, mask), TOKENS[side], mask=named)]
    if (side, mask) == ("left", "causal"):
        layers.append(read(weights(side, mask), mask="causal,padding"))
    for layer in layers:
        actual = np.sqrt(pd.DataFrame(table_of([layer]))["row_variance"])
        assert_allclose(actual, spread(side, mask), rtol=1e-5)


@pytest.mark.parametrize(
    "side, mask, named, has_file, message",
    [
        ("left", "causal", "none", True, "causal.* add --mask causal,"),
        ("none", "causal", "none", False, "causal.* add --mask causal,"),
        ("left", "causal", "causal", False, "hides 16%.* 16 rows of equal .*--mask causal,padding"),
        ("none", "none", "causal", False, "got one that hides 4.% of it"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(side, mask, named, has_file, message):
    with pytest.raises(ValueError, match=message):
        read(weights(side, mask), TOKENS[side] if has_file else None, mask=named)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_weights_that_half_precision_rounds_to_0_are_small_and_not_hidden(dtype):
    """Sharp heads, of which 2/3 of the weights are 0, also if they have been converted since; and
    heads that are not sharp, where a 0 hides its key.
    """
    n = 96
    visible = np.tri(n, dtype=bool)
    within = visible & ~np.tri(n, k=-8, dtype=bool)  # of a window of 8
    scores = normals(2, n, n, seed=3) * [[[12.0]], [[1.0]]]
    w = special.softmax(np.where([visible, within], scores, -np.inf), axis=-1)
    half = w.astype("f2")
    layer = read(half.astype(dtype), mask="causal")
    hidden = layer.q == -np.inf
    assert (hidden[0] == ~visible).mean() > 0.99  # but keys that no query gives weight
    assert (hidden[1] == ~within).all()
    assert layer.rounded == ((half[0] == 0) & ~hidden[0]).sum() > 0.3 * n**2
    known = np.log(np.maximum(half[0], np.float64(2.0**-24)))[visible]
    assert_allclose(layer.q[0][visible & ~hidden[0]], known[~hidden[0][visible]], rtol=1e-6)


def test_rows_that_are_no_weights_are_refused_and_padding_is_left_out():
    some = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]], "f2")
    with_nan = np.where(some.any(axis=-1)[:, None], some, np.nan)
    hidden = np.tile([[1], [1], [0]], 3)
    for layer in read(some), read(with_nan, mask="padding"), read(with_nan, hidden):
        assert [head["rows"] for head in table_of([layer])] == [2]
    for wrong, message in (2 * some, "non-negative and sum to"), (with_nan, "from nan to nan; --"):
        with pytest.raises(ValueError, match=message):
            read(wrong)


def test_the_weight_that_leaves_its_document_is_found():
    """In weights that of head 1 of 3; of q and k, divided by the keys of the longest document, that
    of all heads.
    """
    document = np.repeat([0, 1, 2], [4, 5, 4])
    same = document[:, None] == document
    causal = named_mask("causal", N, N)
    visible = np.array([causal & same, causal, causal & same])
    w = special.softmax(np.where(visible, SCORES[:1, [0, 1, 0]], -np.inf), axis=-1)
    q, k = normals(2, 1, 3, N, 4)
    for name, array in {"ends": np.array([0, 4, 9, N]), "w": w, "q": q, "k": k}.items():
        np.save(f"{name}.npy", array)
    of_pairs = special.softmax(np.where(causal, q @ k.mT / 5, -np.inf), axis=-1)
    for files, of_heads, status, words in (
        ("--weights w.npy", w, 1, "(head 1), more than 1% of the weight"),
        (
            "q.npy k.npy --scaling n_keys",
            of_pairs,
            0,
            "documents: unless the model keeps them apart, ",
        ),
    ):
        ran = sdpa("diagnose", *files.split(), "--cu-seqlens", "ends.npy", "--mask", "causal")
        said = " ".join(ran.stdout.split())
        assert "Queries see 61.4% of the keys of their sequence" in said  # 35 of 57
        assert (ran.returncode, words in said) == (status, True)
        shares = (of_heads[0] * ~same).sum(axis=(1, 2)) / (N - 1)  # rows of two keys and more
        told = f"{shares.mean():.2%} of the weight leaves its document, and {shares.max():.2%} in"
        assert told in said
