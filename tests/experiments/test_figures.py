"""Figures are declared as data, and drawn with the numbers of their tables."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer

from experiments.analysis.agreement import agreement_tables
from experiments.figures.declared import FIGURES, default_figures, figures_of
from experiments.figures.figure import Default, Figure, Lines, Panel, Tables
from experiments.figures.lines import draw_lines, label_lines, plot_metric, series
from experiments.figures.maps import place
from experiments.figures.rendering import draw, render_figure, typeset
from experiments.figures.style import panels
from experiments.figures.words import latex, plain_caption
from experiments.folders import ALL_SWEEPS, drawn_texts, figure_path
from experiments.harness.columns import axis_names, cell_fields
from experiments.harness.config import load_config
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.files import write_files
from experiments.harness.tables import read_sweep
from sdpa import Scaling
from tests.shipped import CONFIG, RESULTS

OF_SWEEPS = [name for experiment in experiment_names() for name in figures_of(experiment)]
SHOWN = {name: sweep for sweep in CONFIG.sweeps for name in sweep.figures}
OF_LINES = [name for name in SHOWN if FIGURES[name].lines]


@pytest.fixture
def sources(tiny):
    """All tables that a figure may be drawn from, each with its name: those of every sweep of its experiment."""
    config, folder = tiny

    def of(name: str) -> dict[str, Tables]:
        subject = FIGURES[name].of
        sweeps = [sweep for sweep in config.sweeps if subject in (sweep.experiment.name, ALL_SWEEPS)]
        tables = {sweep.name: read_sweep(folder, config, sweep) for sweep in sweeps}
        return {ALL_SWEEPS: agreement_tables(config.sweeps, tables)} if subject == ALL_SWEEPS else tables

    return of


def shipped(name: str) -> Tables:
    return read_sweep(RESULTS, CONFIG, SHOWN[name])


def intervals(ax) -> list[ErrorbarContainer]:
    return [container for container in ax.containers if isinstance(container, ErrorbarContainer)]


@pytest.mark.parametrize("name", FIGURES)
def test_any_table_has_a_drawing_and_a_plain_caption(name, sources):
    figure = FIGURES[name]
    assert len(figure.shows.split()) <= 12
    for where, tables in sources(name).items():
        if name == "metrics" and where == "many":
            continue  # hundreds of lines that the other figures draw
        caption = plain_caption(figure, tables)
        assert caption.endswith("."), where
        assert "nan" not in caption, where
        assert "\n" not in caption, where
        assert draw(figure, tables).axes, where


@pytest.mark.parametrize("name", OF_SWEEPS)
def test_a_figure_names_metrics_and_axes_that_there_are(name):
    figure, experiment = FIGURES[name], load_experiment(FIGURES[name].of)
    assert figure.metrics
    assert set(figure.metrics) <= {column.name for column in experiment.columns}
    if figure.default:
        assert {*figure.default.varied, *figure.default.single} <= set(axis_names(experiment.cell))
        assert not figure.default.rules or "scaling" in cell_fields(experiment.cell)


@pytest.mark.parametrize("name", OF_LINES)
def test_lines_have_the_values_the_intervals_and_the_exact_values_of_the_table(name):
    """Of each panel without another choice of rows, and of each of its lines."""
    picture, table = FIGURES[name].lines, shipped(name)["measured"]
    drawing = draw_lines(picture, table)
    x = picture.x or ("d_model" if name == "initialisation" else "d_k")
    shown = [panel for panel in picture.panels for _ in range(3 if picture.beside else 1)]
    groups = [rows for _, rows in table.groupby(picture.beside, sort=False)] if picture.beside else [table]
    for i, panel in enumerate(shown):
        rows = groups[i % len(groups)]
        if panel.only:
            strengths = sorted(rows["correlation"].unique())
            rows = rows[rows["correlation"] == strengths[-1 if panel.only[1] is max else 0]]
        lines, bars = series(rows, x, picture.by), intervals(drawing.axes[i])
        assert len(bars) == len(lines) * (2 if panel.dashed else 1)
        per = np.log(lines[0].rows["n_keys"].to_numpy()) if panel.per_ln else 1.0
        line, _, (bar,) = bars[0]
        expected = lines[0].rows
        assert np.allclose(line.get_xdata(), expected[x])
        assert np.allclose(line.get_ydata(), expected[panel.metric] / per)
        ends = np.array([segment[:, 1] for segment in bar.get_segments()])
        bounds = expected[[f"{panel.metric}_low", f"{panel.metric}_high"]].to_numpy() / np.reshape(per, (-1, 1))
        assert np.allclose(ends, bounds, atol=1e-12)
        if f"{panel.metric}_exact" in expected:
            pale = [band.get_ydata() for band in drawing.axes[i].lines if band.get_alpha() == 0.3]
            assert any(np.allclose(values, expected[f"{panel.metric}_exact"] / per, equal_nan=True) for values in pale)


def test_the_value_of_equal_weights_is_marked():
    drawing = draw(FIGURES["length"], shipped("length"))
    for ax, value in zip(drawing.axes, (np.log, lambda n: 1 / n), strict=True):
        (marks,) = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert np.allclose(marks.get_ydata(), value(marks.get_xdata()))


def test_a_map_has_the_ratios_of_the_table_and_their_crossings():
    tables = shipped("map")
    ax = draw(FIGURES["map"], tables).axes[0]
    ratios = tables["ratios"].query("norm == 'jacobian' and statistic == 'median'")
    table = ratios.pivot_table(index="n_keys", columns="d_k", values="ratio")
    assert np.allclose(ax.images[0].get_array(), np.log(table))
    written = {text.get_text() for text in ax.texts}
    assert {f"{ratio:.2g}" for ratio in table.to_numpy()[:, ::2].ravel() if 1 <= ratio < 100} <= written
    crossings = tables["crossings"].query("norm == 'jacobian' and statistic == 'median' and level == 1")
    points = intervals(ax)[0][0].get_xdata()
    assert np.allclose(points, place(crossings["crossing"], table.columns))
    assert np.all(np.diff(points) > 0)


def test_places_on_a_map_are_linear_in_the_logarithm_and_end_with_it():
    assert np.allclose(place([8, 16, 64, 4, 65], pd.Index([8, 32, 64])), [0, 0.5, 2, np.nan, np.nan], equal_nan=True)


def test_the_phase_map_shows_the_entropy_over_its_bound():
    tables = shipped("phase")
    ax = draw(FIGURES["phase"], tables).axes[0]
    rows = tables["measured"].query("scaling == 'unscaled'")
    share = rows.assign(share=rows["entropy"] / np.log(rows["n_keys"]))
    expected = share.pivot_table(index="n_keys", columns="d_k", values="share")
    assert np.allclose(ax.images[0].get_array(), expected)


def test_a_rule_that_never_solves_has_a_cross_at_the_last_step():
    tables = shipped("steps_to_solve")
    ax = draw(FIGURES["steps_to_solve"], tables).axes[0]
    crosses = [(x, y) for line in ax.lines if line.get_marker() == "x" for x, y in line.get_xydata()]
    never = tables["bands"]["steps_to_solve"].isna()
    assert len(crosses) == never.sum() == 1
    assert crosses[0][1] == tables["measured"]["steps"].max()


def test_losses_mark_what_solves_and_what_diverges():
    tables = shipped("learning_rates")
    table = tables["measured"]
    points = [line for ax in draw(FIGURES["learning_rates"], tables).axes for line in ax.lines]
    full = [line for line in points if line.get_marker() == "o" and line.get_markerfacecolor() != "white"]
    crosses = [line for line in points if line.get_marker() == "x"]
    solves = table["solved"] >= 0.5
    assert sum(len(line.get_xdata()) for line in full) == solves.sum() > 0
    assert sum(len(line.get_xdata()) for line in crosses) == ((table["diverged"] >= 0.5) & ~solves).sum() > 0


def test_curves_are_of_the_largest_width_at_the_best_rate_of_the_square_root():
    tables = shipped("learning_curves")
    best = tables["bands"].query("task == 'recall' and d_k == 512 and scaling == 'd_k^1/2'")["best_rate"].iloc[0]
    curves = tables["learning_curves"].query(f"task == 'recall' and d_k == 512 and learning_rate == {best}")
    drawn = [line.get_ydata() for line in draw(FIGURES["learning_curves"], tables).axes[3].lines]
    for _, rows in curves.groupby("scaling"):
        assert any(len(line) == len(rows) and np.allclose(line, rows["largest_score"]) for line in drawn)


def test_a_sweep_without_what_a_figure_needs_gets_the_reason():
    alone = {"measured": shipped("length")["measured"]}
    for name, reason in (("map", "No ratios"), ("freezing", "No curves")):
        assert draw(FIGURES[name], alone).axes[0].texts[0].get_text().startswith(reason)
    alone["measured"] = alone["measured"].assign(exponent=np.nan)
    assert "no rule" in draw(FIGURES["powers"], alone).axes[0].texts[0].get_text().lower()


def test_other_axes_distinguish_lines_by_markers(tiny):
    config, folder = tiny
    (many,) = [sweep for sweep in config.sweeps if sweep.name == "many"]
    lines = series(read_sweep(folder, config, many)["measured"], "d_k")
    assert len({line.label for line in lines}) == len(lines) == 2 * 4
    assert len({line.marker for line in lines}) == 4
    assert len({line.colour for line in lines}) == 2


def test_names_of_lines_at_one_height_do_not_touch():
    figure, [[ax]] = panels(1, 1, (4, 3))
    rows = [
        {"d_k": d_k, "scaling": rule, "exponent": p, "max_weight": 0.5 + 0.001 * p, "few_draws": ""}
        for d_k in (4, 8)
        for p, rule in enumerate(("unscaled", "d_k^1/3", "d_k^1/2"))
    ]
    table = pd.DataFrame(rows).assign(n_keys=8, max_weight_low=0.5, max_weight_high=0.5)
    lines = series(table, "d_k")
    plot_metric(ax, lines, "d_k", "max_weight")
    label_lines(ax, lines, "d_k", "max_weight", [line.label for line in lines])
    typeset(figure).canvas.draw()
    boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
    assert len(boxes) == 3
    assert all(upper.y0 >= lower.y1 - 1 for lower, upper in itertools.pairwise(boxes))


def test_files_have_title_and_caption_and_come_out_byte_identical(drawn, sources, tmp_path):
    config, folder = drawn
    for name in ("saturation", "map", "learning_curves"):
        (where,) = [sweep.name for sweep in config.sweeps if name in sweep.figures][:1]
        drawing = figure_path(folder, where, name, ".png")
        write_files(tmp_path / name, render_figure(FIGURES[name], sources(name)[where]))
        assert (tmp_path / f"{name}.png").read_bytes() == drawing.read_bytes()
        title, caption = drawn_texts(drawing)
        assert title == FIGURES[name].shows
        assert all(text.encode() in drawing.read_bytes() for text in (title, caption))


def test_a_finding_comes_before_the_plain_caption(sources, tmp_path):
    figure, tables = FIGURES["slide"], sources("slide")["scaling"]
    write_files(tmp_path / "slide", render_figure(figure, tables, finding=("It rises", "It rises from 1 to 2.")))
    assert drawn_texts(tmp_path / "slide.png") == ("It rises", f"It rises from 1 to 2. {plain_caption(figure, tables)}")


@pytest.mark.parametrize(
    ("default", "holds"),
    [
        (Default(), True),
        (Default(varied=("d_k",)), True),
        (Default(varied=("d_k", "n_keys")), False),
        (Default(single=("n_keys",)), True),
        (Default(single=("n_keys", "d_k")), False),
        (Default(rules=("d_k^1/2", "unscaled")), False),
        (Default(varied=("d_k",), single=("n_keys",), rules=("d_k^1",)), True),
    ],
)
def test_a_figure_is_drawn_by_default_where_all_its_conditions_hold(default, holds):
    rules = (Scaling.parse("d_k^1/2"), Scaling.parse("d_k^1"))
    assert default.holds({"d_k": (4, 8), "n_keys": (16,), "scaling": rules}) == holds


def test_default_figures_are_those_that_a_config_gets(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "seed: 0\nsweeps:\n  mine:\n    experiment: saturation\n    d_k: [4, 8]\n    n_keys: 8\n    scaling: d_k^1/2\n"
        "    trials: 20\n"
    )
    (sweep,) = load_config(path).sweeps
    assert sweep.figures == ("variance", "saturation", "gradients")
    values = {"d_k": (4, 8), "n_keys": (8,), "scaling": ("d_k^1/2",)}
    assert default_figures("saturation", values) == sweep.figures


def test_a_figure_of_any_experiment_is_an_entry(sources):
    """A declaration alone draws the metrics of an experiment other than saturation."""
    figure = Figure(shows="", of="distribution", lines=Lines("d_k", (Panel("score_kurtosis"),), (6, 3.5)))
    (tables,) = sources("distribution").values()
    ((line, *_),) = intervals(draw(figure, tables).axes[0])
    assert np.allclose(line.get_ydata(), tables["measured"]["score_kurtosis"])


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("sqrt(d_k), wider", r"$\sqrt{d_k}$, wider"),
        ("(|dL/dq|)", r"($\vert \partial L/\partial q\vert$)"),
        ("under d_k^1/2/0.43/ln(n_keys)", r"under $\sqrt{d_k}/(0.43\thinspace \ln n_\mathrm{keys})$"),
        ("no formula", "no formula"),
    ],
)
def test_formulas_touch_no_letter_or_digit(plain, expected):
    text = latex(plain)
    assert text == expected
    assert not re.search(r"\w\$[^$]+\$|\$[^$]+\$\w", text)
