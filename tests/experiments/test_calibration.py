"""Planted faults, the summary of runs against hand-made ones, and what counts as a failure."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.agreement import SURE
from experiments.benchmarks.calibration.faults import FACTORS, HARMLESS, MISTAKES, Factor, with_pairs
from experiments.benchmarks.calibration.measured import measure_sweep
from experiments.benchmarks.calibration.runs import raises_alarm, run_seeds, simulate
from experiments.benchmarks.calibration.tables import Calibration, coverage_of, merged, summarise
from experiments.harness.config import load_config
from experiments.harness.experiment import MEASURED
from experiments.harness.tabulate import tabulated
from experiments.metrics import METRICS
from experiments.saturation import DOUBLE, SINGLE
from experiments.steps.calibration import CONFIG

SWEEPS = {sweep.name: sweep for sweep in load_config(CONFIG).sweeps}
SMALL = dataclasses.replace(SWEEPS["usual_20"], trials=30)


FAULTS = [Factor("score_variance", "", 30.0), Factor("entropy", "unscaled", 1.0)]


@pytest.fixture(scope="module")
def runs():
    """Three seeds of a small sweep, with two faults under each."""
    return run_seeds(SMALL, range(5, 8), FAULTS)


@pytest.fixture(scope="module")
def honest():
    """The table of a sweep without mistakes, under one seed."""
    return measure_sweep(SMALL, 1)[MEASURED]


def test_the_configs_span_what_a_user_may_ask():
    sweeps = [sweep for sweep in SWEEPS.values() if sweep.experiment == "saturation"]
    values = {name: {v for sweep in sweeps for v in sweep.values[name]} for name in SMALL.values}
    assert len(SWEEPS) >= 24
    assert {min(values["d_k"]), max(values["d_k"])} == {1, 4096}
    assert {min(values["n_keys"]), max(values["n_keys"])} == {2, 4096}
    assert {1, 64} <= values["n_queries"]
    assert {min(values["key_std"]), max(values["key_std"])} == {0.1, 30}
    assert len(values["inputs"]) >= 5
    assert {min(values["correlation"]), max(values["correlation"])} == {-0.5, 1}
    assert all(len(values[name]) > 1 for name in ("query_mean", "key_mean", "spectrum", "normalize", "mask"))
    assert {sweep.experiment for sweep in SWEEPS.values()} == {"saturation", "initialisation", "rounding"}
    assert {str(v) for v in values["arithmetic"]} == {"float64", "float32"}
    assert {min(s.trials for s in SWEEPS.values()), max(s.trials for s in SWEEPS.values())} == {20, 5000}


def test_a_factor_changes_its_metric_under_its_rule_alone():
    table = pd.DataFrame({"scaling": ["a", "b"], "m": [1.0, 2.0], "m_se": 0.1, "m_low": 0.5, "m_high": 3.0, "k": 7.0})
    planted = Factor("m", "b", 2.0).plant(table)
    assert planted.loc[0].equals(table.loc[0])
    assert planted.loc[1].to_dict() == {"scaling": "b", "m": 4.0, "m_se": 0.2, "m_low": 1.0, "m_high": 6.0, "k": 7.0}
    assert Factor("m", "", 2.0).plant(table)["m"].tolist() == [2.0, 4.0]


def test_factors_are_planted_in_every_metric_with_an_exact_value():
    tested = {metric.name for metric in METRICS if metric.kind != "quantile"}
    assert {fault.metric for fault in FACTORS} == tested - {"score_mean"}  # whose exact value no factor changes
    assert {fault.scaling for fault in FACTORS} == {"", "unscaled", "d_k^1/2"}
    assert {round(fault.factor - 1, 2) for fault in FACTORS} == {0.01, 0.03, 0.1, 0.3}


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name not in HARMLESS])
def test_a_mistake_in_the_code_raises_the_alarm(mistake):
    assert raises_alarm(SWEEPS["small"], 1, mistake)


def test_no_mistake_raises_none():
    assert not run_seeds(SWEEPS["small"], range(1, 2)).alarms.any()


@pytest.mark.parametrize(
    ("name", "seed"), [("narrowest_query_20", 44), ("narrowest_query_20", 637), ("shared_pair_20", 83)]
)
def test_few_long_queries_or_keys_raise_none(name, seed):
    """Draws whose spread is by chance far too small: three seeds out of 1,000 and 300 that raised the alarm.

    A fresh seed fails each with a probability of at most 1 in 1,000, the promised rate of false alarms.
    """
    assert not run_seeds(SWEEPS[name], range(seed, seed + 1)).alarms.any()


def test_a_divisor_that_is_off_divides_the_same_scores(honest):
    wrong = MISTAKES["divisor off by 1%"](SMALL, 1)[MEASURED]
    assert wrong["divisor"].tolist() == pytest.approx((1.01 * honest["divisor"]).tolist())
    assert wrong["score_variance"].tolist() == pytest.approx((honest["score_variance"] / 1.01**2).tolist())
    assert wrong["score_kurtosis"].tolist() == pytest.approx(honest["score_kurtosis"].tolist())
    assert (wrong["entropy"] > honest["entropy"]).all()


@pytest.mark.parametrize(("mistake", "factor"), [("error bars halved", 0.5), ("error bars doubled", 2.0)])
def test_error_bars_change_and_values_stay(honest, mistake, factor):
    wrong = MISTAKES[mistake](SMALL, 1)[MEASURED]
    assert wrong["jacobian_norm"].equals(honest["jacobian_norm"])
    assert wrong["jacobian_norm_median_low"].equals(honest["jacobian_norm_median_low"])
    assert wrong["jacobian_norm_se"].equals(factor * honest["jacobian_norm_se"])
    widths = [table["jacobian_norm_high"] - table["jacobian_norm_low"] for table in (wrong, honest)]
    assert widths[0].tolist() == pytest.approx((factor * widths[1]).tolist())


def test_entropy_in_bits_is_larger_by_the_logarithm_of_2(honest):
    wrong = MISTAKES["entropy in bits"](SMALL, 1)[MEASURED]
    for column in ("entropy", "entropy_se"):
        assert (wrong[column] * np.log(2)).tolist() == pytest.approx(honest[column].tolist())


def test_the_weights_of_one_query_are_the_largest_over_queries():
    """They sum to 1 over two keys, so that their mean over keys is 1/2 in every draw."""
    wrong = MISTAKES["largest weight over the wrong axis"](SWEEPS["pair"], 1)[MEASURED]
    assert wrong["max_weight"].tolist() == pytest.approx([0.5, 0.5])
    assert (wrong["max_weight_se"] < 1e-9).all()


@pytest.mark.parametrize(("n_keys", "n_queries"), [(5, 9), (9, 5), (4096, 200)])
@pytest.mark.parametrize("arithmetic", [DOUBLE, SINGLE])
def test_pairs_of_queries_and_keys_are_correlated_and_no_others(n_keys, n_queries, arithmetic):
    """Also where queries come in two blocks, as the 200. Means are within 6 of their standard errors, 1 / sqrt(n)."""
    usual = SMALL.cells()[0]
    cell = with_pairs(
        dataclasses.replace(usual, n_keys=n_keys, n_queries=n_queries, arithmetic=arithmetic), correlation=0.3
    )
    rng = np.random.default_rng(0)
    for _ in range(2):  # the second draw is a draw of its own
        keys, blocks = cell.draw(20, rng)
        queries = np.concatenate([block for _, block in blocks], axis=1)
        pairs = min(n_keys, n_queries)
        error = (20 * pairs * cell.d_k) ** -0.5
        assert np.mean(queries[:, :pairs] * keys[:, :pairs]) == pytest.approx(0.3, abs=6 * error)
        assert np.mean(queries[:, 1:pairs] * keys[:, : pairs - 1]) == pytest.approx(0, abs=6 * error)
        assert np.mean(queries**2) == pytest.approx(1, abs=6 * error)


@pytest.mark.slow
def test_runs_in_batches_are_those_of_all_seeds():
    seeds = range(5, 16)
    with ThreadPoolExecutor(1) as pool:
        found = simulate(pool, SMALL, seeds, FAULTS[:1], faulty=10)
    whole = run_seeds(SMALL, seeds)
    for name in ("alarms", "p_cells", "judged", "lows", "highs", "flagged", "exact"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    assert len(found.faults) == 10
    np.testing.assert_allclose(found.truth(), whole.truth(), rtol=1e-12)


def test_runs_hold_every_seed_row_and_metric(runs):
    assert runs.lows.shape == runs.highs.shape == runs.flagged.shape == (3, 2, len(METRICS))
    assert (runs.lows <= runs.highs).all()
    assert runs.judged.sum(axis=1).tolist() == [2 * sum(metric.exact is not None for metric in METRICS)] * 3
    assert runs.pooled[0].moments.trials == 90
    of_variance = runs.faults[runs.faults["metric"] == "score_variance"]
    assert of_variance["alarm"].all()
    harmless = runs.faults[runs.faults["metric"] == "entropy"]
    assert harmless["alarm"].tolist() == runs.alarms.tolist()


def test_the_truth_is_exact_where_it_is_known_and_pooled_elsewhere(runs):
    truth, highest = runs.truth()
    np.testing.assert_array_equal(truth, highest)  # no bin of many values
    names = [metric.name for metric in METRICS]
    assert truth[0, names.index("score_variance")] == 64
    assert truth[1, names.index("score_variance")] == 1
    median = truth[0, names.index("jacobian_norm_median")]
    assert median == tabulated("saturation", SMALL.cells(), runs.pooled)[MEASURED]["jacobian_norm_median"][0]


def test_coverage_counts_the_intervals_that_are_not_flagged(runs):
    place = [metric.name for metric in METRICS].index("score_variance")
    lows, highs, flagged = runs.lows.copy(), runs.highs.copy(), np.zeros_like(runs.flagged)
    lows[:, :, place], highs[:, :, place] = [[60.0, 0.9]] * 3, [[70.0, 1.1], [63.0, 1.1], [70.0, 1.1]]
    flagged[2, 0, place] = True
    found = coverage_of(dataclasses.replace(runs, lows=lows, highs=highs, flagged=flagged))
    row = found.set_index("metric").loc["score_variance"]
    assert (row["intervals"], row["covering"], row["flagged"]) == (5, 4, 1)


def test_the_summary_counts_and_tells_failures(runs):
    found = summarise([runs], {("a mistake", "usual_20"): [True, True]}, "usual_20")
    assert found.alarms["config"].tolist() == ["usual_20", "all"]
    assert found.alarms["runs"].tolist() == [3, 3]
    mistake = found.faults[found.faults["fault"] == "a mistake"].iloc[0]
    assert (mistake["runs"], mistake["alarms"], mistake["missed"]) == (2, 2, 0)
    assert found.failures() == []
    missed = summarise([runs], {("a mistake", "usual_20"): [True, False]}, "usual_20").failures()
    assert missed == ["a mistake of , , usual_20: missed 1"]
    assert summarise([runs], {("a mistake", "usual_20"): [False]}, "another").failures() == []
    assert summarise([runs], {(HARMLESS[0], "usual_20"): [False]}, "usual_20").failures() == []
    alarmed = dataclasses.replace(runs, alarms=np.array([True, True, False]))
    (config, whole) = summarise([alarmed], {}, "usual_20").failures()
    assert config.startswith("usual_20: 2 alarms in 3 runs")
    assert whole.startswith("all: 2 alarms in 3 runs")


def test_a_fault_of_many_errors_without_an_alarm_is_missed(runs):
    faults = runs.faults.assign(errors_off=[SURE, 1.0] * 3, alarm=False)
    found = summarise([dataclasses.replace(runs, faults=faults)], {}, "usual_20")
    assert found.faults["missed"].sum() == 3


def test_runs_without_planted_faults_have_a_summary(runs):
    without = dataclasses.replace(runs, faults=pd.DataFrame([]))
    found = summarise([without], {("a mistake", "usual_20"): [True]}, "usual_20")
    assert found.faults["fault"].tolist() == ["a mistake"]
    assert found.failures() == summarise([without], {}, "usual_20").failures() == []
    columns = summarise([runs], {("a mistake", "usual_20"): [True]}, "usual_20").faults.columns
    assert found.faults.columns.tolist() == columns.tolist()


def test_low_coverage_is_a_failure():
    few = pd.DataFrame({"config": ["a", "b"], "metric": "all", "intervals": [99, 100], "flagged": 0, "coverage": 0.5})
    alarms = pd.DataFrame({"config": ["a"], "runs": [1], "alarms": [0], "p_value": [1.0]})
    faults = pd.DataFrame({"missed": [0]})
    assert Calibration(alarms, few, faults).failures() == ["b: 95% intervals cover 50.0% of 100"]


def test_a_config_that_runs_again_replaces_its_rows_alone(runs):
    """Two configs at once, and the second one alone after an older run of both, give the same tables."""
    other = dataclasses.replace(runs, sweep=dataclasses.replace(runs.sweep, name="many_trials"), faults=runs.faults[:0])
    older = dataclasses.replace(other, alarms=~other.alarms, lows=other.lows + 1e9)
    names = ["many_trials", "usual_20"]
    expected, before = (summarise([one, runs], {}, "usual_20") for one in (other, older))
    assert before.alarms["alarms"].tolist() != expected.alarms["alarms"].tolist()
    without_totals = dataclasses.replace(
        before,
        alarms=before.alarms[before.alarms["config"] != "all"],
        coverage=before.coverage[before.coverage["config"] != "all"],
    )
    found = merged(without_totals, summarise([other], {}, "usual_20"), names)
    for table in ("alarms", "coverage", "faults"):
        pd.testing.assert_frame_equal(getattr(found, table), getattr(expected, table), check_dtype=False)
    alone = merged(without_totals, summarise([runs], {}, "usual_20"), ["usual_20"])
    assert set(alone.alarms["config"]) == {"usual_20", "all"}
