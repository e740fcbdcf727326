"""The command diagnose from files to table, figure and text; bad usage gives one message, and nothing is written."""

import re
import shutil
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import seaborn as sns
from matplotlib.collections import PathCollection

from experiments.diagnosis.report import MOST_LINES, summary
from experiments.diagnosis.table import COLUMNS, gaussian_curves, read_diagnosis
from experiments.figures.heads import draw_heads
from experiments.figures.style import STYLE
from sdpa import diagnose
from sdpa.theory import GaussianRow
from tests.command_line import call
from tests.kinds_of_heads import KINDS, normal, table_of

SIZES = ["d_k", "n_queries", "n_keys", "mask", "scaling", "divisor", "sequences", "rows"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write arrays to NAME.npy in the current folder, which is empty otherwise."""
    monkeypatch.chdir(tmp_path)

    def write(**arrays: np.ndarray) -> list[str]:
        for name, array in arrays.items():
            np.save(f"{name}.npy", array)
        return [f"{name}.npy" for name in arrays]

    return write


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
    assert {"diagnosis.csv", "files.txt", "heads.png"} <= {path.name for path in Path("out").iterdir()}
    table, found = read_diagnosis(Path("out/diagnosis.csv")), diagnose(q, k, "d_k^1/3", "causal")
    assert list(table) == [column.name for column in COLUMNS if column.name in {*SIZES, *found.columns()}]
    assert set(found.columns()) - set(table) == {"largest_score_se", "largest_absolute_score_se"}  # have no error
    for name, values in found.columns().items():
        np.testing.assert_allclose(table.get(name, values), values, rtol=1e-9, err_msg=name)
    assert table[SIZES].iloc[0].tolist() == [16, 12, 12, "causal", "d_k^1/3", pytest.approx(16 ** (1 / 3)), 24, 24 * 11]
    said = shown(ran.stdout)
    assert "q of shape (24, 3, 12, 16) read as (batch, head, position, d_k) Heads 3, queries 12, keys 12" in said
    assert shown("\n".join(summary(table))) in said
    lines = lines_of_heads(ran.stdout)
    by_share = table.sort_values("entropy_share")
    assert [int(line[0]) for line in lines] == by_share["head"].tolist()
    for line, (_, row) in zip(lines, by_share.iterrows(), strict=True):
        numbers = [float(re.sub("[()%]", "", word)) for word in line if word not in "=x"]
        names = ["head", "rows", "row_variance", "variance_ratio", "length_effect", "alignment_effect", "max_weight"]
        names += ["max_weight_exact", "entropy_share", "entropy_share_exact", "saturated_rows", "first_key_weight"]
        expected = row[[*names, "jacobian_norm_median", "unit_exponent"]].to_numpy(float, copy=True)
        expected[2], expected[10] = expected[2] ** 0.5, 100 * expected[10]
        close = 0.006 + 0.005 * np.abs(expected) + 0.5 * (np.arange(14) == 10)
        assert (np.abs(numbers - expected) <= close).all()


def test_many_heads_of_one_sequence_are_counted_and_have_no_errors(files):
    q, k = normal(1, 24)
    ran = call("diagnose", *files(q=q[0], k=k[0]), "--out", "out")
    assert len(lines_of_heads(ran.stdout)) == MOST_LINES == 20
    assert "Less sharp heads, not shown: 4\n" in ran.stdout
    assert "No standard errors: there is one sequence." in ran.stdout
    assert "More heads than keys" in shown(ran.stdout)
    table = read_diagnosis(Path("out/diagnosis.csv"))
    assert len(table) == 24
    assert not [name for name in table if name.endswith("_se")]


@pytest.mark.parametrize(
    ("shape", "axes", "indices", "n_heads"),
    [
        ((5, 4), None, [], 1),
        ((2, 5, 4), None, ["head"], 2),
        ((2, 5, 4), "batch", [], 1),
        ((3, 2, 5, 4), None, ["head"], 2),
        ((3, 2, 5, 4), "Layer,HEAD", ["layer", "head"], 6),
        ((2, 3, 2, 5, 4), None, ["layer", "head"], 6),
        ((2, 3, 2, 2, 5, 4), "batch,model, layer,head", ["model", "layer", "head"], 12),
    ],
)
def test_leading_axes_have_their_usual_names_or_those_given(shape, axes, indices, n_heads):
    table = table_of(tuple(np.random.default_rng(0).standard_normal((2, *shape))), axes=axes)
    assert list(table)[: list(table).index("d_k")] == indices
    assert len(table) == n_heads


@pytest.mark.parametrize(
    ("names", "shape", "indices", "sequences"),
    [
        ("{role}.{layer}", (2, 5, 4), ["layer", "head"], 1),
        ("{role}.{layer}", (3, 2, 5, 4), ["layer", "head"], 3),
        ("{role}.{layer}", (5, 4), ["layer"], 1),
        ("{layer}.0.{role}", (3, 5, 4), ["layer", "head"], 3),
    ],
)
def test_names_of_arrays_number_layers_and_heads(files, names, shape, indices, sequences):
    files()
    rng = np.random.default_rng(0)
    arrays = {(role, layer): rng.standard_normal(shape) for role in "qk" for layer in (2, 10)}
    np.savez("qk.npz", **{names.format(role=role, layer=layer): each for (role, layer), each in arrays.items()})
    assert call("diagnose", "qk.npz").returncode == 0
    table = read_diagnosis(Path("results/diagnosis/qk/diagnosis.csv"))
    assert list(table)[: list(table).index("d_k")] == indices
    assert table["layer"].unique().tolist() == [2, 10]
    assert table["sequences"].unique().tolist() == [sequences]
    axes = ["batch"] * (sequences > 1) + ["head"] * (len(shape) - 2 - (sequences > 1))
    expected = diagnose(arrays["q", 10], arrays["k", 10], axes=axes).columns()
    np.testing.assert_allclose(table.loc[table["layer"] == 10, "entropy"], expected["entropy"], rtol=1e-9)


def test_files_of_one_name_do_not_replace_each_others_diagnosis(files):
    given = files(q=normal(1, 2)[0], k=normal(1, 2)[1])
    Path("other").mkdir()
    others = [shutil.copy(name, "other") for name in given]
    assert [call("diagnose", *given).returncode for _ in range(2)] == [0, 0]
    before = Path("results/diagnosis/q/diagnosis.csv").stat()
    ran = call("diagnose", *others)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "listed in results/diagnosis/q/files.txt; choose another folder with OUT=DIR" in ran.stderr
    assert Path("results/diagnosis/q/diagnosis.csv").stat() == before
    assert call("diagnose", *others, "--out", "out").returncode == 0
    assert Path("out/files.txt").read_text() == "".join(f"{Path(name).resolve()}\n" for name in others)


NUMBERS = {"q": (3, 2, 5, 4), "k": (3, 2, 6, 4), "short": (3, 2, 4, 4), "other": (3, 2, 6, 5)}
SHIPPED = "results/diagnosis/training has the shipped example; choose another folder"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.npy", "k.npy"], "none.npy: cannot read: No such file or directory"),
        (["q.npy", "other.npy"], r"q.npy and other.npy: expected q and k with the same d_k \(last axis\), got 4 in q"),
        (["q.npy", "nan.npy"], "q.npy and nan.npy: k: expected finite numbers .* the first nan at .0, 0. in batch 0"),
        (["q.npy", "words.npy"], "q.npy and words.npy: k: expected real numbers, got an array of <U1"),
        (["q.npy", "k.npy", "--scaling", "sqrt"], "--scaling: expected 'unscaled' or a product .*; did you"),
        (["q.npy", "k.npy", "--mask", "padding"], "mask: expected one of none, causal, got 'padding'"),
        (["q.npy", "short.npy", "--mask", "causal"], r"as many queries as keys for 'causal', got \(5, 4\)"),
        (
            ["q.npy", "k.npy", "--axes", "head"],
            r"--axes: expected 2 different names of axes, .* \(3, 2, 5, 4\), got head",
        ),
        (["q.npy", "k.npy", "--axes", "d_k,head"], "--axes: expected 2 different names .*, got d_k,head"),
        (
            ["layers.npz", "--axes", "layer,head"],
            "--axes: expected 2 different names of axes beside layer in the names",
        ),
        (["mixed.npz"], "mixed.npz: 'q.1' and 'k.1': expected the axes of the first pair, layer, head, got layer"),
        (["twice.npz"], "expected each head once, got several rows with the same layer and head"),
        (["q.npy", "k.npy", "--out", "q.npy"], "--out: expected a folder, got the file q.npy"),
        (["q.npy", "k.npy", "--out", "results/diagnosis/training"], SHIPPED),
        (["training.npz"], SHIPPED),
        (["--mask", "causal"], r"--mask: expected files with queries and keys \(make diagnose Q=q.npy K=k.npy\)"),
    ],
)
def test_bad_usage_exits_2_and_writes_nothing(files, words, message):
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape) for name, shape in NUMBERS.items()}
    arrays |= {"nan": arrays["k"].copy(), "words": np.full((3, 2, 6, 4), "a")}
    arrays["nan"].flat[0] = np.nan
    files(**arrays)
    pair = {"q": arrays["q"], "k": arrays["k"]}
    np.savez("training.npz", **pair)
    np.savez("layers.npz", **{f"{name}.0": array for name, array in pair.items()})
    np.savez("mixed.npz", **{f"{name}.{i}": array[(0,) * i * 2] for name, array in pair.items() for i in range(2)})
    numbered = {f"{name}.0.1": array[0, 0] for name, array in pair.items()}
    np.savez("twice.npz", **{f"{name}.0": array[0] for name, array in pair.items()}, **numbered)
    before = sorted(Path().iterdir())
    ran = call("diagnose", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.search(message, ran.stderr)
    assert sorted(Path().iterdir()) == before


# Beginnings of sentences, and the kinds of heads that deserve them; numbers in them are of the tables.
SENTENCES = {
    "Heads with a weight above 0.99 in most rows: 3 of 3": {"saturated"},
    "Heads with a weight above 0.99 in most rows: 1 of 3": {"sink"},
    "Heads with a spread below 0.5 or above 2: 3 of 3": {"saturated", "uniform"},
    "Heads with a spread below 0.5 or above 2: 1 of 3": {"sink", "aligned", "opposed", "long_vectors"},
    "Heads more than 0.05 from the entropy share of Gaussian rows: 1 of 3": {"sink"},
    "Heads with a spread below 0.8, too flat to differ from Gaussian rows: 3 of 3": {"uniform", "flat"},
    "Heads with a spread below 0.8, too flat to differ from Gaussian rows: 1 of 3": {"opposed"},
    "Heads with most weight on the first key, an attention sink: 1 of 3": {"sink"},
    "Heads without some numbers (nan)": {"equal"},
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
    if kind == "saturated":
        divisor = float(re.search(r"for the spread 1: (\S+); in use is 4", text)[1])
        assert divisor == pytest.approx(4 * np.sqrt(table["row_variance"].median()), rel=0.01)


@pytest.mark.parametrize(
    ("mask", "queries", "lengths"), [(None, 12, [12]), ("causal", 12, range(2, 13)), ("causal", 3, [10, 11, 12])]
)
def test_the_curve_is_the_exact_entropy_of_gaussian_rows(mask, queries, lengths):
    q, k = normal(2, 1)
    curves = gaussian_curves(table_of((q[:, :, :queries], k), mask=mask))
    for _, point in curves.iloc[[0, 17, -1]].iterrows():
        sigma = point["spread"] / np.sqrt(np.mean([1 - 1 / n for n in lengths]))
        exact = np.mean([GaussianRow(sigma, n).entropy() / np.log(n) for n in lengths])
        assert point["entropy_share"] == pytest.approx(exact, abs=2e-5)


@pytest.mark.parametrize(("layers", "heads", "sequences"), [(1, 1, 3), (2, 8, 3), (3, 40, 1), (12, 1, 2)])
def test_the_figure_has_each_head_in_its_place(layers, heads, sequences):
    q, k = normal(sequences, layers * heads)
    shape = (sequences, layers, heads, *q.shape[-2:])
    q[:, 0] *= layers > 1  # equal scores stand at the left end
    table = table_of((q.reshape(shape), k.reshape(shape)))
    with mpl.rc_context({**sns.axes_style("ticks"), **STYLE}):
        drawing = draw_heads(table, gaussian_curves(table))
        drawing.draw_without_rendering()
    panels = {ax.get_title(loc="left"): ax for ax in drawing.axes if ax.get_title(loc="left")}
    points = [c.get_offsets() for c in panels["entropy share"].collections if isinstance(c, PathCollection)]
    least = panels["entropy share"].get_xlim()[0]
    expected = np.sqrt(table[["row_variance"]]).clip(least).join(table["entropy_share"])
    np.testing.assert_allclose(np.concatenate(points), expected)
    assert len(panels) == (3 if layers * heads > 1 else 1)
    for title, name in (("mean largest weight", "max_weight"), ("variance within", "variance_ratio")):
        for ax in (ax for each, ax in panels.items() if each.startswith(title)):
            np.testing.assert_allclose(ax.collections[0].get_array(), table[name].to_numpy().reshape(layers, heads))
