"""Worked examples: numbers against plain Python and the shipped ones, walks on the terminal, and a user's own
matrices.
"""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from experiments.config.paths import EXAMPLE_FOLDER
from experiments.studies.examples.examples import EXAMPLES
from experiments.studies.examples.picture import heat_map
from experiments.studies.examples.steps import long_table
from experiments.studies.examples.walk import ExampleError, own_steps, read_matrix
from experiments.tables.layout import csv_bytes
from tests.command_line import call
from tests.plain_attention import attention
from tests.shipped import RESULTS


def test_steps_by_hand_agree_with_those_of_attention():
    steps = {step.name: step.table.to_numpy() for step in EXAMPLES["abc"].steps()}
    scores = steps["scores"]
    angles, lengths = steps["geometry"].T
    cosines = np.cos(np.radians(angles[:3, None] - angles[3:]))
    assert_allclose(steps["cosines"], cosines, atol=1e-12)
    assert_allclose(cosines * np.outer(lengths[:3], lengths[3:]), scores)
    assert_allclose(steps["terms"].sum(axis=1), 2 * scores.ravel())
    assert_allclose(steps["blend_A"][-1, 1:], steps["output"][0])
    exponentials = steps["exponentials"]
    assert_allclose(exponentials[:, :3] / exponentials[:, 3:], steps["weights"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_white_is_zero_on_each_map(name):
    tables = {each.name: each.table for each in EXAMPLES[name].steps()}
    for step in EXAMPLES[name].draws.split():
        if ":" not in step:
            ax = Figure().subplots()
            heat_map(ax, step, tables[step])
            assert ax.collections[0].norm(0.0) in (0, 0.5)


# With names of rows and columns, of columns alone, and of rows alone.
Q = "word,east,north\ndog,1,-0.5\nbites,2,3\nman,-1,0.25\n"
K, V = "x,y\n0.5,1\n-1,2\n1e-1,-3\n", "the,1,0\nthe,0,1\nend,2,2\n"


def test_the_shipped_numbers_are_what_comes_out():
    numbers = pd.concat(
        [long_table(name, EXAMPLES[name].steps()) for name in sorted(EXAMPLES)], ignore_index=True
    )
    assert csv_bytes(numbers) == (RESULTS / EXAMPLE_FOLDER / "examples.csv").read_bytes()
    assert {path.stem for path in (RESULTS / EXAMPLE_FOLDER).glob("*.png")} == set(EXAMPLES)


def options(paths):
    """The options of a command that name these files."""
    return [f"--{name}={path}" for name, path in paths.items()]


def files(folder, **texts):
    """The files of matrices, by name."""
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    return {name: folder / f"{name}.csv" for name in texts}


def test_own_matrices_are_those_of_plain_python(tmp_path):
    paths = files(tmp_path, q=Q, k=K, v=V).values()
    steps = own_steps(*paths, scaling="d_k^1/2", mask="causal")
    q = [[1, -0.5], [2, 3], [-1, 0.25]]
    k = [[0.5, 1], [-1, 2], [0.1, -3]]
    v = [[1, 0], [0, 1], [2, 2]]
    expected = attention(q, k, v, 2**0.5, lambda i, j: j > i)
    got = {each.name: each.table for each in steps}
    assert set(got) == set(expected)
    for name, values in expected.items():
        assert_allclose(got[name], values, rtol=1e-12, atol=1e-15, err_msg=name)
    assert [*got["scores"].index] == ["dog", "bites", "man"]
    assert [*got["scores"].columns] == ["k1", "k2", "k3"]
    assert [*got["k"].columns, *got["output"].columns] == ["east", "north", "1", "2"]


MATRIX = r"1 to 12 rows and columns of numbers within ±1e\+100"


BAD = {
    "a,b\n1,2\nx,4\n5,6\n": f"expected {MATRIX}, got 'x' in row 3",
    "1,2\n3,1e101\n": f"expected {MATRIX}, got '1e101' in row 2",
    "1\n" * 13: f"expected {MATRIX}, got 13 x 1",
}


@pytest.mark.parametrize("content", BAD)
def test_a_bad_file_is_named_with_what_was_expected(tmp_path, content):
    path = files(tmp_path, q=content)["q"]
    with pytest.raises(ExampleError, match=f"{re.escape(str(path))}: {BAD[content]}"):
        read_matrix(path, "q")


def test_bad_usage_exits_2_with_one_sentence(tmp_path):
    narrow = options(files(tmp_path, q="1,2\n", k="1,2,3\n"))
    for words, problem in (
        (narrow, "q.csv, .*k.csv: expected q and k with the same d_k .*got 2 in q"),
        (["nonsense"], "got the example nonsense, expected one of abc, .*"),
    ):
        ran = call("walk", *words)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert re.search(problem, ran.stderr)
        assert len(ran.stderr.splitlines()) == 1


def test_the_command_prints_writes_and_draws(tmp_path):
    paths = files(tmp_path, q=Q, k=K, v=V)
    ran = call("walk", *options(paths), "--mask", "causal", "--out", str(tmp_path / "out"))
    steps = own_steps(*paths.values(), scaling="d_k^1/2", mask="causal")
    assert ran.stdout.startswith("Attention of your own matrices\nFrom: ")
    assert (tmp_path / "out" / "walk.csv").read_bytes() == csv_bytes(long_table("walk", steps))
    assert (tmp_path / "out" / "walk.png").stat().st_size > 10_000
    walked = call("walk", "dog-bites-man").stdout.splitlines()
    assert ["dog", "0.5341", "0.3406", "0.1253"] in [line.split() for line in walked]
    assert "make walk EXAMPLE=dog-bites-man  " in call("walk").stdout
