"""Verdicts and tests against hand-made tables, other formulas and planted faults."""

import dataclasses
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.analysis.agreement import ALARM, Agreement, agreement
from experiments.analysis.cell_tests import cell_tests
from experiments.analysis.results import Results, SweepAxes
from experiments.analysis.verdicts import (
    BOUND,
    FEW_TRIALS,
    NO_ERROR,
    NONE,
    T_TEST,
    TOO_FEW,
    flag_few_draws,
    verdicts,
)
from experiments.config.sweep import Sweep
from experiments.kinds.saturation import EXPERIMENT, METRICS, Cell
from experiments.measuring.metric import ErrorBound, Exact
from sdpa import Scaling

OF_CELL = SweepAxes.of_cell(EXPERIMENT.cell)
USUAL = {axis: value for axis, value in OF_CELL.usual.items() if value is not None}
AXES = {"d_k": 4, "n_keys": 8, "n_queries": 5, **USUAL, "scaling": "d_k^1/2"}
# Measured, standard error and exact value of each metric: z is -4, 2.5 and 1.
THREE = {
    "max_weight": (0.3, 0.01, 0.34),
    "entropy": (1.3, 0.02, 1.25),
    "jacobian_trace": (0.5, 0.01, 0.49),
}
TWO = {name: THREE[name] for name in ("max_weight", "entropy")}


def table_of(metrics, trials=2000):
    """One cell and scaling, from (measured, se, exact) of each metric."""
    row = {**AXES, "divisor": 2.0, "trials": trials, "few_draws": ""}
    for name, (value, error, exact) in metrics.items():
        row |= {name: value, f"{name}_se": error, f"{name}_exact": exact}
    return pd.DataFrame([row])


def cells_in(table):
    sizes = table[["d_k", "n_keys", "n_queries"]].to_dict("records")
    rules = map(Scaling.parse, table["scaling"])
    return [Cell(**of, scaling=(rule,)) for of, rule in zip(sizes, rules, strict=True)]


def judged(table, most=math.inf, **least):
    """The verdicts of a table, with the largest error of all metrics and least errors of some."""
    root = math.sqrt(table["trials"].iloc[0])

    def with_errors(metric):
        smallest = root * least.get(metric.name, 0.0)
        exact = Exact("", lambda *_: math.nan, lambda *_: smallest, lambda *_: root * most)
        return dataclasses.replace(metric, exact=exact)

    known = [metric for metric in METRICS if f"{metric.name}_exact" in table]
    experiment = dataclasses.replace(EXPERIMENT, metrics=tuple(map(with_errors, known)))
    return verdicts(experiment, table, cells_in(table))


def alone(name, **changes):
    """The experiment with this metric alone."""
    (metric,) = (metric for metric in METRICS if metric.name == name)
    return dataclasses.replace(EXPERIMENT, metrics=(dataclasses.replace(metric, **changes),))


def verdict(table, **errors):
    """The verdict of a table's only value."""
    (row,) = judged(table, **errors).itertuples()
    return row


def cell_tests_of(table, correlation, accuracy=0.0, **least):
    """The tests of cells, with these correlations of the metrics in the order of METRICS, of one
    cell or of each, and this relative error of all exact values.
    """
    known = [metric.name for metric in METRICS if f"{metric.name}_exact" in table]
    rows = table[[*AXES]].loc[table.index.repeat(len(known))]
    of_cells = np.broadcast_to(correlation, (len(table), len(known), len(known)))
    rows = rows.assign(metric=known * len(table), correlations=[*of_cells.reshape(-1, len(known))])
    values = judged(table, **least).assign(accuracy=accuracy)
    return cell_tests(table, OF_CELL, rows, values)


def test_a_verdict_is_the_distance_in_standard_errors():
    rows = judged(table_of(TWO, 25)).set_index("metric")
    assert rows["z"].to_dict() == pytest.approx({"entropy": 2.5, "max_weight": -4.0})
    assert rows["remark"].tolist() == ["", ""]
    assert rows["test"].tolist() == [T_TEST, T_TEST]
    expected = 2 * stats.t.sf(rows["z"].abs(), 24)
    assert rows["p_value"].tolist() == pytest.approx(expected, rel=1e-5)


def test_an_error_below_that_of_independent_rows_is_not_believed():
    """Of a root the least error is that of the mean square: 0.02 / (2 x 0.25)."""
    values = {
        "max_weight": (0.3, 0.001, 0.34),
        "jacobian_norm": (0.3, 0.001, 0.25),
        "entropy": (1, 0, 1),
    }
    rows = judged(table_of(values), max_weight=0.02, jacobian_norm=0.02).set_index("metric")
    errors = {"max_weight": 0.02, "jacobian_norm": 0.04, "entropy": 1e-8}
    assert rows["error"].to_dict() == pytest.approx(errors)
    z = {"max_weight": -2.0, "jacobian_norm": 1.25, "entropy": 0.0}
    assert rows["z"].to_dict() == pytest.approx(z)


def test_a_value_below_the_floor_of_its_exact_value_is_none_off():
    """The exact value is given as 0 there; z would be 2,000 standard errors."""
    measured, error = 2e-9, 3e-8
    table = table_of({"jacobian_norm": (measured, 1e-12, 0.0)})
    exact = Exact("", lambda *_: 0.0, bounds=(ErrorBound(1e-6, error),))
    experiment = alone("jacobian_norm", exact=exact)
    (found,) = verdicts(experiment, table, cells_in(table)).itertuples()
    assert found.error == error
    assert found.z == pytest.approx(measured / error, abs=1e-4)


@pytest.mark.parametrize(("n_queries", "n_keys", "scores"), [(1, 512, 512), (512, 2, 1024)])
def test_scores_that_share_a_query_or_keys_have_the_error_of_few_draws(n_queries, n_keys, scores):
    """Var q^2 = 2 of one entry, or half of it over two keys; without it, t would find z = -16 in 20
    narrow draws.
    """
    table = table_of({"score_variance": (0.2, 0.05, 1.0)}, 20)
    table = table.assign(d_k=1, n_queries=n_queries, n_keys=n_keys, scaling="unscaled", divisor=1.0)
    (found,) = verdicts(alone("score_variance"), table, cells_in(table)).itertuples()
    extra = n_queries + n_keys - 2
    assert found.error == pytest.approx(math.sqrt((8 + 2 * extra) / scores / 20), rel=1e-9)
    assert (found.test, found.remark) == (NONE, TOO_FEW)


@pytest.mark.parametrize(
    ("trials", "sizes", "test"),
    [
        (49, {"n_queries": 1}, BOUND),
        (50, {"n_queries": 1}, T_TEST),
        (24, {"n_keys": 3}, BOUND),
        (25, {"n_keys": 3}, T_TEST),
    ],
)
def test_t_judges_no_value_of_few_separate_rows(trials, sizes, test):
    found = verdict(table_of({"max_weight": (0.5, 0.01, 0.48)}, trials).assign(**sizes))
    assert (found.test, found.remark) == (test, TOO_FEW if test == BOUND else "")


@pytest.mark.parametrize(
    ("metric", "measured", "error", "exact", "share", "expected"),
    [
        ("max_weight", 0.9999, 0.01, 0.99, (0.9999 - 1 / 8) / (7 / 8), (0.99 - 1 / 8) / (7 / 8)),
        ("jacobian_norm", 0.2, 0.04, 0.01, 0.2**2 * 4, 0.01**2 * 4),
        ("saturated_rows", 0.0, 0.04, 0.2, 0.0, 0.2),
        ("entropy", math.log(8) - 1e-15, 1e-15, math.log(8), 1.0, 1.0),
    ],
)
def test_few_effective_draws_of_a_bounded_metric_are_judged_by_a_bound(
    metric, measured, error, exact, share, expected
):
    """Chernoff: 2 exp(-T D), D the divergence of two coins; no smaller than the exact binomial
    tails.
    """
    found = verdict(table_of({metric: (measured, error, exact)}, 50))
    coin = stats.entropy([share, 1 - share], [expected, 1 - expected])
    assert found.test == BOUND
    assert found.p_value == pytest.approx(min(1, 2 * math.exp(-50 * coin)), rel=1e-5)
    above = stats.binom.sf(math.ceil(50 * share) - 1, 50, expected)
    below = stats.binom.cdf(math.floor(50 * share), 50, expected)
    assert found.p_value >= min(1, 2 * min(above, below)) * 0.999


@pytest.mark.parametrize(
    ("trials", "error", "remark"), [(19, 0.01, FEW_TRIALS), (2000, 0.3, TOO_FEW)]
)
def test_what_no_test_fits_is_not_tested(trials, error, remark):
    found = verdict(table_of({"query_gradient_norm": (3.0, error, 1.0)}, trials))
    assert (found.test, found.remark) == (NONE, remark)
    assert math.isnan(found.p_value)


def test_a_value_without_a_finite_error_is_not_tested():
    """As the kurtosis of scores of heavy-tailed entries: its estimate from any number of trials
    says little.
    """
    table = table_of({"score_kurtosis": (9.0, 0.01, 1.0)})
    found = judged(table, score_kurtosis=math.inf)
    assert found[["test", "remark"]].to_numpy().tolist() == [[NONE, NO_ERROR]]
    assert found[["error", "z", "p_value"]].isna().all(axis=None)
    assert flag_few_draws(table, found)["few_draws"].tolist() == ["score_kurtosis"]


def test_a_metric_without_limits_is_judged_by_the_variance_that_theory_knows():
    """One row of many that is far too large inflates value and error alike; the mean square cannot
    err by 0.02.
    """
    table = table_of({"query_gradient_norm": (59.3, 12.7, 0.185)}, 99)
    found = verdict(table, most=0.02, query_gradient_norm=0.001)
    assert (found.test, found.remark) == (BOUND, TOO_FEW)
    assert found.p_value == pytest.approx((0.02 / (59.3**2 - 0.185**2)) ** 2, rel=1e-5)


def test_a_cell_s_statistic_is_that_of_the_inverse_correlation():
    """With every direction tested T^2 = z^T R^-1 z; the p-value from the density of F,
    integrated.
    """
    table = table_of(THREE, trials=300)
    correlation = np.array([[1.0, -0.8, -0.1], [-0.8, 1.0, 0.3], [-0.1, 0.3, 1.0]])
    (row,) = cell_tests_of(table, correlation).itertuples()
    doubled = {name: 2 * error for name, (_, error, _) in THREE.items()}
    (wide,) = cell_tests_of(table, correlation, **doubled).itertuples()
    assert wide.statistic == pytest.approx(row.statistic / 4, rel=1e-5)
    assert (row.values, row.directions) == (3, 3)
    z = np.array([-4.0, 2.5, 1.0])
    assert row.statistic == pytest.approx(z @ np.linalg.solve(correlation, z), rel=1e-5)
    # F is a ratio, and an average over its denominator: of 300 trials, T^2 is 299 chi^2_3 /
    # chi^2_297.
    x, step = np.linspace(1, 700, 20_001, retstep=True)
    expected = stats.chi2.sf(row.statistic * x / 299, 3) @ stats.chi2.pdf(x, 297) * step
    assert row.p_value == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("trials", "queries", "directions"),
    [
        (299, 5, [2]),
        (20, 5, [1]),  # of 100 rows
        (20, 4, []),
        (19, 5, []),
    ],
)
def test_few_trials_and_few_rows_test_few_directions(trials, queries, directions):
    found = cell_tests_of(table_of(THREE, trials).assign(n_queries=queries), np.eye(3))
    assert found["directions"].tolist() == directions
    assert (found["values"] == 3).all()


@pytest.mark.parametrize(("accuracy", "values"), [(0.00159, 3), (0.00161, 2)])
def test_values_are_tested_only_far_above_the_error_of_the_exact_ones(accuracy, values):
    """A tenth of the relative standard errors is 0.0016, 0.0020 and 0.0029."""
    (row,) = cell_tests_of(table_of(THREE), np.eye(3), accuracy).itertuples()
    assert row.values == values


@pytest.mark.parametrize("trials", [40, 1200])
def test_p_values_of_normal_trials_are_uniform(trials):
    """400 cells of dependent normal metrics, which differ in d_k alone; fixed seed, the test's own
    level is 0.001.
    """
    rng = np.random.default_rng(5)
    mix = rng.standard_normal((3, 3)) / 100
    x = mix @ rng.standard_normal((400, 3, trials)) + 0.4
    errors = x.std(axis=2, ddof=1) / np.sqrt(trials)
    one = table_of(dict.fromkeys(THREE, (0.4, 0.1, 0.4)), trials)
    table = pd.concat([one] * 400, ignore_index=True).assign(d_k=range(2, 402))
    for place, name in enumerate(THREE):
        table[name] = x[:, place].mean(axis=1)
        table[f"{name}_se"] = errors[:, place]
    p_values = cell_tests_of(table, np.array([*map(np.corrcoef, x)]))["p_value"]
    assert len(p_values) == 400
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


def results(table, name="mine"):
    sweep = Sweep(name, EXPERIMENT, {}, trials=2000, figures=(), seed=0)
    tests = cell_tests_of(table, np.eye(2))
    return Results(sweep, {"measured": table, "tests": tests, "verdicts": judged(table)})


def values_of(p_values, **columns):
    normal = stats.norm.isf(np.array(p_values) / 2)
    given = {"metric": "m", "scaling": "s", "where": "w", "trials": 1000, "test": T_TEST}
    given |= {"weight": 1.0, "multiple": np.inf, "normal": normal, "z": normal, **columns}
    return pd.DataFrame({"p_value": p_values}).assign(**given)


def test_cells_are_combined_by_fisher_values_by_their_number_and_rules_by_their_weights():
    cells = pd.DataFrame({"p_value": [0.5, 0.01, 0.2]})
    values = values_of([0.5, 0.01, 0.2], metric=["a", "a", "b"], weight=[1.0, 2.0, 5.0])
    both = Agreement(cells, values, ())
    # The survival function of chi-squared with six degrees of freedom at -2 ln 0.001, by hand.
    x = -np.log(0.001)
    assert both.p_cells == pytest.approx(np.exp(-x) * (1 + x + x**2 / 2), rel=1e-9)
    assert both.p_furthest == pytest.approx(1 - 0.99**3, rel=1e-9)
    z = [(0.6744898 + 2 * 2.5758293) / math.sqrt(5), 1.2815516]
    assert both.rules["z"].tolist() == pytest.approx(z, rel=1e-6)
    assert both.p_rules == pytest.approx(1 - (1 - 2 * stats.norm.sf(z[0])) ** 2, rel=1e-6)
    least = min(both.p_cells, both.p_rules, both.p_furthest)
    assert both.p_value == pytest.approx(3 * least, rel=1e-9)


def test_a_metric_stuck_at_its_limit_under_one_rule_raises_the_alarm():
    """Its error and z are 0 under both rules; only a score metric is the same value twice."""
    usual, stuck = (table_of({"saturated_rows": (value, 0.0, 0.0)}, 100) for value in (0.0, 1.0))
    table = pd.concat([usual.assign(scaling="d_k^1"), stuck], ignore_index=True)
    sweep = Sweep("mine", EXPERIMENT, {}, trials=100, figures=(), seed=0)
    suite = agreement([Results(sweep, {"measured": table, "verdicts": judged(table)})])
    assert sorted(suite.values["p_value"]) == [0.0, 1.0]
    assert "saturated_rows" in suite.alarm()


@pytest.mark.parametrize(("z", "disagrees"), [(7.0, True), (6.9, False)])
def test_a_value_seven_errors_off_raises_the_alarm_among_any_number(z, disagrees):
    """At 20 trials so far a value has p = 1e-6, which 10,000 of them make nothing of."""
    values = values_of([1e-6] + [0.5, 0.6] * 5000, z=[z] + [0.0] * 10_000)
    signs = [1.0] + [1.0, -1.0] * 5000
    rules = [f"m{i // 100}" for i in range(len(values))]
    values = values.assign(normal=values["normal"] * signs, metric=rules)
    assert Agreement(pd.DataFrame(), values, ()).disagrees == disagrees


def test_a_cell_that_two_sweeps_share_counts_once():
    few = table_of({"max_weight": (0.3, 0.02, 0.34), "entropy": (1.5, 0.02, 1.48)}, trials=1000)
    many = table_of({"max_weight": (0.3, 0.02, 0.34), "entropy": (1.5, 0.02, 1.46)}, trials=3000)
    other = results(many, "other")
    suite = agreement([results(few), other])
    assert suite.cells["p_value"].tolist() == other["tests"]["p_value"].tolist()
    assert set(suite.values["where"]) == {"other, d_k^1/2"}
    assert suite.values["z"].tolist() == [-2.0, 2.0]


def test_an_alarm_names_what_is_far_off():
    table = table_of({"max_weight": (0.3, 0.01, 0.30), "entropy": (1.5, 0.02, 1.38)})
    suite = agreement([results(table)])
    assert suite.p_value < ALARM
    value = r"\n  entropy of mine, .* z = \+6\.00, p = .*"
    rule = r"\n  entropy, d_k\^1/2, all cells: .*cell mine"
    assert re.search(f"(?s)disagree: .*{value}{rule}", suite.alarm())


@pytest.mark.parametrize(("exact", "end"), [(0.2, 0.15), (0.05, 0.08)])
def test_the_error_of_a_median_is_that_of_its_nearer_end(exact, end):
    """z is the ratio of logarithms, times Student's quantile at the end of the interval; a flagged
    median is not judged.
    """
    name = "jacobian_norm_median"
    median = {name: 0.1, f"{name}_low": 0.08, f"{name}_high": 0.15, f"{name}_exact": exact}
    table = table_of({}, 40).assign(**median)
    rows = pd.concat([table, table.assign(few_draws=name)], ignore_index=True)
    found = verdicts(alone(name), rows, cells_in(rows))
    z = -math.log(exact / 0.1) / abs(math.log(end / 0.1)) * stats.t.ppf(0.975, 39)
    assert found["z"].tolist() == pytest.approx([z, z], abs=1e-4)
    assert found["test"].tolist() == [T_TEST, NONE]
