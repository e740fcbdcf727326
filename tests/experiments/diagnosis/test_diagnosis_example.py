"""The shipped diagnosis: the suite's own layer before and after training, made once and the same every time."""

import io
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.diagnosis import example
from experiments.diagnosis.findings import findings
from experiments.diagnosis.table import read_diagnosis
from experiments.folders import diagnosis_path
from experiments.harness.grid import axis_values, chunks
from experiments.harness.seeds import generator
from experiments.page.diagnosed import before_and_after
from experiments.steps import diagnosis as step
from experiments.steps.reporter import Reporter
from sdpa.training import initial_weights
from tests.shipped import CONFIG, shipped_only

NAMES = ("diagnosis.csv", "qk.npz", "heads.png", "heads.svg", "heads.txt")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A results folder with the shipped diagnosis."""
    folder = tmp_path_factory.mktemp("results")
    step.write_diagnosis(folder, Reporter(say=lambda _: None))
    step.draw_diagnosis(folder, Reporter(say=lambda _: None))
    return folder


@pytest.fixture
def own(results, tmp_path) -> Path:
    """A copy for a test that changes it."""
    return Path(shutil.copytree(results, tmp_path / "own"))


@pytest.fixture(scope="module")
def table(results) -> pd.DataFrame:
    return read_diagnosis(diagnosis_path(results, "diagnosis.csv"))


def made(results: Path) -> list[str]:
    """The first word of what both steps say."""
    said: list[str] = []
    report = Reporter(verbose=True, say=said.append)
    step.write_diagnosis(results, report)
    step.draw_diagnosis(results, report)
    return [line.split(": ")[-1] if line.endswith("up to date") else line.split()[0] for line in said]


@shipped_only
def test_the_cell_is_one_of_the_shipped_sweep():
    sweep = next(each for each in CONFIG.sweeps if each.name == "training")
    assert axis_values(example.CELL) in [axis_values(cell) for cell in sweep.cells()]
    assert sweep.experiment == "training"


def test_runs_start_from_the_weights_of_the_sweep():
    q, k = example.trained_heads()
    assert q.shape == (example.SEQUENCES, 2, example.RUNS, 1, 64)
    assert k.shape == (example.SEQUENCES, 2, example.RUNS, 16, 64)
    assert (q.dtype, k.dtype) == (np.float32, np.float32)
    for run, chunk in enumerate(chunks("training", example.CELL, 3)):
        start = initial_weights(generator(0, chunk), 64, "unit")
        # A query has 16 features, so that those of a run span the same space as the rows of its W_Q.
        rank = np.linalg.matrix_rank(np.vstack([q[:, 0, run, 0], start.W_Q[:16]]), tol=1e-3)
        assert rank == 16
        assert np.linalg.matrix_rank(np.vstack([q[:, 0, (run + 1) % 3, 0], start.W_Q[:16]]), tol=1e-3) == 32


def test_training_makes_heads_sharper_than_gaussian_rows_of_their_variance(table):
    before, after = (table[table["layer"] == layer] for layer in (0, 1))
    assert len(before) == len(after) == example.RUNS
    assert (before["entropy_share"] > 0.8).all()
    assert (after["max_weight"] > 0.9).all()
    assert (after["entropy_share"] + 0.2 < after["entropy_share_exact"]).all()
    assert (after["alignment_effect"] > 4).all()
    sharp, variance, _ = findings(table)
    assert sharp.startswith("8 of 16 heads have a weight above 0.99 in most rows; the sharpest, layer 1, head ")
    assert "Gaussian rows of the same variance would be less sharp than 8 of 16 heads" in sharp
    assert "8 of 16 heads have up to " in variance
    assert "mostly due to alignment" in variance


def test_the_token_that_a_query_asks_for_stands_in_any_place(results):
    """Else the first key would have all the weight, as if it were an attention sink."""
    arrays = np.load(io.BytesIO(diagnosis_path(results, "qk.npz").read_bytes()))
    scores = np.einsum("slhqd,slhkd->slhqk", arrays["q"], arrays["k"])[:, 1, :, 0]
    places = np.bincount(scores.argmax(axis=-1).ravel(), minlength=16)
    assert places.min() > 0
    expected = scores.shape[0] * scores.shape[1] / 16
    assert ((places - expected) ** 2 / expected).sum() < 37.7  # chi^2 with 15 degrees of freedom, p = 0.001


def test_it_is_made_once_and_again_if_a_file_is_missing_or_altered(own):
    assert made(own) == ["up to date", "kept"]
    content = {name: diagnosis_path(own, name).read_bytes() for name in NAMES}
    for name, said in {
        "qk.npz": ["kept", "kept"],
        "diagnosis.csv": ["wrote", "kept"],
        "heads.txt": ["up to date", "drew"],
    }.items():
        diagnosis_path(own, name).unlink()
        assert made(own) == said
    diagnosis_path(own, "heads.png").write_bytes(b"altered")
    assert made(own) == ["up to date", "drew"]
    assert {name: diagnosis_path(own, name).read_bytes() for name in NAMES} == content


def test_it_is_the_same_every_time(results, tmp_path):
    made(tmp_path)
    for name in NAMES:
        assert diagnosis_path(tmp_path, name).read_bytes() == diagnosis_path(results, name).read_bytes(), name


def test_without_a_table_nothing_is_drawn(tmp_path):
    said: list[str] = []
    step.draw_diagnosis(tmp_path, said.append)
    assert said == []
    assert not diagnosis_path(tmp_path, "heads.png").exists()


def test_the_sentence_of_the_page_has_the_medians_of_the_table(results, table):
    said = before_and_after(diagnosis_path(results, "diagnosis.csv"))
    share, exact, alignment = (
        [float(np.median(table.loc[table["layer"] == layer, name])) for layer in (0, 1)]
        for name in ("entropy_share", "entropy_share_exact", "alignment_effect")
    )
    assert f"entropy share from {share[0]:.2f} to {share[1]:.2f} " in said
    assert f"(Gaussian rows of the same variance: from {exact[0]:.2f} to {exact[1]:.2f})" in said
    assert f"alignment of q and k goes from {alignment[0]:.1f} to {alignment[1]:.1f}." in said
