"""The page: what is on it comes from files, it is whole or says so, asks for nothing, and is the same every time."""

import base64
import io
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from experiments.folders import diagnosis_path, drawn_texts, figure_path
from experiments.harness.config import load_config
from experiments.harness.tables import read_sweep, write_sweep
from experiments.page.index import few_rows, make_page
from experiments.page.parts import STATEMENTS_CSV
from experiments.steps import sweeps as steps
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


@pytest.mark.usefixtures("quick_slider")
def test_an_image_is_the_drawing_to_within_two_percent(drawn):
    config, folder = drawn
    found = re.search(r'<figure id="single-variance">.*?base64,(.*?)"', text_of(config, folder), re.DOTALL)[1]
    path = figure_path(folder, "single", "variance", ".png")
    shown, drawing = (
        np.asarray(Image.open(source).convert("RGB"), dtype=int)
        for source in (io.BytesIO(base64.b64decode(found)), path)
    )
    assert np.abs(shown - drawing).max() <= 0.02 * 255


def test_diagnosis_examples_and_statements_are_on_it_if_the_results_have_them(own):
    config, folder = own
    heads = diagnosis_path(folder, "heads.png")
    for path in (heads, folder / "examples" / "abc.png"):
        path.parent.mkdir(parents=True)
        for suffix in (".png", ".txt"):
            shutil.copy(figure_path(folder, "single", "variance", suffix), path.with_suffix(suffix))
    heads.with_suffix(".txt").write_text('Heads <b>before</b>\nA caption & "quotes".\n')
    (folder / STATEMENTS_CSV).parent.mkdir()
    row = {"id": "qa-01", "source": "A <i>b</i>", "claimed": "", "computed": "yes: it is 1; no: it is 2", "note": ""}
    rows = [row | {"statement": "A good one", "verdict": "holds", "severity": ""}]
    rows += [row | {"statement": "Bad <script>", "verdict": "wrong", "severity": "slip"}]
    pd.DataFrame(rows).to_csv(folder / STATEMENTS_CSV, index=False)
    text = text_of(config, folder)
    assert_whole(text, folder)
    plain = words(text)
    assert 'alt="Heads &lt;b&gt;before&lt;/b&gt;. A caption &amp; &#34;quotes&#34;."' in text
    assert 'A caption & "quotes".' in plain
    assert '<figure id="examples-abc">' in text
    assert "Passes: it is 1. Fails: it is 2." in plain
    assert text.index("Bad &lt;script&gt;") < text.index("A good one")


def test_few_rows_are_the_ends_of_the_axes_with_interval_and_exact_value():
    table = pd.DataFrame({"d_k": [8, 8, 64, 64, 512, 512], "n_keys": 4, "scaling": ["unscaled", "d_k^1/2"] * 3})
    table = table.assign(entropy=[0.5, 1.0, 0.4, 1.1, 0.30004, 1.2], entropy_exact=[0.5, 1, 0.4, 1.1, 0.3, np.nan])
    table = table.assign(entropy_low=table["entropy"] - 0.002, entropy_high=table["entropy"] + 0.002)
    head, rows = few_rows(table, ["entropy"])
    assert head == ["d_k", "scaling", "entropy"]
    assert rows == [
        ["8", "unscaled", "0.5000 ± 0.0020, exactly 0.5000"],
        ["8", "d_k^1/2", "1.0000 ± 0.0020, exactly 1.0000"],
        ["512", "unscaled", "0.3000 ± 0.0020, exactly 0.3000"],
        ["512", "d_k^1/2", "1.2000 ± 0.0020"],
    ]
    many = pd.concat([table.assign(n_keys=n, key_std=s) for n in (4, 8) for s in (1.0, 2.0)])
    assert len(few_rows(many, ["entropy"])[1]) == 12


def test_equal_runs_give_equal_bytes_and_are_made_once(own, capsys):
    config, folder = own
    path = folder / "index.html"
    steps.write_page(config, folder, Path("tiny.yaml"))
    first = path.read_bytes()
    steps.write_page(config, folder, Path("tiny.yaml"))
    assert "up to date" in capsys.readouterr().out
    path.unlink()
    steps.write_page(config, folder, Path("tiny.yaml"))
    assert path.read_bytes() == first
    figure_path(folder, "single", "variance", ".txt").write_text("A title\nSomething else.\n")
    steps.write_page(config, folder, Path("tiny.yaml"))
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
    tables["verdicts"].loc[tables["verdicts"]["metric"] == "entropy", ["z", "p_value"]] = -7.5, 1e-13
    (folder / f"{config.sweeps[0].name}.json").unlink()  # so that no table is expected to be the same
    write_sweep(folder, config, config.sweeps[0], tables)
    status, _, said = run("all", "--jobs", "1")
    assert status == 1
    assert "disagree" in said
    text = page.read_text(encoding="utf-8")
    assert "raises its alarm" in text.split("<h1>")[0]
    assert "error bars agree" not in text
