"""Verdicts and tests against hand-made tables, other formulas and planted faults."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.analysis.suite import ALARM, Agreement, DisagreementError, agreement
from experiments.analysis.verdicts import NO_SPREAD, TOO_FINE, TOO_ROUGH, cell_tests, verdicts
from experiments.harness.grid import Sweep
from experiments.statistics.moments import Estimates
from tests.calibration import FAULTS, p_values

AXES = {"d_k": 4, "n_keys": 8, "n_queries": 5, "inputs": "gaussian", "input_std": 1}


def table_of(metrics: dict[str, tuple[float, float, float]], trials: int = 2000) -> pd.DataFrame:
    """One cell and scaling, from (measured, se, exact) of each metric."""
    row = {**AXES, "scaling": "d_k^1/2", "trials": trials}
    for name, (value, error, exact) in metrics.items():
        row |= {name: value, f"{name}_se": error, f"{name}_exact": exact}
    return pd.DataFrame([row])


def estimates_of(table: pd.DataFrame, correlation: np.ndarray) -> Estimates:
    metrics = [name.removesuffix("_exact") for name in table if name.endswith("_exact")]
    errors = np.array([table[f"{metric}_se"].iloc[0] for metric in metrics])
    return Estimates(tuple(("d_k^1/2", metric) for metric in metrics), errors, errors, correlation)


def test_a_verdict_is_the_distance_in_standard_errors():
    rows = verdicts("mine", table_of({"entropy": (2.5, 0.1, 2.25), "max_weight": (0.3, 0.01, 0.34)}))
    assert rows["sweep"].tolist() == ["mine", "mine"]
    assert dict(zip(rows["metric"], rows["z"], strict=True)) == pytest.approx({"entropy": 2.5, "max_weight": -4.0})
    assert rows["remark"].tolist() == ["", ""]


def test_values_without_a_meaningful_error_come_last_and_say_why():
    metrics = {"entropy": (0.0, 0.0, 0.0), "jacobian_trace": (0.98, 1e-9, 0.98), "max_weight": (0.3, 0.01, 0.34)}
    rows = verdicts("mine", table_of(metrics))
    assert rows["metric"].tolist() == ["max_weight", "entropy", "jacobian_trace"]
    assert rows["remark"].tolist() == ["", NO_SPREAD, TOO_FINE]
    assert rows["z"].isna().tolist() == [False, True, True]


def test_what_has_no_exact_value_has_no_verdict():
    table = table_of({"entropy": (2.5, 0.1, np.nan)})
    assert verdicts("mine", table).empty
    assert verdicts("mine", table.drop(columns="entropy_exact")).empty
    assert cell_tests(table, [estimates_of(table, np.eye(1))]).empty


def test_a_cell_s_statistic_is_that_of_the_inverse_correlation():
    """With every direction tested T^2 = z^T R^-1 z; the p-value from the density of F, integrated."""
    table = table_of({"entropy": (2.5, 0.1, 2.25), "max_weight": (0.3, 0.01, 0.34), "jacobian_trace": (0.5, 0.1, 0.4)})
    correlation = np.array([[1.0, -0.8, 0.3], [-0.8, 1.0, -0.1], [0.3, -0.1, 1.0]])
    (row,) = cell_tests(table, [estimates_of(table, correlation)]).to_dict("records")
    z = np.array([2.5, -4.0, 1.0])
    assert (row["values"], row["directions"]) == (3, 3)
    assert row["statistic"] == pytest.approx(z @ np.linalg.solve(correlation, z), rel=1e-5)
    ratio = row["statistic"] * (2000 - 3) / (3 * 1999)
    drawn = stats.chi2.ppf((np.arange(200_000) + 0.5) / 200_000, 1997) / 1997  # F is a ratio: average over one of both
    assert row["p_value"] == pytest.approx(stats.chi2.sf(3 * ratio * drawn, 3).mean(), rel=1e-3)


def test_few_trials_test_few_directions():
    metrics = {"score_kurtosis": (1.0, 0.01, 0.0), "entropy": (2.5, 0.1, 2.25), "max_weight": (0.3, 0.01, 0.34)}
    for trials, directions in ((2000, 3), (149, 2), (99, 1), (20, 1)):
        table = table_of(metrics, trials)
        (row,) = cell_tests(table, [estimates_of(table, np.eye(3))]).to_dict("records")
        assert (row["values"], row["directions"]) == (3, directions)
    table = table_of(metrics, 19)
    assert cell_tests(table, [estimates_of(table, np.eye(3))]).empty


def test_a_kurtosis_of_few_scores_is_not_judged():
    rows = verdicts("mine", table_of({"score_kurtosis": (6.0, 0.19, 6.0), "entropy": (2.5, 0.1, 2.25)}))
    assert rows["metric"].tolist() == ["entropy", "score_kurtosis"]
    assert rows["remark"].tolist() == ["", TOO_ROUGH]
    assert verdicts("mine", table_of({"score_kurtosis": (6.0, 0.17, 6.0)}))["remark"].tolist() == [""]


@pytest.mark.parametrize("trials", [40, 150, 1200])
def test_p_values_of_normal_trials_are_uniform(trials):
    """400 cells of dependent normal metrics; fixed seed, the test's own level is 0.001."""
    rng = np.random.default_rng(5)
    mix = rng.standard_normal((4, 4))
    p = []
    for _ in range(400):
        x = mix @ rng.standard_normal((4, trials))
        errors = x.std(axis=1, ddof=1) / np.sqrt(trials)
        names = ["entropy", "max_weight", "jacobian_trace", "jacobian_norm"]
        values = {name: (x[i].mean(), errors[i], 0.0) for i, name in enumerate(names)}
        table = table_of(values, trials)
        p.append(cell_tests(table, [estimates_of(table, np.corrcoef(x))])["p_value"].iloc[0])
    assert stats.kstest(p, "uniform").pvalue > 0.001


def sweep(name: str = "mine") -> Sweep:
    return Sweep(name, "saturation", {}, trials=2000, figures=())


def tables_of(table: pd.DataFrame, name: str = "mine") -> dict[str, pd.DataFrame]:
    return {"tests": cell_tests(table, [estimates_of(table, np.eye(2))]), "verdicts": verdicts(name, table)}


def test_cells_are_combined_by_fisher_and_values_by_their_number():
    cells = pd.DataFrame({"p_value": [0.5, 0.01, 0.2]})
    z_scores = pd.DataFrame({"p_value": [0.5, 1e-9, 0.01, 0.2], "trials": [1000, 999, 1000, 1000]})
    both = Agreement(cells, z_scores, 0)
    # The survival function of chi-squared with six degrees of freedom at -2 ln 0.001, by hand.
    x = -np.log(0.001)
    assert both.p_cells == pytest.approx(np.exp(-x) * (1 + x + x**2 / 2), rel=1e-9)
    assert both.p_furthest == pytest.approx(1 - 0.99**3, rel=1e-9)
    assert both.p_value == pytest.approx(2 * 0.029701, rel=1e-9)


def test_a_cell_that_two_sweeps_share_counts_once():
    few = tables_of(table_of({"entropy": (2.5, 0.1, 2.4), "max_weight": (0.3, 0.1, 0.34)}, trials=1000))
    many = tables_of(table_of({"entropy": (2.5, 0.1, 2.3), "max_weight": (0.3, 0.1, 0.34)}, trials=3000), "other")
    suite = agreement([sweep(), sweep("other")], {"mine": few, "other": many})
    assert len(suite.cells) == 1
    assert suite.cells["p_value"].tolist() == many["tests"]["p_value"].tolist()
    assert suite.furthest() == ["entropy of other, d_k^1/2: z = +2.00", "max_weight of other, d_k^1/2: z = -0.40"]


def test_an_alarm_names_what_is_far_off():
    table = table_of({"entropy": (2.5, 0.1, 1.9), "max_weight": (0.3, 0.1, 0.34)})
    suite = agreement([sweep()], {"mine": tables_of(table)})
    assert suite.p_value < ALARM
    with pytest.raises(DisagreementError, match=r"(?s)disagree: .*\n  entropy of mine, .* z = \+6\.00.*cell mine"):
        suite.raise_alarm()


def test_nothing_to_test_is_no_alarm():
    suite = agreement([sweep()], {"mine": {}})
    assert (suite.p_value, suite.summary()) == (1.0, "")
    suite.raise_alarm()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_raises_the_alarm(fault):
    assert p_values(seed=0, fault=fault)[1] < ALARM


def test_no_fault_raises_none():
    assert p_values(seed=0)[1] > ALARM
