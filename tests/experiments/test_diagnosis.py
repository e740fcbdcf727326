"""Diagnosis of a user's queries and keys: files, the command, and the shipped example."""

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ml_dtypes import bfloat16
from safetensors.numpy import save_file

from experiments.diagnosis import command
from experiments.diagnosis.files import FilesError, HeadArrays, read_heads
from experiments.diagnosis.table import (
    COLUMNS,
    diagnosis_table,
    gaussian_curves,
    read_diagnosis,
)
from experiments.diagnosis.words import advice, summary
from experiments.paths import DIAGNOSIS_TABLE
from sdpa import diagnose, diagnose_scores
from sdpa.row_maps import RowMap
from sdpa.theory import GaussianRow
from sdpa.theory.gaussian_rows import gaussian_rows
from tests.command_line import call
from tests.kinds_of_heads import KINDS, normal, table_of
from tests.suite_process import ROOT

Q, K = np.random.default_rng(0).standard_normal((2, 3, 5, 4))
SAVE = {
    "npz": lambda path, arrays: np.savez(path, **arrays),
    "safetensors": lambda path, arrays: save_file(arrays, path),
}


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Save arrays in the current folder, which is empty otherwise: NAME.npy each, or all in a
    file.
    """
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
        ("3.5.q", "3.5.k", (3, 5)),
        ("layers.3.heads.5.q_proj", "layers.3.heads.5.k_proj", (3, 5)),
    ],
)
def test_names_give_layer_and_head(saved, suffix, dtype, q, k, numbers):
    arrays = {
        q: Q.astype(dtype),
        k: K.astype(dtype),
        "v": Q.astype("f4"),
        "0.q.weight": Q.astype("f4"),
    }
    (head,) = read_heads(saved(f"qk.{suffix}", **arrays))
    same(head, Q.astype(dtype), K.astype(dtype))
    assert (head.layer, head.head) == numbers


def test_bfloat16_of_safetensors_is_read_where_nothing_else_knows_it(saved):
    path = saved("qk.safetensors", q=Q.astype(bfloat16), k=K.astype(bfloat16))[0]
    script = "import sys, pathlib; from experiments.diagnosis.files import read_heads as read;"
    script += "print(read([pathlib.Path(sys.argv[1])])[0].q.dtype)"
    command = [sys.executable, "-c", script, str(path)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout == "bfloat16\n"


ONE = "qk.npz: expected one q and one k for each layer, or layer and head, got"
BAD = {
    "no k": ({"q": Q, "v": K}, f"{ONE} 'q'"),
    "twice": ({"q.1": Q, "k.1": K, "1.q": Q}, f"{ONE} 'q.1', '1.q', 'k.1'"),
    "none": ({"v": Q}, r"qk.npz: expected arrays named q and k, .*, got 'v'"),
    "one axis": (
        {"q": Q[0, 0], "k": K},
        r"qk.npz: 'q': expected 2 axes or more, .*, got shape \(4,\)",
    ),
    "objects": (
        {"q": Q, "k": np.array([{}])},
        "qk.npz: expected arrays of numbers, got .*Object arrays",
    ),
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
                FilesError,
                match=f"{path.name}: (cannot read: No such file|expected arrays of numbers)",
            ):
                read_heads([path, tmp_path / "k.npy"] if suffix == "npy" else [path])


SIZES = ["d_k", "n_queries", "n_keys", "mask", "scaling", "divisor", "sequences", "rows"]


def shown(text: str) -> str:
    """A text without the breaks of its lines."""
    return " ".join(text.split())


def lines_of_heads(said: str) -> list[list[str]]:
    """The lines below the headings, up to the next empty line, as words."""
    return [
        line.split() for line in said.partition("unit power\n")[2].partition("\n\n")[0].splitlines()
    ]


def test_it_prints_writes_and_draws_what_the_library_finds(saved):
    q, k = KINDS["sink"]()
    ran = call(
        "diagnose", *saved(q=q, k=k), "--mask", "causal", "--scaling", "d_k^1/3", "--out", "out"
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {"diagnosis.csv", "heads.png", "heads.txt", "files.txt"} == {
        path.name for path in Path("out").iterdir()
    }
    table, found = read_diagnosis(Path("out/diagnosis.csv")), diagnose(q, k, "d_k^1/3", "causal")
    assert list(table) == [
        column.name for column in COLUMNS if column.name in {*SIZES, *found.columns()}
    ]
    assert set(found.columns()) - set(table) == {
        "largest_score_se",
        "largest_absolute_score_se",
    }  # have no error
    for name, values in found.columns().items():
        np.testing.assert_allclose(table.get(name, values), values, rtol=1e-9, err_msg=name)
    assert table[SIZES].iloc[0].tolist() == [
        16,
        12,
        12,
        "causal",
        "d_k^1/3",
        pytest.approx(16 ** (1 / 3)),
        24,
        24 * 11,
    ]
    said = shown(ran.stdout)
    assert (
        "q of shape (24, 3, 12, 16) read as (batch, head, position, d_k) Heads 3, queries 12, "
        "keys 12"
    ) in said
    assert shown("\n".join(summary(table))) in said
    lines = lines_of_heads(ran.stdout)
    by_share = table.sort_values("entropy_share")
    assert [int(line[0]) for line in lines] == by_share["head"].tolist()
    for line, (_, row) in zip(lines, by_share.iterrows(), strict=True):
        numbers = [float(re.sub("[()%]", "", word)) for word in line if word not in "=x"]
        names = [
            "head",
            "rows",
            "row_variance",
            "variance_ratio",
            "length_effect",
            "alignment_effect",
            "max_weight",
        ]
        names += [
            "max_weight_exact",
            "entropy_share",
            "entropy_share_exact",
            "saturated_rows",
            "first_key_weight",
        ]
        expected = row[[*names, "jacobian_norm_median", "unit_exponent"]].to_numpy(float, copy=True)
        expected[2], expected[10] = expected[2] ** 0.5, 100 * expected[10]
        close = 0.006 + 0.005 * np.abs(expected) + 0.5 * (np.arange(14) == 10)
        assert (np.abs(numbers - expected) <= close).all()


def test_files_of_one_name_do_not_replace_each_others_diagnosis(saved):
    given = saved(q=normal(1, 2)[0], k=normal(1, 2)[1])
    Path("other").mkdir()
    others = [shutil.copy(name, "other") for name in given]
    assert [call("diagnose", *given).returncode for _ in range(2)] == [0, 0]
    before = Path("results/diagnosis/q/diagnosis.csv").stat()
    ran = call("diagnose", *others)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert (
        "listed in results/diagnosis/q/files.txt; choose another folder with OUT=DIR" in ran.stderr
    )
    assert Path("results/diagnosis/q/diagnosis.csv").stat() == before
    assert call("diagnose", *others, "--out", "out").returncode == 0


def test_scores_are_diagnosed_without_q_and_k(saved):
    scores = np.random.default_rng(1).standard_normal((2, 3, 6, 8))
    saved(s=scores)
    ran = call("diagnose", "--scores", "s.npy", "--mask", "causal")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "scores of shape (2, 3, 6, 8) read as (batch, head, query, key)" in ran.stdout
    table, found = (
        read_diagnosis(Path("results/diagnosis/s/diagnosis.csv")),
        diagnose_scores(scores, "causal"),
    )
    np.testing.assert_allclose(table["entropy_share"], found["entropy_share"].value, rtol=1e-9)
    assert not {"d_k", "scaling", "q_std", "unit_exponent"} & {*table}
    assert {*table} <= {column.name for column in COLUMNS}
    assert call("diagnose", "--scores", "s.npy", "--scaling", "8").returncode == 2
    saved("two.npz", a=scores, b=scores)
    assert (
        "expected one array of scores, got 'a', 'b'"
        in call("diagnose", "--scores", "two.npz").stderr
    )


SHIPPED = "results/diagnosis/minilm has the shipped example; choose another folder"
EACH_ONCE = "expected the same axes in each pair and each head once, got heads by"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.npy", "k.npy"], "none.npy: cannot read: No such file or directory"),
        (
            ["q.npy", "other.npy"],
            r"q.npy and other.npy: expected q and k with the same d_k \(last axis\), got 4 in q",
        ),
        (
            ["q.npy", "k.npy", "--axes", "head"],
            "q.npy and k.npy: axes: expected a different name for each of 2 leading",
        ),
        (
            ["q.npy", "k.npy", "--axes", "rows,head"],
            "--axes: expected names that no other column has, got rows",
        ),
        (["minilm.npz"], SHIPPED),
        (["mixed.npz"], f"{EACH_ONCE} layer, head and layer"),
        (["twice.npz"], f"{EACH_ONCE} layer, head"),
    ],
)
def test_bad_usage_exits_2_and_writes_nothing(saved, words, message):
    q, k, other = np.random.default_rng(0).standard_normal((3, 3, 2, 5, 4))
    saved(q=q, k=k, other=np.repeat(other, 2, axis=-1))
    saved("minilm.npz", q=q, k=k)
    saved("mixed.npz", **{"q.0": q[0], "k.0": k[0], "q.1": q[0, 0], "k.1": k[0, 0]})
    saved("twice.npz", **{"q.0": q[0], "k.0": k[0], "q.0.1": q[0, 0], "k.0.1": k[0, 0]})
    before = sorted(Path().iterdir())
    ran = call("diagnose", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.search(message, ran.stderr)
    assert sorted(Path().iterdir()) == before


# Beginnings of sentences, and the kinds of heads that deserve them; numbers in them are of the
# tables.
SENTENCES = {
    "Heads with a weight above 0.99 in most rows: 3 of 3": {"saturated"},
    "Heads with a weight above 0.99 in most rows: 1 of 3": {"sink"},
    "Heads with a spread below 0.5 or above 2: 3 of 3": {"saturated", "uniform"},
    "Heads with a spread below 0.5 or above 2: 1 of 3": {
        "sink",
        "aligned",
        "opposed",
        "long_vectors",
    },
    "Heads with an entropy share more than 0.05 from that of Gaussian rows: 1 of 3": {"sink"},
    "Heads with a spread below 0.8, too flat to differ from Gaussian rows: 3 of 3": {
        "uniform",
        "flat",
    },
    "Heads with a spread below 0.8, too flat to differ from Gaussian rows: 1 of 3": {"opposed"},
    "Heads with most weight on the first key, an attention sink: 1 of 3": {"sink"},
    "and so without some numbers (nan): 3 of 3": {"equal"},
}


@pytest.mark.parametrize("kind", [*KINDS, "equal", "flat"])
def test_each_kind_of_heads_has_its_sentences_and_no_others(kind):
    q, k = KINDS.get(kind, normal)()
    table = table_of(({"equal": 0, "flat": 0.65}.get(kind, 1) * q, k))
    text = " ".join(summary(table))
    expected = {sentence for sentence, kinds in SENTENCES.items() if kind in kinds}
    assert {sentence for sentence in SENTENCES if sentence in text} >= expected
    if kind != "equal":
        assert len(summary(table)) == len(expected)
        assert "nan" not in text


def planted(kind: str, *, keys: int = 24, **options) -> list[str]:
    """The advice on three heads of width 16 with normal entries, of which head 1 is of that
    kind.
    """
    q, k = np.random.default_rng(1).standard_normal((2, 4, 3, keys, 16))
    if kind == "first":
        q[:, 1] += 3.0
        k[:, 1, 0] += 3.0
    elif kind == "spike":  # one large score among many that are equal
        q[:, 1], k[:, 1] = 1.0, 0.0
        k[:, 1, 5] = np.log(keys) / 4
    elif kind == "picks":  # each query picks its own key
        q[:, 1] = 5.0 * k[:, 1, -q.shape[2] :]
    else:
        q[:, 1] *= {"hard": 40.0, "flat": 0.05, "rounding": 1e-6, "equal": 0.0, "normal": 1.0}[kind]
    row_map = RowMap(options.get("softcap", 0.0), options.get("sink"))
    table = diagnosis_table(
        [HeadArrays(None, None, q, k)], mask=options.get("mask"), row_map=row_map
    )
    return advice(table, is_capped=row_map.softcap > 0)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_each_fault_gets_its_advice_and_healthy_heads_none(mask):
    (hard,), (flat,), (first,), (healthy,) = (
        planted(each, mask=mask) for each in ("hard", "flat", "first", "normal")
    )
    assert re.match(
        r"In 1 of 3 heads, 8\d% of the rows .* almost no gradient\. At the start of training", hard
    )
    assert "divide" not in hard
    assert re.match(
        r"In 1 of 3 heads, .* spread of 0.0[45]\d*, so .* there by about 0.[12]\d* rather than 4,",
        flat,
    )
    assert re.match(r"In 1 of 3 heads, the first key gets \d+% of the weight, so keep it", first)
    assert healthy.endswith("so nothing here asks for another divisor.")


def test_scores_without_a_divisor_are_not_called_healthy():
    q, k = np.random.default_rng(0).standard_normal((2, 3, 64, 16))
    (told,) = advice(diagnosis_table([HeadArrays(None, None, q, k)], "unscaled"), is_capped=False)
    assert re.match(
        (
            r"In 3 of 3 heads, .* spread of 3\.\d* to 4\.?\d*, far above 1: check that they are "
            r"divided;"
        ),
        told,
    )


def test_no_advice_rests_on_a_cap_a_sink_logit_or_few_keys():
    (capped,) = planted("flat", softcap=500.0)
    assert "change the soft cap or the divisor" in capped
    assert "divide" not in capped
    assert planted("hard", sink=0.0) == planted("normal", sink=0.0) == []
    assert (
        planted("first", keys=12)
        == planted("equal")
        == planted("rounding")
        == planted("picks")
        == []
    )
    assert planted("spike", keys=2000) == planted(
        "normal"
    )  # a spread below 0.2, but no equal weights


@pytest.mark.parametrize(
    ("mask", "queries", "lengths"),
    [(None, 12, [12]), ("causal", 12, range(2, 13)), ("causal", 3, [10, 11, 12])],
)
def test_the_curve_is_the_exact_entropy_of_gaussian_rows(mask, queries, lengths):
    q, k = normal(2, 1)
    curves = gaussian_curves(table_of((q[:, :, :queries], k), mask=mask))
    for _, point in curves.iloc[[0, 17, -1]].iterrows():
        sigma = point["spread"] / np.sqrt(np.mean([1 - 1 / n for n in lengths]))
        exact = np.mean([GaussianRow(sigma, n).entropy() / np.log(n) for n in lengths])
        assert point["entropy_share"] == pytest.approx(exact, abs=2e-5)


def test_the_shipped_model_is_shown_and_its_sample_diagnosed(tmp_path):
    ran = call("diagnose")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Heads 72, queries 128, keys 128, d_k 32, sequences 16" in ran.stdout
    assert (
        call("diagnose", ROOT / "results/diagnosis/minilm/qk.npz", "--out", tmp_path).returncode
        == 0
    )
    assert len(read_diagnosis(tmp_path / "diagnosis.csv")) == 24


def test_a_window_a_cap_and_a_sink_reach_the_table_the_legend_and_the_curves(tmp_path, capsys):
    q, k = np.random.default_rng(3).standard_normal((2, 40, 4))
    np.savez(tmp_path / "qk.npz", q=q, k=k)
    command.diagnose(
        [tmp_path / "qk.npz"], "d_k^1/2", "window-3", None, tmp_path / "out", softcap=2.0, sink=0.5
    )
    table = pd.read_csv(tmp_path / "out" / DIAGNOSIS_TABLE)
    mass, share = [], []
    for i in range(1, 40):
        e = [math.exp(2 * math.tanh(q[i] @ k[j] / 4)) for j in range(max(0, i - 2), i + 1)]
        mass.append(sum(e) / (sum(e) + math.exp(0.5)))
        share.append(-sum(w / sum(e) * math.log(w / sum(e)) for w in e) / math.log(len(e)))
    assert table["visible_mass"].item() == pytest.approx(np.mean(mass), rel=1e-9)
    assert table["entropy_share"].item() == pytest.approx(np.mean(share), rel=1e-9)
    assert "In brackets" not in capsys.readouterr().out  # no Gaussian values are known
    curve = gaussian_curves(table)  # rows of 2 keys, then of 3
    sigma = curve["spread"] / np.sqrt((1 / 2 + 38 * 2 / 3) / 39)
    two, three = (
        gaussian_rows(sigma.to_numpy(), np.full(len(sigma), n))[:, 1] / math.log(n) for n in (2, 3)
    )
    np.testing.assert_allclose(curve["entropy_share"], (two + 38 * three) / 39, rtol=1e-9)
    np.save(tmp_path / "s.npy", q @ k.T)
    command.diagnose([tmp_path / "s.npy"], None, None, None, tmp_path / "scores")
    said = capsys.readouterr().out
    assert "In brackets" in said
    assert not re.search("Ratio:|Unit power", said)
