"""Derived tables against hand-made tables, SciPy's laws, direct integration and simulated
coverage.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from experiments.kinds.saturation.cell import EXPERIMENT
from experiments.tables.all_results import AllResults
from experiments.tables.crossings import EQUAL, NORMS, TENTH, crossings, fit_slopes, norm_ratios
from experiments.tables.results import SweepAxes
from tests.numerics import normals

OF_ROWS = SweepAxes.of_cell(EXPERIMENT.cell)
USUAL = {axis: value for axis, value in OF_ROWS.usual.items() if value is not None}


def results_of(table):
    return SimpleNamespace(measured=table, axes=OF_ROWS)


def test_slopes_are_those_of_another_fit(tiny):
    """And their errors those of a simulation; of 4,000 draws the spread is 1.1% off on average."""
    table = AllResults(*tiny)["scaling"].measured
    slopes = fit_slopes(results_of(table)).set_index("scaling")
    for scaling, rows in table.groupby("scaling"):
        x, y = np.log(rows["d_k"]), np.log(rows["score_variance"])
        errors = (rows["score_variance_se"] / rows["score_variance"]).to_numpy()
        assert slopes.loc[scaling, "slope"] == pytest.approx(stats.linregress(x, y).slope, rel=1e-9)
        drawn = y.to_numpy() + errors * normals(4000, len(x), seed=3)
        assert slopes.loc[scaling, "slope_se"] == pytest.approx(
            np.polyfit(x, drawn.T, 1)[0].std(), rel=0.05
        )


# Crossings of uniform inputs have no laws, each of which takes half a second.
AXES = {"n_queries": 64, **USUAL, "inputs": "uniform", "trials": 100, "few_draws": ""}
METRICS = (
    "jacobian_norm",
    "jacobian_norm_median",
    "query_gradient_norm",
    "query_gradient_norm_median",
)


def norms_table(d_k, unscaled, scaled, error=0.01):
    """Every norm with these values, and intervals that reach a factor e^error to both sides."""
    rules = {"unscaled": (unscaled, 1.0), "d_k^1/2": (scaled, np.sqrt(d_k))}
    parts = []
    for scaling, (values, divisor) in rules.items():
        part = pd.DataFrame({"d_k": d_k, "n_keys": 64, **AXES})
        part = part.assign(scaling=scaling, divisor=divisor)
        for metric in METRICS:
            part[metric] = values
            part[f"{metric}_low"] = values * np.exp(-error)
            part[f"{metric}_high"] = values * np.exp(error)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def crossings_at(table, level=EQUAL):
    actual = crossings(norm_ratios(results_of(table)), OF_ROWS)
    return actual[actual["level"] == level].reset_index(drop=True)


@pytest.mark.parametrize("level, factor", [(EQUAL, 1.0), (TENTH, 0.1)])
def test_a_known_power_crosses_where_it_should(level, factor):
    """|unscaled| = (c / d_k)^2 crosses 1 at c, whatever the grid; undivided there is another factor
    d_k^-1/2.
    """
    d_k, crossing = np.array([3, 7, 19, 64, 200]), 31.0
    table = norms_table(d_k, factor * 0.2 * (crossing / d_k) ** 2, np.full(5, 0.2))
    exact = np.where(table["scaling"] == "unscaled", 1.44, 1.0)
    table["jacobian_norm_exact"] = table["jacobian_norm"] * exact
    actual = crossings_at(table, level)
    assert len(actual) == len(NORMS) * 2
    exact = actual.set_index(["norm", "statistic"])["crossing_exact"].dropna()
    assert exact.to_dict() == {("jacobian", "r.m.s."): pytest.approx(1.2 * crossing)}
    is_undivided = actual["norm"] == "undivided_query_gradient"
    # (c / d)^2 d^-1/2 = 1 at d = c^(4/5).
    expected = np.where(is_undivided, crossing**0.8, crossing)
    assert_allclose(actual["crossing"], expected)
    assert actual["crossing"].between(actual["crossing_low"], actual["crossing_high"]).all()
    # Each norm reaches e^0.01, their ratio e^0.02; the slope is -2. Between neighbours it is up to
    # sqrt(2) narrower.
    half = np.log(actual["crossing_high"] / actual["crossing_low"])[~is_undivided] / 2
    assert half.between(0.01 / np.sqrt(2) - 1e-4, 0.01 + 1e-4).all()
    assert (actual["ratio_at_largest"] < level).all()


def test_a_concave_curve_crosses_where_it_should():
    """ln ratio = -0.7 (x^2 - ln^2 70), about as bent in x = ln d_k as measured ones; straight lines
    are off by 0.5%.
    """
    d_k = np.array([23, 32, 45, 64, 91, 128, 181])
    ratio = np.exp(-0.7 * (np.log(d_k / 20.0) ** 2 - np.log(70 / 20) ** 2))
    actual = crossings_at(norms_table(d_k, ratio, np.ones(7))).iloc[0]
    assert actual["crossing"] == pytest.approx(70, rel=1e-4)


def test_ratios_hold_for_any_correlation_and_name_few_draws():
    table = norms_table(np.array([4, 8]), np.array([0.3, 0.2]), np.array([0.1, 0.4]), error=0.1)
    table.loc[1, "few_draws"] = "entropy jacobian_norm"
    ratios = norm_ratios(results_of(table)).query("norm == 'jacobian' and statistic == 'r.m.s.'")
    for end, factor in (("", 1), ("_low", np.exp(-0.2)), ("_high", np.exp(0.2))):
        assert_allclose(ratios[f"ratio{end}"], [3 * factor, 0.5 * factor])
    assert ratios["few_draws"].tolist() == ["", "unscaled"]
