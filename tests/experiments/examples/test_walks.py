"""Walks on the terminal: examples as shipped, a user's own matrices beside plain Python, and clear errors."""

import re

import numpy as np
import pandas as pd
import pytest
from experiments.steps.saying import WIDTH

from experiments.examples import ExampleError
from experiments.examples.declared import EXAMPLES as DECLARED
from experiments.examples.own import MOST, own_steps, read_matrix
from experiments.examples.steps import long_table, step
from experiments.folders import EXAMPLES
from experiments.harness.tables import csv_bytes
from experiments.steps.examples import number, text, write_examples
from tests.command_line import call
from tests.plain_attention import attention
from tests.shipped import RESULTS

Q = "word,east,north\ndog,1,-0.5\nbites,2,3\nman,-1,0.25\n"
K, V = "0.5,1\n-1,2\n1e-1,-3\n", "x,y\n1,0\n0,1\n2,2\n"


def test_the_shipped_numbers_are_what_comes_out():
    numbers = pd.concat([long_table(name, DECLARED[name].steps()) for name in sorted(DECLARED)], ignore_index=True)
    assert csv_bytes(numbers) == (RESULTS / EXAMPLES / "examples.csv").read_bytes()
    assert {path.stem for path in (RESULTS / EXAMPLES).glob("*.png")} == set(DECLARED)


def test_the_table_and_the_pictures_are_made_once(tmp_path, monkeypatch):
    few = {name: DECLARED[name] for name in ("triples", "two_scales")}
    monkeypatch.setattr("experiments.steps.examples.DECLARED", few)
    made = []
    for _ in range(2):
        write_examples(tmp_path)
        made.append({path.name: path.stat().st_mtime_ns for path in (tmp_path / EXAMPLES).glob("t*.*")})
    assert {"triples.png", "two_scales.txt"} <= set(made[0])
    assert made[0] == made[1]


@pytest.mark.parametrize("name", DECLARED)
def test_an_example_prints_each_step_with_all_its_numbers(name):
    title, source, draws, compute = DECLARED[name]
    printed = text(title, source, steps := compute())
    assert max(map(len, printed.splitlines())) <= WIDTH
    blocks = re.split(r"\n\n(?=\d+\. )", printed)[1:]
    for block, (_, says, table, digits) in zip(blocks, steps, strict=True):
        assert says in " ".join(block.split())
        for value in table.to_numpy().ravel():
            assert number(value, digits) in block
    assert {each.strip("~") for each in draws.split()} <= {each.name for each in steps}


def files(folder, **texts):
    for name, content in texts.items():
        (folder / f"{name}.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return {name: folder / f"{name}.csv" for name in texts} | ({} if "v" in texts else {"v": None})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("scaling", "power"), [("unscaled", 0), ("d_k^1/2", 0.5)])
def test_own_matrices_are_those_of_plain_python(tmp_path, scaling, power, causal):
    steps = own_steps(**files(tmp_path, q=Q, k=K, v=V), scaling=scaling, causal=causal)
    q, k, v = [[1, -0.5], [2, 3], [-1, 0.25]], [[0.5, 1], [-1, 2], [0.1, -3]], [[1, 0], [0, 1], [2, 2]]
    expected = attention(q, k, v, 2**power, (lambda i, j: j > i) if causal else lambda _i, _j: False)
    got = {each.name: each.table for each in steps}
    assert set(got) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-12, atol=1e-15, err_msg=name)
    assert (*got["scores"].index, *got["scores"].columns) == ("dog", "bites", "man", "k1", "k2", "k3")
    assert (*got["k"].columns, *got["output"].columns) == ("east", "north", "x", "y")


def test_the_largest_matrices_and_numbers_are_walked_through(tmp_path):
    rows = np.random.default_rng(0).choice([1e100, -1e100, 1e-300], (MOST, MOST)).tolist()
    content = "\n".join(",".join(map(repr, row)) for row in rows)
    steps = own_steps(**files(tmp_path, q=content, k=content), scaling="d_k^1/2", causal=False)
    assert "output" not in {each.name for each in steps}
    assert np.isfinite(long_table("walk", steps)["value"]).all()
    assert max(map(len, text("Title", "source", steps).splitlines())) <= WIDTH


@pytest.mark.parametrize(
    ("content", "rows", "columns", "values"),
    [
        ("1", (), (), [[1]]),
        ("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n\r\n", (), ("a", "b"), [[1, 2], [3, 4]]),
        (",0,1\n0,1,2\n1,3,4\n", ("0", "1"), ("0", "1"), [[1, 2], [3, 4]]),
        ("word,a,b\nthe,1,2\nthe,3,4\nsum,5,6\n", ("the", "the (2)", "sum (2)"), ("a", "b"), [[1, 2], [3, 4], [5, 6]]),
        ('"a, b",1\n"c",2\n', ("a, b", "c"), (), [[1], [2]]),
    ],
)
def test_names_of_rows_and_columns_are_optional(tmp_path, content, rows, columns, values):
    found = read_matrix(files(tmp_path, q=content)["q"])
    assert (found.rows, found.columns, found.values.tolist()) == (rows, columns, values)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("\n \n", ": expected rows of numbers, got an empty file"),
        ("a,b\n", ":1: expected rows of numbers after the header, got none"),
        ("1,2\n\n3,4,5\n", ":3: expected 2 cells, as in line 1, got 3"),
        ("1,2\n3,x\n", ":2: expected a number within ±1e+100, got 'x'"),
        ("1,nan\n3,4\n", ":1: expected a number within ±1e+100, got 'nan'"),
        ("1,2\n3,1e101\n", ":2: expected a number within ±1e+100, got '1e101'"),
        ("1,2\n3,1_0\n", ":2: expected a number within ±1e+100, got '1_0'"),
        ("1;2\n3;4\n", ":1: expected comma-separated numbers, got '1;2'"),
        (b"1,2\n\xff\xfe,3\n", ": expected comma-separated numbers as UTF-8 text, got 'utf-8' codec"),
        ('"1,2\n3,4\n', ": expected comma-separated numbers as UTF-8 text, got unexpected end of data"),
        ("0,1,2\n0.5,1,2\n1,1,1\n", ":1: expected numbers or names, got a header that counts from 0; omit it"),
        ("a,,c\n4,5,6\n", ":1: expected names of 1 to 20 characters, got ''"),
        ("1\n" * 65, ": expected at most 64 rows and columns, as all are printed, got 65 x 1"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_what_was_expected(tmp_path, content, problem):
    path = files(tmp_path, q=content)["q"]
    with pytest.raises(ExampleError, match=re.escape(f"{path}{problem}")):
        read_matrix(path)


@pytest.mark.parametrize(
    ("texts", "words", "problem"),
    [
        ({"q": "1,2\n", "k": "1,2,3\n"}, (), "k.csv: expected 2 columns, as many as .*q.csv has, got 3"),
        ({"q": "1,2\n", "k": "1,2\n", "v": "1\n2\n"}, (), "v.csv: expected 1 rows, as many as .*k.csv has, got 2"),
        ({"q": "a,b\n1,2\n", "k": "b,a\n1,2\n"}, (), "k.csv: expected the columns a, b of .*q.csv, got b, a"),
        ({"q": "1\n", "k": "1\n2\n"}, ("--mask", "causal"), "k.csv: expected 1 rows, .*, for a causal mask, got 2"),
        ({"q": "1\n", "k": "1\n"}, ("--scaling", "sqrt"), "--scaling: expected .*, got 'sqrt'; did you mean d_k"),
        ({"q": "1\n", "k": "1\n"}, ("--mask", "casual"), "mask: expected one of none, causal, got 'casual'; did"),
        ({"q": "1\n"}, (), "--q: expected both queries and keys"),
        ({}, ("nonsense",), "got the example nonsense, expected one of abc, .*"),
        ({}, ("abc", "--mask", "causal"), "expected either an example or your own matrices, got abc and --mask"),
    ],
)
def test_bad_usage_exits_2_with_one_sentence(tmp_path, texts, words, problem):
    given = [word for name, path in files(tmp_path, **texts).items() if path for word in (f"--{name}", str(path))]
    ran = call("walk", *given, *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.search(problem, ran.stderr)
    assert len(ran.stderr.splitlines()) == 1


def test_the_command_prints_writes_and_draws(tmp_path, monkeypatch):
    paths = files(tmp_path, q=Q, k=K, v=V)
    given = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    ran = call("walk", *given, "--mask", "causal", "--out", str(tmp_path / "out"))
    steps = own_steps(**paths, scaling="d_k^1/2", causal=True)
    assert ran.stdout.startswith("Attention of your own matrices\nFrom: ")
    assert (tmp_path / "out" / "walk.csv").read_bytes() == csv_bytes(long_table("walk", steps))
    assert set(pd.read_csv(tmp_path / "out" / "walk.csv")["step"]) == {each.name for each in steps}
    assert (tmp_path / "out" / "walk.png").stat().st_size > 10_000
    monkeypatch.chdir(tmp_path)
    walked, listed = call("walk", "dog-bites-man"), call("walk")
    assert ["dog", "0.5341", "0.3406", "0.1253"] in [line.split() for line in walked.stdout.splitlines()]
    assert (tmp_path / "results" / "examples" / "dog_bites_man.png").exists()
    assert "make walk EXAMPLE=dog-bites-man  " in listed.stdout


def test_a_step_has_one_name_for_each_row():
    with pytest.raises(ValueError, match="unique names"):
        step("s", "Says.", [[1], [2]], ("a", "a"))
