"""Figures are declared as data, drawn with the numbers of their tables, and written in the formats
asked for.
"""

import math
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from experiments.config.paths import drawn_texts, figure_path
from experiments.figures.captions import plain_caption
from experiments.figures.rendering import draw, picture, render_figure
from experiments.figures.shown import shown
from experiments.kinds import experiment_names
from experiments.kinds.figures import FIGURES, figures_of
from experiments.measuring.experiment import load_experiment
from experiments.running.files import write_files
from experiments.tables.results import Results
from experiments.tables.stored import read_sweep
from experiments.tables.written import significant
from tests.command_line import SMALL
from tests.shipped import CONFIG, RESULTS

OF_SWEEPS = [name for experiment in experiment_names() for name in figures_of(experiment)]
SHOWN = {name: sweep for sweep in CONFIG.sweeps for name in sweep.figures}


@pytest.fixture
def sources(tiny):
    """All tables that a figure may be drawn from, each with its name: those of every sweep of its
    experiment.
    """
    config, folder = tiny

    def of(name: str) -> dict[str, Results]:
        subject = FIGURES[name].of
        sweeps = [sweep for sweep in config.sweeps if subject == sweep.experiment.name]
        return {sweep.name: read_sweep(folder, sweep) for sweep in sweeps}

    return of


def shipped(name: str) -> Results:
    return read_sweep(RESULTS, SHOWN[name])


def drawing(figure, results: Results) -> Figure:
    return draw(figure, shown(figure, results))


def rows_in(tables: Results) -> int:
    return sum(map(len, tables.values()))


def intervals(ax) -> list[ErrorbarContainer]:
    return [container for container in ax.containers if isinstance(container, ErrorbarContainer)]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_from_its_tables_alone_with_a_plain_caption(name, sources):
    figure = FIGURES[name]
    assert len(figure.shows.split()) <= 12
    tables = max(sources(name).values(), key=lambda of: (len(of), -rows_in(of)))
    caption = plain_caption(figure, shown(figure, tables))
    assert caption.endswith(".")
    assert not re.search(r"nan|\n", caption)
    assert drawing(figure, tables).axes


@pytest.mark.parametrize("name", OF_SWEEPS)
def test_a_figure_names_metrics_and_axes_that_there_are(name):
    figure, experiment = FIGURES[name], load_experiment(FIGURES[name].of)
    assert figure.metrics
    assert set(figure.metrics) <= {column.name for column in experiment.columns}


def test_names_of_categories_stand_below_their_points():
    """Also if the first line has no point in one of them."""
    measured = shipped("assumptions")["measured"].query("scaling == 'unscaled'").iloc[:4]
    inputs = ["gaussian", "rademacher", "student_t", "gaussian"]
    table = measured.assign(
        inputs=inputs, query_mean=[0.0, 0.5, 0.0, 0.5], key_mean=0.0, query_std=1.0
    )
    ax = drawing(
        FIGURES["metrics"], Results(shipped("assumptions").sweep, {"measured": table})
    ).axes[2]
    names = [text.get_text() for text in ax.get_xticklabels()]
    points = {
        (names[round(at)], y)
        for bar in intervals(ax)
        for at, y in zip(*bar[0].get_data(orig=False), strict=True)
    }
    assert points == {
        (name.replace("_", " "), y) for name, y in zip(inputs, table["entropy"], strict=True)
    }


def test_a_panel_marks_where_its_unscaled_line_falls_through_the_scaled_one():
    """By straight lines between the points of the picture, which the curve of the table bends."""
    ax = drawing(FIGURES["metrics"], shipped("metrics")).axes[3]
    lines = {bar.get_label(): np.log(bar[0].get_xydata()) for bar in intervals(ax)}
    gap = lines["unscaled"] - lines["d_k^1/2"]
    straight = np.exp(np.interp(0, -gap[-2:, 1], lines["unscaled"][-2:, 0]))
    (mark,) = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert mark.get_xdata() == pytest.approx([straight] * 2, rel=0.05)
    assert (
        ax.texts[0].get_text()
        == f"unscaled and d_k^1/2 cross at {significant(mark.get_xdata()[0], 2):g} (exact) "
    )


@pytest.mark.parametrize("times", [0, 2])
def test_a_panel_marks_no_crossing_of_none_or_several(times):
    tables = shipped("metrics")
    crossings = tables.pop("crossings")
    if times:
        tables["crossings"] = pd.concat([crossings] * times)
    ax = drawing(FIGURES["metrics"], tables).axes[3]
    assert not [line for line in ax.lines if line.get_linestyle() == ":"]


@pytest.mark.parametrize("at", [5, 120])
def test_the_words_of_a_crossing_stand_inside_their_panel(at):
    tables = shipped("metrics")
    tables["crossings"] = tables["crossings"].assign(crossing=at, crossing_exact=at)
    figure = picture(FIGURES["metrics"], tables)
    FigureCanvasAgg(figure).draw()
    ax = figure.axes[3]
    (words,) = ax.texts
    inside, panel = words.get_window_extent(), ax.get_window_extent()
    assert panel.x0 <= inside.x0
    assert inside.x1 <= panel.x1
    (mark,) = [line.get_window_extent() for line in ax.lines if line.get_linestyle() == ":"]
    assert inside.x1 <= mark.x0 or mark.y1 <= inside.y0


def test_files_have_title_and_caption_and_come_out_byte_identical(drawn, sources, tmp_path):
    config, folder = drawn
    for name in ("variance", "map"):
        (where,) = [sweep.name for sweep in config.sweeps if name in sweep.figures][:1]
        drawing = figure_path(folder, where, name, ".png")
        write_files(tmp_path / name, render_figure(FIGURES[name], sources(name)[where]))
        assert (tmp_path / f"{name}.png").read_bytes() == drawing.read_bytes()
        title, caption = drawn_texts(drawing)
        assert title == FIGURES[name].shows
        assert all(text.encode() in drawing.read_bytes() for text in (title, caption))


def test_a_finding_comes_before_the_plain_caption(tmp_path):
    figure, tables = FIGURES["variance"], shipped("variance")
    finding = ("It rises", "It rises from 1 to 2.")
    write_files(tmp_path / "variance", render_figure(figure, tables, finding=finding))
    caption = f"It rises from 1 to 2. {plain_caption(figure, shown(figure, tables))}"
    assert drawn_texts(tmp_path / "variance.png") == ("It rises", caption)


ONE = f"{SMALL}    figures: variance\n"


def test_further_formats_are_drawn_on_request_and_kept_up_to_date(suite):
    suite("run", text=ONE)
    pdf = suite.folder / "figures/mine/variance.pdf"
    png, svg = pdf.with_suffix(".png"), pdf.with_suffix(".svg")
    suite("draw")
    assert not pdf.exists()
    assert not svg.exists()
    assert f"drew {png}" in suite("draw", "-v", "--format", "pdf,svg").stdout
    assert b"<svg" in svg.read_bytes()
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert b"CreationDate" not in content
    assert b"/Subtype /Image" not in content
    assert f"kept {png}" in suite("draw", "-v").stdout
    pdf.write_bytes(b"changed")
    assert f"drew {png}" in suite("draw", "-v").stdout
    assert pdf.read_bytes() == content


@pytest.mark.parametrize("formats", ["png,jpg", "pdf,"])
def test_an_unknown_format_is_refused_before_anything_is_drawn(suite, formats):
    bad = repr(formats.rpartition(",")[2])
    refused = suite("all", "--format", formats, text=ONE)
    assert refused.returncode == 2
    assert f"--format: got the format {bad}, expected some of png, svg, pdf" in refused.stderr
    assert not (suite.folder / "figures").exists()


def test_a_caption_names_the_lines_of_the_law_only_where_there_are_some():
    figure, tables = FIGURES["growth"], shipped("growth")
    assert "Lines: law" in plain_caption(figure, shown(figure, tables))
    assert "No lines" not in plain_caption(figure, shown(figure, tables))
    layers = tables["by_layer"].assign(cosine_law=math.nan)
    without = plain_caption(
        figure, shown(figure, Results(tables.sweep, {**tables, "by_layer": layers}))
    )
    assert "Lines: law" not in without
    assert "No lines: the law is for d_k from 32 on" in without


def test_a_point_far_below_the_others_does_not_squeeze_their_panel():
    tables = shipped("assumptions")
    for ax in drawing(FIGURES["assumptions"], tables).axes:
        assert np.ptp(np.log(ax.get_xlim())) < np.log(200)
    (far,) = ax.texts
    rows = tables["measured"].query("scaling == 'unscaled'")["query_gradient_norm_median"]
    assert far.get_text() == f"← {(rows / rows.iloc[0]).min():.0e}"
