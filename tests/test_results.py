"""The shipped tables: whole, precise enough, and with the slopes that theory gives."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.analysis import all_columns
from experiments.analysis.check import check_table
from experiments.harness.config import load_config
from experiments.harness.tables import csv_bytes, read_sweep
from tests.calibration import FAULTS

ROOT = Path(__file__).parents[1]
CONFIG = load_config(ROOT / "config.yaml")
PRECISE = ("score_variance", "max_weight", "entropy", "jacobian_trace", "jacobian_norm", "query_gradient_norm")


@pytest.mark.parametrize("sweep", CONFIG.sweeps, ids=lambda sweep: sweep.name)
def test_tables_are_whole_and_of_this_config(sweep):
    assert "whole" in check_table(sweep, read_sweep(ROOT / "results", CONFIG, sweep))


def test_columns_are_described_as_the_code_declares_them():
    columns = all_columns(sorted({sweep.experiment for sweep in CONFIG.sweeps}))
    assert (ROOT / "results" / "columns.csv").read_bytes() == csv_bytes(columns)


@pytest.mark.parametrize("sweep", [s for s in CONFIG.sweeps if s.experiment == "saturation"], ids=lambda s: s.name)
def test_relative_errors_are_below_half_a_percent(sweep):
    table = read_sweep(ROOT / "results", CONFIG, sweep)["measured"]
    for metric in PRECISE:
        assert (table[f"{metric}_se"] < 0.005 * table[metric]).all(), metric


def test_the_check_is_calibrated_and_finds_planted_faults():
    """The shipped table of `make calibration`: uniform p-values, hardly an alarm without a fault, one with each."""
    table = pd.read_csv(ROOT / "results" / "calibration.csv").set_index("fault")
    assert table.index.tolist() == ["none", *FAULTS]
    assert (table["runs"] == 200).all()
    assert table.loc["none", "uniform_p"] > 0.01
    assert table.loc["none", "alarms"] <= 2  # more than 2 in 200 at a level of 0.001: once in 900 times
    assert (table["alarms"].iloc[1:] >= 0.95 * table["runs"].iloc[1:]).all()


def test_slopes_hold_the_exact_ones_in_narrow_intervals():
    slopes = read_sweep(ROOT / "results", CONFIG, CONFIG.sweeps[0])["slopes"]
    assert slopes["scaling"].tolist() == ["unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3"]
    assert slopes["slope_exact"].tolist() == pytest.approx([1, 1 / 3, 0, -1 / 3])
    assert (slopes["slope_low"] < slopes["slope_exact"]).all()
    assert (slopes["slope_exact"] < slopes["slope_high"]).all()
    assert (slopes["slope_high"] - slopes["slope_low"] < 0.02).all()


@pytest.mark.parametrize("sweep", [s for s in CONFIG.sweeps if s.experiment == "saturation"], ids=lambda s: s.name)
def test_measured_values_lie_about_the_exact_ones(sweep):
    """No z-score beyond 5: chance alone would bring one of these 750 there once in 2,000 seeds."""
    table = read_sweep(ROOT / "results", CONFIG, sweep)["measured"]
    known = [name.removesuffix("_exact") for name in table if name.endswith("_exact")]
    assert len(known) == 8
    for metric in known:
        z = (table[metric] - table[f"{metric}_exact"]) / table[f"{metric}_se"]
        assert z.abs().max() < 5, metric
