"""Every experiment there is, run tiny: its table reads back as declared, checks, and every figure draws twice alike."""

from pathlib import Path

import pytest

from experiments.analysis.check import check_table
from experiments.analysis.suite import suite_tables
from experiments.figures import SUITE_FIGURES, Tables, load_figure
from experiments.figures.style import render
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.paths import SUITE, figure_path
from experiments.harness.tables import read_sweep

TYPES = {"int": "i", "float": "f", "str": "O"}


def test_the_tiny_config_runs_every_experiment_and_draws_every_figure(tiny):
    config, _ = tiny
    assert {sweep.experiment for sweep in config.sweeps} == set(experiment_names())
    for name in experiment_names():
        drawn = {figure for sweep in config.sweeps if sweep.experiment == name for figure in sweep.figures}
        assert drawn == set(load_experiment(name).figures)


def test_tables_read_back_with_the_declared_columns_and_types(tiny):
    config, folder = tiny
    for sweep in config.sweeps:
        table = read_sweep(folder, config, sweep)["measured"]
        declared = {column.name: column.type for column in load_experiment(sweep.experiment).table_columns}
        assert list(table.columns) == list(declared)
        for name, kind in declared.items():
            # A float column that holds whole numbers alone reads back as whole numbers.
            assert table[name].dtype.kind in {"float": "fi", "int": "i", "str": "OUT"}[kind], name
        check_table(sweep, {"measured": table})


def test_columns_say_what_they_mean():
    for name in experiment_names():
        columns = load_experiment(name).table_columns
        assert len({column.name for column in columns}) == len(columns)
        assert all(column.meaning and column.type in TYPES for column in columns)


@pytest.mark.parametrize("sweep_name", ["scaling", "single", "many", "laws", "distribution", "map", "rows"])
def test_figures_come_out_byte_identical(tiny, tmp_path, sweep_name):
    config, folder = tiny
    sweep = next(sweep for sweep in config.sweeps if sweep.name == sweep_name)
    tables = read_sweep(folder, config, sweep)
    for figure in sweep.figures:
        drawn_twice_alike(figure, tables, tmp_path, sweep.name)


@pytest.mark.parametrize("figure", SUITE_FIGURES)
def test_figures_of_the_suite_come_out_byte_identical(tiny, tmp_path, figure):
    config, folder = tiny
    tables = {sweep.name: read_sweep(folder, config, sweep) for sweep in config.sweeps}
    drawn_twice_alike(figure, suite_tables(config.sweeps, tables), tmp_path, SUITE)


def drawn_twice_alike(figure: str, tables: Tables, folder: Path, name: str) -> None:
    captions = [render(load_figure(figure), tables, figure_path(folder / run, name, figure, "")) for run in "ab"]
    assert captions[0] == captions[1]
    assert captions[0].endswith(".")
    assert "\n" not in captions[0]
    assert "nan" not in captions[0]
    for suffix in (".png", ".svg", ".txt"):
        one, other = (figure_path(folder / run, name, figure, suffix).read_bytes() for run in "ab")
        assert one == other
        assert len(one) > 10
