"""Exact columns and slopes against hand-made tables and another least-squares route."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.analysis.derived import add_exact
from experiments.analysis.slopes import fit_slopes
from experiments.harness.tables import read_sweep
from experiments.saturation import EXPERIMENT
from sdpa import LAWS
from sdpa.theory import attention_expectations


@pytest.fixture
def table(tiny) -> pd.DataFrame:
    config, folder = tiny
    return read_sweep(folder, config, config.sweeps[0])["measured"]


def test_slopes_are_those_of_another_fit(table):
    """And their errors those of a simulation; of 4,000 draws the spread is 1.1% off on average."""
    slopes = fit_slopes(table).set_index("scaling")
    for scaling, rows in table.groupby("scaling"):
        x, y = np.log(rows["d_k"]), np.log(rows["score_variance"])
        errors = (rows["score_variance_se"] / rows["score_variance"]).to_numpy()
        assert slopes.loc[scaling, "slope"] == pytest.approx(stats.linregress(x, y).slope, rel=1e-9)
        drawn = y.to_numpy() + errors * np.random.default_rng(3).standard_normal((4000, len(x)))
        assert slopes.loc[scaling, "slope_se"] == pytest.approx(np.polyfit(x, drawn.T, 1)[0].std(), rel=0.05)


@pytest.mark.parametrize(("trials", "points"), [(2, 8), (5, 8), (20, 4)])
def test_intervals_of_slopes_hold_them_at_any_number_of_trials(trials, points):
    """1,000 flat lines at 99.9%: more than 6 misses, where 1 is expected, have a probability of 0.0001."""
    drawn = 1 + 0.01 * np.random.default_rng(trials).standard_normal((1000, points, trials))
    axes = {"n_keys": 8, "n_queries": 5, "inputs": "gaussian", "scaling": "d_k^1/2", "exponent": 0.5, "trials": trials}
    cells = {"key_std": np.repeat(np.arange(1000), points), "d_k": np.tile(2 ** np.arange(2, 2 + points), 1000)}
    moments = {"score_variance": drawn.mean(axis=2), "score_variance_se": drawn.std(axis=2, ddof=1) / np.sqrt(trials)}
    moments["score_variance_exact"] = np.ones((1000, points))
    lines = fit_slopes(pd.DataFrame({**cells, **{name: of.ravel() for name, of in moments.items()}}).assign(**axes))
    assert len(lines) == 1000
    assert ((lines["slope_low"] > 0) | (lines["slope_high"] < 0)).sum() <= 6


def test_exact_columns_stand_behind_the_errors(table, tiny):
    measured = table.drop(columns=[name for name in table if name.endswith("_exact")])
    again = add_exact(EXPERIMENT, measured, tiny[0].sweeps[0].cells())
    assert list(again.columns) == list(table.columns)
    unscaled = again[(again["scaling"] == "unscaled") & (again["d_k"] == 64)].iloc[0]
    assert unscaled["score_variance_exact"] == 64
    assert unscaled["score_kurtosis_exact"] == 6 / 64
    assert unscaled["score_mean_exact"] == 0
    assert unscaled["entropy_exact"] == attention_expectations(64, 8, 1.0).entropy


def test_an_exact_value_that_is_not_known_is_empty(table, tiny):
    measured = table.drop(columns=[name for name in table if name.endswith("_exact")])
    cells = [replace(cell, inputs=LAWS["uniform"]) for cell in tiny[0].sweeps[0].cells()]
    other = add_exact(EXPERIMENT, measured, cells)
    assert other["entropy_exact"].isna().all()
    np.testing.assert_allclose(other["score_kurtosis_exact"], 0.24 / other["d_k"])


def test_few_trials_widen_the_interval_as_students_t(table):
    """Equal errors at two points of T trials have 2 (T - 1) degrees of freedom; t of 4 at 99.9% is 8.610."""
    two = table[table["scaling"] == "unscaled"].assign(score_variance_se=table["score_variance"] * 0.01, trials=3)
    (_, fitted), *_ = fit_slopes(two).iterrows()
    assert (fitted["slope_high"] - fitted["slope"]) / fitted["slope_se"] == pytest.approx(8.610302, rel=1e-6)
