"""statements.csv is made again where a table, a claim or the file itself changed, and only for the shipped config."""

import shutil
from dataclasses import replace

import pandas as pd
import pytest

from experiments.claims import table as claims_table
from experiments.claims.table import table_path
from experiments.folders import STATEMENTS
from experiments.steps import statements as step
from tests.shipped import CONFIG, RESULTS

MADE = "id,note\nqa-3,so\n"


@pytest.mark.skipif(not step.is_shipped(CONFIG), reason="results/ are of another config")
def test_the_table_is_made_again_after_a_change_but_not_under_another_config(tmp_path, capsys, monkeypatch):
    """A sweep that statements read is edited; editing any other changes nothing."""
    others = ("figures", "examples", "benchmarks", "diagnosis", "config.full", "*.html", ".*", "long-format.csv")
    shutil.copytree(RESULTS, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*others))
    monkeypatch.setattr(claims_table, "compute_table", lambda _: pd.DataFrame({"id": ["qa-3"], "note": ["so"]}))
    path = table_path(tmp_path)

    def said(config=CONFIG) -> str:
        step.update_statements(config, tmp_path)
        return capsys.readouterr().out

    assert "wrote" in said()
    assert path.read_text() == MADE
    assert said().endswith("statements.csv: up to date\n")
    for sidecar in (tmp_path / "phase.json", tmp_path / STATEMENTS / "rates.json"):
        sidecar.write_text(sidecar.read_text() + "\n")
        assert "statements.csv: unchanged" in said()
    path.write_text("id,note\n")
    for edited in (replace(CONFIG, seed=1), replace(CONFIG, sweeps=CONFIG.sweeps[2:])):
        assert "kept" in said(edited)
        assert path.read_text() == "id,note\n"
    others = tuple(sweep for sweep in CONFIG.sweeps if sweep.name != "length")
    assert "wrote" in said(replace(CONFIG, sweeps=others))
    assert path.read_text() == MADE
