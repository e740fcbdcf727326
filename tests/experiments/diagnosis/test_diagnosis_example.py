"""The shipped diagnosis: the suite's own layer before and after training, made once and the same every time."""

import io
from pathlib import Path

import numpy as np
import pytest

from experiments.diagnosis import example
from experiments.diagnosis.table import read_diagnosis
from experiments.folders import diagnosis_path
from experiments.harness.grid import axis_values
from experiments.steps import diagnosis as step
from experiments.steps.reporter import Reporter
from tests.command_line import call
from tests.shipped import CONFIG, shipped_only


@shipped_only
def test_the_cell_is_one_of_the_shipped_sweep():
    sweep = next(each for each in CONFIG.sweeps if each.name == "training")
    assert axis_values(example.CELL) in [axis_values(cell) for cell in sweep.cells()]
    assert sweep.experiment.name == "training"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder with the shipped diagnosis, but of two runs."""
    folder = tmp_path_factory.mktemp("root") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example, "RUNS", 2)
        step.write_diagnosis(folder, Reporter(say=lambda _: None))
    return folder


def test_training_makes_heads_sharper_than_gaussian_rows_of_their_variance(results):
    table = read_diagnosis(diagnosis_path(results, "diagnosis.csv"))
    before, after = (table[table["layer"] == layer] for layer in (0, 1))
    assert len(before) == len(after) == 2
    assert (before["entropy_share"] > 0.8).all()
    assert (after["max_weight"] > 0.9).all()
    assert (after["entropy_share"] + 0.2 < after["entropy_share_exact"]).all()
    assert (after["alignment_effect"] > 4).all()


def test_the_token_that_a_query_asks_for_stands_in_any_place(results):
    """Else the first key would have all the weight, as if it were an attention sink.

    chi^2 with 15 degrees of freedom exceeds 37.7 with probability 0.001.
    """
    arrays = np.load(io.BytesIO(diagnosis_path(results, "qk.npz").read_bytes()))
    scores = np.einsum("slhqd,slhkd->slhqk", arrays["q"], arrays["k"])[:, 1, :, 0]
    places = np.bincount(scores.argmax(axis=-1).ravel(), minlength=16)
    expected = scores.shape[0] * scores.shape[1] / 16
    assert ((places - expected) ** 2 / expected).sum() < 37.7


def test_without_files_the_command_diagnoses_it_again_only_if_a_file_is_altered(results, monkeypatch):
    """It says the same, and the same arrays from a file of one's own give the same bytes."""
    monkeypatch.chdir(results.parent)
    Path("config.yaml").touch()  # as in the repository root
    path = diagnosis_path(Path("results"), "diagnosis.csv")
    content, arrays = path.read_bytes(), path.with_name("qk.npz").read_bytes()
    monkeypatch.setattr(example, "npz_bytes", lambda: arrays)
    ran = call("diagnose")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "up to date" in ran.stdout
    assert "Layer 0: before training. Layer 1: after it." in ran.stdout
    path.unlink()
    png = path.with_name("heads.png").read_bytes()
    path.with_name("heads.png").write_bytes(b"altered")
    assert f"wrote {path}: new" in call("diagnose").stdout
    assert path.read_bytes() == content
    assert call("diagnose", path.with_name("qk.npz"), "--out", "own").returncode == 0
    assert Path("own/diagnosis.csv").read_bytes() == content
    assert Path("own/heads.png").read_bytes() == path.with_name("heads.png").read_bytes() == png
