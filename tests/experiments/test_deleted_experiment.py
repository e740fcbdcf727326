"""An experiment is deleted by deleting its folder and its sweeps."""

import shutil
import sys

import pytest

from experiments.kinds import experiment_names
from tests.suite_process import ROOT, captured

pytestmark = pytest.mark.slow  # each is a run of its own

OTHER = """\
seed: 0
sweeps:
  mine:
    experiment: EXPERIMENT
    d_k: 4
    n_keys: 5
    n_queries: 3
    scaling: d_k^1/2
    trials: 30
"""


@pytest.mark.parametrize("deleted", experiment_names())
def test_the_others_run_without_it_and_what_misses_it_is_a_line(deleted, tmp_path):
    for package in ("sdpa", "experiments"):
        shutil.copytree(ROOT / package, tmp_path / package)
    shutil.rmtree(tmp_path / "experiments" / "kinds" / deleted)
    command = (sys.executable, "-m", "experiments", "all", "--config", "mine.yaml", "--jobs", "1")

    def run_all(experiment):
        (tmp_path / "mine.yaml").write_text(OTHER.replace("EXPERIMENT", experiment))
        return captured(*command, cwd=tmp_path)

    refused = run_all(deleted)
    assert refused.returncode == 2
    assert f"mine.yaml:4:17: sweeps.mine.experiment: got {deleted}, expected" in refused.stderr
    other = "saturation" if deleted == "rows" else "rows"
    ran = run_all(other)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "results" / "mine" / "index.html").exists()
