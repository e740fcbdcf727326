"""Every experiment that there is: its tables are as declared and read again, its cells matter, and
its memory is as planned.
"""

import tracemalloc
from dataclasses import replace

import pytest
from numpy.random import default_rng

from experiments.config.loader import ConfigError
from experiments.figures.draw import pictures_of
from experiments.kinds import experiment_names
from experiments.kinds.figures import figures_of
from experiments.measuring.columns import cell_fields
from experiments.measuring.experiment import MEASURED, load_experiment
from experiments.measuring.sampling import AttentionCell, SampledCell
from experiments.tables.all_results import AllResults
from tests.examples import EXAMPLES, OTHER, load_sweeps, with_common

EXPERIMENTS = [load_experiment(name) for name in experiment_names()]
BY_NAME = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=experiment_names())


@BY_NAME
def test_an_experiment_has_an_example_of_all_its_figures(experiment):
    assert {*EXAMPLES[experiment.name]["figures"]} == {*figures_of(experiment.name)}


@BY_NAME
def test_every_field_of_a_cell_changes_its_row(experiment, tmp_path):
    """With the random numbers of the same generator, so that no change is one of the draws."""
    tiny = {"experiment": experiment.name} | next(
        iter(EXAMPLES[experiment.name]["sweeps"].values())
    )
    others = with_common(experiment.name, "other", OTHER)
    assert {*others} == {*cell_fields(experiment.cell)}
    edited = {f"other_{field}": tiny | {field: value} for field, value in others.items()}
    config = load_sweeps(tmp_path, {"usual": tiny} | edited)

    def values_of(sweep):
        cell = sweep.cells[0]
        measured = experiment.measure(cell, 2, default_rng(0))
        rows = experiment.tabulate(cell, measured)[MEASURED]
        names = [metric.name for metric in experiment.metrics] or [experiment.columns[-1].name]
        return [[row[name] for name in names] for row in rows]

    usual, *changed = map(values_of, config.sweeps)
    assert usual not in changed, config.sweeps[1 + changed.index(usual)].name


@BY_NAME
def test_its_tables_are_read_for_its_figures(experiment, tiny):
    """As they were written, by whatever sizes of a cell follow from other axes."""
    config, folder = tiny
    all_results = AllResults(config, folder)
    for sweep in config.sweeps:
        if sweep.experiment == experiment:
            results = all_results.require(sweep.name)
            assert len(results.measured) > 0
            made = [picture.words.title for picture in pictures_of(folder, results)]
            assert len([*filter(None, made)]) == len(sweep.figures)


REFUSED = [
    (name, words, keys)
    for name, example in EXAMPLES.items()
    for words, keys in example.get("refused", {}).items()
]


@pytest.mark.parametrize("name, words, keys", REFUSED)
def test_a_sweep_that_it_cannot_take_is_refused_in_plain_words(name, words, keys, tmp_path):
    with pytest.raises(ConfigError, match=words):
        load_sweeps(tmp_path, {"refused": {"experiment": name} | keys})


@BY_NAME
def test_no_metric_is_named_like_an_axis(experiment):
    assert not {metric.name for metric in experiment.metrics} & {*cell_fields(experiment.cell)}


def test_rows_of_a_draw_count_as_independent_only_if_the_cell_says_so():
    row = SampledCell(d_k=4, n_keys=9, n_queries=8, scaling=())
    assert row.separate_rows == 8
    for parallel in (
        replace(row, d_k=1),
        replace(row, spectrum=9.0),
        type("Own", (AttentionCell,), {"n_keys": 9, "n_queries": 8})(),
    ):
        assert parallel.separate_rows == 1


@pytest.mark.slow
@BY_NAME
def test_memory_stays_under_what_the_plan_says(experiment, tmp_path):
    few = {"experiment": experiment.name, "trials": max(2, experiment.min_trials)}
    large = few | EXAMPLES[experiment.name]["large"]
    (cell,) = load_sweeps(tmp_path, {"large": large}).sweeps[0].cells
    trials = min(cell.chunk_trials, 10**6)
    tracemalloc.start()
    try:
        experiment.measure(cell, trials, default_rng(9))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < cell.memory
