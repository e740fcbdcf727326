"""Ratios and crossings: hand-made tables, exact root mean squares, and the coverage of the crossings' intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.analysis import columns_of
from experiments.analysis.crossings import (
    EQUAL,
    LAWS,
    NORMS,
    TENTH,
    crossings,
    norm_ratios,
    off_law,
)
from experiments.analysis.slopes import fall_through_zero
from experiments.harness.columns import axis_names, names
from experiments.harness.discovery import usual_values
from experiments.saturation import EXPERIMENT
from sdpa.theory import attention_expectations

# Crossings of uniform inputs have no laws, each of which takes half a second.
USUAL = {axis: value for axis, value in usual_values().items() if axis in axis_names(EXPERIMENT.cell)}
AXES = {"n_queries": 64, **USUAL, "inputs": "uniform", "trials": 100, "few_draws": ""}
METRICS = ("jacobian_norm", "jacobian_norm_median", "query_gradient_norm", "query_gradient_norm_median")


def table_of(d_k: np.ndarray, unscaled: np.ndarray, scaled: np.ndarray, error: float = 0.01, **axes: object):
    """Every norm with these values, and intervals that reach a factor e^error to both sides."""
    parts = []
    for scaling, values, divisor in (("unscaled", unscaled, np.ones(len(d_k))), ("d_k^1/2", scaled, np.sqrt(d_k))):
        norms = dict.fromkeys(METRICS, values)
        norms |= {f"{metric}_low": values * np.exp(-error) for metric in METRICS}
        norms |= {f"{metric}_high": values * np.exp(error) for metric in METRICS}
        parts.append(pd.DataFrame({"d_k": d_k, "n_keys": 64, **AXES, "scaling": scaling, "divisor": divisor, **norms}))
    return pd.concat(parts, ignore_index=True).assign(**axes)


def crossings_at(table: pd.DataFrame, level: float = EQUAL) -> pd.DataFrame:
    found = crossings(table)
    return found[found["level"] == level].reset_index(drop=True)


@pytest.mark.parametrize(("level", "factor"), [(EQUAL, 1.0), (TENTH, 0.1)])
def test_a_known_power_crosses_where_it_should(level, factor):
    """|unscaled| = (c / d_k)^2 crosses 1 at c, whatever the grid; undivided there is another factor d_k^-1/2."""
    d_k, crossing = np.array([3, 7, 19, 64, 200]), 31.0
    table = table_of(d_k, factor * 0.2 * (crossing / d_k) ** 2, np.full(5, 0.2))
    table["jacobian_norm_exact"] = table["jacobian_norm"] * np.where(table["scaling"] == "unscaled", 1.44, 1.0)
    found = crossings_at(table, level)
    assert len(found) == len(NORMS) * 2
    exact = found.set_index(["norm", "statistic"])["crossing_exact"].dropna()
    assert exact.to_dict() == {("jacobian", "r.m.s."): pytest.approx(1.2 * crossing)}
    divided = found[found["norm"] != "undivided_query_gradient"]
    np.testing.assert_allclose(divided["crossing"], crossing)
    # (c / d)^2 d^-1/2 = 1 at d = c^(4/5).
    np.testing.assert_allclose(found.loc[found["norm"] == "undivided_query_gradient", "crossing"], crossing**0.8)
    assert (found["crossing_low"] < found["crossing"]).all()
    assert (found["crossing"] < found["crossing_high"]).all()
    # Each norm reaches e^0.01, their ratio e^0.02; the slope is -2. Between neighbours it is up to sqrt(2) narrower.
    half = np.log(divided["crossing_high"] / divided["crossing_low"]) / 2
    assert half.between(0.01 / np.sqrt(2) - 1e-4, 0.01 + 1e-4).all()
    assert (found["ratio_at_largest"] < level).all()


def test_a_concave_curve_crosses_where_it_should():
    """ln ratio = -0.7 (x^2 - ln^2 70), about as bent in x = ln d_k as measured ones; straight lines are off by 0.5%."""
    d_k = np.array([23, 32, 45, 64, 91, 128, 181])
    ratio = np.exp(-0.7 * (np.log(d_k / 20.0) ** 2 - np.log(70 / 20) ** 2))
    assert crossings_at(table_of(d_k, ratio, np.ones(7))).iloc[0]["crossing"] == pytest.approx(70, rel=1e-4)
    straight = np.exp(fall_through_zero(np.log(d_k), np.log(ratio)))
    assert straight < 70 * 0.995


def test_intervals_allow_for_what_lies_between_the_d_k():
    """The exact r.m.s. of |J|_F with 64 keys, without any error: equal at d_k = 429.45 by its own root."""
    d_k = 3.0 * 4 ** np.arange(6)
    exact = [attention_expectations(d_k, 64, rule).jacobian_norm for rule in ("unscaled", "d_k^1/2")]
    found = crossings_at(table_of(d_k, *exact, error=1e-9))
    row = found[(found["norm"] == "jacobian") & (found["statistic"] == "r.m.s.")].iloc[0]
    assert row["crossing_low"] < 429.45 < row["crossing_high"] < 1.5 * row["crossing_low"]


def test_a_crossing_far_from_its_law_is_named(monkeypatch):
    d_k, law = np.array([16, 32, 64, 128, 256, 512]), 71.6
    of_medians = {("jacobian", "median", 64): law}
    monkeypatch.setattr("experiments.analysis.crossings._law_of", lambda *of: of_medians.get(of, np.nan))
    for factor, named in ((1.0, False), (1.08, False), (1.3, True), (1 / 1.3, True)):
        found = crossings(table_of(d_k, (law * factor / d_k) ** 2.0, np.ones(6), inputs="gaussian"))
        found = found[found["norm"] == "jacobian"]
        assert bool(off_law(found)) == named, factor
    assert off_law(found) == [
        f"median of jacobian_norm, 64 keys: unscaled and d_k^1/2 cross at d_k = {law / 1.3:.4g}; the law of"
        f" theory gives {law:.4g}"
    ]
    wide = crossings(table_of(d_k, (law * 1.3 / d_k) ** 2.0, np.ones(6), error=0.2, inputs="gaussian"))
    assert off_law(wide[wide["norm"] == "jacobian"]) == []


def test_ratios_hold_for_any_correlation_and_name_few_draws():
    d_k = np.array([4, 8])
    table = table_of(d_k, np.array([0.3, 0.2]), np.array([0.1, 0.4]), error=0.1)
    table.loc[1, "few_draws"] = "entropy jacobian_norm"
    ratios = norm_ratios(table)
    assert list(ratios.columns) == names(columns_of(EXPERIMENT)["ratios"])
    first = ratios[(ratios["norm"] == "jacobian") & (ratios["statistic"] == "r.m.s.")]
    np.testing.assert_allclose(first["ratio"], [3, 0.5])
    np.testing.assert_allclose(first["ratio_low"], first["ratio"] * np.exp(-0.2))
    np.testing.assert_allclose(first["ratio_high"], first["ratio"] * np.exp(0.2))
    assert first["few_draws"].tolist() == ["", "unscaled"]
    undivided = ratios[(ratios["norm"] == "undivided_query_gradient") & (ratios["statistic"] == "median")]
    np.testing.assert_allclose(undivided["ratio"], [3 / 2, 0.5 / np.sqrt(8)])


def test_norms_that_underflow_have_no_ratio_and_the_others_keep_theirs():
    d_k = np.array([2, 3, 4, 8, 16])
    table = table_of(d_k, np.array([0.5, 0.4, 0.3, 0.01, 0.0]), np.full(5, 0.1))
    assert norm_ratios(table)["ratio"].isna().tolist() == [False, False, False, False, True] * 6
    crossed = crossings_at(table)["crossing"].iloc[:4]
    assert len(crossed) == 4
    assert crossed.between(4, 8).all()
    for known in (0, 3):
        unscaled = np.array([0.5, 0.4, 0.01, 0.01, 0.01])
        unscaled[known:] = 0
        nothing = crossings_at(table_of(d_k, unscaled, np.full(5, 0.1)))
        assert len(nothing) == 6
        assert nothing[["crossing", "ratio_at_largest"]].isna().all(axis=None), known


def test_laws_stand_only_beside_standard_normal_inputs():
    d_k = np.array([4, 8, 16, 512])
    table = table_of(d_k, 40 / d_k, np.ones(4), inputs="gaussian")
    found = crossings_at(table).set_index(["norm", "statistic"])
    for key, law in LAWS.items():
        assert found.loc[key, "law"] == law(64)
    assert found["law"].notna().sum() == len(LAWS)
    for other in ({"inputs": "uniform"}, {"key_std": 2.0}, {"n_keys": 2}):
        assert crossings(table.assign(**other))["law"].isna().all()


@pytest.mark.parametrize("runs", [50, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("correlation", [0.0, -1.0])
def test_intervals_of_crossings_hold_the_truth(correlation, runs):
    """Log-normal errors, many sweeps, crossings anywhere between grid points.

    Norms of equal error reach 1.96 e each. If they are opposite, the ratio errs by 2 e, and its interval holds in 95%;
    if independent, by sqrt(2) e, and it holds in P(|z| < 1.96 sqrt(2)) = 99.4%. A right program fails once in 10^4.
    """
    rng = np.random.default_rng(0)
    d_k, error = np.array([16.0, 23, 32, 45, 64, 91, 128]), 0.02
    truths = rng.uniform(25, 85, runs)
    one, other = error * rng.standard_normal((2, runs, len(d_k)))
    other = correlation * one + np.sqrt(1 - correlation**2) * other
    sweeps = [
        table_of(d_k, (truth / d_k) ** 1.5 * np.exp(a), np.exp(b), error=1.96 * error, n_keys=run)
        for run, (truth, a, b) in enumerate(zip(truths, one, other, strict=True))
    ]
    found = crossings_at(pd.concat(sweeps))
    found = found[(found["norm"] == "jacobian") & (found["statistic"] == "median")].sort_values("n_keys")
    held = ((found["crossing_low"] <= truths) & (truths <= found["crossing_high"])).sum()
    nominal = 1 - 2 * stats.norm.sf(1.96 * 2 / np.sqrt(2 - 2 * correlation))
    low, high = stats.binom.ppf([5e-5, 1 - 5e-5], runs, nominal)
    assert low <= held <= high
