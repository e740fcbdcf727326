"""Faults of measuring that the check finds, in cells of the size of shipped ones."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.config.sweep import Sweep
from experiments.kinds.saturation.cell import EXPERIMENT, KERNEL, Cell
from experiments.tables.analyse import agreement
from experiments.tables.results import Results
from experiments.tables.rows import tabulated, with_exact
from experiments.tables.verdicts import verdicts
from sdpa import Scaling

TRIALS = 100
CELL = Cell(d_k=64, n_keys=64, mask="causal", scaling=(Scaling.parse("d_k^1/2"),))
SWEEP = Sweep("mine", EXPERIMENT, {}, trials=TRIALS, figures=(), seed=0)


FAULTS = {
    "none": {},
    "no mask": {"mask": "none"},
    "divisor off by 1%": {"scaling": (Scaling.parse("8.08"),)},
    "wide keys": {"key_std": 1.02},
    "keys with a mean": {"key_mean": 0.2},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_raises_the_alarm(fault):
    drawn = replace(CELL, **FAULTS[fault])
    measurement = KERNEL.measure(drawn, TRIALS, np.random.default_rng(1))
    table = with_exact(EXPERIMENT, tabulated(EXPERIMENT, [CELL], [measurement])["measured"])
    tables = {"measured": table, "verdicts": verdicts(EXPERIMENT, table)}
    found = agreement([Results(SWEEP, tables)])
    assert len(found.values) > 10
    assert bool(found.alarm()) == (fault != "none"), found.alarm()
