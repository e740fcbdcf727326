"""Every experiment that there is, run tiny: its table reads back as declared, and checks."""

from experiments.analysis import columns_of
from experiments.analysis.check import check_table
from experiments.figures.declared import figures_of
from experiments.harness.columns import names
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.tables import IDENTITY, read_sweep

TYPES = {"int": "i", "float": "f", "str": "O"}


def test_the_tiny_config_runs_every_experiment_and_draws_every_figure(drawn):
    config, _ = drawn
    assert {sweep.experiment.name for sweep in config.sweeps} == set(experiment_names())
    for name in experiment_names():
        shown = {figure for sweep in config.sweeps if sweep.experiment.name == name for figure in sweep.figures}
        assert shown == set(figures_of(name))


def test_tables_read_back_with_the_declared_columns_and_types(tiny):
    config, folder = tiny
    for sweep in config.sweeps:
        table = read_sweep(folder, config, sweep)["measured"]
        declared = {column.name: column.type for column in sweep.experiment.table_columns}
        assert list(table.columns) == list(declared)
        for name, kind in declared.items():
            # A float column that holds whole numbers alone reads back as whole numbers.
            assert table[name].dtype.kind in {"float": "fi", "int": "i", "str": "OUT"}[kind], name
        check_table(sweep, {"measured": table})


def test_columns_say_what_they_mean():
    for name in experiment_names():
        for table in columns_of(load_experiment(name)).values():
            columns = (*IDENTITY, *table)
            assert len(set(names(columns))) == len(columns)
            assert all(column.meaning and column.type in TYPES for column in columns)
