"""The page and the data of its explorer: all from files, whole or saying so, the same every
time.
"""

import math
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BarycentricInterpolator

from experiments.config.loader import load_config
from experiments.engine.tables import read_sweep, write_sweep
from experiments.pages import explorer, index
from experiments.pages.explorer import CURVES, RELATIVE_ERROR, row_means
from experiments.pages.index import make_page
from experiments.paths import drawn_texts, figure_path
from sdpa.theory import attention_expectations
from sdpa.theory.score_law import query_lengths
from tests.command_line import call
from tests.page_text import as_shown, assert_whole, words


@pytest.fixture
def own(drawn, tmp_path, quick_slider):  # noqa: ARG001
    """A copy of the drawn results for a test that changes them."""
    config, source = drawn
    shutil.copytree(source, tmp_path / "own")
    return config, tmp_path / "own"


def text_of(config, folder, **options) -> str:
    return make_page(config, folder, Path("tiny.yaml"), **options).decode()


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
        assert f'<a href="{sweep.name}.csv">' in text
    assert re.search(r"The check compares \d+ measured values with exact ones in \d+ cells", plain)
    assert "make all CONFIG=tiny.yaml" in text
    assert as_shown(config.text) in as_shown(plain)
    for absent in ('id="statements"', 'id="diagnosis"', "What it does, and what it does not do"):
        assert absent not in text


def test_equal_runs_give_equal_bytes_and_are_made_once(own, capsys):
    config, folder = own
    path = folder / "index.html"
    index.write_page(config, folder, Path("tiny.yaml"))
    first = path.read_bytes()
    index.write_page(config, folder, Path("tiny.yaml"))
    assert "up to date" in capsys.readouterr().out
    path.unlink()
    index.write_page(config, folder, Path("tiny.yaml"))
    assert path.read_bytes() == first
    figure_path(folder, "single", "variance", ".txt").write_text("A title\nSomething else.\n")
    index.write_page(config, folder, Path("tiny.yaml"))
    assert "Something else." in path.read_text(encoding="utf-8")


MINE = """\
seed: 0
sweeps:
  mine: {experiment: saturation, d_k: 4, n_keys: 30, n_queries: 4, scaling: d_k^1, trials: 1000, figures: length}
  other: {experiment: saturation, d_k: 4, n_keys: 3, n_queries: 2, scaling: d_k^1, trials: 3, figures: length}
"""


@pytest.mark.usefixtures("quick_slider", "in_this_process")
def test_the_command_line_writes_it_refuses_it_and_tells_an_alarm(tmp_path):
    (tmp_path / "mine.yaml").write_text(MINE)
    folder = tmp_path / "out"
    page = folder / "index.html"

    def run(*words: str) -> tuple[int, str, str]:
        options = ["--config", str(tmp_path / "mine.yaml"), "--results", str(folder)]
        ran = call(*words, *options)
        return ran.returncode, ran.stdout, ran.stderr

    run("run", "mine", "--jobs", "1")
    status, _, said = run("page")
    assert status == 1
    assert re.search(r"other\.csv is missing.*\n.*--incomplete", said)
    assert not page.exists()
    status, said, _ = run("page", "--incomplete")
    assert (status, said.splitlines()[-1]) == (0, f"next: open {page} in a browser")
    top = page.read_text(encoding="utf-8").split("<h1>")[0]
    assert "Sweeps without whole tables: other (1 of 2)" in top
    assert_whole(page.read_text(encoding="utf-8"), folder)
    status, _, _ = run("all", "--jobs", "1")
    assert (status, "incomplete results" in page.read_text(encoding="utf-8")) == (0, False)
    config = load_config(tmp_path / "mine.yaml")
    tables = read_sweep(folder, config, config.sweeps[0])
    tables["verdicts"].loc[tables["verdicts"]["metric"] == "entropy", ["z", "p_value"]] = (
        -7.5,
        1e-13,
    )
    (
        folder / f"{config.sweeps[0].name}.json"
    ).unlink()  # so that no table is expected to be the same
    write_sweep(folder, config, tables)
    status, _, said = run("all", "--jobs", "1")
    assert status == 1
    assert "disagree" in said
    text = page.read_text(encoding="utf-8")
    assert "raises its alarm" in text.split("<h1>")[0]
    assert "error bars agree" not in text


@pytest.mark.usefixtures("quick_slider")
def test_medians_and_crossings_are_those_of_the_tables(drawn):
    config, folder = drawn
    tables = {sweep.name: read_sweep(folder, config, sweep) for sweep in config.sweeps}
    data = explorer.explorer(tables.values())
    several = ("scaling", "single", "many", "laws", "formats", "map", "mechanisms")
    rows = pd.concat(tables[name]["measured"].assign(sweep=name) for name in several)
    rows = rows.query(
        "inputs == 'gaussian'"
    )  # medians are those of rows without rounding in any format
    rows = rows[rows["d_k"].isin(data["d_k"]) & rows["n_keys"].isin(data["n_keys"])]
    found = {tuple(cell[:3]): cell[3:] for cell in data["medians"]}
    cells = rows.groupby(["d_k", "n_keys", "divisor"])
    assert len(data["medians"]) == len(found) == len(cells)
    for cell, of_sweeps in cells:
        rows_in_all = of_sweeps["trials"] * of_sweeps["n_queries"]
        largest = of_sweeps[
            rows_in_all == rows_in_all.max()
        ]  # several, in formats that measure the same rows
        medians = largest[["jacobian_norm_median", "query_gradient_norm_median"]].to_numpy()
        assert np.isclose(found[cell], medians, rtol=1e-3).all(axis=1).any(), cell
    assert rows["sweep"].nunique() > 2
    crossings = tables["map"]["crossings"].query("level == 1 and statistic == 'median'")
    for norm, rows in data["crossings"].items():
        expected = (
            crossings[crossings["norm"] == norm]
            .set_index("n_keys")[["law", "crossing"]]
            .astype(float)
        )
        found = pd.DataFrame(
            rows, columns=["n_keys", "law", "crossing", "low", "high"], dtype=float
        ).set_index("n_keys")
        np.testing.assert_allclose(
            found.loc[expected.index, ["law", "crossing"]], expected, rtol=1e-3
        )
        assert (
            found["law"].drop(expected.index).tolist()
            == found["law"].drop(expected.index).index.tolist()
        )


def test_numbers_of_other_inputs_are_those_of_the_tables_with_their_law(drawn):
    config, folder = drawn
    tables = {sweep.name: read_sweep(folder, config, sweep) for sweep in config.sweeps}
    found = explorer.own_laws([tables["laws"]])
    rows = tables["laws"]["measured"].query("inputs != 'gaussian'")
    assert len(found) == len(rows) > 0
    for (*_, divisor, law, weight), (_, row) in zip(found, rows.iterrows(), strict=True):
        assert f"inputs = {row['inputs'].replace('_', ' ')}" in law
        assert (divisor, weight) == pytest.approx((row["divisor"], row["max_weight"]), rel=1e-3)
    assert explorer.own_laws([tables["single"]]) == []


def expectations(rows, n_keys: int, d_k: int, divisor: float) -> list[float]:
    """The expectations that curves give, in the order of `exact`; by SciPy's interpolation, not the
    page's.
    """
    curves = np.array([rows["of"][str(n_keys)][name] for name in CURVES]).T
    points = (
        math.log1p(rows["sigma"])
        * (1 - np.cos(np.pi * np.arange(len(curves)) / (len(curves) - 1)))
        / 2
    )
    lengths = query_lengths(d_k)
    weight, entropy, square, along = lengths.share @ np.exp(
        BarycentricInterpolator(points, curves)(np.log1p(lengths.length / divisor))
    )
    return [weight, entropy, math.sqrt(square), math.sqrt((d_k - 1) * square + along) / divisor]


def assert_they_are_exact(
    widths: list[int], lengths: list[int], exponents: tuple[float, ...]
) -> None:
    rows = row_means(widths, lengths)
    for n_keys in lengths:
        for d_k in widths:
            for p in exponents:
                exact = attention_expectations(d_k, n_keys, d_k**p)
                wanted = [
                    exact.max_weight,
                    exact.entropy,
                    exact.jacobian_norm,
                    exact.query_gradient_norm,
                ]
                assert expectations(rows, n_keys, d_k, d_k**p) == pytest.approx(
                    wanted, rel=RELATIVE_ERROR
                )


def test_embedded_curves_give_the_expectations_of_theory():
    assert_they_are_exact([5, 64], [7], (0.0, 0.4))


@pytest.mark.slow
def test_embedded_curves_give_the_expectations_of_theory_at_all_sizes():
    assert_they_are_exact(
        [1, 2, 64, 4096], [2, 4, 16, 64, 1024, 8192, 65536], (-0.05, 0.0, 0.3, 0.5, 1.0)
    )
    assert_they_are_exact([3, 65536], [64], (0.0, 0.5))
