"""Worked examples: every number against plain Python, walks on the terminal, and a user's own matrices."""

import math
import random
import re

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.written import csv_bytes
from experiments.examples import picture
from experiments.examples.examples import EXAMPLES as DECLARED
from experiments.examples.own import ExampleError, own_steps, read_matrix
from experiments.examples.steps import long_table
from experiments.figures.style import SEQUENTIAL
from experiments.paths import EXAMPLES
from tests.command_line import call
from tests.plain_attention import attention, softmax, times
from tests.plain_examples import COMPARED, REFERENCES, comparison
from tests.shipped import RESULTS


@pytest.fixture(scope="module")
def shown():
    """The matrices of an example's steps by name, computed once."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = {step.name: step.table.to_numpy() for step in DECLARED[name].steps()}
        return found[name]

    return of


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.__name__)
def test_every_number_is_that_of_plain_python(reference, shown):
    got, expected = shown(reference.__name__), reference()
    exact = {"exact"} if reference is comparison else set()
    assert set(got) == set(expected) | exact
    for step, values in expected.items():
        np.testing.assert_allclose(got[step], values, rtol=1e-9, atol=1e-13, err_msg=step)


def test_exact_expectations_are_the_means_of_many_draws(shown):
    """The means of 4,000 rows of five weights, by the standard library's generator, within 4.5 standard errors."""
    rng = random.Random(1)
    exact = shown("comparison")["exact"]
    np.testing.assert_allclose(exact[:2], [[math.sqrt(d_k) for d_k in COMPARED], [1] * 5], rtol=1e-12)
    for column, d_k in enumerate(COMPARED):
        rows = []
        for _ in range(4000):
            length = math.sqrt(rng.gammavariate(d_k / 2, 2))  # of a query: its square is chi-squared
            rows.append([rng.gauss(0, length) for _ in range(5)])
        for row, divisor in ((2, 1), (3, math.sqrt(d_k))):
            largest = [max(weights) for weights in softmax(times(rows, 1 / divisor))]
            mean = math.fsum(largest) / 4000
            error = math.sqrt(math.fsum((x - mean) ** 2 for x in largest) / 4000 / 3999)
            assert abs(exact[row][column] - mean) < 4.5 * error


# Digits as the article prints them.
PRINTED = [
    ("session", "scores", 3, "0.045 -0.237 -0.014 0.061 -0.053 0.492 0.015 -0.134 -0.147 0.173 0.044 0.191 "
                             "-0.114 0.163 0.109 -0.301"),
    ("session", "weights", 3, "0.258 0.230 0.252 0.260 0.236 0.294 0.242 0.228 0.229 0.261 0.247 0.263 "
                              "0.241 0.270 0.264 0.224"),
    ("session", "batch_shapes", 0, "3 4 6 3 4 6 3 4 6 3 4 4 3 4 6"),
    ("two_scales", "spread", 4, "0.3479 1.3434 0.9820 0.0906"),
    ("two_scales", "weights", 4, "0.3479 0.2848 0.2110 0.1563 0.9820 0.0180 0.0000 0.0000"),
    ("abc", "scores", 2, "0.80 0.30 0.10 0.50 0.50 0.50 0.20 0.70 0.90"),
    ("abc", "scaled_scores", 4, "0.5657 0.2121 0.0707 0.3536 0.3536 0.3536 0.1414 0.4950 0.6364"),
    ("abc", "weights", 4, "0.4326 0.3037 0.2637 0.3333 0.3333 0.3333 0.2460 0.3504 0.4036"),
    ("abc", "output", 4, "0.5644 0.4356 0.5000 0.5000 0.4478 0.5522"),
]  # fmt: skip


@pytest.mark.parametrize(("example", "step", "digits", "printed"), PRINTED)
def test_the_digits_that_the_article_prints_are_met(shown, example, step, digits, printed):
    assert [f"{x:z.{digits}f}" for x in shown(example)[step].ravel()] == printed.split()


Q = "word,east,north\ndog,1,-0.5\nbites,2,3\nman,-1,0.25\n"
K, V = "0.5,1\n-1,2\n1e-1,-3\n", "x,y\n1,0\n0,1\n2,2\n"


def test_the_shipped_numbers_are_what_comes_out():
    numbers = pd.concat([long_table(name, DECLARED[name].steps()) for name in sorted(DECLARED)], ignore_index=True)
    assert csv_bytes(numbers) == (RESULTS / EXAMPLES / "examples.csv").read_bytes()
    assert {path.stem for path in (RESULTS / EXAMPLES).glob("*.png")} == set(DECLARED)


def files(folder, **texts):
    for name, content in texts.items():
        (folder / f"{name}.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return {name: folder / f"{name}.csv" for name in texts} | ({} if "v" in texts else {"v": None})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("scaling", "power"), [("unscaled", 0), ("d_k^1/2", 0.5)])
def test_own_matrices_are_those_of_plain_python(tmp_path, scaling, power, causal):
    steps = own_steps(**files(tmp_path, q=Q, k=K, v=V), scaling=scaling, mask="causal" if causal else "none")
    q, k, v = [[1, -0.5], [2, 3], [-1, 0.25]], [[0.5, 1], [-1, 2], [0.1, -3]], [[1, 0], [0, 1], [2, 2]]
    expected = attention(q, k, v, 2**power, (lambda i, j: j > i) if causal else lambda _i, _j: False)
    got = {each.name: each.table for each in steps}
    assert set(got) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-12, atol=1e-15, err_msg=name)
    assert (*got["scores"].index, *got["scores"].columns) == ("dog", "bites", "man", "k1", "k2", "k3")
    assert (*got["k"].columns, *got["output"].columns) == ("east", "north", "x", "y")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("\n \n", ": expected 1 to 64 rows and columns, got 0 x 0"),
        ("0,1,2\n3,4,5\n", ": expected numbers or names, got a header that counts from 0; omit it"),
        ("1,0,x\n0,1,0\n1,1,0\n", ": expected numbers or names in the first line, got both: 1,0,x"),
        ("1;2\n3;4\n", ": expected commas between numbers, got semicolons"),
        ("1,2\n\n3,4,5\n", ":3: expected 2 cells, as above, got 3"),
        ("1,2\n3,x\n", ":2: expected a number within ±1e+100, got 'x'"),
        (b"1,2\n\xff\xfe,3\n", ": expected comma-separated numbers as UTF-8 text, got 'utf-8' codec"),
        ("1\n" * 65, ": expected 1 to 64 rows and columns, got 65 x 1"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_what_was_expected(tmp_path, content, problem):
    path = files(tmp_path, q=content)["q"]
    with pytest.raises(ExampleError, match=re.escape(f"{path}{problem}")):
        read_matrix(path)


@pytest.mark.parametrize(
    ("texts", "words", "problem"),
    [
        ({"q": "1,2\n", "k": "1,2,3\n"}, (), "q.csv, .*k.csv: expected q and k with the same d_k .*got 2 in q"),
        ({"q": "1\n2\n", "k": "1\n"}, ("--mask", "causal"), "causal_mask: expected n_queries from 1 to n_keys, got 2"),
        ({"q": "1\n", "k": "1\n"}, ("--scaling", "sqrt"), "expected .*, got 'sqrt'; did you mean d_k"),
        ({}, ("nonsense",), "got the example nonsense, expected one of abc, .*"),
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
    steps = own_steps(**paths, scaling="d_k^1/2", mask="causal")
    assert ran.stdout.startswith("Attention of your own matrices\nFrom: ")
    assert (tmp_path / "out" / "walk.csv").read_bytes() == csv_bytes(long_table("walk", steps))
    assert set(pd.read_csv(tmp_path / "out" / "walk.csv")["step"]) == {each.name for each in steps}
    assert (tmp_path / "out" / "walk.png").stat().st_size > 10_000
    monkeypatch.chdir(tmp_path)
    walked, listed = call("walk", "dog-bites-man"), call("walk")
    assert ["dog", "0.5341", "0.3406", "0.1253"] in [line.split() for line in walked.stdout.splitlines()]
    assert (tmp_path / "results" / "examples" / "dog_bites_man.png").exists()
    assert "make walk EXAMPLE=dog-bites-man  " in listed.stdout


@pytest.fixture
def axes(monkeypatch):
    """The axes of an example's picture."""
    monkeypatch.setattr(picture, "render", lambda plot, *_: plot())

    def of(name):
        title, source, draws, steps = DECLARED[name]
        return picture.draw(title, source, steps(), draws).axes

    return of


def test_a_power_law_is_straight_and_each_panel_has_one_quantity(axes):
    (ax,) = axes("variance_sweep")
    exact, drawn = (line for line in ax.lines)
    assert list(exact.get_xdata()) == list(exact.get_ydata()) == [8, 32, 64, 128, 256, 512]
    assert drawn.get_marker() == "o"
    ax.figure.draw_without_rendering()
    places = ax.transData.transform(exact.get_xydata())
    np.testing.assert_allclose(np.corrcoef(places.T), 1)
    deviation, largest = axes("comparison")
    assert [len(ax.lines) for ax in (deviation, largest)] == [4, 4]  # two rules, drawn and exact
    assert max(line.get_ydata().max() for line in largest.lines) <= 1 < deviation.lines[0].get_ydata().min()
    strip = axes("weight_strip")
    assert [len(ax.lines) for ax in strip] == [0, 1, 1, 1]


def test_a_weight_of_one_has_the_darkest_colour_and_numbers_can_be_read(axes):
    ax = axes("causal_mask")[0]
    assert ax.images[0].to_rgba(1.0) == SEQUENTIAL(1.0)
    maps = [ax for name in DECLARED for ax in axes(name) if ax.images]
    for image, text in ((ax.images[0], text) for ax in maps for text in ax.texts):
        shade = image.to_rgba(float(image.get_array()[text.xy[::-1]]))[:3]
        dark, light = sorted(
            np.dot(np.power(colour, 2.2), (0.2126, 0.7152, 0.0722)) + 0.05
            for colour in (shade, {"black": (0, 0, 0), "white": (1, 1, 1)}[text.get_color()])
        )
        assert light / dark >= 4.5


def test_the_sources_arrows_bars_and_lines_are_drawn(axes):
    arrows, *_, bars = axes("abc")
    ends = [text.xy for text in arrows.texts if text.arrowprops]
    assert ends == [(1, 0), (0.5, 0.5), (0, 1), (0.8, 0.2), (0.3, 0.7), (0.1, 0.9)]
    outputs = DECLARED["abc"].steps()[-3].table
    np.testing.assert_allclose([[bar.get_height() for bar in group] for group in bars.containers], outputs.T)
    weights = {step.name: step.table for step in DECLARED["notebook"].steps()}
    for ax, name in zip(axes("notebook")[2:], ("undivided_weights", "weights"), strict=True):
        np.testing.assert_allclose([line.get_ydata() for line in ax.lines], weights[name])
