"""Slow: how often the 95% intervals hold the truth, in the corners that a config allows.

Of 100 independent intervals that hold it with probability 0.95 each, the share lies below 0.85 in
0.004% of reseedings (binomial law); seeds are fixed, so the tests give the same answer at every run.
"""

from functools import reduce

import numpy as np
import pandas as pd
import pytest

from benchmarks import calibration
from benchmarks.calibration import CONFIG, MIN_COVERAGE, run_seeds
from experiments.analysis.derived import add_exact
from experiments.analysis.verdicts import flag_few_draws, verdicts
from experiments.config.loader import load_config
from experiments.measuring.experiment import MEASURED
from experiments.running.work import tabulated

SWEEPS = {sweep.name: sweep for sweep in load_config(CONFIG).sweeps}
# Two keys of one query, few trials of saturated rows, narrow and flat rows, another law;
# `python -m benchmarks.calibration` covers all.
MATRIX = ("pair", "four_keys_wide", "narrow_spread_30", "flat", "uniform_20")

pytestmark = pytest.mark.slow


def merged(one, other):
    return [a.merge(b) for a, b in zip(one, other, strict=True)]


def coverage(sweep, seeds):
    """The coverage of `run_seeds`, with one analysis of all runs, which takes a tenth of its time."""
    experiment = sweep.experiment
    runs = [
        calibration.measure_cells(experiment, sweep.cells, sweep.trials, seed) for seed in seeds
    ]
    tables = [tabulated(experiment, sweep.cells, run)[MEASURED] for run in runs]
    cells = [*sweep.cells] * len(runs)
    table = add_exact(experiment, pd.concat(tables, ignore_index=True), cells)
    table = flag_few_draws(table, verdicts(experiment, table, cells))
    names = [metric.name for metric in experiment.metrics]
    flags = [[name in few.split() for name in names] for few in table["few_draws"]]
    low, high, exact = (
        table.reindex(columns=[f"{name}_{end}" for name in names])
        for end in ("low", "high", "exact")
    )
    values = np.array([low, high, flags, exact], dtype=float)
    of_runs = np.split(values, len(runs), axis=1)
    return calibration.coverage_of(sweep, np.array(of_runs), reduce(merged, runs))


@pytest.mark.parametrize("name", MATRIX)
def test_intervals_that_are_not_flagged_hold_the_truth_in_every_corner(name):
    """Exact values, or those of all draws of all seeds together."""
    found = coverage(SWEEPS[name], range(1, 121)).set_index("metric")
    whole = found.loc["all"]
    assert whole["intervals"] > 500
    assert whole["covering"] / whole["intervals"] >= MIN_COVERAGE
    each = found[found["intervals"] >= 100]
    assert (each["covering"] / each["intervals"] >= 0.85).all(), each


def test_the_calibration_of_single_runs_finds_the_same_coverage():
    sweep, seeds = SWEEPS["pair"], range(1, 4)
    _, expected, _ = run_seeds(sweep, seeds)
    pd.testing.assert_frame_equal(coverage(sweep, seeds), expected)
