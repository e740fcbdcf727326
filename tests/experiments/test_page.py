"""The page and the data of its explorer: all from files, whole or saying so, the same every
time.
"""

import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial.chebyshev import chebval
from PIL import Image
from scipy.interpolate import BarycentricInterpolator

from experiments.commands.entry import run
from experiments.figures.draw import pictures_of
from experiments.page import explorer, heads, index
from experiments.page.explorer import RELATIVE_ERROR, row_means
from experiments.page.index import make_page
from experiments.tables import verdicts
from experiments.tables.all_results import AllResults
from sdpa.scaling import FUNCTIONS
from sdpa.theory import GaussianRow
from tests.page_text import as_shown, assert_whole, words


def assert_in_order(text, *parts):
    assert re.search(".*".join(map(re.escape, parts)), text, re.DOTALL)


def text_of(config, folder):
    return make_page(AllResults(replace(config, path=Path("tiny.yaml")), folder)).decode()


@pytest.mark.usefixtures("quick_slider")
def test_a_users_config_gets_its_figures_tables_and_counts(drawn):
    config, folder = drawn
    with_figures_first = sorted(config.sweeps, key=lambda sweep: not sweep.figures)
    config = replace(config, sweeps=tuple(with_figures_first))
    text, all_results = text_of(config, folder), AllResults(config, folder)
    assert_whole(text, folder)
    plain = words(text)
    for sweep in config.sweeps:
        for figure, picture in zip(
            sweep.figures, pictures_of(folder, all_results[sweep.name]), strict=True
        ):
            assert all(as_shown(words) in plain for words in picture.words[:2])
            with Image.open(picture.path) as png:  # the page shows the drawing alone
                first, end = map(int, png.info["Rows"].split())
            shown, others = end - first, png.height - (end - first)
            place = round(100 * first / others, 2)
            assert f"/ {shown}; object-position: 0 {place}%" in text
            assert f'<figure id="{sweep.name}-{figure}">' in text
            assert f'<a class="picture" href="figures/{sweep.name}/{figure}.png">' in text
        assert f'<a href="{sweep.name}.csv">' in text
    first, *others = text.partition("<main")[2].split('<section class="sweep"')[1:]
    assert_in_order(first, 'id="sweep.scaling"', "<figure", "<details open>", "<table>")
    assert not any("<details open>" in other for other in others)
    assert f"make all CONFIG=tiny.yaml RESULTS={folder}<" in text
    assert as_shown(config.text) in as_shown(plain)
    for absent in ('id="statements"', "SmolLM2", 'id="cards"', 'id="strip"'):
        assert absent not in text


@pytest.mark.usefixtures("quick_slider")
@pytest.mark.parametrize("name", ["map", "single"])
def test_an_explorer_beside_sweeps_of_its_law_shows_what_it_knows(drawn, name):
    config, folder = drawn
    sweeps = tuple(each for each in config.sweeps if each.name == name)
    text = text_of(replace(config, sweeps=sweeps), folder)
    assert_in_order(text, f'id="sweep.{name}"', 'id="exponent"', 'id="numbers"')
    assert ('id="map"' in text) == ('class="chips" hidden' not in text) == (name == "map")


@pytest.mark.usefixtures("quick_slider")
def test_the_code_on_the_page_reads_filters_and_plots_each_table(drawn, monkeypatch):
    config, folder = drawn
    monkeypatch.chdir(folder)
    snippets = re.findall(r'"Code for the table"><code>(.*?)</code>', text_of(config, folder), re.S)
    assert len(snippets) == len(config.sweeps)
    assert "scaling|scaling" not in "".join(snippets)
    for code in map(html.unescape, snippets):
        names = {}
        exec(code, names)
        (filtered,) = re.findall(r"^table\..*", code, re.MULTILINE)
        assert 0 < len(eval(filtered, names)) <= len(names["table"])
        names["sns"].mpl.pyplot.close("all")


MINE = """\
seed: 0
sweeps:
  mine: {experiment: saturation, d_k: 4, n_keys: 30, n_queries: 4, scaling: d_k^1, trials: 1000, figures: length}
  other: {experiment: saturation, d_k: 4, n_keys: 3, n_queries: 2, scaling: d_k^1, trials: 3, figures: length}
"""


@pytest.mark.usefixtures("quick_slider")
def test_the_command_line_writes_what_there_is_and_tells_an_alarm(suite, monkeypatch):
    page = suite.folder / "index.html"
    suite("run", "mine", text=MINE)
    ran = suite("page")
    assert ran.returncode == 1
    assert re.search(r"other\.csv is missing", ran.stderr)
    text = page.read_text()
    assert "Sweeps without whole tables: other (1 of 2)" in text.split("<h1>")[0]
    assert_whole(text, suite.folder)
    suite("run")
    assert suite("page").returncode == 0
    assert "incomplete results" not in page.read_text()
    monkeypatch.setattr(verdicts, "ALARM", 99)
    page.unlink()
    suite("page")
    text = page.read_text()
    assert "raises its alarm" in text.split("<h1>")[0]
    assert "error bars agree" not in text


@pytest.mark.usefixtures("quick_slider")
def test_medians_and_crossings_are_those_of_the_tables(drawn):
    config, folder = drawn
    tables = AllResults(config, folder)
    data = explorer.explorer(tables.values())
    of = ["d_k", "n_keys", "divisor"]
    of_saturation = ("scaling", "single", "laws", "map")
    rows = pd.concat(tables[name].measured for name in of_saturation).query("inputs == 'gaussian'")
    for *cell, one, other in data["medians"]:
        cell_rows = rows.groupby(of).get_group(tuple(cell))
        known = [cell_rows[f"{name}_exact"].fillna(cell_rows[name]) for name in explorer._MEDIANS]
        assert np.isclose(np.transpose(known), (one, other), rtol=1e-3).all(axis=1).any(), cell
    crossings = tables["map"]["crossings"].query("level == 1 and statistic == 'median'")
    for norm, points in data["crossings"].items():
        of_norm = crossings[crossings["norm"] == norm]
        known = of_norm.set_index("n_keys")["crossing_exact"].dropna()
        # others are of `quick_slider`
        expected = {n: float(n) for n, _ in points} | known.to_dict()
        assert dict(points) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("widths, n_keys", [([1, 5, 64], 7), ([64, 65536], 1024)])
def test_embedded_curves_are_those_of_theory_between_their_points(widths, n_keys):
    rows = row_means(widths, [n_keys])
    largest = math.log1p(rows["sigma"])
    for name, curve in rows["of"][str(n_keys)].items():
        angles = np.linspace(0, np.pi, len(curve))
        points = largest * (1 - np.cos(angles)) / 2
        between = BarycentricInterpolator(points, curve)
        for s in np.linspace(0.01, largest, 9):
            exact = getattr(GaussianRow(math.expm1(s), n_keys), name)()
            assert np.exp(between(s)) == pytest.approx(exact, rel=RELATIVE_ERROR), (name, s)


HEADS = json.loads(heads.PATH.read_text())


def between_heads(name, spread, d_k, n_keys):
    """The logarithm that attention.js interpolates."""
    place = 2 * math.log1p(spread) / math.log1p(HEADS["spread"]) - 1
    values = [
        [chebval(place, curve) / HEADS["parts"] for curve in of_width]
        for of_width in HEADS["of"][name]
    ]
    lengths = np.log(HEADS["n_keys"]) ** 0.25
    by_width = BarycentricInterpolator(lengths, values, axis=1)(math.log(n_keys) ** 0.25)
    return BarycentricInterpolator(1 / np.array(HEADS["d_k"]), by_width)(1 / d_k)


@pytest.mark.parametrize(
    "spread, d_k, n_keys",
    [
        (0.001, 8, 65536),
        (1.0, 11, 4),
        (2.4, 40, 32768),
        (1.7, 11, 65536),
        (1.9, 100, 65536),
        (4.3, 2048, 300),
        (8.0, 64, 4096),
        (20.0, 11, 10),
        (64.0, 4096, 50000),
    ],
)
def test_heads_between_those_of_the_table_are_those_of_theory(spread, d_k, n_keys):
    exact = heads.logarithms(spread, d_k, n_keys)
    for name, value in zip(HEADS["of"], exact, strict=True):
        actual = math.exp(between_heads(name, spread, d_k, n_keys))
        assert actual == pytest.approx(math.exp(value), rel=heads.RELATIVE_ERROR), name


WITH_LOG2 = "d_k^1/2/log2(n_keys)"
ON_AXIS = r"$\sqrt{d_k}$/$\mathrm{log}_{2}\thinspace n_\mathrm{keys}$"
ON_PAGE = '√<span class="root">d<sub>k</sub></span>/log<sub>2</sub>(n<sub>keys</sub>)'
OF_LOG2 = {
    "experiment": "saturation",
    "d_k": 4,
    "n_keys": 8,
    "scaling": ["8", WITH_LOG2],
    "trials": 3,
}


@pytest.mark.usefixtures("in_this_process", "quick_slider")
def test_the_page_computes_all_functions_of_rules():
    script = Path(index.__file__).with_name("attention.js").read_text()
    (line,) = re.findall("const FUNCTIONS = (.*);", script)
    assert {*re.findall(r'"(\w+)"', line)} == {*FUNCTIONS}


def test_one_line_adds_a_function_of_rules_to_axes_page_and_explorer(tmp_path, monkeypatch):
    monkeypatch.setitem(FUNCTIONS, "log2", math.log2)
    monkeypatch.setattr(index, "SCALED", WITH_LOG2)
    results = run({"seed": 0, "sweeps": {"mine": OF_LOG2}}, tmp_path)
    ticks = results.draw("length").axes[0].get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["8", ON_AXIS]
    text = make_page(results).decode()
    (data,) = re.findall('id="explorer-data">(.*)</script>', text)
    assert json.loads(data)["formulas"]["scaled"] == ON_PAGE
    assert f"<td>{ON_PAGE}</td>" in text
