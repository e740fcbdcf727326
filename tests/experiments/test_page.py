"""The page: what is on it comes from files, it is whole or says so, asks for nothing, and is the same every time."""

import base64
import html
import re
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiments.analysis.agreement import DisagreementError
from experiments.diagnosis.table import gaussian_curves
from experiments.figures.crossing_text import crossing_rows
from experiments.figures.figure import load_figure
from experiments.figures.rendering import render
from experiments.folders import SHIPPED_CONFIG, diagnosis_path, drawn_texts, figure_path
from experiments.harness.config import load_config
from experiments.harness.files import write_atomically
from experiments.harness.tables import TableError, csv_bytes, read_sweep, write_sweep
from experiments.page import explorer, findings, index, provenance
from experiments.page.artifact import page
from experiments.page.index import make_page
from experiments.page.svg import Drawings
from experiments.steps import sweeps as steps
from tests.command_line import call
from tests.kinds_of_heads import normal, table_of
from tests.page_text import as_shown, assert_self_contained, words


@pytest.fixture
def own(drawn, tmp_path):
    """A copy of the drawn results for a test that changes them."""
    config, source = drawn
    shutil.copytree(source, tmp_path / "own")
    return config, tmp_path / "own"


def text_of(config, folder, **options) -> str:
    return make_page(config, folder, Path("tiny.yaml"), **options).decode()


@pytest.mark.usefixtures("quick_slider")
def test_it_is_whole_and_asks_for_nothing(drawn):
    assert_self_contained(text_of(*drawn))


@pytest.mark.usefixtures("quick_slider")
def test_every_figure_of_a_users_config_is_on_it_with_caption_rows_and_config(drawn):
    config, folder = drawn
    text = text_of(config, folder)
    plain = words(text)
    for sweep in config.sweeps:
        for figure in sweep.figures:
            for shown in drawn_texts(figure_path(folder, sweep.name, figure, ".txt")):
                assert as_shown(shown) in plain
            assert f'<article class="finding" id="{sweep.name}-{figure}">' in text
        assert f'<span class="csv">{sweep.name}.csv</span>' in text
    assert 'id="statements"' not in text
    assert "make all CONFIG=tiny.yaml" in text


def embedded(text: str) -> dict[str, bytes]:
    """The tables in a page."""
    found = re.findall(r'<script [^>]*data-table="(.*?)">(.*?)</script>', text)
    return {name: zlib.decompress(base64.b64decode(data)) for name, data in found}


@pytest.mark.usefixtures("quick_slider")
def test_it_contains_every_table_that_it_names(drawn):
    config, folder = drawn
    text = text_of(config, folder)
    found = embedded(text)
    assert {f"{sweep.name}.csv" for sweep in config.sweeps} < set(found)
    assert set(re.findall(r'<span class="csv">(.*?)</span>', text)) == set(found)
    for name, content in found.items():
        assert content == (folder / name).read_bytes(), name
    assert "no room" not in text
    assert [link for link in re.findall(r'<a [^>]*href="(.*?)"', text) if not link.startswith("#")] == []


@pytest.mark.usefixtures("quick_slider")
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_it_stays_below_its_limit_and_names_the_tables_without_room(drawn, monkeypatch, share):
    config, folder = drawn
    whole = text_of(config, folder)
    monkeypatch.setattr(index, "LARGEST", 0)
    least = text_of(config, folder)
    assert embedded(least) == {}
    most = int(len(least) + share * (len(whole) - len(least)))
    monkeypatch.setattr(index, "LARGEST", most)
    text = text_of(config, folder)
    found = embedded(text)
    assert len(text.encode()) <= most + len(least.encode()) - len(least)
    left = words(text).split("The page has no room for the others")[1]
    for name in set(embedded(whole)) - set(found):
        assert f"{name} (no room on this page)" in words(text)
        assert name in left
    kinds = [name.count("/") for name in found]
    assert kinds == sorted(kinds)


def with_diagnosis(folder: Path) -> Path:
    """Add a diagnosis of a few heads to results; its caption."""
    heads = table_of(normal(3, 2)).assign(layer=range(2))
    path = diagnosis_path(folder, "diagnosis.csv")
    write_atomically(path, csv_bytes(heads))
    render(load_figure("diagnosis.heads"), {"heads": heads, "curves": gaussian_curves(heads)}, path.with_name("heads"))
    return path.with_name("heads.txt")


@pytest.mark.usefixtures("quick_slider")
def test_a_diagnosis_among_the_results_is_on_it(own, monkeypatch):
    config, folder = own
    assert 'id="diagnosis"' not in text_of(config, folder)
    caption = drawn_texts(with_diagnosis(folder)).caption
    text = text_of(config, folder)
    assert_self_contained(text)
    section = text.split('<section id="diagnosis"')[1].split("</section>")[0]
    assert as_shown(caption) in words(section)
    assert "In the median run, training takes the entropy share" in words(section)
    assert "<svg viewBox" in section
    assert '<a href="#diagnosis">' in text
    monkeypatch.setattr(Drawings, "inline", lambda *_: "")
    section = text_of(config, folder).split('<section id="diagnosis"')[1].split("</section>")[0]
    assert "This page has no room for the figure <code>diagnosis/training/heads.png</code>." in section


def test_a_page_is_outdated_after_a_change_of_the_diagnosis(own):
    config, folder = own
    with_diagnosis(folder)
    before = page(config, folder).decided_by()
    for name in ("diagnosis.csv", "heads.svg", "heads.txt"):
        path = diagnosis_path(folder, name)
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        assert page(config, folder).decided_by() != before, name
        path.write_bytes(content)
    assert page(config, folder).decided_by() == before


@pytest.mark.usefixtures("quick_slider")
def test_its_numbers_follow_the_table(own):
    """Another table, another page: a value that is shown is the table's."""
    config, folder = own
    sweep = config.sweeps[1]
    table = read_sweep(folder, config, sweep)["measured"]
    rows = findings.few_rows(sweep, table, ["max_weight"])
    assert len(rows.rows) == rows.of == 1
    shown = float(rows.rows[0][-1].text.split(" ±")[0])
    assert shown == pytest.approx(table["max_weight"].iloc[0], rel=1e-2)
    moved = findings.few_rows(sweep, table.assign(max_weight=table["max_weight"] + 0.1), ["max_weight"])
    assert float(moved.rows[0][-1].text.split(" ±")[0]) == pytest.approx(shown + 0.1, abs=1e-6)
    assert moved.rows[0][-1].exact == rows.rows[0][-1].exact != ""


@pytest.mark.usefixtures("quick_slider")
def test_a_map_stands_over_its_crossings(drawn):
    config, folder = drawn
    article = text_of(config, folder).split('id="map-map"')[1].split("</article>")[0]
    crossings = read_sweep(folder, config, config.sweeps[-1])["crossings"]
    assert crossings["n_keys"].nunique() == 3
    cells = re.findall(r"<td>(.*?)</td>", article)
    head, rows = crossing_rows(crossings)
    assert [html.unescape(cell) for cell in cells] == [text for row in rows for text in row]
    assert len(head) == 8
    laws = crossings.query("norm == 'jacobian' and law == law and crossing == crossing")
    assert laws["n_keys"].tolist() == [8, 20]
    ends = laws["crossing_low"].fillna(0), laws["crossing_high"].fillna(np.inf)
    inside = laws["law"].between(*ends).sum()
    plain_text = html.unescape(re.sub(r"<[^>]*>", "", article))
    assert f"for 8 and 20 keys; {inside} of 2 lie in the 95% interval" in plain_text


def test_a_shown_config_is_the_sweeps(drawn, tmp_path):
    config, _ = drawn
    for sweep in config.sweeps:
        path = tmp_path / f"{sweep.name}.yaml"
        path.write_text(findings.config_block(config.seed, sweep))
        (same,) = load_config(path).sweeps
        assert (same.parameters(), same.figures) == (sweep.parameters(), sweep.figures)
        assert len(yaml.safe_load(path.read_text())["sweeps"]) == 1


@pytest.mark.usefixtures("quick_slider")
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
    caption = figure_path(folder, "single", "variance", ".txt")
    caption.write_text("A finding\nSomething else.\n")
    steps.write_page(config, folder, Path("tiny.yaml"))
    assert "Something else." in path.read_text(encoding="utf-8")


@pytest.mark.usefixtures("quick_slider")
def test_incomplete_results_are_refused_or_named_at_the_top(own):
    config, folder = own
    (folder / "single.csv").unlink()
    with pytest.raises(TableError, match=r"single\.csv.*\n.*--incomplete"):
        text_of(config, folder)
    with pytest.raises(TableError, match="single"):
        steps.whole_sweeps(config, folder, incomplete=False)
    assert len(steps.whole_sweeps(config, folder, incomplete=True)) == len(config.sweeps) - 1
    text = text_of(config, folder, incomplete=True)
    top = text.split("<h1>")[0]
    assert "shows incomplete results" in top
    assert f"1 of {len(config.sweeps)} sweeps is missing: single" in top
    assert 'id="single-variance"' not in text
    assert 'id="scaling-variance"' in text


@pytest.mark.usefixtures("quick_slider")
def test_an_alarm_of_the_check_is_told_at_the_top(own, monkeypatch):
    config, folder = own
    agreement = provenance.agreement

    def alarmed(sweeps, tables):
        found = agreement(sweeps, tables)
        monkeypatch.setattr(type(found), "raise_alarm", lambda _: raising(DisagreementError("entropy of <all> is off")))
        return found

    monkeypatch.setattr(provenance, "agreement", alarmed)
    text = text_of(config, folder)
    assert "raises its alarm" in text.split("<h1>")[0]
    assert "entropy of &lt;all&gt; is off" in text
    assert "error bars agree" not in text


def raising(error: Exception) -> None:
    raise error


MINE = """\
seed: 0
sweeps:
  mine: {experiment: saturation, d_k: 4, n_keys: 30, n_queries: 4, scaling: d_k^1, trials: 1000, figures: length}
  other: {experiment: saturation, d_k: 4, n_keys: 3, n_queries: 2, scaling: d_k^1, trials: 3, figures: length}
"""


@pytest.mark.usefixtures("quick_slider", "in_this_process")
def test_every_number_of_another_law_stands_beside_its_law(tmp_path):
    """The explorer knows one law, sentences of the shipped config name none, and findings have that of their sweep."""
    usual = (
        "experiment: saturation, d_k: [4, 64], n_keys: 8, scaling: [unscaled, d_k^1/2], trials: 9, figures: variance"
    )
    other = f"{usual}, n_queries: 8, mask: causal, correlation: 0.5"
    (tmp_path / "u.yaml").write_text(f"seed: 0\nsweeps:\n  usual: {{{usual}}}\n  other: {{{other}}}")
    assert call("all", "--config", tmp_path / "u.yaml", "--results", tmp_path / "out", "--jobs", "1").returncode == 0
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    first_screen, *articles = text.split('<article class="finding"')
    stated = "For independent standard normal q and k without a mask, whatever the inputs in u.yaml:"
    assert words(first_screen.split('<p class="answer"')[0]).endswith(f"{stated}\n")
    assert first_screen.count(explorer.LAW) == 2  # above the sentence with its pictures, and in the table
    assert 'class="answers"' not in first_screen
    for article in articles:
        said = "All rows have correlation = 0.5, mask = causal." in words(article)
        assert said == article.startswith(' id="other-')
    config = load_config(tmp_path / "u.yaml")
    assert 'class="answers"' in make_page(config, tmp_path / "out", SHIPPED_CONFIG).decode()


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
    assert "1 of 2 sweeps is missing: other" in page.read_text(encoding="utf-8")
    status, said, _ = run("all", "--jobs", "1")
    assert (status, "incomplete results" in page.read_text(encoding="utf-8")) == (0, False)
    assert re.search(r"^agreed: \d+ measured values with exact ones", said, re.MULTILINE)
    config = load_config(tmp_path / "mine.yaml")
    tables = read_sweep(folder, config, config.sweeps[0])
    tables["verdicts"].loc[tables["verdicts"]["metric"] == "entropy", ["z", "p_value"]] = -7.5, 1e-13
    (folder / f"{config.sweeps[0].name}.json").unlink()  # so that no table is expected to be the same
    write_sweep(folder, config, config.sweeps[0], tables)
    status, _, said = run("all", "--jobs", "1")
    assert status == 1
    assert "disagree" in said
    assert "raises its alarm" in page.read_text(encoding="utf-8").split("<h1>")[0]
