"""Slow: how often the 95% intervals hold the truth, in the corners that a config allows.

Of 100 independent intervals that hold it with probability 0.95 each, the share lies below 0.85 in
0.004% of reseedings (binomial law); seeds are fixed, so the tests give the same answer at every run.
"""

import pytest

from benchmarks.calibration import CONFIG, MIN_COVERAGE, run_seeds
from experiments.config.loader import load_config

SWEEPS = {sweep.name: sweep for sweep in load_config(CONFIG).sweeps}
# Two keys of one query, few trials of saturated rows, narrow and flat rows, another law;
# `python -m benchmarks.calibration` covers all.
MATRIX = ("pair", "four_keys_wide", "narrow_spread_30", "flat", "uniform_20")


@pytest.mark.slow
@pytest.mark.parametrize("name", MATRIX)
def test_intervals_that_are_not_flagged_hold_the_truth_in_every_corner(name):
    """Exact values, or those of all draws of all seeds together."""
    found = run_seeds(SWEEPS[name], range(1, 51))[1].set_index("metric")
    whole = found.loc["all"]
    assert whole["intervals"] > 500
    assert whole["covering"] / whole["intervals"] >= MIN_COVERAGE
    each = found[found["intervals"] >= 100]
    assert (each["covering"] / each["intervals"] >= 0.85).all(), each
