"""Planted faults, the summary of runs against hand-made ones, and what counts as a failure."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.suite import SURE
from experiments.benchmarks.calibration.faults import FACTORS, HARMLESS, MISTAKES, Factor, mistaken
from experiments.benchmarks.calibration.runs import METRICS, alarm, measure, run_batch
from experiments.benchmarks.calibration.tables import Calibration, coverage_of, summarise
from experiments.harness.config import load_config
from experiments.steps.calibration import CONFIG

SWEEPS = {sweep.name: sweep for sweep in load_config(CONFIG).sweeps}
SMALL = dataclasses.replace(SWEEPS["usual_20"], trials=30)


@pytest.fixture(scope="module")
def batch():
    """Three seeds of a small sweep, with two faults under each."""
    return run_batch(SMALL, range(5, 8), [Factor("score_variance", "", 30.0), Factor("entropy", "unscaled", 1.0)])


def test_the_configs_span_what_a_user_may_ask():
    values = {name: {v for sweep in SWEEPS.values() for v in sweep.values[name]} for name in SMALL.values}
    assert len(SWEEPS) >= 24
    assert {min(values["d_k"]), max(values["d_k"])} == {1, 4096}
    assert {min(values["n_keys"]), max(values["n_keys"])} == {2, 4096}
    assert {1, 64} <= values["n_queries"]
    assert {min(values["input_std"]), max(values["input_std"])} == {0.1, 30}
    assert {str(law) for law in values["inputs"]} == {"gaussian", "uniform"}
    assert {min(s.trials for s in SWEEPS.values()), max(s.trials for s in SWEEPS.values())} == {20, 5000}


def test_a_factor_changes_its_metric_under_its_rule_alone():
    table = pd.DataFrame({"scaling": ["a", "b"], "m": [1.0, 2.0], "m_se": 0.1, "m_low": 0.5, "m_high": 3.0, "k": 7.0})
    planted = Factor("m", "b", 2.0).planted(table)
    assert planted.loc[0].equals(table.loc[0])
    assert planted.loc[1].to_dict() == {"scaling": "b", "m": 4.0, "m_se": 0.2, "m_low": 1.0, "m_high": 6.0, "k": 7.0}
    assert Factor("m", "", 2.0).planted(table)["m"].tolist() == [2.0, 4.0]


def test_factors_are_planted_in_every_metric_with_an_exact_value():
    tested = {metric.name for metric in METRICS if metric.kind != "quantile"}
    assert {fault.metric for fault in FACTORS} == tested - {"score_mean"}  # whose exact value no factor changes
    assert {fault.scaling for fault in FACTORS} == {"", "unscaled", "d_k^1/2"}
    assert {round(fault.factor - 1, 2) for fault in FACTORS} == {0.01, 0.03, 0.1, 0.3}


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name not in HARMLESS])
def test_a_mistake_in_the_code_raises_the_alarm_and_is_undone(mistake):
    small = SWEEPS["small"]
    before = measure(SMALL, 1)[0].moments.mean
    assert alarm(small, 1, mistake)
    np.testing.assert_array_equal(measure(SMALL, 1)[0].moments.mean, before)


def test_no_mistake_raises_none():
    assert not run_batch(SWEEPS["small"], range(1, 2), ()).alarms.any()


def test_a_mistake_is_made_in_place():
    cell = SMALL.cells()[0]
    with mistaken("divisor off by 1%"):
        wrong = cell.divisors()
    assert wrong == pytest.approx([1.01 * divisor for divisor in cell.divisors()])


def test_a_batch_holds_every_seed_row_and_metric(batch):
    assert batch.lows.shape == batch.highs.shape == batch.flagged.shape == (3, 2, len(METRICS))
    assert (batch.lows <= batch.highs).all()
    assert batch.judged.sum(axis=1).tolist() == [2 * sum(metric.kind != "quantile" for metric in METRICS)] * 3
    assert batch.pooled[0].moments.trials == 90
    of_variance = batch.faults[batch.faults["metric"] == "score_variance"]
    assert of_variance["alarm"].all()
    harmless = batch.faults[batch.faults["metric"] == "entropy"]
    assert harmless["alarm"].tolist() == batch.alarms.tolist()


def test_the_truth_is_exact_where_it_is_known_and_pooled_elsewhere(batch):
    truth, highest = batch.truth(SMALL)
    np.testing.assert_array_equal(truth, highest)  # no bin of many values
    names = [metric.name for metric in METRICS]
    assert truth[0, names.index("score_variance")] == 64
    assert truth[1, names.index("score_variance")] == 1
    median = truth[0, names.index("jacobian_norm_median")]
    assert median == batch.pooled[0].norms.quantile(0, 0.5).value


def test_coverage_counts_the_intervals_that_are_not_flagged(batch):
    place = [metric.name for metric in METRICS].index("score_variance")
    lows, highs, flagged = batch.lows.copy(), batch.highs.copy(), np.zeros_like(batch.flagged)
    lows[:, :, place], highs[:, :, place] = [[60.0, 0.9]] * 3, [[70.0, 1.1], [63.0, 1.1], [70.0, 1.1]]
    flagged[2, 0, place] = True
    found = coverage_of(SMALL, [dataclasses.replace(batch, lows=lows, highs=highs, flagged=flagged)])
    row = found.set_index("metric").loc["score_variance"]
    assert (row["intervals"], row["held"], row["flagged"]) == (5, 4, 1)


def test_the_summary_counts_and_tells_failures(batch):
    found = summarise([SMALL], [batch], {("a mistake", "usual_20"): [True, True]}, "usual_20")
    assert found.alarms["config"].tolist() == ["usual_20", "all"]
    assert found.alarms["runs"].tolist() == [3, 3]
    mistake = found.faults[found.faults["fault"] == "a mistake"].iloc[0]
    assert (mistake["runs"], mistake["alarms"], mistake["missed"]) == (2, 2, 0)
    assert found.failures() == []
    missed = summarise([SMALL], [batch], {("a mistake", "usual_20"): [True, False]}, "usual_20").failures()
    assert missed == ["a mistake of , , usual_20: missed 1"]
    assert summarise([SMALL], [batch], {("a mistake", "usual_20"): [False]}, "another").failures() == []
    assert summarise([SMALL], [batch], {(HARMLESS[0], "usual_20"): [False]}, "usual_20").failures() == []
    alarmed = dataclasses.replace(batch, alarms=np.array([True, True, False]))
    (config, whole) = summarise([SMALL], [alarmed], {}, "usual_20").failures()
    assert config.startswith("usual_20: 2 alarms in 3 runs")
    assert whole.startswith("all: 2 alarms in 3 runs")


def test_a_fault_of_many_errors_without_an_alarm_is_missed(batch):
    faults = batch.faults.assign(errors_off=[SURE, 1.0] * 3, alarm=False)
    found = summarise([SMALL], [dataclasses.replace(batch, faults=faults)], {}, "usual_20")
    assert found.faults["missed"].sum() == 3


def test_low_coverage_is_a_failure():
    few = pd.DataFrame({"config": ["a", "b"], "metric": "all", "intervals": [99, 100], "flagged": 0, "coverage": 0.5})
    alarms = pd.DataFrame({"config": ["a"], "runs": [1], "alarms": [0], "p_value": [1.0]})
    faults = pd.DataFrame({"missed": [0]})
    assert Calibration(alarms, few, faults).failures() == ["b: 95% intervals cover 50.0% of 100"]
