"""statements.csv is made again where a table, the source of a statement or the file itself changed, and only then."""

import json
import shutil

import pandas as pd
import pytest

from experiments.folders import STATEMENTS
from experiments.harness.local import LocalWorkers
from experiments.statements import compute
from experiments.statements.declare import all_statements
from experiments.statements.table import read_statements, table_path
from experiments.steps import statements as step
from tests.shipped import RESULTS


@pytest.fixture
def said(tmp_path, capsys, monkeypatch):
    """What an update of a copy of the shipped results says, with a table of one statement that is quick to make."""
    shutil.copytree(RESULTS / STATEMENTS, tmp_path / STATEMENTS)
    table_path(tmp_path).unlink()
    monkeypatch.setattr(step, "is_current", lambda *_: True)
    monkeypatch.setattr(compute, "compute_table", lambda _: pd.DataFrame({"id": ["qa-3"], "note": ["so"]}))

    def update() -> str:
        step.update_statements(tmp_path, LocalWorkers(1))
        return capsys.readouterr().out

    return update


def test_the_table_is_made_once(said, tmp_path):
    assert "statements.csv: new" in said()
    assert read_statements(tmp_path)["note"].tolist() == ["so"]
    assert said().endswith("statements.csv: up to date\n")


def test_the_table_is_made_again_after_it_was_altered(said, tmp_path):
    said()
    whole = table_path(tmp_path).read_bytes()
    table_path(tmp_path).write_bytes(whole[:-2])
    assert "wrote" in said()
    assert table_path(tmp_path).read_bytes() == whole


def test_the_table_is_made_again_after_a_measurement(said, tmp_path):
    said()
    sidecar = tmp_path / STATEMENTS / "plane.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text())))
    assert "statements.csv: unchanged" in said()


def test_the_table_is_made_again_after_a_change_in_any_module_with_statements(said, monkeypatch):
    said()
    roots: list[str] = []

    def changed(*names: str) -> str:
        roots.extend(names)
        return "another"

    monkeypatch.setattr("experiments.harness.artifacts.source_fingerprint", changed)
    monkeypatch.setattr(step, "measured_tables", lambda _: {})
    assert "statements.csv: unchanged" in said()
    assert "up to date" in said()
    assert set(roots) >= {one.function.__module__ for one in all_statements() if one.rule}
