"""Attention weights of padded and packed batches, as Hugging Face models return them, beside plain
loops over the rows of real tokens.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from sdpa.heads import HeadArrays, Layout, notes, read_heads
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
PADDED = "16 of 78 query rows are uniform to the last bit, or their own key is hidden: padded?"


def sees(mask):
    """The keys of each query, (N, N)."""
    behind, ahead = BANDS[mask]
    return np.array([[-behind <= j - i <= ahead for j in range(N)] for i in range(N)])


def softmax(scores):
    w = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return w / w.sum(axis=-1, keepdims=True)


def weights(side, mask, scores=SCORES):
    """The least number of the type in place of hidden scores: a row that sees no key is uniform."""
    shown = TOKENS[side][:, None, None, :] & sees(mask)
    return softmax(np.where(shown, scores, np.finfo("f4").min))


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
    ("side", "mask", "named", "has_file", "skip_padded"),
    [
        ("left", "causal", None, False, True),
        ("left", "causal", "causal", True, False),
        ("left", "causal", "causal", False, True),
        ("left", "window-4", "window-4", True, False),
        ("right", "causal", None, False, True),
        ("right", "none", None, True, False),
        ("left", "local-3", "local-3", True, False),
        ("none", "causal", None, False, False),
    ],
)
def test_rows_of_tokens_alone_count(side, mask, named, has_file, skip_padded):
    arrays = read(weights(side, mask), TOKENS[side] if has_file else None)
    found = arrays.diagnose(mask=named, skip_padded=skip_padded)
    assert_allclose(np.sqrt(found["row_variance"].value), spread(side, mask), rtol=1e-5)
    if has_file or side == "none":
        assert not [line for line in notes([arrays]) if "padded" in line]


@pytest.mark.parametrize(
    ("side", "mask", "named", "has_file", "message"),
    [
        ("right", "causal", None, True, "above the diagonal are 0: causal[?] .* causal,FILE"),
        ("left", "window-4", "causal", True, "of a band are 0: window-4[?] pass --mask window-4"),
        ("none", "local-3", "none", False, "of a band are 0: local-3[?]"),
        ("left", "causal", "causal", False, "in 16 of 78 rows; 16 of them uniform .* --skip-padd"),
        ("none", "none", "causal", False, "hides 4.%.* if these rows are padded, add a mask of"),
        ("right", "causal", "causal", False, "0 from every query for 21% of the keys: padded[?]"),
    ],
)
def test_a_mask_that_does_not_explain_the_zeros_is_refused(side, mask, named, has_file, message):
    arrays = read(weights(side, mask), TOKENS[side] if has_file else None)
    with pytest.raises(ValueError, match=message):
        arrays.diagnose(mask=named)


@pytest.mark.parametrize("name", ["sharp", "falling", "one key"])
def test_zeros_by_rounding_are_not_refused(name):
    distance = np.abs(np.subtract.outer(np.arange(N), np.arange(N)))
    scores = {
        "sharp": 6 * SCORES,
        "falling": -2.0 * distance[None, None],  # to 0 in float16 from 9 keys on
        "one key": SCORES[:1, :1] + 30 * (np.arange(N) == 0),
    }[name]
    w = softmax(scores).astype("f2")
    assert (w == 0).any()
    found = read(w, TOKENS["none"][: len(w)]).diagnose()
    assert found.rows.tolist() == [N * len(w)] * w.shape[1]


def test_padded_rows_are_named_and_left_out_on_request():
    (told,) = (line for line in notes([read(weights("left", "causal"))]) if "padded" in line)
    assert told.startswith(f"{PADDED} They count")
    ran = sdpa("diagnose", "--weights", "w.npy", "--skip-padded", "--csv", "t.csv")
    assert f"{PADDED} They are left out." in " ".join(ran.stdout.split())
    found = pd.read_csv("t.csv")["row_variance"] ** 0.5
    assert_allclose(found, spread("left", "causal"), rtol=1e-5)


@pytest.mark.parametrize("kind", ["q", "scores"])
def test_padded_rows_of_scores_and_vectors_are_left_out(kind):
    """A mask with a row of keys for each query says nothing about queries."""
    keys = TOKENS["left"][:, None, None]
    q, k = normals(2, BATCH, HEADS, N, 4, seed=8)
    arrays = [HeadArrays(None, None, q, k, mask=np.broadcast_to(keys, (BATCH, 1, N, N)))]
    if kind == "scores":
        arrays = [HeadArrays(None, None, np.where(keys, q @ k.mT / 2, -1e9), None, kind=kind)]
    assert PADDED in " ".join(notes(arrays))
    found = arrays[0].diagnose(skip_padded=True)
    expected = spread("left", "none", q @ k.mT / 2)
    assert_allclose(np.sqrt(found["row_variance"].value), expected, rtol=1e-9)


def test_a_head_of_equal_scores_is_no_padding():
    one_head = np.array([0, 1])[:, None, None]
    assert notes([read(softmax(one_head * SCORES))]) == []


def test_the_weight_that_leaves_its_document_is_found():
    """That of head 2, whose rows are diagnosed as they are; other rows are those of documents."""
    ends, document = np.array([0, 4, 9, N]), np.repeat([0, 1, 2], [4, 5, 4])
    same = document[:, None] == document
    scores = SCORES[:1].repeat(2, axis=1)
    shown = sees("causal") & np.array([same, same, np.ones_like(same), same])[None]
    w = softmax(np.where(shown, scores, -np.inf))
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
