"""The pretrained model: its texts, its heads from known queries and keys, and what the shipped tables
show.

Nothing here needs the weights.
"""

import json
import shutil
from math import log, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import special, stats

from experiments.config.errors import TableError
from experiments.config.paths import SHIPPED_RESULTS
from experiments.studies.smollm2 import model_heads
from experiments.studies.smollm2.command import draw_model
from experiments.studies.smollm2.figures import MODEL_FIGURES, read_model
from experiments.studies.smollm2.model import checksums, model_path, windows
from experiments.tables.reporter import Reporter
from sdpa import diagnose_scores, softmax
from sdpa.theory.gaussian_rows import gaussian_rows
from tests.prose import prose
from tests.suite_process import ROOT


def letters(text):
    return SimpleNamespace(ids=[ord(letter) % 100 for letter in text])


def test_sequences_have_the_tokens_of_the_text_and_shuffled_ones_in_another_order():
    prose, shuffled = (windows(name, letters, 10, 16) for name in ("prose", "shuffled"))
    assert prose.shape == (16, 10)
    assert prose[0].tolist() == letters("Scaled dot").ids
    assert (np.sort(prose, axis=None) == np.sort(shuffled, axis=None)).all()
    assert (prose != shuffled).any()


def described(scores):
    """Spread and entropy share of causal rows of two keys and more, and that of Gaussian rows of
    this spread.
    """
    actual = diagnose_scores(scores, "causal")
    variance, share = (actual[name].value.item() for name in ("row_variance", "entropy_share"))
    lengths = np.arange(2, scores.shape[-1] + 1)
    sigma = np.full(len(lengths), sqrt(variance / (1 - 1 / lengths).mean()))
    law = gaussian_rows(sigma, lengths)[:, 1] / np.log(lengths)
    return sqrt(variance), share, law.mean()


def columns(q, k):
    """Columns of one head: (sequences, n, d_k) each."""
    scores = (q.astype(np.float64) @ k.mT / sqrt(q.shape[-1]))[:, None]
    spread, share, law = described(scores)
    rest_spread, rest_share, rest_law = described(scores[..., 1:, 1:])
    return {
        "spread": spread,
        "entropy_share": share,
        "entropy_share_law": law,
        "rest_distance": rest_share - rest_law,
        "first_key_variance": 1 - (rest_spread / spread) ** 2,
        "frozen": float(spread > sqrt(2 * log(scores.shape[-1]))),
    }


@pytest.fixture
def _without_controls(monkeypatch):
    """Laws that take seconds, and have tests."""
    monkeypatch.setattr(model_heads, "CONTROLS", {})
    quick = {name: of for name, of in model_heads.QUANTITIES.items() if "distance_" not in name}
    monkeypatch.setattr(model_heads, "QUANTITIES", quick)


@pytest.mark.usefixtures("_without_controls")
def test_every_column_is_that_of_a_diagnosis():
    """Two heads, of which one is frozen, in the first and the last group of sequences."""
    q, k = default_rng(2).standard_normal((2, 16, 1, 2, 8, 32), dtype=np.float32)
    q *= np.array([0.2, 4], np.float32)[:, None, None]
    k[..., 0, 0] += 15
    actual = model_heads.heads_of_sequences(q, k)
    for row in actual[actual["group"].isin([0, 7])].to_dict("records"):
        group = slice(2 * row["group"], 2 * row["group"] + 2)
        expected = columns(q[group, 0, row["head"]], k[group, 0, row["head"]])
        assert expected["frozen"] == row["head"]
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=2e-5)


@pytest.mark.usefixtures("_without_controls")
def test_the_tables_have_means_over_heads_of_each_case():
    """A network whose queries are the tokens, and 9 times smaller before training."""
    rng = default_rng(2)
    q, k = rng.standard_normal((2, 8, 2, 3, 6, 4), dtype=np.float32)

    def network(scale):
        return SimpleNamespace(
            tokens=lambda text, _: scale * (1 + (text == "code")),
            at_start=lambda: network(scale / 9),
            queries_and_keys=lambda tokens: (q * tokens * scale, k),
        )

    of_heads, of_layers = model_heads.by_head_and_layer(network(1.0))
    of_heads = of_heads.set_index(["weights", "text", "layer", "head"]).sort_index()
    used = of_heads.loc["trained", "prose"]
    for case, factor in ((("trained", "code"), 2), (("initial", "prose"), 1 / 9)):
        assert of_heads.loc[case]["spread"].to_numpy() == pytest.approx(factor * used["spread"])
    of_layers = of_layers.set_index(["weights", "text"]).loc["trained", "prose"]
    assert of_layers["spread"].tolist() == pytest.approx(used["spread"].groupby("layer").mean())


@pytest.mark.parametrize("name, sigma", [("logistic", 8.0), ("uniform", 0.2), ("laplace", 8.0)])
def test_laws_are_those_of_other_draws(name, sigma):
    """Rows by inversion of SciPy's distributions, within 5 standard errors of both simulations."""
    uniform = default_rng([*name.encode()]).random((4096, 16))
    law = getattr(stats, name)
    weights = softmax(sigma * law.ppf(uniform) / law.std())
    share = special.entr(weights).sum(axis=1) / log(16)
    spread = sigma * sqrt(1 - 1 / 16)
    actual = model_heads.control(name, [spread], (16,))
    assert actual[0] == pytest.approx(share.mean(), abs=5 * share.std() / 45)


def test_the_page_has_the_findings_of_the_tables():
    """Its other numbers have their sources in docs/numbers.yaml."""
    page, shipped = prose("docs/training.md"), read_model(ROOT / SHIPPED_RESULTS)
    for _, finding in MODEL_FIGURES.values():
        assert finding.sentence.format(**finding.numbers(shipped)) in page


def test_figures_come_from_the_shipped_tables_and_an_altered_one_is_refused(tmp_path):
    shutil.copytree(model_path(ROOT / SHIPPED_RESULTS, ""), model_path(tmp_path, ""))
    report = Reporter(say=lambda _: None)
    drawn = [model_path(tmp_path, f"{name}.png") for name in MODEL_FIGURES]
    for path in drawn:
        path.unlink()
    draw_model(tmp_path, report)
    assert all(path.exists() for path in drawn)
    path = model_path(tmp_path, "by-layer.csv")
    path.write_text(path.read_text().replace("0.1", "0.2", 1))
    with pytest.raises(
        TableError, match=r"altered or missing: \S*by-layer.csv; make model writes them again"
    ):
        draw_model(tmp_path, report)


def test_the_sidecar_names_the_texts_that_are_here():
    sidecar = json.loads(model_path(ROOT / SHIPPED_RESULTS, "model.json").read_bytes())
    assert checksums().items() <= sidecar["sha256"].items()
