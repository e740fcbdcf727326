"""The Python entry gives what the command line writes, measures nothing twice, and refuses what
does not exist.
"""

import numpy as np
import pandas as pd
import pytest

from experiments import run
from experiments.config.errors import UsageError
from experiments.config.loader import ConfigError, load_config
from experiments.tables.all_results import AllResults
from tests.suite_process import ROOT

SWEEP = {
    "experiment": "saturation",
    "d_k": np.array([4, 64]),
    "n_keys": np.int64(8),
    "n_queries": range(5, 6),
    "scaling": ["unscaled", "d_k^1/2"],
    "trials": 20,
}
CONFIG = {"seed": 0, "sweeps": {"wide": SWEEP}}


def test_tables_are_those_of_the_command_line_and_a_figure_is_drawn(suite, tmp_path):
    results = run(CONFIG, tmp_path / "mine")
    suite("run", text=(tmp_path / "mine" / "sweeps.yaml").read_text())
    written = AllResults(load_config(suite.config), suite.folder)["wide"].measured
    pd.testing.assert_frame_equal(results["wide"].measured, written)
    assert results["wide"].measured["score_variance_exact"].tolist() == [4, 1, 64, 1]
    assert len(results.draw("saturation").axes) == 3
    with pytest.raises(UsageError, match=r"figure: expected one of .*, got 'histogram'"):
        results.draw("histogram")
    with pytest.raises(UsageError, match=r"sweep of the experiment language \(none\), got none"):
        results.draw("losses")


@pytest.mark.usefixtures("in_this_process")
def test_results_of_a_mapping_stay_when_another_takes_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.commands.entry._MAPPINGS_FOLDER", tmp_path / "python")
    first = run(CONFIG)
    other = run({"seed": 0, "sweeps": {"wide": SWEEP | {"d_k": 16}, "more": SWEEP}})
    assert first.folder == other.folder
    assert other["wide"].measured["d_k"].tolist() == [16, 16]
    assert [*first] == ["wide"]
    assert first["wide"].measured["d_k"].tolist() == [4, 4, 64, 64]
    with pytest.raises(UsageError, match=r"python\.yaml: results/python has other results"):
        run("python.yaml")


@pytest.mark.usefixtures("in_this_process")
def test_a_missed_precision_is_a_warning(tmp_path):
    precise = {name: value for name, value in SWEEP.items() if name != "trials"}
    precise |= {"precision": 1e-4, "max_trials": 100}
    with pytest.warns(UserWarning, match="wide: .*precision"):
        run({"seed": 0, "sweeps": {"wide": precise}}, tmp_path)


def test_a_rule_without_a_divisor_is_refused(tmp_path):
    sweep = {"experiment": "language", "d_k": 4, "n_keys": 8, "learning_rate": 0.01, "trials": 2}
    sweep |= {"rate_divisor": "ln(d_k-4)", "scaling": "unscaled"}
    with pytest.raises(ConfigError, match=r"sweeps\.yaml:\d+:\d+: .*ln\(d_k-4\)"):
        run({"seed": 0, "sweeps": {"narrow": sweep}}, tmp_path)


def test_a_wrong_config_is_refused_with_its_place(tmp_path):
    with pytest.raises(
        ConfigError, match=r"sweeps\.yaml:3:\d+: sweeps\.wide\.experiment: missing key"
    ):
        run({"seed": 0, "sweeps": {"wide": {"d_k": 4}}}, tmp_path)


def test_neither_a_path_nor_a_mapping_is_refused():
    for message, given in {
        "the path of a file or a mapping, got 3": [3],
        r"README\.md: expected a folder, got a file": [CONFIG, ROOT / "README.md"],
        "expected the keys seed and sweeps, got d_k": [{"d_k": 4}],
    }.items():
        with pytest.raises(UsageError, match=message):
            run(*given)
