"""Benchmarks and calibration: hand-made rows, planted faults, and what docs/ say of the shipped
tables.
"""

import dataclasses
from functools import partial

import numpy as np
import pandas as pd
import pytest

from benchmarks import calibration, medians, speed
from benchmarks.calibration import HARMLESS, MISTAKES
from experiments.config.loader import load_config
from experiments.measuring.experiment import MEASURED
from experiments.measuring.row_metrics import METRICS
from tests.shipped import RESULTS, ROOT

SWEEPS = {sweep.name: sweep for sweep in load_config(calibration.CONFIG).sweeps}
SMALL = dataclasses.replace(SWEEPS["usual_20"], trials=30)
NAMES = [metric.name for metric in METRICS]


@pytest.mark.slow
def test_a_benchmark_writes_its_table_and_prints_a_summary(tmp_path, monkeypatch, capsys):
    """Without clocks: each task runs once and takes a second."""
    monkeypatch.setattr(
        speed, "interleaved", lambda tasks: {name: [task(), 1.0][1] for name, task in tasks.items()}
    )
    monkeypatch.setattr(speed, "CELLS", ((4, 8, 5), (8, 4, 4)))
    monkeypatch.setattr(speed, "cost_of_attention", partial(speed.cost_of_attention, 512))
    for what in ("speed", "cost"):
        speed.main(what, tmp_path / "here")
    found = pd.read_csv(tmp_path / "here" / "speed.csv")
    assert set(found) == set(pd.read_csv(RESULTS / "benchmarks" / "speed.csv"))
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert any(line[:4] == ["4", "8", "5", "False"] for line in said)
    cost = pd.read_csv(tmp_path / "here" / "cost.csv").query("swept == 'n'")
    # a few arrays of n^2 doubles
    assert cost["peak_bytes"].between(8 * cost["n"] ** 2, 40 * cost["n"] ** 2).all()


def test_the_shipped_speed_is_what_the_docs_say():
    """Short rows stay far above the floor."""
    bench = pd.read_csv(RESULTS / "benchmarks" / "speed.csv")
    table = speed.over_floor(bench)
    without = table[~table["gradients"]].set_index("d_k")["suite / floor"]
    assert without.median() <= 2.5
    assert without.drop(4).max() <= 3.5
    assert without[4] <= 9
    shares = without.drop(4)
    page = " ".join((ROOT / "experiments" / "README.md").read_text().split())
    assert (
        f"takes {shares.min():.1f} to {shares.max():.1f} times the floor, and {without[4]:.0f} "
        f"times"
    ) in page
    cost = speed.exponents(pd.read_csv(RESULTS / "benchmarks" / "cost.csv"))
    cost = cost.set_index("grows with")
    assert 1.7 < float(cost.loc["n", "time as"].split("^")[1]) < 2.3
    assert cost.loc["n", "memory as"] == "n^2.00"


def test_an_unknown_config_is_refused_before_any_run(tmp_path):
    with pytest.raises(SystemExit, match=r"names of configs in calibration.yaml, got pair,flat$"):
        calibration.calibrate(tmp_path, ["pair", "pair,flat"])


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name not in HARMLESS])
def test_a_mistake_in_the_code_raises_the_alarm(mistake):
    assert calibration.with_mistake(SWEEPS["small"], 1, mistake).alarm


def test_a_mistake_changes_what_it_says():
    """The weights of one query over two keys sum to 1, so that the mean of the largest over queries
    is 1/2.
    """
    honest = calibration.measure_sweep(SMALL, 1)[MEASURED]
    found = {name: mistaken(SMALL, 1)[MEASURED] for name, mistaken in MISTAKES.items()}
    assert np.allclose(
        found["divisor off by 1%"]["score_variance"], honest["score_variance"] / 1.01**2
    )
    assert found["error bars halved"]["entropy_se"].equals(honest["entropy_se"] / 2)
    assert np.allclose(found["entropy in bits"]["entropy"], honest["entropy"] / np.log(2))
    over_queries = MISTAKES["largest weight over the wrong axis"](SWEEPS["pair"], 1)[MEASURED]
    assert np.allclose(over_queries["max_weight"], 0.5)


def test_totals_and_missed_faults_are_those_of_a_table_by_hand():
    """An honest run raises the alarm once in 1,000."""
    alarms, coverage = calibration.with_totals(
        pd.DataFrame({"config": ["a", "b"], "runs": [1, 2], "alarms": [1, 0]}),
        pd.DataFrame(
            [("a", "m", 10, 8, 1), ("a", "none", 0, 0, 7), ("b", "m", 30, 28, 2)],
            columns=["config", "metric", "intervals", "covering", "flagged"],
        ),
    )
    assert alarms["config"].tolist() == ["a", "b", "all"]
    assert alarms["p_value"].tolist() == pytest.approx([1e-3, 1, 1 - 0.999**3], rel=1e-9)
    assert coverage["config"].tolist() == ["a", "a", "b", "all", "all"]
    assert coverage["intervals"].tolist() == [10, 0, 30, 40, 0]
    assert coverage["flagged"].tolist() == [1, 7, 2, 3, 7]
    shares = [0.8, np.nan, 14 / 15, 0.9, np.nan]
    assert coverage["coverage"].tolist() == pytest.approx(shares, nan_ok=True)

    factor, mistake = ("10%", "a", 20, "m", "all"), ("bits", "a", 20, "", "", np.nan, True)
    planted = [
        (*factor, 2.0, False, True),
        (*factor, 9.0, True, False),
        (*factor, 7.0, True, True),
        (*factor, 8.0, True, False),
        *((*mistake, alarm) for alarm in (False, True, True)),
    ]
    rows = [calibration.Planted(*row) for row in planted]
    found = calibration.faults_of(rows).set_index("fault")
    counted = found[["runs", "alarms", "missed"]].to_numpy().tolist()
    assert counted == [[4, 2, 2], [3, 2, 1]]
    for name, expected in (("errors_off", 7.5), ("sure", 3)):
        assert found[name].tolist() == pytest.approx([expected, np.nan], nan_ok=True)


def test_the_shipped_medians_keep_their_bounds():
    assert medians.failures(pd.read_csv(RESULTS / "benchmarks" / "medians.csv")) == []


def test_docs_state_how_far_coverage_falls():
    shipped = pd.read_csv(RESULTS / "benchmarks" / "calibration-coverage.csv")
    enough = shipped.query("metric != 'all' and config != 'all' and intervals >= 100")
    rows = enough[~enough["config"].str.contains("formats|eight_bits")]
    least = rows.loc[rows["coverage"].idxmin()]
    flat = rows[rows["config"].str.startswith("flat") & rows["metric"].str.endswith("_median")]
    words = " ".join((ROOT / "docs" / "methods.md").read_text("utf-8").split())
    falls = f"falls to {least['coverage']:.0%} (`{least['metric']}` in `{least['config']}`)"
    assert falls in words
    low, high = flat["coverage"].agg(["min", "max"])
    assert f"medians of flat rows have {low:.0%} to {high:.0%}." in words


def test_docs_state_the_most_that_medians_are_off():
    shipped = pd.read_csv(RESULTS / "benchmarks" / "medians.csv")
    sharp = shipped[shipped["error"] < 5e-4]
    most = sharp["off"].abs().groupby(sharp["norm"]).max()
    words = " ".join((ROOT / "docs" / "methods.md").read_text("utf-8").split())
    assert f"off by at most {most['jacobian_norm']:.2%} (|J|)" in words
    assert f"and {most['query_gradient_norm']:.2%} (|dL/dq|)" in words
