"""Slow: how often the 95% intervals hold the truth, over a matrix of configs and against another
simulation.

Of 200 independent intervals that hold it with probability 0.95 each, the share lies below 0.90 in
0.2% of reseedings (binomial law); seeds are fixed, so the tests give the same answer at every run.
"""

import numpy as np
import pytest

from benchmarks.calibration import CONFIG, MIN_COVERAGE, measure_cells, run_seeds
from experiments.config.loader import load_config
from experiments.kinds.saturation import EXPERIMENT, STATISTICS, Cell
from experiments.measuring.experiment import MEASURED
from sdpa import Scaling, row_diagnostics

SEEDS = range(200)
TRIALS = 100
SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2", "d_k^2/3", "d_k^1")))
MEDIANS = ("jacobian_norm_median", "query_gradient_norm_median")
SWEEPS = {sweep.name: sweep for sweep in load_config(CONFIG).sweeps}
# Two keys of one query, few trials of saturated rows, narrow and flat rows, another law;
# `python -m benchmarks.calibration` covers all.
MATRIX = ("pair", "four_keys_wide", "narrow_spread_30", "flat", "uniform_20")
pytestmark = pytest.mark.slow

Rows = dict[str, dict[str, float]]


def measured(cell: Cell, trials: int, seed: int) -> Rows:
    """The table's rows of a cell, by scaling."""
    (measurement,) = measure_cells(EXPERIMENT, [cell], trials, seed)
    return {row["scaling"]: row for row in STATISTICS.tabulate(cell, measurement)[MEASURED]}


def share_held(rows: list[dict[str, float]], metric: str, truth: float) -> float:
    return sum(row[f"{metric}_low"] <= truth <= row[f"{metric}_high"] for row in rows) / len(rows)


@pytest.mark.parametrize("name", MATRIX)
def test_intervals_that_are_not_flagged_hold_the_truth_in_every_corner(name):
    """Exact values, or those of all draws of all seeds together."""
    found = run_seeds(SWEEPS[name], range(1, 121))[1].set_index("metric")
    whole = found.loc["all"]
    assert whole["intervals"] > 500
    assert whole["covering"] / whole["intervals"] >= MIN_COVERAGE
    each = found[found["intervals"] >= 100]
    assert (each["covering"] / each["intervals"] >= 0.85).all(), each


def test_intervals_hold_the_medians_of_another_simulation():
    """The truth is NumPy's median of all rows of a long run that knows no histogram."""
    cell = Cell(d_k=64, n_keys=64, n_queries=64, scaling=SCALINGS)
    of_every_seed = [measured(cell, TRIALS, seed) for seed in SEEDS]
    rng = np.random.default_rng(1)
    norms = {(str(scaling), metric): [] for scaling in SCALINGS for metric in MEDIANS}
    for _ in range(200):
        keys, queries = rng.standard_normal((2, 25, 64, 64))
        rows = row_diagnostics(queries @ keys.swapaxes(-1, -2), cell.divisors(), keys)
        for i, scaling in enumerate(SCALINGS):
            norms[str(scaling), MEDIANS[0]].append(rows.jacobian_norm[i])
            norms[str(scaling), MEDIANS[1]].append(rows.query_gradient_norm[i])
    for (scaling, metric), values in norms.items():
        rows = [by_scaling[scaling] for by_scaling in of_every_seed]
        assert 0.90 <= share_held(rows, metric, float(np.median(values))) <= 0.99, (scaling, metric)
