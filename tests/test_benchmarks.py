"""Benchmarks: what they write, and what docs/ say of the shipped tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import false_alarms, speed
from experiments.config.loader import load_config
from experiments.tables.verdicts import ALARM, MIN_TESTED_DRAWS
from sdpa.theory import attention_expectations, attention_medians
from tests.prose import prose
from tests.shipped import RESULTS


def test_the_shipped_speed_is_what_the_docs_say():
    """Short rows stay far above the floor."""
    bench = pd.read_csv(RESULTS / "benchmarks" / "speed.csv")
    table = speed.ratios(bench)
    without = table[~table["gradients"]].set_index("d_k")["suite / floor"]
    assert without.median() <= 2.5
    shares = without.drop(4)
    assert shares.max() <= 3.5
    assert without[4] <= 9
    page = prose("experiments/README.md")
    assert (
        f"takes {shares.min():.1f} to {shares.max():.1f} times the floor, and {without[4]:.0f} "
        f"times"
    ) in page
    cost = speed.exponents(pd.read_csv(RESULTS / "benchmarks" / "cost.csv"))
    cost = cost.set_index("grows with")
    assert 1.7 < float(cost.loc["n", "time as"].split("^")[1]) < 2.3
    assert cost.loc["n", "memory as"] == "n^2.00"


def test_the_rivals_measure_what_the_suite_measures():
    cell = speed.Cell(d_k=64, n_keys=64, n_queries=64, scaling=speed.SCALINGS)
    for rival in speed.rivals().values():
        actual = {name: np.array(values) for name, values in rival(cell, 200).items()}
        for i, divisor in enumerate(cell.divisors()):
            exact = attention_expectations(64, 64, divisor)
            medians = attention_medians(64, 64, divisor)._asdict()
            for name in {*vars(exact)} & {*actual}:
                mean, error = actual[name][i].mean(), actual[name][i].std() / 200**0.5
                assert abs(mean - getattr(exact, name)) < 5 * error + 1e-3, name
            for name in ("jacobian_norm", "query_gradient_norm", "key_gradient_norm"):
                root = np.sqrt(actual[f"{name}_square"][i].mean())
                assert root == pytest.approx(getattr(exact, name), rel=0.03), name
            for name, median in medians.items():
                assert actual[f"{name}_0.5"][i] == pytest.approx(median, rel=0.05), name


CORNERS = load_config(false_alarms.CONFIG).sweeps


def test_alarms_are_counted_by_run(monkeypatch):
    flat = replace(next(sweep for sweep in CORNERS if sweep.name == "flat"), trials=25)
    honest = false_alarms.row_of(flat, runs=3)
    assert (honest["runs"], honest["known"], honest["alarms"]) == (3, 34, 0)
    assert 0 < honest["tested"] < 34
    monkeypatch.setattr(false_alarms, "ALARM", 2.0)
    assert false_alarms.row_of(flat, runs=3) == {**honest, "alarms": 3}


def test_docs_state_the_false_alarms():
    """As many as promised, or more by chance."""
    table = pd.read_csv(RESULTS / "benchmarks" / false_alarms.TABLE)
    # The record may also have configs of an experiment that is deleted.
    assert {*table["config"]} >= {sweep.name for sweep in CORNERS}
    runs, alarms = table[["runs", "alarms"]].sum().tolist()
    assert stats.binom.sf(alarms - 1, runs, ALARM) > 1e-3
    low, high = stats.binomtest(alarms, runs).proportion_ci()
    words = prose("docs/methods.md")
    assert (
        f"{len(table)} configs with odd corners raised {alarms} alarms in {runs:,} runs without a "
        f"fault: {alarms / runs:.2%}, with a 95% interval from {low:.2%} to {high:.2%}"
    ) in words
    assert f"no config had more than {table['alarms'].max()} in {false_alarms.RUNS}" in words
    assert f"The rule aims at {ALARM:.2%}" in words
    assert f"below {ALARM} / n" in words
    assert f"{MIN_TESTED_DRAWS} effective draws" in words
