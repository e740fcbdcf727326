"""The page and the data of its explorer: all from files, whole or saying so, the same every
time.
"""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.config.loader import load_config
from experiments.config.paths import drawn_texts, figure_path
from experiments.publication.pages import explorer
from experiments.publication.pages.index import make_page
from experiments.tables.stored import read_sweep, write_sweep
from experiments.tables.study import Study
from tests.page_text import as_shown, assert_whole, words


def text_of(config, folder):
    return make_page(Study(config, folder), Path("tiny.yaml")).decode()


@pytest.mark.usefixtures("quick_slider")
def test_a_users_config_gets_its_figures_tables_and_counts(drawn):
    config, folder = drawn
    text = text_of(config, folder)
    assert_whole(text, folder)
    plain = words(text)
    for sweep in config.sweeps:
        for figure in sweep.figures:
            title, caption = drawn_texts(figure_path(folder, sweep.name, figure, ".txt"))
            assert as_shown(title) in plain
            assert as_shown(caption) in plain
            assert f'<figure id="{sweep.name}-{figure}">' in text
            assert f'<a class="picture" href="figures/{sweep.name}/{figure}.png">' in text
        assert f'<a href="{sweep.name}.csv">' in text
    heads = re.findall(r"<thead><tr>.*?</tr>", text)
    assert max(head.count("<th ") for head in heads) == 10
    first, rest = text.split("<main")
    assert words(first).index("Sweep scaling over dk: dk = 4 and 64, nkeys = 8") > 0
    assert text.index('id="sweep.scaling"') < text.index('id="strip"')
    assert "which is not the law of every sweep above" in words(rest)
    assert re.search(r"The check compares \d+ measured values with those of theory \(", plain)
    assert "make all CONFIG=tiny.yaml" in text
    assert as_shown(config.text) in as_shown(plain)
    for absent in ('id="statements"', "SmolLM2", "The usual story"):
        assert absent not in text


@pytest.mark.usefixtures("quick_slider")
def test_the_code_on_the_page_reads_filters_and_plots_each_table(drawn, monkeypatch):
    config, folder = drawn
    monkeypatch.chdir(folder)
    found = re.findall(r'"Code for the table"><code>(.*?)</code>', text_of(config, folder), re.S)
    assert len(found) == len(config.sweeps)
    for sweep, code in zip(config.sweeps, map(html.unescape, found), strict=True):
        names: dict[str, Any] = {}
        exec(code, names)
        assert [*names["table"]] == [*pd.read_csv(f"{sweep.name}.csv")]
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
def test_the_command_line_writes_what_there_is_and_tells_an_alarm(suite):
    page = suite.folder / "index.html"
    suite("run", "mine", text=MINE)
    ran = suite("page")
    assert ran.returncode == 1
    assert re.search(r"other\.csv is missing", ran.stderr)
    text = page.read_text(encoding="utf-8")
    assert "Sweeps without whole tables: other (1 of 2)" in text.split("<h1>")[0]
    assert_whole(text, suite.folder)
    suite("run")
    assert suite("page").returncode == 0
    assert "incomplete results" not in page.read_text(encoding="utf-8")
    config = load_config(suite.config)
    tables = read_sweep(suite.folder, config.sweeps[0])
    of_entropy = tables["verdicts"]["metric"] == "entropy"
    tables["verdicts"].loc[of_entropy, ["z", "p_value"]] = -7.5, 1e-13
    (suite.folder / "mine.json").unlink()  # so that no table is expected to be the same
    write_sweep(suite.folder, tables)
    suite("page")
    text = page.read_text(encoding="utf-8")
    assert "raises its alarm" in text.split("<h1>")[0]
    assert "error bars agree" not in text


@pytest.mark.usefixtures("quick_slider")
def test_medians_and_crossings_are_those_of_the_tables(drawn):
    config, folder = drawn
    tables = {sweep.name: read_sweep(folder, sweep) for sweep in config.sweeps}
    data = explorer.explorer(tables.values())
    of = ["d_k", "n_keys", "divisor"]
    rows = pd.concat(
        tables[name]["measured"] for name in ("scaling", "single", "laws", "map")
    ).query("inputs == 'gaussian'")  # of saturation
    rows = rows[rows["d_k"].isin(data["d_k"]) & rows["n_keys"].isin(data["n_keys"])]
    rows["rows"] = rows["trials"] * rows["n_queries"]
    cells = rows.groupby(of)
    assert len(data["medians"]) == len(cells)
    for *cell, one, other in data["medians"]:
        # Several sweeps share a cell; the one with most rows is shown.
        found = cells.get_group(tuple(cell))
        found = found[found["rows"] == found["rows"].max()]
        known = [found[f"{name}_exact"].fillna(found[name]) for name in explorer._MEDIANS]
        assert np.isclose(np.transpose(known), (one, other), rtol=1e-3).all(axis=1).any(), cell
    crossings = tables["map"]["crossings"].query("level == 1 and statistic == 'median'")
    columns = ["n_keys", "crossing_exact", "crossing", "low", "high"]
    for norm, rows in data["crossings"].items():
        known = crossings[crossings["norm"] == norm].dropna(subset="crossing_exact")
        expected = known.set_index("n_keys")[columns[1:3]]
        found = pd.DataFrame(rows, columns=columns, dtype=float).set_index("n_keys")
        near = found.loc[expected.index, columns[1:3]]
        np.testing.assert_allclose(near, expected.astype(float), rtol=1e-3)
        others = found["crossing_exact"].drop(expected.index)
        assert others.tolist() == others.index.tolist()
