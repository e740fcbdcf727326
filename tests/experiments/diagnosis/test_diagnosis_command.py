"""The command diagnose from files to table, figure and text; bad usage gives one sentence, and nothing is written."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ml_dtypes import bfloat16
from safetensors.numpy import save_file

from experiments.diagnosis.findings import findings
from experiments.diagnosis.report import MOST_LINES
from experiments.diagnosis.table import COLUMNS, read_diagnosis
from experiments.folders import diagnosis_path, drawn_texts
from experiments.harness.tables import csv_bytes
from sdpa import diagnose
from sdpa.diagnosis import QUANTITIES
from tests.command_line import call
from tests.kinds_of_heads import KINDS, normal

WRITTEN = ["diagnosis.csv", "files.txt", "heads.png", "heads.svg", "heads.txt"]
SIZES = ["d_k", "n_queries", "n_keys", "mask", "scaling", "divisor", "sequences", "rows"]
D_K = 16


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write arrays to NAME.npy in the current folder, which is empty otherwise."""
    monkeypatch.chdir(tmp_path)

    def write(**arrays: np.ndarray) -> list[str]:
        for name, array in arrays.items():
            np.save(f"{name}.npy", array)
        return [f"{name}.npy" for name in arrays]

    return write


def names_in(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def shown(text: str) -> str:
    """A text without the breaks of its lines."""
    return " ".join(text.split())


def lines_of_heads(said: str) -> list[list[str]]:
    """The lines below the rule under the headings, up to the next empty line or remark, as words."""
    _, below = re.split(r"─+\n", said)
    return [line.split() for line in re.match(r"(?: .*\n|\d.*\n)*", below)[0].splitlines()]


def test_it_prints_writes_and_draws_what_the_library_finds(files):
    q, k = KINDS["sink"]()
    ran = call("diagnose", *files(q=q, k=k), "--mask", "causal", "--scaling", "d_k^1/3", "--out", "out")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert names_in("out") == WRITTEN
    table, found = read_diagnosis(Path("out/diagnosis.csv")), diagnose(q, k, "d_k^1/3", "causal")
    expected = {name: values for name, values in found.columns().items() if not np.isnan(values).all()}
    assert set(table) == {*SIZES, *expected}
    assert list(table) == [column.name for column in COLUMNS if column.name in table]
    for name, values in expected.items():
        np.testing.assert_allclose(table[name], values, rtol=1e-9, err_msg=name)
    assert table[SIZES].iloc[0].tolist() == [16, 12, 12, "causal", "d_k^1/3", pytest.approx(16 ** (1 / 3)), 24, 24 * 11]
    said = shown(ran.stdout)
    assert said.startswith(
        "Diagnosis of the attention of q.npy and k.npy, q of shape (24, 3, 12, 16) read as (batch, head, position, d_k)"
        " 3 heads, 24 sequences of 12 queries and 12 keys, d_k = 16,"
        " divisor d_k^1/3 = 2.52, causal mask "
    )
    assert "wrote out/diagnosis.csv: new drew out/heads.png: " in said
    assert drawn_texts(Path("out/heads.txt")).caption in said
    assert said.endswith(" ".join(findings(table)))
    assert "No standard errors" not in said
    assert max(map(len, ran.stdout.splitlines())) <= 100


def test_lines_of_heads_are_sharpest_first_with_their_numbers(files):
    q, k = KINDS["sink"]()
    ran = call("diagnose", *files(q=q, k=k), "--out", "out")
    table = read_diagnosis(Path("out/diagnosis.csv")).sort_values("entropy_share")
    lines = lines_of_heads(ran.stdout)
    assert [int(line[0]) for line in lines] == table["head"].tolist()
    assert lines[0][0] == "1"
    for line, (_, row) in zip(lines, table.iterrows(), strict=True):
        head, rows, spread, ratio, _, length, _, alignment, *rest = line
        assert (int(head), int(rows)) == (row["head"], 24 * 12)
        two_digits = [row["row_variance"] ** 0.5, row["variance_ratio"], row["length_effect"], row["alignment_effect"]]
        np.testing.assert_allclose([float(x) for x in (spread, ratio, length, alignment)], two_digits, rtol=0.06)
        columns = ["max_weight", "max_weight_exact", "entropy_share", "entropy_share_exact", "saturated_rows"]
        columns += ["first_key_weight", "jacobian_norm_median", "unit_exponent"]
        numbers = [float(re.sub(r"[()%]", "", word).replace("−", "-")) for word in rest]
        numbers[4] /= 100
        np.testing.assert_allclose(numbers, row[columns].astype(float), rtol=0.05, atol=0.006)


def test_more_heads_than_lines_are_counted(files):
    ran = call("diagnose", *files(q=normal(1, 24)[0], k=normal(1, 24)[1]), "--axes", "batch,head", "--out", "out")
    assert len(lines_of_heads(ran.stdout)) == MOST_LINES == 20
    assert "and 4 less sharp heads\n" in ran.stdout
    assert len(pd.read_csv("out/diagnosis.csv")) == 24


def test_a_single_sequence_is_said_to_have_no_standard_errors(files):
    q, k = normal(1, 2)
    ran = call("diagnose", *files(q=q[0], k=k[0]), "--out", "out")
    assert "No standard errors: there is one sequence." in ran.stdout
    assert not [name for name in read_diagnosis(Path("out/diagnosis.csv")) if name.endswith("_se")]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("shape", [(5, 4), (3, 5, 4)])
def test_names_may_have_numbers_of_heads_alone(shape):
    numbers = {f"head{i}.{name}": np.random.default_rng(i).standard_normal(shape) for i in (0, 3) for name in "qk"}
    np.savez("heads.npz", **numbers)
    ran = call("diagnose", "heads.npz", "--out", "out")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert read_diagnosis(Path("out/diagnosis.csv"))["head"].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("shape", "axes", "indices", "n_heads"),
    [
        ((5, 4), None, [], 1),
        ((2, 5, 4), None, ["head"], 2),
        ((2, 5, 4), "batch", [], 1),
        ((3, 2, 5, 4), None, ["head"], 2),
        ((3, 2, 5, 4), "layer,head", ["layer", "head"], 6),
        ((3, 2, 5, 4), "Layer,HEAD", ["layer", "head"], 6),
        ((2, 3, 2, 5, 4), None, ["layer", "head"], 6),
        ((2, 3, 2, 2, 5, 4), "batch,model, layer,head", ["model", "layer", "head"], 12),
    ],
)
def test_leading_axes_have_their_usual_names_or_those_given(files, shape, axes, indices, n_heads):
    q, k = np.random.default_rng(0).standard_normal((2, *shape))
    options = ["--axes", axes] if axes else []
    ran = call("diagnose", *files(q=q, k=k), *options, "--out", "out")
    assert (ran.returncode, ran.stderr) == (0, "")
    table = read_diagnosis(Path("out/diagnosis.csv"))
    assert list(table)[: table.columns.get_loc("d_k")] == indices
    names = ran.stdout.split("─")[0].splitlines()[-1].split()
    assert names[: len(indices) + 1] == [*indices, "rows"]
    assert len(table) == n_heads


@pytest.mark.parametrize(
    ("names", "shape", "indices", "sequences"),
    [
        ("{role}.{layer}", (2, 5, 4), ["layer", "head"], 1),
        ("{role}.{layer}", (3, 2, 5, 4), ["layer", "head"], 3),
        ("{role}.{layer}", (5, 4), ["layer"], 1),
        ("{layer}.0.{role}", (5, 4), ["layer", "head"], 1),
        ("{layer}.0.{role}", (3, 5, 4), ["layer", "head"], 3),
    ],
)
@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_names_of_arrays_number_layers_and_heads(files, names, shape, indices, sequences, suffix):
    files()
    rng = np.random.default_rng(0)
    arrays = {
        names.format(role=role, layer=layer): rng.standard_normal(shape).astype(bfloat16 if suffix != "npz" else "f4")
        for role in "qk"
        for layer in (2, 10)
    }
    (np.savez("qk.npz", **arrays) if suffix == "npz" else save_file(arrays, "qk.safetensors"))
    ran = call("diagnose", f"qk.{suffix}")
    assert (ran.returncode, ran.stderr) == (0, "")
    table = read_diagnosis(Path("results/diagnosis/qk/diagnosis.csv"))
    assert list(table)[: table.columns.get_loc("d_k")] == indices
    assert table["layer"].unique().tolist() == [2, 10]
    assert table["sequences"].unique().tolist() == [sequences]
    q, k = (arrays[names.format(role=role, layer=10)] for role in "qk")
    axes = ["batch"] * (sequences > 1) + ["head"] * (len(shape) - 2 - (sequences > 1))
    expected = diagnose(q, k, axes=axes).columns()
    np.testing.assert_allclose(table.loc[table["layer"] == 10, "entropy"], expected["entropy"], rtol=1e-9)


def test_equal_runs_give_equal_bytes(files):
    q, k = KINDS["aligned"]()
    given = files(q=q, k=k)
    said = [call("diagnose", *given, "--out", out).stdout.replace(out, "OUT") for out in ("one", "two")]
    assert said[0] == said[1]
    for name in WRITTEN:
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes(), name


def test_files_of_one_name_do_not_replace_each_others_diagnosis(files):
    given = files(q=normal(1, 2)[0], k=normal(1, 2)[1])
    Path("other").mkdir()
    others = [shutil.copy(name, "other") for name in given]
    assert [call("diagnose", *given).returncode for _ in range(2)] == [0, 0]
    before = Path("results/diagnosis/q/diagnosis.csv").stat()
    ran = call("diagnose", *others)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "results/diagnosis/q has the diagnosis of other files, listed in results/diagnosis/q/files.txt; choose another"
        " folder with OUT=DIR (--out DIR)\n"
    )
    assert Path("results/diagnosis/q/diagnosis.csv").stat() == before
    assert call("diagnose", *others, "--out", "out").returncode == 0
    assert Path("out/files.txt").read_text() == "".join(f"{Path(name).resolve()}\n" for name in others)


def test_axes_that_look_swapped_are_questioned_before_the_table(files):
    q, k = np.random.default_rng(0).standard_normal((2, 2, 50, 8, 4))
    for arrays, is_questioned in (((q, k), True), ((q.swapaxes(-3, -2), k.swapaxes(-3, -2)), False)):
        ran = call("diagnose", *files(q=arrays[0], k=arrays[1]), "--out", "out")
        above = shown(ran.stdout.partition("─")[0])
        assert f"q of shape {arrays[0].shape} read as (batch, head, position, d_k)" in above
        assert ("More heads than keys: if q has the axes (..., position, head, d_k)" in above) == is_questioned


def test_the_mask_may_be_named_none(files):
    given = files(q=normal(1, 2)[0], k=normal(1, 2)[1])
    for out, words in (("one", []), ("two", ["--mask", "none"])):
        assert call("diagnose", *given, *words, "--out", out).returncode == 0
    assert Path("one/diagnosis.csv").read_bytes() == Path("two/diagnosis.csv").read_bytes()


def test_grouped_queries_share_their_keys(files):
    q, k = normal(3, 4)
    call("diagnose", *files(q=q, k=k[:, :2]), "--out", "few")
    call("diagnose", *files(q=q, k=k[:, [0, 0, 1, 1]]), "--out", "each")
    assert Path("few/diagnosis.csv").read_bytes() == Path("each/diagnosis.csv").read_bytes()


NUMBERS = {
    "q": (3, 2, 5, 4),
    "k": (3, 2, 6, 4),
    "short": (3, 2, 4, 4),
    "other": (3, 2, 6, 5),
    "axes": (2, 2, 2, 2, 5, 4),
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["q.npy"],
            "q.npy: expected a file with q and a file with k, or .npz or .safetensors with both, got one .npy file",
        ),
        (["none.npy", "k.npy"], "none.npy: cannot read: No such file or directory"),
        (
            ["q.npy", "other.npy"],
            "other.npy: expected the d_k of q as last axis, got shape (3, 2, 6, 5) beside (3, 2, 5, 4) of q.npy",
        ),
        (["q.npy", "k.npy", "k.npy"], "expected one file with q and k, or a file for each, got 3 files"),
        (["q.npy", "nan.npy"], "nan.npy: expected finite numbers, got 1 NaN (the first at [0, 0, 0, 0])"),
        (
            ["q.npy", "k.npy", "--scaling", "sqrt"],
            r"--scaling: expected 'unscaled' or a product .*, got 'sqrt'; did you .*",
        ),
        (["q.npy", "k.npy", "--scaling", "1/ln(n_keys)/0"], r"--scaling: expected .*"),
        (["q.npy", "k.npy", "--mask", "padding"], "mask: expected one of none, causal, got 'padding'"),
        (
            ["q.npy", "short.npy", "--mask", "causal"],
            "q and k: mask: expected at most as many queries as keys for 'causal', got (5, 4)",
        ),
        (
            ["q.npy", "k.npy", "--axes", "head"],
            "--axes: expected 2 names for the leading axes of q of shape (3, 2, 5, 4), got head",
        ),
        (
            ["axes.npy", "axes.npy"],
            "--axes: expected 4 names for the leading axes of q of shape (2, 2, 2, 2, 5, 4), got none",
        ),
        *(
            (
                ["q.npy", "k.npy", "--axes", axes],
                f"--axes: expected different names of axes, such as batch,layer,head, got '{axes}'",
            )
            for axes in ("head,head", "d_k,head", "a head,b", ",", "max_weight,head")
        ),
        (
            ["layers.npz", "--axes", "layer,head"],
            "--axes: expected no layer, whose number is in the names of the arrays, got it",
        ),
        (
            ["mixed.npz"],
            "layer 1: expected the same axes as in the first pair of arrays, (layer, head), got (layer)",
        ),
        (["twice.npz"], "expected each head once, got several rows with the same layer and head"),
        (
            ["large.npy", "k.npy"],
            "q and k: q: expected finite numbers up to 1e+70 in size, got 20 that are not, the first "
            "1.2573022109339328e+199 at (0, 0) in batch 0, head 0",
        ),
        (["q.npy", "k.npy", "--out", "q.npy"], "--out: expected a folder, got the file q.npy"),
        (
            ["q.npy", "k.npy", "--out", "results/diagnosis/training"],
            "results/diagnosis/training has the shipped example; choose another folder with OUT=DIR (--out DIR)",
        ),
        (
            ["training.npz"],
            "results/diagnosis/training has the shipped example; choose another folder with OUT=DIR (--out DIR)",
        ),
        (["--mask", "causal"], "--mask: expected files with queries and keys (make diagnose Q=q.npy K=k.npy)"),
    ],
)
def test_bad_usage_exits_2_with_one_sentence_and_writes_nothing(files, words, message):
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape) for name, shape in NUMBERS.items()}
    arrays |= {"nan": arrays["k"].copy(), "large": 1e200 * arrays["q"]}
    arrays["nan"].flat[0] = np.nan
    files(**arrays)
    pair = {"q": arrays["q"], "k": arrays["k"]}
    np.savez("training.npz", **pair)
    np.savez("layers.npz", **{f"{name}.0": array for name, array in pair.items()})
    np.savez("mixed.npz", **{f"{name}.{i}": array[(0,) * i * 2] for name, array in pair.items() for i in range(2)})
    numbered = {f"{name}.0.1": array[0, 0] for name, array in pair.items()}
    np.savez("twice.npz", **{f"{name}.0": array[0] for name, array in pair.items()}, **numbered)
    before = names_in(".")
    ran = call("diagnose", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"{message}\n" or re.fullmatch(message, ran.stderr.rstrip("\n"))
    assert names_in(".") == before


def test_a_folder_that_cannot_be_written_is_named(files):
    given = files(q=normal(2, 1)[0], k=normal(2, 1)[1])
    Path("file").touch()
    ran = call("diagnose", *given, "--out", "file/out")
    assert (ran.returncode, ran.stderr) == (1, "file/out/files.txt: cannot write: Not a directory\n")


def test_without_files_it_diagnoses_the_shipped_example(files):
    files()
    Path("config.yaml").touch()  # as in the repository root
    ran = call("diagnose")
    assert (ran.returncode, ran.stderr) == (0, "")
    path = diagnosis_path(Path("results"), "diagnosis.csv")
    assert [name for name in names_in(path.parent) if name[0] != "."] == [*sorted({*WRITTEN} - {"files.txt"}), "qk.npz"]
    assert f"wrote {path}: new" in ran.stdout
    assert "Layer 0: before training. Layer 1: after it." in ran.stdout
    assert shown(ran.stdout).partition(" The shipped example.")[0].endswith(" ".join(findings(read_diagnosis(path))))
    content = path.read_bytes()
    own = call("diagnose", path.with_name("qk.npz"), "--out", "own")
    assert own.returncode == 0
    assert Path("own/diagnosis.csv").read_bytes() == content
    assert Path("own/heads.png").read_bytes() == path.with_name("heads.png").read_bytes()


def test_every_column_is_declared_once_with_a_meaning():
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)
    assert {quantity.name for quantity in QUANTITIES} <= set(names)
    assert all(column.meaning for column in COLUMNS)
    assert csv_bytes(pd.DataFrame(columns=names)).decode().count(",") == len(names) - 1
