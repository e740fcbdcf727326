"""Attention weights of padded and packed batches, as Hugging Face models return them, beside plain
loops over the rows of real tokens.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import special

from sdpa.heads import Layout, read_heads
from tests.command_line import sdpa
from tests.numerics import normals

BATCH, HEADS, N = 3, 2, 13
LENGTHS = (13, 11, 7)
SCORES = 2 * normals(BATCH, HEADS, N, N, seed=7).astype("f4")
TOKENS = {
    "left": np.array([np.arange(N) >= N - length for length in LENGTHS]),
    "right": np.array([np.arange(N) < length for length in LENGTHS]),
    "none": np.ones((BATCH, N), bool),
}
BANDS = {"causal": (N, 0), "window-4": (3, 0), "local-3": (3, 3), "none": (N, N)}  # behind, ahead


def sees(mask):
    """The keys of each query, (N, N)."""
    behind, ahead = BANDS[mask]
    return np.array([[-behind <= j - i <= ahead for j in range(N)] for i in range(N)])


def weights(side, mask, scores=SCORES):
    """The least number of the type in place of hidden scores: a row that sees no key is uniform."""
    shown = TOKENS[side][:, None, None, :] & sees(mask)
    return special.softmax(np.where(shown, scores, np.finfo("f4").min), axis=-1)


def spread(side, mask, scores=SCORES):
    """By head, the standard deviation within rows of real tokens that see two keys or more."""
    seen = sees(mask)
    variances = [
        [scores[b, :, i, seen[i] & TOKENS[side][b]].var(axis=0, dtype="f8")]
        for b in range(BATCH)
        for i in range(N)
        if TOKENS[side][b, i] and (seen[i] & TOKENS[side][b]).sum() > 1
    ]
    return np.sqrt(np.mean(variances, axis=0)[0])


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(array, tokens=None, **options):
    np.save("w.npy", array)
    if tokens is not None:
        np.save("am.npy", tokens.astype(int))
        options["mask"] = Path("am.npy")
    (found,) = read_heads([Path("w.npy")], Layout(**options), "weights")
    return found


@pytest.mark.parametrize(
    ("side", "mask", "named"),
    [
        ("left", "causal", "causal"),
        ("right", "causal", "causal"),
        ("right", "none", None),
        ("left", "local-3", "local-3"),
    ],
)
def test_a_mask_of_tokens_leaves_padding_out(side, mask, named):
    arrays = read(weights(side, mask), TOKENS[side])
    found = arrays.diagnose(mask=named)
    assert_allclose(np.sqrt(found["row_variance"].value), spread(side, mask), rtol=1e-5)


@pytest.mark.parametrize(
    ("side", "mask", "named", "has_file", "message"),
    [
        ("left", "causal", None, True, "got 0 in all heads for 45% of them; pass the mask of the"),
        ("left", "causal", "none", False, "got 0 in all heads"),
        ("left", "causal", "causal", False, "hides .* if rows are padded, add a mask of tokens"),
        ("none", "none", "causal", False, "got one that hides 4.% of it"),
    ],
)
def test_a_mask_that_does_not_explain_the_zeros_is_refused(side, mask, named, has_file, message):
    arrays = read(weights(side, mask), TOKENS[side] if has_file else None)
    with pytest.raises(ValueError, match=message):
        arrays.diagnose(mask=named)


def test_the_weight_that_leaves_its_document_is_found():
    """That of head 2, whose rows are diagnosed as they are; other rows are those of documents."""
    ends, document = np.array([0, 4, 9, N]), np.repeat([0, 1, 2], [4, 5, 4])
    same = document[:, None] == document
    scores = SCORES[:1].repeat(2, axis=1)
    shown = sees("causal") & np.array([same, same, np.ones_like(same), same])[None]
    w = special.softmax(np.where(shown, scores, -np.inf), axis=-1)
    np.save("ends.npy", ends)
    words = ["--weights", "w.npy", "--cu-seqlens", "ends.npy", "--mask", "causal", "--csv", "t.csv"]
    for heads in ([0, 1, 2, 3], [0, 1, 3]):
        np.save("w.npy", w[:, heads])
        ran = sdpa("diagnose", *words)
        leaks = 2 in heads
        said = " ".join(ran.stdout.split())
        assert (ran.returncode, "attend to each other" in said) == (leaks, leaks)
        expected = (w[0, heads] * ~same).sum(axis=(1, 2)) / N
        assert f"{expected.mean():.2%} of the weight leaves its document, most in head" in said
        table = pd.read_csv("t.csv")
        assert_allclose(table["outside_document"], expected, atol=1e-7)
        assert table["rows"].tolist() == [12 if head == 2 else 10 for head in heads]
        variances = [
            [scores[0, h, i, shown[0, h, i]].var() for i in range(N) if shown[0, h, i].sum() > 1]
            for h in heads
        ]
        assert_allclose(table["row_variance"], [*map(np.mean, variances)], rtol=1e-5)
    np.save("ends.npy", ends[:-1])
    assert "up to the 13 tokens of an array (1, 3, 13, 13)" in sdpa("diagnose", *words).stderr
    refused = sdpa("diagnose", "--scores", "w.npy", "--cu-seqlens", "ends.npy")
    assert "expected cu_seqlens beside q and k or weights" in refused.stderr
