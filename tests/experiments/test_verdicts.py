"""Verdicts and tests against hand-made tables, other formulas and planted faults."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.analysis.agreement import ALARM, Agreement, DisagreementError, agreement
from experiments.analysis.cell_tests import cell_tests
from experiments.analysis.results import Axes, Results
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
from experiments.measuring.metric import Exact
from sdpa import Scaling

OF_CELL = Axes.of_cell(EXPERIMENT.cell)
USUAL = {axis: value for axis, value in OF_CELL.usual.items() if value is not None}
AXES = {"d_k": 4, "n_keys": 8, "n_queries": 5, **USUAL}
KNOWN = [metric.name for metric in METRICS if metric.exact]


def table_of(metrics: dict[str, tuple[float, float, float]], trials: int = 2000) -> pd.DataFrame:
    """One cell and scaling, from (measured, se, exact) of each metric."""
    row = {**AXES, "scaling": "d_k^1/2", "divisor": 2.0, "trials": trials, "few_draws": ""}
    for name, (value, error, exact) in metrics.items():
        row |= {name: value, f"{name}_se": error, f"{name}_exact": exact}
    return pd.DataFrame([row])


def judged(table: pd.DataFrame, most: float = math.inf, **least: float) -> pd.DataFrame:
    """The verdicts of a table, with the largest error of all metrics and least errors of some."""
    of_trial = math.sqrt(table["trials"].iloc[0])

    def exact(name: str) -> Exact:
        return Exact(
            "",
            lambda *_: math.nan,
            lambda *_: of_trial * least.get(name, 0.0),
            lambda *_: of_trial * most,
        )

    metrics = [
        dataclasses.replace(m, exact=exact(m.name)) for m in METRICS if f"{m.name}_exact" in table
    ]
    return verdicts(
        dataclasses.replace(EXPERIMENT, metrics=tuple(metrics)), table, row_cells_of(table)
    )


def row_cells_of(table: pd.DataFrame) -> list[Cell]:
    sizes = table[["d_k", "n_keys", "n_queries"]].to_dict("records")
    return [
        Cell(**of, scaling=(Scaling.parse(rule),))
        for of, rule in zip(sizes, table["scaling"], strict=True)
    ]


def correlations_of(table: pd.DataFrame, correlation: np.ndarray) -> pd.DataFrame:
    metrics = [name for name in KNOWN if f"{name}_exact" in table]
    return pd.DataFrame(
        {**AXES, "scaling": "d_k^1/2", "metric": metric, "correlations": of_one}
        for metric, of_one in zip(metrics, correlation, strict=True)
    )


def cells_of(table: pd.DataFrame, correlation: np.ndarray) -> pd.DataFrame:
    return cell_tests(table, OF_CELL, correlations_of(table, correlation), judged(table))


@pytest.mark.parametrize("trials", [25, 2000])
def test_a_verdict_is_the_distance_in_standard_errors(trials):
    rows = judged(table_of({"max_weight": (0.3, 0.01, 0.34), "entropy": (1.3, 0.02, 1.25)}, trials))
    assert dict(zip(rows["metric"], rows["z"], strict=True)) == pytest.approx(
        {"entropy": 2.5, "max_weight": -4.0}
    )
    assert rows["remark"].tolist() == ["", ""]
    assert rows["test"].tolist() == [T_TEST, T_TEST]
    assert rows["p_value"].tolist() == pytest.approx(
        2 * stats.t.sf([4.0, 2.5], trials - 1), rel=1e-5
    )


def test_an_error_below_that_of_independent_rows_is_not_believed():
    """Of a root the least error is that of the mean square: 0.02 / (2 x 0.25)."""
    table = table_of(
        {
            "max_weight": (0.3, 0.001, 0.34),
            "jacobian_norm": (0.3, 0.001, 0.25),
            "entropy": (1, 0, 1),
        }
    )
    rows = judged(table, max_weight=0.02, jacobian_norm=0.02).set_index("metric")
    assert rows["error"].to_dict() == pytest.approx(
        {"max_weight": 0.02, "jacobian_norm": 0.04, "entropy": 1e-8}
    )
    assert rows["z"].to_dict() == pytest.approx(
        {"max_weight": -2.0, "jacobian_norm": 1.25, "entropy": 0.0}
    )


@pytest.mark.parametrize(
    ("shared", "scores"),
    [({"n_queries": 1, "n_keys": 512}, 512), ({"n_queries": 512, "n_keys": 2}, 1024)],
)
def test_scores_that_share_a_query_or_keys_have_the_error_of_few_draws(shared, scores):
    """Var q^2 = 2 of one entry, or half of it over two keys; without it, t would find z = -16 in 20
    narrow draws.
    """
    row = {
        **AXES,
        **shared,
        "d_k": 1,
        "scaling": "unscaled",
        "divisor": 1.0,
        "trials": 20,
        "few_draws": "",
    }
    table = pd.DataFrame(
        [{**row, "score_variance": 0.2, "score_variance_se": 0.05, "score_variance_exact": 1.0}]
    )
    only = dataclasses.replace(
        EXPERIMENT, metrics=tuple(m for m in METRICS if m.name == "score_variance")
    )
    (found,) = verdicts(only, table, row_cells_of(table)).to_dict("records")
    extra = shared["n_queries"] + shared["n_keys"] - 2
    assert found["error"] == pytest.approx(math.sqrt((8 + 2 * extra) / scores / 20), rel=1e-9)
    assert (found["test"], found["remark"]) == (NONE, TOO_FEW)


@pytest.mark.parametrize(
    ("trials", "sizes", "test"),
    [
        (49, {"n_queries": 1}, BOUND),
        (50, {"n_queries": 1}, T_TEST),
        (24, {"n_keys": 3}, BOUND),
        (25, {"n_keys": 3}, T_TEST),
        (49, {"d_k": 1, "normalize": "l2"}, BOUND),
        (49, {"d_k": 1, "inputs": "rademacher"}, BOUND),
        (49, {"d_k": 2, "inputs": "rademacher"}, T_TEST),
    ],
)
def test_t_judges_no_value_of_few_separate_rows(trials, sizes, test):
    table = table_of({"max_weight": (0.5, 0.01, 0.48)}, trials).assign(**sizes)
    (row,) = judged(table).to_dict("records")
    assert (row["test"], row["remark"]) == (test, TOO_FEW if test == BOUND else "")


@pytest.mark.parametrize(
    ("metric", "measured", "exact", "share", "expected"),
    [
        ("max_weight", 0.9999, 0.99, (0.9999 - 1 / 8) / (7 / 8), (0.99 - 1 / 8) / (7 / 8)),
        ("jacobian_trace", 0.02, 0.001, 0.02 / (7 / 8), 0.001 / (7 / 8)),
        ("jacobian_norm", 0.2, 0.01, 0.2**2 * 4, 0.01**2 * 4),
        ("saturated_rows", 0.0, 0.2, 0.0, 0.2),
    ],
)
def test_few_effective_draws_of_a_bounded_metric_are_judged_by_a_bound(
    metric, measured, exact, share, expected
):
    """Chernoff: 2 exp(-T D), D the divergence of two coins; no smaller than the exact binomial
    tails.
    """
    (row,) = judged(
        table_of({metric: (measured, max(measured, exact) / 5 if exact < 0.5 else 0.01, exact)}, 50)
    ).to_dict("records")
    coin = stats.entropy([share, 1 - share], [expected, 1 - expected])
    assert (row["test"], row["remark"]) == (BOUND, TOO_FEW)
    assert row["p_value"] == pytest.approx(min(1, 2 * math.exp(-50 * coin)), rel=1e-5)
    tail = (
        stats.binom.sf(math.ceil(50 * share) - 1, 50, expected)
        if share > expected
        else stats.binom.cdf(math.floor(50 * share), 50, expected)
    )
    assert row["p_value"] >= min(1, 2 * tail) * 0.999


@pytest.mark.parametrize(("trials", "remark"), [(19, FEW_TRIALS), (2000, TOO_FEW)])
def test_what_no_test_fits_is_not_tested(trials, remark):
    error = 0.3 if remark == TOO_FEW else 0.01
    (row,) = judged(table_of({"query_gradient_norm": (3.0, error, 1.0)}, trials)).to_dict("records")
    assert (row["test"], row["remark"]) == (NONE, remark)
    assert math.isnan(row["p_value"])


def test_a_value_without_a_finite_error_is_not_tested():
    """As the kurtosis of scores of heavy-tailed entries: its estimate from any number of trials
    says little.
    """
    found = judged(table_of({"score_kurtosis": (9.0, 0.01, 1.0)}), score_kurtosis=math.inf)
    (row,) = found.to_dict("records")
    assert (row["test"], row["remark"]) == (NONE, NO_ERROR)
    assert all(math.isnan(row[name]) for name in ("error", "z", "p_value"))
    table = flag_few_draws(table_of({"score_kurtosis": (9.0, 0.01, 1.0)}), found)
    assert table["few_draws"].tolist() == ["score_kurtosis"]


def test_a_cell_s_statistic_is_that_of_the_inverse_correlation():
    """With every direction tested T^2 = z^T R^-1 z; the p-value from the density of F,
    integrated.
    """
    metrics = {
        "max_weight": (0.3, 0.01, 0.34),
        "entropy": (1.3, 0.02, 1.25),
        "jacobian_trace": (0.5, 0.01, 0.49),
    }
    table = table_of(metrics, trials=300)
    correlation = np.array([[1.0, -0.8, -0.1], [-0.8, 1.0, 0.3], [-0.1, 0.3, 1.0]])
    (row,) = cells_of(table, correlation).to_dict("records")
    z = np.array([-4.0, 2.5, 1.0])
    doubled = judged(table, max_weight=0.02, entropy=0.04, jacobian_trace=0.02)
    (wide,) = cell_tests(table, OF_CELL, correlations_of(table, correlation), doubled).to_dict(
        "records"
    )
    assert wide["statistic"] == pytest.approx(row["statistic"] / 4, rel=1e-5)
    assert (row["values"], row["directions"]) == (3, 3)
    assert row["statistic"] == pytest.approx(z @ np.linalg.solve(correlation, z), rel=1e-5)
    # F is a ratio, and an average over its denominator: of 300 trials, T^2 is 299 chi^2_3 /
    # chi^2_297.
    x, step = np.linspace(1, 700, 20_001, retstep=True)
    expected = stats.chi2.sf(row["statistic"] * x / 299, 3) @ stats.chi2.pdf(x, 297) * step
    assert row["p_value"] == pytest.approx(expected, rel=1e-5)


def test_few_trials_and_few_rows_test_few_directions():
    metrics = {
        "max_weight": (0.3, 0.01, 0.34),
        "entropy": (1.3, 0.02, 1.25),
        "jacobian_trace": (0.5, 0.01, 0.49),
    }
    for trials, directions in ((2000, 3), (299, 2), (199, 1), (20, 1)):
        (row,) = cells_of(table_of(metrics, trials), np.eye(3)).to_dict("records")
        assert (row["values"], row["directions"]) == (3, directions)
    assert cells_of(table_of(metrics, 19), np.eye(3)).empty
    for queries, directions in ((4, []), (5, [1])):  # 80 rows, and 100
        table = table_of(metrics, 20).assign(n_queries=queries)
        correlations = correlations_of(table, np.eye(3)).assign(n_queries=queries)
        assert (
            cell_tests(table, OF_CELL, correlations, judged(table))["directions"].tolist()
            == directions
        )


@pytest.mark.slow
@pytest.mark.parametrize("trials", [40, 150, 1200])
def test_p_values_of_normal_trials_are_uniform(trials):
    """400 cells of dependent normal metrics; fixed seed, the test's own level is 0.001."""
    rng = np.random.default_rng(5)
    mix = rng.standard_normal((4, 4)) / 100
    p = []
    for _ in range(400):
        x = mix @ rng.standard_normal((4, trials)) + 0.4
        errors = x.std(axis=1, ddof=1) / np.sqrt(trials)
        names = ["max_weight", "entropy", "jacobian_trace", "saturated_rows"]
        values = {name: (x[i].mean(), errors[i], 0.4) for i, name in enumerate(names)}
        p.append(cells_of(table_of(values, trials), np.corrcoef(x))["p_value"].iloc[0])
    assert stats.kstest(p, "uniform").pvalue > 0.001


def sweep(name: str = "mine") -> Sweep:
    return Sweep(name, EXPERIMENT, {}, trials=2000, figures=())


def tables_of(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {"measured": table, "tests": cells_of(table, np.eye(2)), "verdicts": judged(table)}


def values_of(p_values: list[float], **columns: object) -> pd.DataFrame:
    normal = stats.norm.isf(np.array(p_values) / 2)
    given = {
        "metric": "m",
        "scaling": "s",
        "where": "w",
        "trials": 1000,
        "test": T_TEST,
        "weight": 1.0,
        "multiple": np.inf,
        **columns,
    }
    return pd.DataFrame({"p_value": p_values, "normal": normal, "z": normal}).assign(**given)


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
    assert both.p_value == pytest.approx(
        3 * min(both.p_cells, both.p_rules, both.p_furthest), rel=1e-9
    )


def test_a_metric_stuck_at_its_limit_under_one_rule_raises_the_alarm():
    """Its error and z are 0 under both rules; only a score metric is the same value twice."""
    parts = [
        table_of({"saturated_rows": (value, 0.0, 0.0)}, 100).assign(scaling=rule)
        for rule, value in (("d_k^1", 0.0), ("d_k^1/2", 1.0))
    ]
    table = pd.concat(parts, ignore_index=True)
    suite = agreement([Results(sweep(), {"measured": table, "verdicts": judged(table)})])
    assert sorted(suite.values["p_value"]) == [0.0, 1.0]
    with pytest.raises(DisagreementError, match="saturated_rows"):
        suite.raise_alarm()


def test_a_metric_without_limits_is_judged_by_the_variance_that_theory_knows():
    """One row of many that is far too large inflates value and error alike; the mean square cannot
    err by 0.02.
    """
    table = table_of({"query_gradient_norm": (59.3, 12.7, 0.185)}, 99)
    (row,) = judged(table, most=0.02, query_gradient_norm=0.001).to_dict("records")
    assert (row["test"], row["remark"]) == (BOUND, TOO_FEW)
    assert row["p_value"] == pytest.approx((0.02 / (59.3**2 - 0.185**2)) ** 2, rel=1e-5)


def test_a_value_seven_errors_off_raises_the_alarm_among_any_number():
    """At 20 trials so far a value has p = 1e-6, which 10,000 of them make nothing of."""
    p_values = [1e-6] + [0.5, 0.6] * 5000
    signs = [1.0] + [1.0, -1.0] * 5000
    values = values_of(p_values)
    values = values.assign(
        normal=values["normal"] * signs, metric=[f"m{i // 100}" for i in range(len(values))]
    )
    assert Agreement(pd.DataFrame(), values.assign(z=[7.0] + [0.0] * 10_000), ()).disagrees
    assert not Agreement(pd.DataFrame(), values.assign(z=[6.9] + [0.0] * 10_000), ()).disagrees


def test_a_cell_that_two_sweeps_share_counts_once():
    few = tables_of(
        table_of({"max_weight": (0.3, 0.02, 0.34), "entropy": (1.5, 0.02, 1.48)}, trials=1000)
    )
    many = tables_of(
        table_of({"max_weight": (0.3, 0.02, 0.34), "entropy": (1.5, 0.02, 1.46)}, trials=3000)
    )
    suite = agreement([Results(sweep(), few), Results(sweep("other"), many)])
    assert len(suite.cells) == 1
    assert suite.cells["p_value"].tolist() == many["tests"]["p_value"].tolist()
    assert set(suite.values["where"]) == {"other, d_k^1/2"}
    assert suite.values["z"].tolist() == [-2.0, 2.0]


def test_an_alarm_names_what_is_far_off():
    table = table_of({"max_weight": (0.3, 0.01, 0.30), "entropy": (1.5, 0.02, 1.38)})
    suite = agreement([Results(sweep(), tables_of(table))])
    assert suite.p_value < ALARM
    expected = (
        r"(?s)disagree: .*\n  entropy of mine, .* z = \+6\.00, p = .*"
        r"\n  entropy, d_k\^1/2, all cells: .*cell mine"
    )
    with pytest.raises(DisagreementError, match=expected):
        suite.raise_alarm()
