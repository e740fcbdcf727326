"""Figures declare what they are, of what and from which tables; each is drawn from those alone, and twice alike."""

import html
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.speed import over_floor
from experiments import figures
from experiments.analysis.agreement import agreement_tables
from experiments.diagnosis.files import HeadArrays
from experiments.diagnosis.table import diagnosis_table, gaussian_curves
from experiments.examples import example_names
from experiments.examples.table import matrices, read_table
from experiments.figures.figure import Tables, load_figure
from experiments.figures.rendering import render
from experiments.folders import ALL_SWEEPS, BENCHMARKS, DIAGNOSIS, EXAMPLES, WALK, drawn_texts, figure_path
from experiments.harness.columns import axis_names, cell_fields
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.figures import Declaration, Default, declarations, figures_of, read_declaration
from experiments.harness.tables import read_sweep
from experiments.steps.drawing import SUFFIXES
from sdpa import Scaling

RESULTS = Path(__file__).parents[2] / "results"
OF_SWEEPS = [name for experiment in experiment_names() for name in figures_of(experiment)]
TITLED = [name for name in declarations() if load_figure(name).title]
RULE = re.compile(r"\S+\^\S+")
OTHERS = [name for name in declarations() if name not in OF_SWEEPS]


class Watched(Mapping[str, pd.DataFrame]):
    """Tables that note which of them are read."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.read = tables, set()

    def __getitem__(self, kind: str) -> pd.DataFrame:
        table = self.tables[kind]
        self.read.add(kind)
        return table

    def __contains__(self, kind: object) -> bool:
        return kind in self.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)


@pytest.fixture
def sources(tiny):
    """All tables that a figure may be drawn from, each with its name: those of every sweep of its experiment."""
    config, folder = tiny

    def of(name: str) -> dict[str, Tables]:
        declared = declarations()[name]
        if declared.of == ALL_SWEEPS:
            every = {sweep.name: read_sweep(folder, config, sweep) for sweep in config.sweeps}
            return {ALL_SWEEPS: agreement_tables(config.sweeps, every)}
        if declared.of == BENCHMARKS:
            found = pd.read_csv(RESULTS / BENCHMARKS / "speed.csv")
            return {BENCHMARKS: {"ratios": over_floor(found), "growth": found[found["part"] == "growth"]}}
        if declared.of == DIAGNOSIS:
            q, k = np.random.default_rng(0).standard_normal((2, 3, 2, 8, 4))
            heads = diagnosis_table([HeadArrays(layer, None, q, k) for layer in range(2)])
            return {DIAGNOSIS: {"heads": heads, "curves": gaussian_curves(heads)}}
        if declared.of in (EXAMPLES, WALK):
            # The example abc has all steps of a walk through a user's own matrices.
            example = "abc" if declared.of == WALK else name.removeprefix(f"{EXAMPLES}.")
            return {example: matrices(read_table(RESULTS / EXAMPLES / "examples.csv"), example)}
        sweeps = [sweep for sweep in config.sweeps if sweep.experiment.name == declared.of]
        return {sweep.name: read_sweep(folder, config, sweep) for sweep in sweeps}

    return of


def test_every_module_that_binds_a_figure_is_found():
    modules = (module.name for module in pkgutil.walk_packages(figures.__path__, f"{figures.__name__}."))
    binding = {name for name in modules if hasattr(importlib.import_module(name), "FIGURE")}
    assert binding == {f"{figures.__name__}.{name}" for name in declarations()}


@pytest.mark.parametrize("name", declarations())
def test_what_the_harness_reads_of_a_figure_is_what_its_module_binds(name):
    figure = load_figure(name)
    assert declarations()[name] == Declaration(figure.of, figure.metrics, figure.default)
    assert figure.shows
    assert figure.shows[-1] not in ". "


@pytest.mark.parametrize("name", OF_SWEEPS)
def test_a_figure_of_sweeps_names_metrics_and_axes_that_there_are(name):
    figure, experiment = load_figure(name), load_experiment(declarations()[name].of)
    assert figure.metrics
    assert set(figure.metrics) <= {column.name for column in experiment.columns}
    if figure.default:
        assert {*figure.default.varied, *figure.default.single} <= set(axis_names(experiment.cell))
        assert not figure.default.rules or "scaling" in cell_fields(experiment.cell)


def test_every_figure_is_of_something_that_is_drawn():
    assert {declarations()[name].of for name in OTHERS} == {ALL_SWEEPS, BENCHMARKS, DIAGNOSIS, EXAMPLES, WALK}
    assert set(figures_of(EXAMPLES)) == {f"{EXAMPLES}.{name}" for name in example_names()}


@pytest.mark.parametrize("name", declarations())
def test_a_figure_reads_the_tables_that_it_declares_and_no_others(name, sources):
    figure, read = load_figure(name), set()
    for where, tables in sources(name).items():
        watched = Watched(tables)
        caption = figure.caption(watched)
        assert caption == figure.caption(figure.chosen(tables)), where
        assert caption.endswith("."), where
        assert "\n" not in caption, where
        assert "nan" not in caption, where
        figure.plot(watched)
        read |= watched.read
    assert read == set(figure.tables)


def assert_alike(one: Path, other: Path) -> None:
    """The files of both figures are the same to the byte."""
    for suffix in SUFFIXES:
        content = one.with_name(f"{one.name}{suffix}").read_bytes()
        assert len(content) > 10
        assert content == other.with_name(f"{other.name}{suffix}").read_bytes(), suffix


@pytest.mark.parametrize("name", [*OF_SWEEPS, *figures_of(ALL_SWEEPS)])
def test_a_figure_of_sweeps_comes_out_byte_identical(name, drawn, sources, tmp_path):
    """On the smallest table that it was drawn of."""
    config, folder = drawn
    places = [sweep.name for sweep in config.sweeps if name in sweep.figures] or [ALL_SWEEPS]
    tables = sources(name)
    place = min(places, key=lambda place: sum(map(len, tables[place].values())))
    render(load_figure(name), tables[place], tmp_path / name)
    assert_alike(tmp_path / name, figure_path(folder, place, name, ""))


@pytest.mark.parametrize("of", [BENCHMARKS, DIAGNOSIS, EXAMPLES, WALK])
def test_a_figure_of_something_else_comes_out_byte_identical(of, sources, tmp_path):
    name = figures_of(of)[0]
    (tables,) = sources(name).values()
    for run in "ab":
        render(load_figure(name), tables, tmp_path / run)
    assert_alike(tmp_path / "a", tmp_path / "b")


def test_files_of_a_figure_have_its_title_and_the_svg_shows_neither_title_nor_caption(drawn):
    config, folder = drawn
    for sweep in config.sweeps:
        for name in sweep.figures:
            path = figure_path(folder, sweep.name, name, ".svg")
            svg = path.read_text(encoding="utf-8")
            title, caption = drawn_texts(path)
            assert html.unescape(re.search("<title>(.*?)</title>", svg)[1]) == title
            png = path.with_suffix(".png").read_bytes()
            assert title.encode() in png
            assert caption.encode() in png
            labels = html.unescape(" ".join(re.findall(r"<!-- (.*?) -->", svg, re.DOTALL)))
            assert len(labels) > 10
            for text in (title, caption):
                assert " ".join(text.split()[:4]) not in " ".join(labels.split()), path


@pytest.mark.parametrize("name", TITLED)
def test_a_title_is_a_short_finding_without_numbers(name, sources):
    figure = load_figure(name)
    for where, tables in sources(name).items():
        title = figure.heading(tables)
        assert len(title.split()) <= 12, where
        assert title[0].isupper(), where
        assert title[-1] not in ". ", where
        assert not re.search(r"(?<![\w^/.])\d", RULE.sub("", title)), where


@pytest.mark.parametrize(
    ("default", "holds"),
    [
        (Default(), True),
        (Default(varied=("d_k",)), True),
        (Default(varied=("d_k", "n_keys")), False),
        (Default(single=("n_keys",)), True),
        (Default(single=("n_keys", "d_k")), False),
        (Default(rules=("d_k^1/2",)), True),
        (Default(rules=("d_k^1/2", "unscaled")), False),
        (Default(varied=("d_k",), single=("n_keys",), rules=("d_k^1",)), True),
        (Default(varied=("n_keys",), single=("n_keys",)), False),
    ],
)
def test_a_figure_is_drawn_by_default_where_all_its_conditions_hold(default, holds):
    rules = (Scaling.parse("d_k^1/2"), Scaling.parse("d_k^1"))
    assert default.holds({"d_k": (4, 8), "n_keys": (16,), "scaling": rules}) == holds


SOURCE = """
FIGURE = Figure(shows=SHOWS, of="rows", plot=plot, metrics=("weight",), default=Default(varied=("d_k",)), tables=())
"""


def test_declarations_are_read_without_an_import(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(f"raise ImportError\nFIGURES = 1\n{SOURCE}")
    assert read_declaration(path) == Declaration("rows", ("weight",), Default(varied=("d_k",)))


@pytest.mark.parametrize(
    ("written", "changed", "problem"),
    [
        ('"rows"', "ROWS", "expected of as a literal, got ROWS"),
        ('("d_k",)', "AXES", "expected varied as a literal, got AXES"),
        ('Default(varied=("d_k",))', "always", r"expected Default\(\.\.\.\), got always"),
        ("Figure(", "build(", r"expected Figure\(\.\.\.\), got build"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tmp_path, written, changed, problem):
    (tmp_path / "mine.py").write_text(SOURCE.replace(written, changed))
    with pytest.raises(TypeError, match=rf"mine\.py:2: FIGURE: {problem}"):
        read_declaration(tmp_path / "mine.py")


def test_figures_of_an_experiment_come_in_the_order_of_its_columns():
    for experiment in experiment_names():
        columns = [column.name for column in load_experiment(experiment).columns]
        places = [columns.index(load_figure(name).metrics[0]) for name in figures_of(experiment)]
        assert places == sorted(places)
