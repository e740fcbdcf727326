"""The command `sdpa`: `diagnose`, `compare` and `design` on files, their words and tables."""

import json
import math
import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from experiments.page.diagnosis import DIAGNOSIS_COLUMNS
from sdpa import Scaling, attention_weights, compare, design, diagnose
from sdpa.masks import MASKS
from sdpa.theory import attention_expectations, divisor_for
from sdpa.theory.query_lengths import largest_of_all_mean
from sdpa.tools.diagnosis.advice import advice
from sdpa.tools.heads import Options, read_heads
from sdpa.tools.heads.table import table_of
from tests.command_line import printed
from tests.numerics import normals
from tests.suite_process import ROOT, captured
from tests.tools.command import sdpa

EVERY = [f"{name}{end}" for name in DIAGNOSIS_COLUMNS for end in ("", "_se", "_exact")]
Q, K = normals(2, 3, 5, 4)


def save(**arrays):
    """NAME.npy of each array."""
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    return [Path(f"{name}.npy") for name in arrays]


def test_it_prints_and_writes_what_the_library_finds():
    q, k = normals(2, 24, 3, 12, 16, seed=24)
    k = k[:, :1]
    q[:, 1] += k[:, 0, :1]
    words = ["--mask", "causal", "--scaling", "d_k^1/3", "--csv", "t.csv"]
    shown = printed(sdpa("diagnose", *save(q=q, k=k), *words))
    table = pd.read_csv("t.csv")
    actual = diagnose(q, k, "d_k^1/3", "causal").columns()
    sizes = {"d_k", "n_queries", "n_keys", "mask", "scaling", "divisor", "sequences"}
    assert list(table) == [name for name in EVERY if name in {*sizes, *actual}]
    for name in actual:
        assert_allclose(table[name], actual[name], rtol=1e-9, err_msg=name)
    said = " ".join(shown.split())
    assert "q of shape (24, 3, 12, 16) read as (batch, head, position, d_k), assumed from" in said
    assert (
        "heads of q share its heads in groups Heads 3, sequences 24, queries 12, keys 12, mask"
        in said
    )
    table = table.sort_values("entropy_share")
    lines = shown.partition("unit divisor\n")[2].partition("\n\n")[0].splitlines()
    for line, head in zip(lines, table.itertuples(), strict=True):
        first = f"{head.head} {head.rows} {head.row_variance**0.5:.3g} {head.max_weight:.2f} "
        first += f"({head.max_weight_exact:.2f}) {head.entropy_share:.2f} "
        assert " ".join(line.split()).startswith(f"{first}({head.entropy_share_exact:.2f})")
        assert f" {head.most_attended_share:.0%} " in line


REFUSED = {
    "diagnose q.npy k.npy --axes positon,head": "--axes: .*; did you mean position?",
    "diagnose q.npy k.npy q.npy": "at most one file each of q and k, got q.npy, k.npy, q.npy",
    "diagnose a.npz a.npz": "a.npz: expected different names of arrays, got q, k, q, k",
    "diagnose a.npz --mask q": "^a.npz: mask: expected one of none, causal, .*, got 'q'",
    "diagnose q.npy k.npy --csv q.npy": "--csv: expected a name that ends in .csv, got q.n",
    "diagnose q.csv": r"^q.csv: expected .* \.safetensors, got 'q.csv'; to convert .*np\.loadtxt",
    "diagnose q.npy k.npy --scaling d^1/2": "^--scaling: expected 'unscaled' or",
    "diagnose q.npy k.npy --scaling 0": "^--scaling: expected a finite divisor above 0, got '0'",
    "diagnose --scores inf.npy": r"^inf.npy: scores .*, the first inf in",
    "diagnose nan.npy k.npy": r"^nan.npy and k.npy: q \(batch 0, head 1\): .* nan in row 2 of .*, column 3$",
    "diagnose q.npy k.npy --scaling sqrt(d)": r"^--scaling: .*, got 'sqrt\(d\)'; did you mean d_k\?",
    "design --d-k 0 --n-keys 8 --entropy 1": "^d_k: expected a number of at least 1, got 0",
    "design --d-k 8 --n-keys 2^10 --entropy 1": r"expected a whole number such as 1024, got '2\^10'",
    "compare a.npz mixed.npz": r"^a.npz and mixed.npz: expected the same layers in both, .* \[None\] and \[0, 1\]",
    "compare q.npy k.npy": r'^q.npy: .* as np.savez\("qk.npz", q=q, k=k\) .*, got q; --scores and --weights',
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_usage_exits_2_and_writes_nothing(words):
    save(q=Q, k=K, inf=np.array([[0, np.inf, -np.inf]]))
    np.savez("a.npz", q=Q, k=K)
    np.save("nan.npy", np.where(np.arange(60).reshape(Q.shape) == 31, np.nan, Q))
    np.savez("mixed.npz", **{"q.0": Q, "k.0": K, "q.1": Q[0], "k.1": K[0]})
    before = sorted(Path().iterdir())
    ran = sdpa(*words.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.search(REFUSED[words], ran.stderr)
    assert sorted(Path().iterdir()) == before


def test_what_is_known_may_differ_between_layers():
    """A single sequence has no errors."""
    np.savez("qk.npz", **{"q.0": Q, "k.0": K, "q.1": [Q, K], "k.1": [K, Q]})
    sdpa("diagnose", "qk.npz", "--csv", "t.csv")
    assert pd.read_csv("t.csv")["entropy_se"].notna().tolist() == [False] * 3 + [True] * 3


def planted(kind, *, keys=24, mask="none"):
    """The advice on three heads of width 16 with normal entries, of which head 1 is of that
    kind.
    """
    q, k = normals(2, 4, 3, keys, 16, seed=1)
    if kind == "sink":
        q[:, 1] += 3.0
        k[:, 1, 0] += 3.0
    elif kind == "spike":  # one large score among many that are equal
        q[:, 1], k[:, 1] = 1.0, 0.0
        k[:, 1, 5] = np.log(keys) / 4
    elif kind == "picks":  # each query picks its own key
        q[:, 1] = 5.0 * k[:, 1]
    elif kind == "undivided":
        q *= 4
    else:
        q[:, 1] *= {"hard": 40.0, "flat": 0.05}[kind]
    return advice(table_of(read_heads(save(q=q, k=k), Options(mask=mask))))


@pytest.mark.parametrize(
    "kind, options, names",
    [
        ("hard", {"mask": "causal"}, "saturated wide"),
        ("flat", {"mask": "causal"}, "flat"),
        ("undivided", {}, "undivided"),
        ("sink", {"mask": "causal"}, "wide sink"),
        ("spike", {"keys": 2000}, "sink"),
        ("sink", {"keys": 12}, "wide"),
        ("picks", {}, "wide"),
    ],
)
def test_advice_is_given_where_it_holds(kind, options, names):
    """A head that is wide beside others is a fact, and no advice."""
    told = planted(kind, **options)
    assert " ".join(told) == names
    heads = r"In (3 of 3 heads \(head 0, head 1, head 2\)|1 of 3 heads \(head 1\)), "
    assert all(re.match(heads, one) for one in told.values())


def test_advice_without_a_mask_holds_for_a_decoder_too():
    """Under a causal mask, the keys of most queries are far closer together."""
    q, k = normals(2, 4, 3, 24, 16, seed=1)
    k[..., 20:, :] *= 9
    files = save(q=q, k=k)
    assert "undivided" in advice(table_of(read_heads(files)))
    said = printed(sdpa("diagnose", *files))
    assert "for a decoder, add --mask causal" in said
    assert "No advice: no head counts as saturated" in said


def test_hidden_scores_and_rows_do_not_count():
    """Causal, with a first query that sees no key."""
    scores = np.where(np.tri(4, dtype=bool), normals(4, 4), [-np.inf, -np.inf, -1e9, -1e9])
    scores[0] = -np.inf
    said = printed(sdpa("diagnose", "--scores", *save(s=scores)))
    assert "Queries see 56.2% of the keys of their sequence" in said  # 9 of 16
    assert "add --mask causal" not in said
    assert "Rows of" not in said


def test_the_divisor_and_its_table_are_those_of_theory():
    shown = printed(sdpa("design", "--d-k", "16", "--n-keys", "64", "--max-weight", "0.2"))
    words = r"divide the scores by ([\d.]+) for max_weight = 0.2 at d_k = 16 and n_keys = 64"
    exact = divisor_for("max_weight", 0.2, 16, 64)
    assert float(re.match(words, shown)[1]) == pytest.approx(exact, rel=1e-3)
    rule = re.search(r"the same as the rule (\S+) for scaling", shown)[1]
    assert Scaling.parse(rule).divisor(16, 64) == pytest.approx(exact, rel=1e-3)
    table = shown.split("\n\n")[-2].splitlines()[1:]
    assert [int(line.split()[0]) for line in table] == [4, 16, 64, 256, 1024]
    expected = attention_expectations(16, 1024, exact).max_weight
    assert float(table[-1].split()[3]) == pytest.approx(expected, rel=1e-3)


def test_a_design_tells_the_largest_score_as_json_where_it_is_known():
    words = ("design", "--d-k", "16", "--n-keys", "64", "--row-variance", "1", "--json")
    for row in json.loads(sdpa(*words).stdout):
        n_keys = row["n_keys"]
        largest = largest_of_all_mean(16, n_keys, n_keys) / row["divisor"]
        assert row["largest_score"] == pytest.approx(largest)
    assert "largest_score" not in sdpa(*words, "--normalize", "l2").stdout


def test_a_design_knows_the_rows_of_masks():
    """Under local-2, queries see 3, 4, 4 and 3 of 4 keys; Python has the same text and table."""
    words = ["--d-k", "8", "--n-keys", "4", "--row-variance", "0.5", "--mask", "local-2"]
    ran = sdpa("design", *words, "--csv", "t.csv")
    (row,) = pd.read_csv("t.csv").query("n_keys == 4").to_dict("records")
    divisor = row["divisor"]
    assert f"divide the scores by {divisor:.4g} " in ran.stdout
    three, four = (attention_expectations(8, n, divisor) for n in (3, 4))
    assert (three.row_variance + four.row_variance) / 2 == pytest.approx(0.5, rel=1e-6)
    share = (three.entropy + four.entropy) / math.log(12)
    assert row["entropy_share"] == pytest.approx(share)
    assert "rule" not in printed(sdpa("design", *words, "--normalize", "l2"))
    actual = design("row_variance", 0.5, d_k=8, n_keys=4, mask="local-2")
    assert f"{actual}\n" == ran.stdout
    assert_allclose(actual.to_pandas()["entropy_share"], pd.read_csv("t.csv")["entropy_share"])


@pytest.mark.parametrize("entry", [63.0, 64.0])
def test_products_beyond_half_precision_are_named(entry):
    """Before the divisor; JSON has the table alone."""
    q, k = np.full((2, 4, 16), [[[entry]], [[-entry]]])
    files = save(q=q.astype(">f2"), k=k.astype(">f2"))
    said = sdpa("diagnose", *files).stdout
    expected = "|q.k| reaches 6.55e+04, above 65504, the largest float16"
    assert (expected in said, "reaches" in said) == (entry == 64,) * 2
    assert "add --scaling unscaled" in said
    (row,) = json.loads(sdpa("diagnose", *files, "--json").stdout)
    assert row["largest_absolute_score"] == pytest.approx(4 * entry**2, rel=1e-6)
    assert "reaches" not in sdpa("diagnose", *save(q=q, k=k)).stdout  # in double precision


def test_padding_is_named_and_left_out_on_request():
    """Rows of zeros, of width 1, and those that a mask of tokens hides, but for one token."""
    q, k = normals(2, 2, 3, 12, 1)
    q[0, :, :11] = k[0, :, :11] = 0
    am = np.arange(12) >= [[11], [0]]
    save(q=q, k=k, am=am, inverted=~am)
    tables = []
    for mask in ("causal", "causal,padding", "causal,am.npy"):
        ran = sdpa("diagnose", "q.npy", "k.npy", "--mask", mask, "--csv", "t.csv")
        assert ("as padding has: 30." in ran.stdout) == (mask == "causal")
        assert "the opposite" not in ran.stdout
        tables.append(pd.read_csv("t.csv"))
    assert [table["rows"][0] for table in tables] == [22, 11, 11]
    assert_allclose(tables[1]["entropy"], tables[2]["entropy"])
    ran = sdpa("diagnose", "q.npy", "k.npy", "--mask", "inverted.npy")
    assert re.search("sequences 1,(.|\n)*Masks show 0% of the keys of a sequence", ran.stdout)


def test_empty_places_of_a_cache_are_named_and_left_out_on_request():
    """One query of 4 heads, and 2 heads of keys of which 41 of 64 places are filled."""
    q, k = normals(4, 1, 16), normals(2, 64, 16, seed=1)
    k[:, 41:] = 0
    files = save(q=q, k=k)
    assert "as padding has: 92." in printed(sdpa("diagnose", *files))
    said = printed(sdpa("diagnose", *files, "--mask", "causal,padding", "--csv", "t.csv"))
    assert "as padding has" not in said
    expected = diagnose(q, k[:, :41])["row_variance"].value
    assert_allclose(pd.read_csv("t.csv")["row_variance"], expected)


def test_the_axes_of_one_packed_document_are_known():
    np.savez("a.npz", q=Q, k=K, cu_seqlens=[0, 3])
    assert "assumed" not in printed(sdpa("diagnose", "a.npz"))


def test_two_runs_are_compared_by_layers_and_documents():
    """Each divergence is the mean over the rows of both documents, which see no key of each other."""
    q, k = normals(2, 13, 3, 4)  # tokens, heads, d_k
    near, far = k + 0.01, k.round()
    of_both = {"q.0": q, "q.1": q, "cu_seqlens": np.array([0, 5, 13])}
    np.savez("a.npz", **of_both, **{"k.0": k, "k.1": k})
    np.savez("b.npz", **of_both, **{"k.0": near, "k.1": far})
    said = printed(sdpa("compare", "a.npz", "b.npz", "--csv", "t.csv"))
    table = pd.read_csv("t.csv")
    assert (
        f"Mean over 6 heads: divergence {table['divergence'].mean():.4g}, same_largest_key" in said
    )
    assert table["layer"].tolist() == [1, 1, 1, 0, 0, 0]
    expected = 0
    for tokens in slice(0, 5), slice(5, 13):
        of_q, *of_keys = (array[tokens].swapaxes(0, 1) for array in (q, k, far))
        divergence = compare(*((of_q, one) for one in of_keys), axes=["head"])["divergence"]
        expected += divergence.value * (tokens.stop - tokens.start) / 13
    assert_allclose(-table["divergence"][:3], sorted(-expected), rtol=1e-6)


def test_a_stack_of_layers_is_compared_with_layers():
    """As `np.savez(FILE, *out.attentions)` saves them; k may have fewer heads."""
    q, k = normals(2, 3, 2, 4, 5, 8)  # layers, sequences, heads
    other = k[:, :, :2]
    weights = attention_weights(q, k)
    np.savez("layers.npz", *weights)
    np.savez("k.npz", **{f"q.{i}": q[i] for i in range(3)}, **{f"k.{i}": k[i] for i in range(3)})
    np.savez("stack.npz", q=q, k=other)
    np.save("w.npy", weights)
    same = printed(sdpa("compare", "w.npy", "layers.npz", "--weights"))
    assert "Mean over 12 heads: divergence 0, same_largest_key 1" in same
    sdpa("compare", "stack.npz", "k.npz", "--csv", "t.csv")
    table = pd.read_csv("t.csv").sort_values(["layer", "head"])
    expected = compare((q, other), (q, k))["divergence"].value
    assert_allclose(table["divergence"], expected.ravel(), rtol=1e-9)


def test_help_fits_on_a_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert len(sdpa("--help").stdout.splitlines()) <= 24


def test_a_reader_that_has_enough_is_no_mistake():
    save(q=Q, k=K)
    ran = captured(
        "sh",
        "-c",
        f"{sys.executable} -u -m sdpa diagnose q.npy k.npy --json | head -c 1",
        cwd=Path(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (ran.stdout, ran.stderr) == ("[", "")


def test_each_command_offers_every_mask():
    for command in ("diagnose", "audit", "design"):
        assert ", ".join(MASKS) in " ".join(sdpa(command, "--help").stdout.split())
