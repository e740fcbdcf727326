"""Walks through a user's own matrices: every number beside plain Python, and a clear sentence for every bad file."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_example_text import assert_shown, blocks

from experiments.examples.example import ExampleError
from experiments.examples.files import MOST, read_matrix
from experiments.examples.own import own_steps
from experiments.examples.text import text
from sdpa import Scaling
from tests.command_line import call
from tests.plain_attention import attention

Q = "word,east,north\ndog,1,-0.5\nbites,2,3\nman,-1,0.25\n"
K = "0.5,1\n-1,2\n1e-1,-3\n"
V = "x,y\n1,0\n0,1\n2,2\n"


@pytest.fixture
def files(tmp_path):
    """Write texts to q.csv, k.csv and v.csv; their paths."""

    def write(**texts: str | bytes) -> dict[str, Path]:
        for name, content in texts.items():
            (tmp_path / f"{name}.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        return {name: tmp_path / f"{name}.csv" for name in texts}

    return write


def own(paths, *, scaling="d_k^1/2", causal=False):
    return own_steps(paths["q"], paths["k"], paths.get("v"), scaling=scaling, causal=causal)


def later(i, j):
    return j > i


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("scaling", "power"), [("unscaled", 0), ("d_k^1/2", 0.5), ("d_k^1/3", 1 / 3)])
def test_every_number_is_that_of_plain_python_and_is_printed(files, scaling, power, causal):
    steps = own(files(q=Q, k=K, v=V), scaling=scaling, causal=causal)
    q, k, v = [[1, -0.5], [2, 3], [-1, 0.25]], [[0.5, 1], [-1, 2], [0.1, -3]], [[1, 0], [0, 1], [2, 2]]
    expected = attention(q, k, v, 2**power, later if causal else lambda _i, _j: False)
    got = {step.name: step.matrix for step in steps}
    assert list(got) == [
        "q", "k", "v", "scores", "divisor", "scaled_scores", "exponentials", "weights", "output", "undivided_weights",
        "divisor_effect",
    ]  # fmt: skip
    for step, values in expected.items():
        np.testing.assert_allclose(got[step].values, values, rtol=1e-12, atol=1e-15, err_msg=step)
    printed = text("Title", "source", steps)
    for step, lines in zip(steps, blocks(printed), strict=True):
        assert_shown(lines[-len(step.matrix.rows) - 1 :], step.matrix)
    assert got["scores"].rows == ("dog", "bites", "man")
    assert got["scores"].columns == ("k1", "k2", "k3")
    assert got["q"].columns == got["k"].columns == ("east", "north")
    assert got["output"].columns == ("x", "y")
    assert got["divisor"].rows == (Scaling.parse(scaling).name,)


def test_the_largest_matrices_are_walked_through(files):
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, MOST, MOST))
    texts = ["\n".join(",".join(map(repr, row)) for row in a.tolist()) for a in (q, k)]
    steps = own(files(q=texts[0], k=texts[1]))
    expected = attention(q.tolist(), k.tolist())
    assert {step.name for step in steps} == set(expected)
    for step in steps:
        np.testing.assert_allclose(step.matrix.values, expected[step.name], rtol=1e-9, atol=1e-12)
    assert max(map(len, text("Title", "source", steps).splitlines())) <= 100


def test_numbers_at_the_ends_of_their_range_give_finite_weights(files):
    steps = own(files(q="1e100,-1e100\n1e-300,0\n", k="1e100,-1e100\n-1e100,1e100\n", v="1e100\n-1e100\n"))
    for step in steps:
        assert np.isfinite(step.matrix.values).all()
    assert max(map(len, text("Title", "source", steps).splitlines())) <= 100


@pytest.mark.parametrize(
    ("content", "rows", "columns", "values"),
    [
        ("1,2\n3,4\n", (), (), [[1, 2], [3, 4]]),
        ("1", (), (), [[1]]),
        ("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n\r\n", (), ("a", "b"), [[1, 2], [3, 4]]),
        (",0,1\n0,1,2\n1,3,4\n", ("0", "1"), ("0", "1"), [[1, 2], [3, 4]]),
        ("the,1, 2\ncat,3 , 4\n", ("the", "cat"), (), [[1, 2], [3, 4]]),
        ("word,a,b\nthe,1,2\nthe,3,4\nsum,5,6\n", ("the", "the (2)", "sum (2)"), ("a", "b"), [[1, 2], [3, 4], [5, 6]]),
        ('"a, b",1\n"c",2\n', ("a, b", "c"), (), [[1], [2]]),
        ("a,b\n1,2\n", (), ("a", "b"), [[1, 2]]),
    ],
)
def test_names_of_rows_and_columns_are_optional(files, content, rows, columns, values):
    found = read_matrix(files(q=content)["q"])
    assert (found.rows, found.columns, found.values.tolist()) == (rows, columns, values)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ": expected rows of numbers, got an empty file"),
        ("\n \n", ": expected rows of numbers, got an empty file"),
        ("a,b\n", ":1: expected rows of numbers after the header, got none"),
        ("1,2\n3\n", ":2: expected 2 cells, as in line 1, got 1"),
        ("1,2\n\n3,4,5\n", ":3: expected 2 cells, as in line 1, got 3"),
        ("1,2\n3,x\n", ":2: expected a finite number, got 'x'"),
        ("1,2\nx,3\n", ":2: expected a finite number, got 'x'"),
        ("1,2\n3,\n", ":2: expected a finite number, got ''"),
        ("1,nan\n3,4\n", ":1: expected a finite number, got 'nan'"),
        ("1,2\n-inf,4\n", ":2: expected a finite number, got '-inf'"),
        ("1,2\n3,1e999\n", ":2: expected a finite number, got '1e999'"),
        ("1,2\n3,1e101\n", ":2: expected a number within ±1e+100, got '1e101'"),
        ("1,2\n3,1_0\n", ":2: expected a finite number, got '1_0'"),
        ("1;2\n3;4\n", ":1: expected comma-separated numbers, got '1;2'"),
        ("1,2,x\n3,4,5\n", ":1: expected a row of only numbers or only names, got 'x'"),
        ("a,b\nc,d\n", ":2: expected a finite number, got 'd'"),
        (b"1,2\n\xff\xfe,3\n", ": expected UTF-8 text, got other bytes"),
        ('"1,2\n3,4\n', ": expected comma-separated numbers, got invalid CSV (unexpected end of data)"),
        (",2,3\n4,5,6\n", ":1: expected a finite number, got ''"),
        ("a,,c\n4,5,6\n", ":1: expected names of 1 to 20 characters, got ''"),
        ("a" * 21 + ",1\n", f":1: expected names of 1 to 20 characters, got '{'a' * 21}'"),
        ("1\n" * 65, ": expected at most 64 rows and 64 columns, because the command prints every number, got 65 x 1"),
        (
            ",".join(["1"] * 65),
            ": expected at most 64 rows and 64 columns, because the command prints every number, got 1 x 65",
        ),
        ("1\n" * 600_000, ": expected a file of at most 1000000 bytes, 64 rows and 64 columns"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_line_and_what_was_expected(files, content, problem):
    path = files(q=content)["q"]
    with pytest.raises(ExampleError) as error:
        read_matrix(path)
    assert str(error.value).startswith(f"{path}{problem}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("texts", "options", "problem"),
    [
        ({"q": "1,2\n", "k": "1,2,3\n"}, {}, "k.csv: expected 2 columns, as many as .*q.csv has, got 3"),
        ({"q": "1,2\n", "k": "1,2\n", "v": "1\n2\n"}, {}, "v.csv: expected 1 rows, as many as .*k.csv has, got 2"),
        ({"q": "1\n", "k": "1\n2\n"}, {"causal": True}, "k.csv: expected 1 rows, .*, for a causal mask, got 2"),
        (
            {"q": "1\n", "k": "1\n"},
            {"scaling": "sqrt"},
            "--scaling: expected .*, got 'sqrt'; did you mean d_k",
        ),
    ],
)
def test_matrices_that_do_not_fit_are_refused(files, texts, options, problem):
    with pytest.raises(ExampleError, match=problem):
        own(files(**texts), **options)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ExampleError, match=r"none.csv: cannot read: No such file"):
        read_matrix(tmp_path / "none.csv")
    with pytest.raises(ExampleError, match="cannot read: Is a directory"):
        read_matrix(tmp_path)


def walk(*words: str) -> tuple[int, str, str]:
    ran = call("walk", *words)
    return ran.returncode, ran.stdout, ran.stderr


def test_the_command_prints_writes_and_draws_ones_own_matrices(files, tmp_path):
    paths = files(q=Q, k=K, v=V)
    out = tmp_path / "out"
    given = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    status, said, _ = walk(*given, "--mask", "causal", "--scaling", "d_k^1", "--out", str(out))
    assert status == 0
    steps = own(paths, scaling="d_k^1", causal=True)
    printed = text("Attention of your own matrices", ", ".join(map(str, paths.values())), steps)
    assert said.split()[: len(printed.split())] == printed.split()
    numbers = pd.read_csv(out / "walk.csv")
    assert list(numbers.columns) == ["example", "step", "row", "column", "value"]
    assert set(numbers["step"]) == {step.name for step in steps}
    assert set(numbers["example"]) == {"walk"}
    weight = numbers.query("step == 'weights' and row == 'man' and column == 'k2'")["value"].item()
    assert math.isclose(weight, next(s for s in steps if s.name == "weights").matrix.values[2, 1], rel_tol=1e-9)
    for suffix in (".png", ".txt"):
        assert (out / f"walk{suffix}").stat().st_size > 10
    largest = next(s for s in steps if s.name == "divisor_effect").matrix.values[:, :2].mean(axis=0)
    caption = f"the largest weight is {largest[0]:.3f} without the divisor and {largest[1]:.3f} with it."
    assert " ".join(said.split()).endswith(f"drew {out}/walk.png: On average over the rows, {caption}")


def test_without_values_the_walk_ends_at_the_weights(files):
    steps = own(files(q=Q, k=K))
    assert {"v", "output"}.isdisjoint(step.name for step in steps)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("nonsense",), "got the example nonsense, expected one of abc, .*"),
        (("abc", "--k", "k.csv"), "expected either an example or your own matrices, got abc and --k"),
        (("--v", "v.csv"), "--v: expected both queries and keys"),
        (("--q", "q.csv"), "--q: expected both queries and keys"),
        (("--q", "q.csv", "--k", "k.csv", "--mask", "casual"), "mask: expected one of none, causal, got 'casual'; did"),
        (("--q", "none.csv", "--k", "none.csv"), "none.csv: cannot read"),
    ],
)
def test_bad_usage_exits_2_with_one_sentence(words, problem):
    status, said, wrong = walk(*words)
    assert (status, said) == (2, "")
    assert re.match(problem, wrong)
    assert len(wrong.splitlines()) == 1


def test_the_command_walks_through_an_example_and_lists_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, walked, wrong = walk("dog-bites-man")
    assert (status, wrong) == (0, "")
    assert ["dog", "0.5341", "0.3406", "0.1253"] in [line.split() for line in walked.splitlines()]
    assert "drew results/examples/dog_bites_man.png: With n_keys = 3, dog gives itself 0.534" in walked
    assert max(map(len, walked.splitlines())) <= 100
    assert (tmp_path / "results" / "examples" / "dog_bites_man.png").exists()
    status, listed, wrong = walk()
    assert (status, wrong) == (0, "")
    assert "make walk EXAMPLE=dog-bites-man  " in listed


def test_a_header_of_pandas_is_not_read_as_a_row(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("0,1,2\n0.5,1,2\n1,1,1\n")
    with pytest.raises(ExampleError, match=r"q\.csv:1: .*counts from 0, as pandas writes it"):
        read_matrix(path)
    path.write_text("0.0,1,2\n0.5,1,2\n")
    assert read_matrix(path).values.tolist() == [[0, 1, 2], [0.5, 1, 2]]


def test_names_that_differ_between_files_are_refused(tmp_path):
    texts = {"q": "a,b\n1,2\n", "k": "b,a\n1,2\n", "v": "1\n"}
    paths = {name: tmp_path / f"{name}.csv" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name])
    with pytest.raises(ExampleError, match=r"k\.csv: expected the columns a, b of .*q\.csv, got b, a"):
        own_steps(**paths, scaling="d_k^1/2", causal=False)
    paths["q"].write_text("1,2\n")
    paths["k"].write_text("name,x,y\none,1,2\n")
    paths["v"].write_text("name,z\nother,1\n")
    with pytest.raises(ExampleError, match=r"v\.csv: expected the rows one of .*k\.csv, got other"):
        own_steps(**paths, scaling="d_k^1/2", causal=False)
