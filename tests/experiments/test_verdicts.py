"""The check of measured against exact values, on tables made by hand and of planted faults."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from numpy.random import default_rng
from scipy import stats

from experiments.config.sweep import Sweep
from experiments.kinds.saturation.cell import EXPERIMENT, KERNEL, Cell
from experiments.measuring.cells import CELL
from experiments.measuring.experiment import MEASURED
from experiments.tables.analyse import agreement
from experiments.tables.results import Results
from experiments.tables.rows import tabulated, with_exact
from experiments.tables.verdicts import verdicts
from sdpa import Scaling

FAULTS = {
    "none": {},
    "no mask": {"mask": "none"},
    "divisor off by 1%": {"scaling": (Scaling.parse("8.08"),)},
    "wide keys": {"key_std": 1.02},
    "keys with a mean": {"key_mean": 0.2},
}
SCALED = Cell(d_k=4, n_keys=8, n_queries=5, scaling=(Scaling.parse("d_k^1/2"),))
T = stats.t.ppf(0.975, 24)


def table_of(few_draws="", **metrics):
    """One cell and rule of 25 trials, from (value, low, high, exact) of each metric."""
    row = SCALED.row_head() | {"trials": 25, "few_draws": few_draws}
    for name, (value, low, high, exact) in metrics.items():
        row |= {name: value, f"{name}_low": low, f"{name}_high": high, f"{name}_exact": exact}
    return pd.DataFrame([row])


def around(value, error, exact):
    """A value with a symmetric interval."""
    return value, value - T * error, value + T * error, exact


def judged(table):
    return verdicts(EXPERIMENT, table).set_index("metric")


def agreed(*tables):
    sweep = Sweep("mine", EXPERIMENT, {}, trials=25, figures=(), seed=0)
    return agreement(
        Results(
            replace(sweep, name=f"s{i}"),
            {"measured": table, "verdicts": judged(table).reset_index()},
        )
        for i, table in enumerate(tables)
    )


def test_a_verdict_is_the_distance_in_standard_errors_under_students_t():
    """The error is that towards the exact value, or that of the exact value itself."""
    rows = judged(
        table_of(
            entropy=(1.3, 1.0, 1.3 + T * 0.01, 1.32),
            max_weight=around(0.3, 0.005, 0.28),
            jacobian_trace=around(0.4, 0.0, 0.4 * (1 - 3e-6)),
        )
    )
    z = {"entropy": -2.0, "max_weight": 4.0, "jacobian_trace": 3.0}
    assert rows["z"].to_dict() == pytest.approx(z, abs=1e-4)
    assert rows["p_value"].to_dict() == pytest.approx(
        {name: 2 * stats.t.sf(abs(each), 24) for name, each in z.items()}, rel=1e-3
    )


def test_a_median_is_compared_by_its_logarithm():
    rows = judged(table_of(jacobian_norm_median=(1e-40, 1e-44, 1e-38, 1e-36)))
    assert rows["z"].tolist() == pytest.approx([-4 / (2 / T)], abs=1e-4)


@pytest.mark.parametrize(
    "metric, compared, few_draws, is_tested",
    [
        ("max_weight", (0.23, 0.005, 0.24), "", True),  # 1/8 lies 21 errors below
        ("max_weight", (0.22, 0.005, 0.24), "", False),  # 19 errors
        ("max_weight", (0.24, 0.005, 0.22), "", False),
        ("max_weight", (0.23, 0.005, 0.24), "entropy max_weight", False),
        ("max_weight", (0.23, 0.005, 0.24), "max_weight_other", True),
        ("query_gradient_norm", (1, 1 / 39, 1), "", False),
        ("query_gradient_norm", (1, 1 / 41, 1), "", True),
        ("score_kurtosis", (-2, 1 / 49, -2), "", False),
        ("score_kurtosis", (-2, 1 / 51, -2), "", True),
        ("saturated_rows", (0, 0, 0), "", False),  # equal in all trials
        ("jacobian_norm_median", (2e-8, 1e-9, 2e-8), "", True),
        ("jacobian_norm_median", (2e-9, 1e-10, 2e-9), "", False),
    ],
)
def test_a_value_that_few_draws_carry_is_not_tested(metric, compared, few_draws, is_tested):
    """Nor one near its limit; roots need 40 errors, and kurtosis 50."""
    rows = judged(table_of(few_draws, **{metric: around(*compared)}))
    assert rows["p_value"].notna().tolist() == [is_tested]


@pytest.mark.parametrize("n_keys, root", [(4096, 39), (4096, 41), (512, 39)])
def test_squares_of_weights_of_long_rows_need_more_draws(n_keys, root):
    table = table_of(jacobian_trace=around(0.5, 0.499 / root, 0.5))
    table[CELL] = replace(SCALED, n_keys=n_keys)
    assert judged(table)["p_value"].notna().tolist() == [n_keys == 512 or root**2 > 1600]


def test_values_of_heavy_tails_are_not_tested():
    for inputs, is_tested in (("student_t", True), ("lognormal", False)):
        table = table_of(max_weight=around(0.3, 0.005, 0.3)).assign(inputs=inputs)
        assert judged(table)["p_value"].notna().tolist() == [is_tested]


@pytest.mark.parametrize("z, alarms", [(4.8, True), (4.2, False)])
def test_the_alarm_counts_the_tests(z, alarms):
    """p = 7e-5 and 3e-4, times seven tests."""
    honest = table_of(max_weight=around(0.3, 0.005, 0.3))
    few = around(0.3, 0.1, 0.3)
    first = table_of(entropy=around(1.5, 0.01, 1.5 - z * 0.01), max_weight=few)
    actual = agreed(first, *[honest] * 6)
    assert (len(actual.values), actual.untested) == (7, 1)
    assert actual.p_value == pytest.approx(7 * 2 * stats.t.sf(z, 24), rel=1e-3)
    expected = rf"disagree, p = .*\n  entropy of s0, .*: z = \+{z:.2f}"
    assert bool(re.search(expected, actual.alarm())) == bool(actual.alarm()) == alarms


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_measuring_raises_the_alarm(fault):
    """In cells of the size of shipped ones."""
    cell = replace(SCALED, d_k=64, n_keys=64, n_queries=64, mask="causal")
    drawn = replace(cell, **FAULTS[fault])
    measurement = KERNEL.measure(drawn, 100, default_rng(1))
    table = tabulated(EXPERIMENT, [cell], [measurement])[MEASURED]
    actual = agreed(with_exact(EXPERIMENT, table))
    assert len(actual.values) > 10
    assert bool(actual.alarm()) == (fault != "none"), actual.alarm()
