"""The command `sdpa diagnose`: files, words, tables, and the shipped example."""

import json
import math
import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from experiments.models.diagnosis import COLUMNS
from sdpa import attention_weights, compare, diagnose, diagnose_scores
from sdpa.command import designing
from sdpa.command.words import advice, summary, without_advice
from sdpa.heads import HeadArrays, read_heads
from sdpa.heads.table import gaussian_curves
from sdpa.heads.table import table_of as heads_table
from sdpa.row_maps import RowMap
from sdpa.theory import GaussianRow, attention_expectations
from tests.command_line import printed, sdpa
from tests.numerics import normals
from tests.suite_process import ROOT, captured

EVERY = [f"{column.name}{end}" for column in COLUMNS for end in ("", "_se", "_exact")]
Q, K = normals(2, 3, 5, 4)


def normal():
    """Queries and keys of three heads in 24 sequences."""
    q, k = normals(2, 24, 3, 12, 16, seed=24)
    return q, k


def with_sink():
    """The first key of head 1 attracts every query."""
    q, k = normal()
    q[:, 1] += 2.0
    k[:, 1, 0] += 2.0
    return q, k


def table_of(arrays, **options):
    return heads_table([HeadArrays(*arrays)], **options)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def save(**arrays):
    """NAME.npy of each array."""
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    return [Path(f"{name}.npy") for name in arrays]


def test_two_npy_files_are_mapped():
    dtype = ">f4"
    q, k = np.asfortranarray(Q.astype(dtype)), K.astype(dtype)
    (head,) = read_heads(save(first=q, second=k))
    for found, array in ((head.q, q), (head.k, k)):
        assert found.dtype == dtype
        assert isinstance(found, np.memmap)
        assert_array_equal(found, array)


SIZES = ["d_k", "n_queries", "n_keys", "mask", "scaling", "divisor", "sequences", "rows"]
WITHOUT_ERRORS = {"largest_score_se", "largest_absolute_score_se", "most_attended_key_se"}
PRINTED = [
    *("head", "rows", "spread", "variance_ratio", "length_effect", "alignment_effect"),
    *("max_weight", "max_weight_exact", "entropy_share", "entropy_share_exact"),
    *("percentage", "most_attended_key", "most_attended_share"),
    *("jacobian_norm_median", "unit_exponent"),
]


def printed_numbers(said):
    """The numbers of the lines of heads: below the headings, up to the next empty line."""
    lines = said.partition("unit power\n")[2].partition("\n\n")[0].splitlines()
    words = (re.sub("[()%=x]", " ", line).split() for line in lines)
    return np.array([[float(word) for word in line] for line in words])


def test_it_prints_writes_and_draws_what_the_library_finds():
    q, k = with_sink()
    options = ["--mask", "causal", "--scaling", "d_k^1/3", "--csv", "t.csv", "--plot", "heads.png"]
    shown = printed(sdpa("diagnose", *save(q=q, k=k), *options))
    assert Path("heads.png").stat().st_size > 10_000
    table = pd.read_csv("t.csv")
    found = diagnose(q, k, "d_k^1/3", "causal").columns()
    assert list(table) == [name for name in EVERY if name in {*SIZES, *found} - WITHOUT_ERRORS]
    for name in set(found) - WITHOUT_ERRORS:
        assert_allclose(table[name], found[name], rtol=1e-9, err_msg=name)
    sizes = table[SIZES].iloc[0].tolist()
    assert sizes == [16, 12, 12, "causal", "d_k^1/3", pytest.approx(16 ** (1 / 3)), 24, 24 * 11]
    said = " ".join(shown.split())
    assert (
        "q of shape (24, 3, 12, 16) read as (batch, head, position, d_k), assumed from their"
        in said
    )
    assert "--axes layer,head Heads 3, que" in said
    told = summary(table_of((q, k), scaling="d_k^1/3", mask="causal"))
    assert " ".join(" ".join(told).split()) in said
    table = table.sort_values("entropy_share")
    table["spread"] = table["row_variance"] ** 0.5
    table["percentage"] = 100 * table["saturated_rows"]
    expected = table[PRINTED].to_numpy(float)
    rounding = np.where(np.array(PRINTED) == "percentage", 0.5, 0.006)
    found = printed_numbers(shown)
    assert np.isclose(found, expected, rtol=0.005, atol=rounding, equal_nan=True).all()


def test_json_has_the_rows_of_the_csv():
    ran = sdpa("diagnose", *save(q=60 * Q[:1], k=K[:1]), "--json", "--csv", "t.csv")
    assert ran.returncode == 1  # saturated rows are a finding
    (row,) = pd.read_csv("t.csv").to_dict("records")
    (found,) = json.loads(ran.stdout)
    assert found["entropy_share"] == row["entropy_share"]


def test_scores_are_diagnosed_without_q_and_k():
    scores = normals(2, 3, 6, 8, seed=1)
    save(s=scores)
    said = printed(sdpa("diagnose", "--scores", "s.npy", "--mask", "causal", "--csv", "t.csv"))
    assert "scores of shape (2, 3, 6, 8) read as (batch, head, query, key)" in said
    assert not re.search("Ratio:|Unit power", said)
    table = pd.read_csv("t.csv")
    expected = diagnose_scores(scores, "causal")["entropy_share"].value
    assert_allclose(table["entropy_share"], expected, rtol=1e-9)
    assert not {"d_k", "scaling", "q_std", "unit_exponent"} & {*table}
    assert {*table} <= {*EVERY}
    assert sdpa("diagnose", "--scores", "s.npy", "--scaling", "8").returncode == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["q.npy", "k.npy", "--axes", "seq,head"], "--axes: .* got 'seq'; did you mean position?"),
        (
            ["q.npy", "k.npy", "--csv", "q.npy"],
            "--csv: expected a name that ends in .csv, got q.npy",
        ),
        (["q.npy", "k.npy", "--plot", "k.npy"], "expected outputs beside the inputs, got k.npy as"),
        (["q.csv"], r"^q.csv: expected .* \.safetensors, got 'q.csv'; to convert .*np\.loadtxt"),
        (["q.npy", "k.npy", "--is_causal"], "--is_causal; did you mean --mask causal[?]$"),
        (["q.npy", "k.npy", "--scaling", "d^1/2"], "argument --scaling: expected 'unscaled' or"),
        (["q.npy", "k.npy", "--x", "--scale=2"], "mean --scaling, which divides: 1/scale[?]$"),
        (
            ["mixed.npz"],
            "expected the same axes in each pair and each head once, got heads by layer, head and",
        ),
    ],
)
def test_bad_usage_exits_2_and_writes_nothing(words, message):
    q, k = normals(2, 3, 2, 5, 4)
    save(q=q, k=k)
    np.savez("mixed.npz", **{"q.0": q[0], "k.0": k[0], "q.1": q[0, 0], "k.1": k[0, 0]})
    before = sorted(Path().iterdir())
    ran = sdpa("diagnose", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.search(message, ran.stderr)
    assert sorted(Path().iterdir()) == before


# Heads, and the beginnings of their sentences with the number of heads of which they speak.
WIDE_OR_FLAT, TOO_FLAT = "a spread below 0.5 or above 2", "a spread below 0.8"
TOLD = {
    "normal": (1, {}),
    "saturated": (100, {"a weight above 0.99": 3, WIDE_OR_FLAT: 3}),
    "wide": (2.5, {WIDE_OR_FLAT: 3}),
    "uniform": (0.45, {WIDE_OR_FLAT: 3, TOO_FLAT: 3}),
    "flat": (0.65, {TOO_FLAT: 3}),
    "equal": (0, {WIDE_OR_FLAT: 3, TOO_FLAT: 3, "equal scores in each row": 3}),
    "sink": (
        1,
        {
            "a weight above 0.99": 1,
            WIDE_OR_FLAT: 1,
            "an entropy share more than 0.05": 1,
            "most weight on one key": 1,
        },
    ),
}


@pytest.mark.parametrize("kind", TOLD)
def test_each_kind_of_heads_has_its_sentences_and_no_others(kind):
    q, k = with_sink() if kind == "sink" else normal()
    factor, expected = TOLD[kind]
    told = summary(table_of((factor * q, k)))
    assert len(told) == len(expected)
    for sentence, (words, count) in zip(told, expected.items(), strict=True):
        assert sentence.startswith(f"Heads with {words}")
        assert re.search(rf": {count} of 3( \(.*\))?\.$", sentence)


def planted(kind, *, keys=24, queries=24, mask=None, **row_map):
    """The advice on three heads of width 16 with normal entries, of which head 1 is of that
    kind.
    """
    q, k = normals(2, 4, 3, keys, 16, seed=1)
    if kind == "first":
        q[:, 1] += 3.0
        k[:, 1, 0] += 3.0
    elif kind == "separator":  # its place differs between sequences
        q[:, 1] += 3.0
        k[range(4), 1, [5, 7, 5, 9]] += 3.0
    elif kind == "fifth":
        q += 3.0
        k[:, 1:, 5] += 3.0
        k[:, :1, 0] += 3.0
    elif kind == "spike":  # one large score among many that are equal
        q[:, 1], k[:, 1] = 1.0, 0.0
        k[:, 1, 5] = np.log(keys) / 4
    elif kind == "picks":  # each query picks its own key
        q[:, 1] = 5.0 * k[:, 1]
    else:
        q[:, 1] *= {"hard": 40.0, "flat": 0.05, "rounding": 1e-6, "equal": 0.0, "normal": 1.0}[kind]
    q = q[:, :, -queries:]
    row_map = RowMap(row_map.get("softcap", 0.0), row_map.get("sink"))
    table = table_of((q, k), mask=mask, row_map=row_map)
    told, kept = advice(table, is_capped=row_map.softcap > 0)
    return told + kept


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("hard", r"8\d% of the rows .* almost no gradient. Before training, divide by more"),
        (
            "flat",
            r".* spread of 0.0[45]\d* .*, so .* divide there by about 0.[12]\d* rather than 4,",
        ),
        ("first", r"the first key gets \d+% of the weight, so keep it"),
    ],
)
def test_each_fault_gets_its_advice(kind, words):
    (told,) = planted(kind, mask="causal")
    assert re.match(rf"In 1 of 3 heads \(head 1\), {words}", told)
    assert ("rather than" in told) == (kind == "flat")


def test_a_sink_on_any_key_is_named():
    """The 19 queries after key 5 give it more than half of the weight of all 23."""
    *_, told = planted("fifth", mask="causal")
    expected = (
        r"In 3 of 3 heads, key 5 \(2\) or the first key \(1\) gets \d\d to 100% of the weight"
    )
    assert re.match(expected, told)
    (told,) = planted("separator")
    assert told.startswith(
        "In 1 of 3 heads (head 1), a key whose place differs between sequences gets"
    )


def test_one_query_has_no_sink():
    (told,) = planted("hard", queries=1)
    assert "almost no gradient" in told


def test_healthy_heads_get_no_advice():
    q, k = normal()
    assert advice(table_of((q, k)), is_capped=False) == ([], [])
    assert without_advice(table_of((q, k))).endswith("so nothing here asks for another divisor.")
    assert without_advice(table_of((0.4 * q, k))).startswith("These numbers do not settle")


def test_queries_that_are_divided_already_are_told_apart_from_flat_ones():
    q, k = normals(2, 3, 64, 64)
    for queries, is_divided in ((q / 8, True), (q / 30, False)):
        ((told,), _) = advice(table_of((queries, k)), is_capped=False)
        assert told.endswith("already, pass --scaling unscaled.") == is_divided


def test_scores_without_a_divisor_are_not_called_healthy():
    q, k = normals(2, 3, 64, 16)
    ((told,), _) = advice(table_of((q, k), scaling="unscaled"), is_capped=False)
    expected = (
        r"In 3 of 3 heads, .* spread of 3\.\d* to 4\.?\d*, far above 1 .*: check that they are"
    )
    assert re.match(expected, told)


def test_no_advice_rests_on_a_cap_a_sink_logit_or_few_keys():
    (capped,) = planted("flat", softcap=500.0)
    assert "change the soft cap or the divisor" in capped
    assert "divide" not in capped
    assert planted("hard", sink=0.0) == planted("normal", sink=0.0) == []
    assert planted("first", keys=12) == planted("equal") == []
    assert planted("rounding") == planted("picks") == []
    assert planted("normal") == []
    (told,) = planted("spike", keys=2000)  # a spread below 0.2, but no equal weights
    assert told.startswith("In 1 of 3 heads (head 1), key 5 gets 50% of the weight")


@pytest.mark.parametrize(
    ("mask", "queries", "lengths"),
    [(None, 12, [12]), ("causal", 3, [10, 11, 12]), ("local-2", 11, [4, *[5] * 8, 4, 3])],
)
def test_the_curve_is_the_exact_entropy_of_gaussian_rows(mask, queries, lengths):
    q, k = normal()
    (curve,) = gaussian_curves(table_of((q[:2, :1, :queries], k[:2, :1]), mask=mask))
    for place in (0, 17, -1):
        sigma = curve.spread[place] / np.sqrt(np.mean([1 - 1 / n for n in lengths]))
        exact = np.mean([GaussianRow(sigma, n).entropy() / np.log(n) for n in lengths])
        assert curve.entropy_share[place] == pytest.approx(exact, abs=2e-5)


def test_a_local_mask_a_cap_and_the_sinks_of_a_file_reach_the_table():
    q, k = normals(2, 2, 40, 4, seed=3)
    files, sinks = save(q=q, k=k), [-1.0, 2.0]
    save(logits=np.array(sinks, np.float32))
    options = ["--mask", "local-3", "--softcap", "2", "--sink", "logits.npy", "--csv", "t.csv"]
    said = printed(sdpa("diagnose", *files, *options))
    assert "mask local-3 (on both sides" in said
    assert "Sinks in files have logits from -1 to 2." in said
    assert "In brackets" not in said  # no Gaussian values are known
    found = diagnose(q, k, mask="local-3", softcap=2.0, sink=sinks)["visible_mass"].value
    assert pd.read_csv("t.csv")["visible_mass"].tolist() == pytest.approx(found, rel=1e-9)
    np.savez("both.npz", q=q, k=k, sinks=sinks)
    assert "Sinks in files" in sdpa("diagnose", "both.npz").stdout
    assert "Sinks in files" not in sdpa("diagnose", "both.npz", "--sink", "3").stdout


@pytest.mark.parametrize(("mask", "back", "ahead"), [("window-3", 2, 0), ("local-2", 2, 2)])
def test_a_design_knows_the_rows_of_masks(mask, back, ahead):
    words = ["--d-k", "8", "--n-keys", "4", "--row-variance", "0.5", "--mask", mask]
    ran = sdpa("design", *words, "--csv", "t.csv")
    divisor = float(re.search(r"scores by ([0-9.]+)", ran.stdout)[1])
    (row,) = pd.read_csv("t.csv").query("n_keys == 4").to_dict("records")
    lengths = [sum(-back <= j - i <= ahead for j in range(4)) for i in range(4)]
    rows = [attention_expectations(8, n, divisor) for n in lengths if n > 1]
    expected = {
        "row_variance": 0.5,
        "entropy_share": sum(one.entropy for one in rows) / sum(map(math.log, lengths)),
        "jacobian_norm": math.sqrt(sum(one.jacobian_norm**2 for one in rows) / 4),
    }
    found = {name: row[name] for name in expected}
    assert found == pytest.approx(expected, rel=1e-3)  # the divisor has 4 digits
    assert sum(one.row_variance for one in rows) / 4 == pytest.approx(0.5, rel=1e-3)


def test_a_designed_divisor_below_1_fits_unit_vectors_with_one_line_on_it():
    """That of QK-norm, close to 1/sqrt(d_k), in each command that takes a rule."""
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in normals(2, 2, 256, 64))
    np.savez("qk.npz", q=q, k=k)
    wish = ["--d-k", "64", "--n-keys", "256", "--normalize", "l2", "--row-variance", "1"]
    designed = printed(sdpa("design", *wish))
    divisor = re.search(r"scores by ([0-9.]+)", designed)[1]
    assert float(divisor) == pytest.approx(1 / 8, rel=5e-3)
    rule = ["--scaling", divisor]
    diagnosed = printed(sdpa("diagnose", "qk.npz", *rule, "--csv", "t.csv"))
    assert_allclose(pd.read_csv("t.csv")["row_variance"], 1, rtol=0.1)
    compared = printed(sdpa("compare", "qk.npz", "qk.npz", "--scaling-b", divisor))
    audited = sdpa("audit", "sdpa:scaled_dot_product_attention", *rule).stdout
    for said in (designed, diagnosed, compared, audited):
        assert said.count(f"divisor {divisor} multiplies scores by 8.01") == 1
    assert "multiplies" not in sdpa("compare", "qk.npz", "qk.npz").stdout


def test_products_beyond_the_type_of_q_and_k_are_named():
    """Those of float16 beyond 65504, before the divisor; float32 has them, and a mask hides
    one.
    """
    q, k = np.full((2, 1, 4, 16), 64.0)
    q[:, 1] = k[:, 1] = 63.0
    k[:, 3] = -64.0
    for top, dtype, mask, expected in (
        (64.0, ">f2", "none", "q.k reaches 6.55e+04, above 65504, the largest float16: a product"),
        (64.0, "f4", "none", ""),
        (64.0, ">f2", "hidden.npy", ""),
        (1.2e19, "f4", "none", "q.k reaches 2.3e+39, above 3.40282e+38, the largest float32: a"),
    ):
        scale = top / 64
        save(q=(scale * q).astype(dtype), k=(scale * k).astype(dtype))
        save(hidden=np.array([False, True, False, True]))
        said = sdpa("diagnose", "q.npy", "k.npy", "--mask", mask).stdout
        assert said.count("q.k reaches") == bool(expected)
        assert expected in said


def test_a_mask_in_one_file_is_none_of_the_other():
    np.savez("a.npz", q=Q, k=K, mask=np.arange(5) < 4)
    np.savez("b.npz", q=Q, k=K)
    for files in (("a.npz", "b.npz"), ("b.npz", "a.npz")):
        assert "expected a and b to hide the same keys" in sdpa("compare", *files).stderr
    assert "A has q of shape" in sdpa("compare", "a.npz", "a.npz").stdout


def test_weights_a_mask_and_places_of_sequences_reach_the_table():
    weights = attention_weights(Q, K, mask="causal").astype("f2")
    save(w=weights, mask=np.arange(5) < 4, ends=np.array([0, 2, 5]))
    save(q=Q.reshape(5, -1), k=K.reshape(5, -1), first=Q.swapaxes(0, 1), second=K.swapaxes(0, 1))
    for words, rows, mask in (
        (["--weights", "w.npy", "--mask", "causal,mask.npy"], 3, "causal,file"),
        (["--weights", "w.npy", "--mask", "causal"], 4, "causal"),
        (["--heads", "3", "--cu-seqlens", "ends.npy", "q.npy", "k.npy"], 5, "file"),
        (["--axes", "position, head", "--mask", "mask.npy", "first.npy", "second.npy"], 4, "file"),
    ):
        ran = sdpa("diagnose", *words, "--csv", "t.csv")
        assert ran.stderr == ""
        table = pd.read_csv("t.csv")
        assert (table["rows"].tolist(), {*table["mask"]}) == ([rows] * 3, {mask})


def test_two_runs_are_compared_layer_by_layer():
    near, far = K + 0.01, K.round()
    np.savez("a.npz", **{"q.0": Q, "k.0": K, "q.1": Q, "k.1": K})
    np.savez("b.npz", **{"q.0": Q, "k.0": near, "q.1": Q, "k.1": far})
    said = printed(sdpa("compare", "a.npz", "b.npz", "--mask", "causal", "--csv", "t.csv"))
    assert said.startswith("Of 2 pairs of arrays, layer 1 differs most. The mean divergence")
    table = pd.read_csv("t.csv")
    assert table["layer"].tolist() == [1, 1, 1, 0, 0, 0]
    expected = sorted(-compare((Q, K), (Q, far), mask="causal")["divergence"].value)[:3]
    assert_allclose(-table["divergence"][:3], expected, rtol=1e-9)
    np.savez("c.npz", **{"q.3": Q, "k.3": K})
    refused = sdpa("compare", "a.npz", "c.npz")
    assert refused.returncode == 2
    assert "expected the same heads, got [{'layer': 0}, {'layer': 1}] in A and" in refused.stderr
    save(q=Q, k=K)
    refused = sdpa("compare", "q.npy", "k.npy")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "expected a file for each run, with its q and k" in refused.stderr
    assert printed(sdpa("compare", "q.npy", "q.npy", "--scores"))


def test_a_reader_that_has_enough_is_no_mistake():
    save(q=Q, k=K)
    command = f"{sys.executable} -u -m sdpa diagnose q.npy k.npy --json | head -c 1"
    path = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    ran = captured("sh", "-c", command, cwd=Path(), env=path)
    assert (ran.stdout, ran.stderr) == ("[", "")


def test_an_unexpected_error_is_a_line_and_its_traceback_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(designing, "run", lambda _: {}["planted"])
    words = ("design", "--d-k", "64", "--n-keys", "8", "--entropy", "1")
    ended = sdpa(*words)
    (notes,) = tmp_path.iterdir()
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"sdpa ended: KeyError: 'planted' (traceback: {notes})\n"
    assert 'File "' in notes.read_text()

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(designing, "run", interrupted)
    assert sdpa(*words).returncode == 130
