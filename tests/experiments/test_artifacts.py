"""Artifacts: up to date until a file, an input, a parameter, the code or a library changes."""

import dataclasses

import pytest

from experiments.harness import artifacts
from experiments.harness.artifacts import Artifact, Ledger, is_same


@pytest.fixture
def made(tmp_path):
    """An artifact that was made of one input, in its ledger."""
    files = {name: tmp_path / name for name in ("out.csv", "out.txt", "in.csv")}
    for name, path in files.items():
        path.write_text(name)
    artifact = Artifact(
        (files["out.csv"], files["out.txt"]), ("sdpa.scaling",), ("numpy",), (files["in.csv"],), {"seed": 0}
    )
    ledger = Ledger(tmp_path)
    assert not ledger.is_current(artifact)
    assert ledger.is_untouched(artifact) is None
    ledger.note(artifact)
    return ledger, artifact


def test_an_artifact_is_current_as_it_was_made(made):
    ledger, artifact = made
    assert ledger.is_current(artifact)
    assert ledger.is_untouched(artifact)


@pytest.mark.parametrize("name", ["out.csv", "out.txt", "in.csv"])
@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_changed_or_missing_file_makes_it_stale(made, name, damage):
    ledger, artifact = made
    path = ledger.folder / name
    path.write_text("another") if damage == "changed" else path.unlink()
    assert not ledger.is_current(artifact)
    assert ledger.is_untouched(artifact) is name.startswith("in")


@pytest.mark.parametrize(
    "change", [{"code": ("sdpa.metrics",)}, {"libraries": ("numpy", "scipy")}, {"inputs": ()}, {"parameters": None}]
)
def test_it_is_stale_when_something_else_decides_it(made, change):
    ledger, artifact = made
    assert not ledger.is_current(dataclasses.replace(artifact, **change))


def test_new_code_or_another_library_makes_it_stale(made, monkeypatch):
    ledger, artifact = made
    monkeypatch.setattr(artifacts, "source_fingerprint", lambda *_: "new")
    assert not ledger.is_current(artifact)
    monkeypatch.undo()
    monkeypatch.setattr(artifacts, "versions", lambda *_: {"numpy": "0"})
    assert not ledger.is_current(artifact)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"out.csv": 3}'])
def test_a_damaged_ledger_makes_everything_stale(made, content):
    ledger, artifact = made
    (ledger.folder / ".made.json").write_text(content)
    assert not ledger.is_current(artifact)
    ledger.note(artifact)
    assert ledger.is_current(artifact)


def test_artifacts_of_one_ledger_do_not_meet(made):
    ledger, artifact = made
    (ledger.folder / "below").mkdir()
    same_name = Artifact((ledger.folder / "below" / "out.csv",), ("sdpa.scaling",), ("numpy",))
    same_name.files[0].write_text("x")
    ledger.note(same_name)
    assert ledger.is_current(artifact)
    assert ledger.is_current(same_name)


def test_what_was_recorded_beside_does_not_count():
    assert is_same({"a": 1, "sha256": "x"}, {"a": 1})
    assert not is_same({"a": 1}, {"a": 1, "b": None, "c": 2})
