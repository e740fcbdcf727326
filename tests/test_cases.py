"""The configs of docs/cases.md: each is short, loads, and runs with few trials."""

import re
from pathlib import Path

import pytest
import yaml

from experiments.harness.config import load_config
from experiments.harness.local import LocalWorkers
from experiments.harness.tables import read_sweep
from experiments.steps.measuring import measure

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
CASES = dict(re.findall(r"^## (.*?)\n\n```yaml\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL))
MOST_LINES = 12
SHORTER = {"2^8..2^13*2": "2^8..2^9*2", "2^4..2^12*2": "2^4..2^5*2"}  # ranges of long rows


def test_every_case_has_a_config():
    """The last two sections are about what no config asks."""
    assert list(CASES) == re.findall(r"^## (.*)", TEXT, re.MULTILINE)[:-2]
    assert CASES


@pytest.mark.parametrize("title", CASES)
def test_a_config_answers_in_few_lines(title, tmp_path):
    assert len(CASES[title].splitlines()) <= MOST_LINES
    whole, small = tmp_path / "whole.yaml", tmp_path / "small.yaml"
    whole.write_text(CASES[title])
    assert load_config(whole).sweeps
    blocks = yaml.safe_load(CASES[title])
    for sweep in blocks["sweeps"].values():
        fewer = {"trials": 2, "n_keys": SHORTER.get(str(sweep["n_keys"]), sweep["n_keys"])}
        sweep.update(fewer | ({"steps": 20} if sweep["experiment"] == "training" else {}))
        for key in ("precision", "max_trials"):
            sweep.pop(key, None)
    small.write_text(yaml.safe_dump(blocks))
    config = load_config(small)
    measure(config, config.sweeps, tmp_path / "results", LocalWorkers(1))
    for sweep in config.sweeps:
        table = read_sweep(tmp_path / "results", config, sweep)["measured"]
        known = {"rounding": "tiny_weights_exact", "training": "final_loss"}
        assert table[known.get(sweep.experiment.name, "score_variance_exact")].notna().all()
