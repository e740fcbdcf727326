"""The page: what is on it comes from files, it is whole or says so, asks for nothing, and is the same every time."""

import html
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiments.analysis.agreement import DisagreementError
from experiments.figures.crossing_text import crossing_rows
from experiments.folders import figure_path
from experiments.harness.config import load_config
from experiments.harness.tables import TableError, read_sweep, write_sweep
from experiments.page import findings, provenance, slider
from experiments.page.index import make_page
from experiments.page.svg import Drawings
from experiments.steps import sweeps as steps
from sdpa.theory import attention_expectations
from tests.command_line import call
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
            caption = figure_path(folder, sweep.name, figure, ".txt").read_text(encoding="utf-8").strip()
            assert as_shown(caption) in plain
            assert f'<article class="finding" id="{sweep.name}-{figure}">' in text
        assert f'href="{sweep.name}.csv"' in text
    assert 'id="statements"' not in text
    assert "make all CONFIG=tiny.yaml" in text


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
    caption.write_text("Something else.\n")
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


@pytest.mark.slow
def test_interpolated_expectations_are_off_by_no_more_than_is_said():
    table = slider.expectations()
    points = np.array(table["exponents"])
    rng = np.random.default_rng(1)
    for p in rng.uniform(size=20):
        d_k, n_keys = (int(rng.choice(choice)) for choice in (slider.WIDTHS, slider.LENGTHS))
        exact = attention_expectations(d_k, n_keys, d_k**p)
        for name in slider.QUANTITIES:
            values = np.array(table[name][slider.WIDTHS.index(d_k)][slider.LENGTHS.index(n_keys)])
            assert abs(slider.interpolated(points, values, p) - getattr(exact, name)) <= table["errors"][name]
    assert max(table["errors"].values()) < 1e-4


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
    assert (status, said.splitlines()[-1][:5]) == (0, "wrote")
    assert "1 of 2 sweeps is missing: other" in page.read_text(encoding="utf-8")
    status, said, _ = run("all", "--jobs", "1")
    assert (status, "incomplete results" in page.read_text(encoding="utf-8")) == (0, False)
    assert "\ntheory, sampler and error bars agree" in said
    config = load_config(tmp_path / "mine.yaml")
    tables = read_sweep(folder, config, config.sweeps[0])
    tables["verdicts"].loc[tables["verdicts"]["metric"] == "entropy", ["z", "p_value"]] = -7.5, 1e-13
    write_sweep(folder, config, config.sweeps[0], tables)
    status, _, said = run("all", "--jobs", "1")
    assert status == 1
    assert "disagree" in said
    assert "raises its alarm" in page.read_text(encoding="utf-8").split("<h1>")[0]


SVG = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 100 80.126">
<title>it shows "this" &amp; that</title>
<metadata>who</metadata><defs><style>*{fill: red}</style><path id="DejaVuSans-1" d="M 0 0
L 1 1"/><clipPath id="p1"><rect x="1.23456" y="2"/></clipPath></defs>
<g id="text_1"><!-- A label -->
<g transform="translate(1 20) scale(0.1 -0.1)"><use xlink:href="#DejaVuSans-1"/></g></g>
<g id="axes" clip-path="url(#p1)"><use xlink:href="#DejaVuSans-1" transform="translate(12.345 0)"/></g></svg>"""


def test_drawings_share_glyphs_and_nothing_else():
    drawings = Drawings()
    first, second = (drawings.inline(SVG, prefix) for prefix in ("a-", "b-"))
    assert first == second.replace("b-p1", "a-p1")
    title = '<title>it shows "this" &amp; that</title>'
    assert first.startswith(f'<svg viewBox="0 0 100 80.13" stroke-linejoin="round" role="img">{title}')
    assert '<use href="#DejaVuSans-1" x="12.35" />' in first or '<use href="#DejaVuSans-1" x="12.34" />' in first
    assert 'clip-path="url(#a-p1)"' in first
    for gone in ("label", "metadata", "style>", "xmlns", "text_1"):
        assert gone not in first
    assert drawings.glyphs().count("<path") == 1
    assert Drawings(room=len(first) + 5).inline(SVG, "a-") == first
    assert Drawings(room=len(first) - 5).inline(SVG, "a-") == ""
    with pytest.raises(ValueError, match="expected one shape of the glyph DejaVuSans-1, got two"):
        drawings.inline(SVG.replace("L 1 1", "L 1 2"), "d-")
