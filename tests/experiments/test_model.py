"""The heads of a pretrained BERT: its forward pass, its tables from known queries and keys, and
what they show.

Nothing here needs the weights; `make test-models` compares the forward pass with Transformers.
"""

import json
import math
import re
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from experiments.errors import TableError
from experiments.models import heads, minilm
from experiments.models.command import write_models
from experiments.models.declared import MODELS
from experiments.models.figures import FIGURES, REACH, read_model
from experiments.models.figures import rows_of_case as of_case
from experiments.models.model import Case
from experiments.models.texts import checksums
from experiments.output.reporter import Reporter
from experiments.paths import SHIPPED_RESULTS, model_path
from sdpa import diagnose_scores, softmax
from sdpa.theory import GaussianRow
from tests.suite_process import ROOT

WIDTH, HEADS, LAYERS, INNER = 6, 2, 2, 5
BLOCK = {
    "attention.self.query": (WIDTH, WIDTH),
    "attention.self.key": (WIDTH, WIDTH),
    "attention.self.value": (WIDTH, WIDTH),
    "attention.output.dense": (WIDTH, WIDTH),
    "intermediate.dense": (INNER, WIDTH),
    "output.dense": (WIDTH, INNER),
    "attention.output.LayerNorm": (WIDTH,),
    "output.LayerNorm": (WIDTH,),
}


MATRICES = {"embeddings.LayerNorm": (WIDTH,)} | {
    f"encoder.layer.{layer}.{name}": shape
    for layer in range(LAYERS)
    for name, shape in BLOCK.items()
}
EMBEDDINGS = ("word", "position", "token_type")


def plain_pass(weights, tokens):
    """Queries and keys of one sequence in double precision, head by head, (layer, 2, n, width)."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}

    def affine(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def normalized(name, x):
        rows = [(row - np.mean(row)) / math.sqrt(np.var(row) + 1e-12) for row in x]
        return np.array(rows) * w[f"{name}.LayerNorm.weight"] + w[f"{name}.LayerNorm.bias"]

    word, position, kind = (w[f"embeddings.{name}_embeddings.weight"] for name in EMBEDDINGS)
    x = normalized("embeddings", word[tokens] + position[: len(tokens)] + kind[0])
    recorded = []
    for layer in range(LAYERS):
        place = f"encoder.layer.{layer}"
        parts = [f"{place}.attention.self.{part}" for part in ("query", "key", "value")]
        q, k, v = (affine(part, x) for part in parts)
        recorded.append((q, k))
        mixed = []
        for head in np.split(np.arange(WIDTH), HEADS):
            e = np.exp(q[:, head] @ k[:, head].T / math.sqrt(len(head)))
            mixed.append(e / e.sum(axis=1, keepdims=True) @ v[:, head])
        output = affine(f"{place}.attention.output.dense", np.hstack(mixed))
        x = normalized(f"{place}.attention.output", x + output)
        u = affine(f"{place}.intermediate.dense", x)
        gelu = u * (1 + special.erf(u / math.sqrt(2))) / 2
        x = normalized(f"{place}.output", x + affine(f"{place}.output.dense", gelu))
    return np.array(recorded)


@pytest.fixture
def weights(monkeypatch):
    monkeypatch.setattr(minilm, "HEADS", HEADS)
    monkeypatch.setattr(minilm, "LAYERS", LAYERS)
    draw = partial(np.random.default_rng(0).standard_normal, dtype=np.float32)
    drawn = {f"embeddings.{name}_embeddings.weight": draw((9, WIDTH)) for name in EMBEDDINGS}
    for name, shape in MATRICES.items():
        drawn |= {f"{name}.weight": draw(shape), f"{name}.bias": draw(shape[0])}
    return drawn


def test_the_forward_pass_is_that_of_a_plain_one(weights):
    tokens = np.random.default_rng(1).integers(9, size=(3, 7))
    q, k = minilm.queries_and_keys(weights, tokens)
    assert q.shape == k.shape == (3, LAYERS, HEADS, 7, WIDTH // HEADS)
    for i, sequence in enumerate(tokens):
        found = np.stack([q[i], k[i]], axis=1).swapaxes(-3, -2).reshape(LAYERS, 2, 7, WIDTH)
        np.testing.assert_allclose(found, plain_pass(weights, sequence), rtol=0, atol=2e-5)


def test_an_untrained_network_has_small_matrices_and_plain_norms(weights):
    """The deviation of some 450 numbers, within six standard errors."""
    initial = minilm.untrained(weights)
    matrices = [values.ravel() for values in initial.values() if values.ndim == 2]
    assert np.concatenate(matrices).std() == pytest.approx(0.02, rel=0.2)
    for name in MATRICES:
        assert (initial[f"{name}.bias"] == 0).all()
        assert "Norm" not in name or (initial[f"{name}.weight"] == 1).all()


def encode(text, add_special_tokens):
    """Each letter is a token."""
    assert not add_special_tokens
    return SimpleNamespace(ids=[ord(letter) % 100 for letter in text])


MARKS = {"[CLS]": 101, "[SEP]": 102}
FAKE = minilm.Pretrained({}, SimpleNamespace(encode=encode, token_to_id=MARKS.get), "")
SEQUENCES = minilm.SEQUENCES


def test_sequences_have_the_tokens_of_the_text_between_both_marks():
    prose, shuffled = (FAKE.tokens(text, 12) for text in ("prose", "shuffled"))
    assert prose.shape == (SEQUENCES, 12)
    assert (prose[:, [0, -1]] == [101, 102]).all()
    assert prose[0, 1:-1].tolist() == [ord(letter) % 100 for letter in "Scaled dot"]
    assert (np.sort(prose, axis=None) == np.sort(shuffled, axis=None)).all()
    assert (prose != shuffled).any()


@pytest.fixture
def gaussian(monkeypatch):
    """Four layers of three heads with standard normal queries, and keys of four kinds.

    Layer 0: standard normal. Layer 1: they share a mean. Layer 2: a mean at each position. Layer 3:
    the first is long.
    """
    rng = np.random.default_rng(2)
    q, k = rng.standard_normal((2, SEQUENCES, 4, 3, 64, 32), dtype=np.float32)
    k[:, 1] += 3 * rng.standard_normal((1, 3, 1, 32))
    k[:, 2] += 2 * rng.standard_normal((1, 3, 64, 32))
    q[:, 3, :, :, 0] += 3
    k[:, 3, :, 0, 0] += 15
    monkeypatch.setattr(heads, "CONTROLS", {})  # laws that take seconds, and have tests
    monkeypatch.setattr(heads, "median_law", lambda *_: math.nan)
    monkeypatch.setattr(minilm, "untrained", lambda _: "initial")
    monkeypatch.setattr(
        minilm, "queries_and_keys", lambda weights, _: (q / 9 if weights == "initial" else q, k)
    )
    return q, k


def described(scores):
    """Spread and entropy share of causal rows of two keys and more, that of Gaussian rows of this
    spread, and the weight of the first key.
    """
    found = diagnose_scores(scores, "causal")
    variance, share, first = (
        found[name].value.item() for name in ("row_variance", "entropy_share", "first_key_weight")
    )
    lengths = range(2, scores.shape[-1] + 1)
    sigma = math.sqrt(variance / np.mean([1 - 1 / m for m in lengths]))
    law = np.mean([GaussianRow(sigma, m).entropy() / math.log(m) for m in lengths])
    return math.sqrt(variance), share, law, first


def columns(q, k):
    """Columns of one head: (sequences, n, d_k) each."""
    scores = (q.astype(np.float64) @ k.mT / math.sqrt(q.shape[-1]))[:, None]
    spread, share, law, first = described(scores)
    rest_spread, rest_share, rest_law, _ = described(scores[..., 1:, 1:])
    return {
        "spread": spread,
        "entropy_share": share,
        "entropy_share_law": law,
        "rest_distance": rest_share - rest_law,
        "first_key_variance": 1 - (rest_spread / spread) ** 2,
        "first_key_weight": first,
        "frozen": float(spread > math.sqrt(2 * math.log(scores.shape[-1]))),
    }


def test_every_column_is_that_of_a_diagnosis(gaussian):
    """Two heads, of which one is frozen, in the first and the last group of sequences."""
    q, k = (array[:, 3, :1, :8].repeat(2, axis=1) for array in gaussian)
    q = q * np.array([0.2, 4], np.float32)[:, None, None]
    found = heads.heads_of_case(Case(8), q[:, None], k[:, None], "causal")
    for row in found[found["group"].isin([0, 7])].to_dict("records"):
        group = slice(2 * row["group"], 2 * row["group"] + 2)
        expected = columns(q[group, row["head"]], k[group, row["head"]])
        assert expected["frozen"] == row["head"]
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=2e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("gaussian")
def test_the_tables_tell_apart_what_queries_and_keys_are_made_of():
    cases = [Case(64, keys=keys) for keys in ("recorded", "centred", "content")]
    cases.append(Case(64, "initial"))
    _, layers = heads.by_head_and_layer(cases, "none", FAKE)
    of_cases = layers.groupby(["keys", "weights"], sort=False)
    recorded, centred, content, initial = (case.set_index("layer") for _, case in of_cases)
    np.testing.assert_allclose(recorded["spread"], 9 * initial["spread"], rtol=1e-5)
    near = recorded["entropy_share_distance"].abs() < 0.01
    assert near.tolist() == [True, True, True, False]
    assert recorded["entropy_share_distance"][3] < -0.05
    assert abs(recorded["rest_distance"][3]) < 0.02
    assert recorded["variance_ratio"][1] < 0.2  # of keys with a mean
    assert centred["variance_ratio"][1] == pytest.approx(1, abs=0.02)
    assert centred["spread"][2] == pytest.approx(math.sqrt(5 * 63 / 64), rel=0.02)
    assert content["spread"][2] == pytest.approx(math.sqrt(63 / 64), rel=0.02)
    groups = heads.heads_of_cases(cases[:1], "none", FAKE).query("layer == 1").groupby("group")
    error = groups["spread"].mean().std() / math.sqrt(heads.GROUPS)
    assert recorded["spread_se"][1] == pytest.approx(error)


LAWS = {
    "gaussian": stats.norm(),
    "logistic": stats.logistic(scale=math.sqrt(3) / math.pi),
    "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)),
    "laplace": stats.laplace(scale=1 / math.sqrt(2)),
}


@pytest.mark.parametrize(
    ("name", "sigma"), [("gaussian", 8.0), ("logistic", 8.0), ("uniform", 0.2), ("laplace", 8.0)]
)
def test_laws_are_those_of_other_draws(name, sigma, monkeypatch):
    """Rows by inversion of SciPy's distributions, within 5 standard errors of both simulations; the
    median of |J|_F is 5% away at most.
    """
    uniform = np.random.default_rng([*name.encode()]).random((4096, 16))
    weights = softmax(sigma * LAWS[name].ppf(uniform))
    share = special.entr(weights).sum(axis=1) / math.log(16)
    spread = sigma * math.sqrt(1 - 1 / 16)
    law = heads.law if name == "gaussian" else partial(heads.control, name)
    assert law([spread], (16,))[0] == pytest.approx(share.mean(), abs=5 * share.std() / 45)
    if name == "gaussian":
        p2, p3 = ((weights**n).sum(axis=1) for n in (2, 3))
        monkeypatch.setattr(heads, "_SIGMAS", heads._SIGMAS[75:80])  # beside 8
        monkeypatch.setattr(heads, "_medians", heads._medians.__wrapped__)
        median = np.median(np.sqrt(np.maximum(p2 + p2**2 - 2 * p3, 0)))
        assert heads.median_law([spread], 16)[0] == pytest.approx(median, rel=0.05)


@pytest.fixture
def shipped():
    return {model.name: read_model(ROOT / SHIPPED_RESULTS, model) for model in MODELS}


@pytest.fixture(scope="module")
def page():
    return " ".join((ROOT / "docs" / "models.md").read_text(encoding="utf-8").split())


def finding_and_numbers(shipped, figure):
    model, name = figure.split("/")
    finding = FIGURES[model][name].finding
    return finding, finding.numbers(shipped[model])


def test_each_drawing_belongs_to_a_model():
    assert {name: (*drawn,) for name, drawn in FIGURES.items()} == {
        model.name: model.figures for model in MODELS
    }


@pytest.mark.parametrize(
    "figure", [f"{model.name}/{name}" for model in MODELS for name in model.figures]
)
def test_the_page_has_the_findings(shipped, page, figure):
    finding, numbers = finding_and_numbers(shipped, figure)
    assert finding.sentence.format(**numbers) in page


@pytest.mark.parametrize(
    ("figure", "table", "column", "factor"),
    [
        ("minilm/slide", "by-head", "rest_distance_logistic", 0),
        ("minilm/slide", "by-head", "rest_distance_se", 99),
        ("smollm2/slide", "by-head", "rest_distance", 3),
        ("smollm2/divisors", "smallest-loss", "divisor", 1.2),
        ("smollm2/divisors", "by-divisor", "query_gradient_se", 20),
        ("smollm2/divisors", "by-divisor", "change", -1),
        ("smollm2/layers", "by-divisor", "stream_gradient_se", 10),
    ],
)
def test_a_title_is_refused_when_its_table_changes(shipped, figure, table, column, factor):
    shipped[figure.split("/")[0]][table][column] *= factor
    assert finding_and_numbers(shipped, figure)[1] is None


def test_the_page_has_the_numbers_of_the_tables(shipped, page):
    """Those of docs/models.md beside its findings."""
    tables, shipped = shipped["smollm2"], shipped["minilm"]
    lengths = tables["by-length"].set_index("n_keys")
    last = tables["by-position"].query("first == 1024").set_index("rule")
    cost = last["change"].map("{:.3f}".format)
    cost += (stats.t.ppf(0.975, 3) * last["change_se"]).map(" ± {:.3f}".format)
    used, other, start = (
        of_case(shipped, case).reset_index()
        for case in (Case(128), Case(128, text="shuffled"), Case(128, "initial"))
    )
    recorded = "weights == 'trained' and text == 'prose' and keys == 'recorded'"
    layers = shipped["by-layer"].query(recorded)
    unscaled = layers.query("n_keys == 128 and scaling == 'unscaled'")
    as_used = layers[layers["scaling"] == "d_k^1/2"].groupby("n_keys").mean(numeric_only=True)
    moved = (used["entropy_share"] - other["entropy_share"]).abs()
    divisor = used["unit_divisor"].quantile([0, 0.25, 0.75, 1]).tolist()
    power = np.log(used["unit_divisor"]).quantile([0.25, 0.75]) / math.log(32)
    spread = used["spread"].quantile([0.25, 0.75]).tolist()
    is_alike = (used["jacobian_norm_median"] / used["jacobian_norm_median_law"]).between(0.8, 1.25)
    pooled = shipped["diagnosis"]
    apart = pooled["entropy_share"] - pooled["entropy_share_exact"]
    centred = shipped["by-layer"].query(
        "weights == 'trained' and text == 'prose' and keys == 'centred' and n_keys == 128"
    )["variance_ratio"]
    effect = used["length_effect"]
    initial = start["spread"]

    def from_to(name):
        return f"from {as_used[name][16]:.2f} to {as_used[name][512]:.2f}"

    typical = of_case(tables, Case(256))["rest_distance"].abs().median()
    for sentence in (
        f"without the first key, the median head is {typical:.2f} from it.**",
        f"rises {from_to('entropy_share')}",
        f"falls {from_to('first_key_weight')}",
        f"goes {from_to('entropy_share_law')}",
        f"by {moved.mean():.3f} on average, and by more than 0.05 in {(moved > 0.05).sum()} of 72",
        f"spread in {is_alike.sum()} of 72 heads; {(used['frozen'] > 0.5).sum()} heads have a",
        f"has {(apart.abs() <= 0.05).sum()} heads within 0.05 and {(apart < -0.05).sum()} lower.",
        f"half of these heads have one between {spread[0]:.1f} and {spread[1]:.1f}",
        f"(`length_effect` is {effect.min():.2f} to {effect.max():.2f})",
        f"the layers have {centred.min():.1f} to {centred.max():.1f} times the variance",
        f"half lie between {power[0.25]:.2f} and {power[0.75]:.2f}",
        f"rises from {lengths['spread'][16]:.2f} to {lengths['spread'][2048]:.2f}, and the entropy "
        f"share falls from {lengths['entropy_share'][16]:.2f} to "
        f"{lengths['entropy_share'][2048]:.2f}.",
        f"cost {cost['ln n']} nats per token at positions 1,024 to 2,047, and like "
        f"(ln n)<sup>1/2</sup> {cost['(ln n)^1/2']} (four sequences)",
        f"Without the scale, {12 * unscaled['frozen'].sum():.0f} of 72 heads are beyond that spread",
        f"From {divisor[0]:.1f} to {divisor[3]:.0f}, "
        f"half of them between {divisor[1]:.1f} and {divisor[2]:.1f}",
        f"the spread is {initial.min():.2f} to {initial.max():.2f}",
    ):
        assert sentence in page
    assert layers.query("scaling == 'd_k^1'")["entropy_share"].min() > 0.95
    for name, sign in (("entropy_share", 1), ("first_key_weight", -1)):
        reach = REACH * as_used[f"{name}_se"].loc[[16, 512]].sum()
        assert sign * (as_used[name][512] - as_used[name][16]) > reach


def test_the_start_must_not_explode_more_than_the_trained_network(shipped):
    runs = shipped["smollm2"]["by-divisor"]
    runs["weights"] = runs["weights"].map({"trained": "initial", "initial": "trained"})
    assert finding_and_numbers(shipped, "smollm2/layers")[1] is None


def test_an_altered_table_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.models.command.MODELS", MODELS[:1])
    folder = model_path(ROOT / SHIPPED_RESULTS, "minilm", "")
    shutil.copytree(folder, model_path(tmp_path, "minilm", ""))
    path = model_path(tmp_path, "minilm", "by-layer.csv")
    path.write_text(path.read_text().replace("0.1", "0.2", 1))
    with pytest.raises(
        TableError, match=r"altered or missing: \S*by-layer.csv; make model writes them again"
    ):
        write_models(tmp_path, Reporter(say=lambda _: None))


def test_models_whose_laws_are_of_another_or_an_unknown_theory_are_named(suite, monkeypatch):
    def told():
        return re.findall(r"models/(\w+): another or an unknown version", suite("check").stdout)

    suite("run")
    assert told() == []
    names = [model.name for model in MODELS]
    for name, theory in zip(names, ("today", "before"), strict=True):
        sidecar = model_path(suite.folder, name, "model.json")
        sidecar.parent.mkdir(parents=True)
        sidecar.write_text(json.dumps({"theory": theory}))
    monkeypatch.setattr("experiments.models.command.theory_source", lambda: "today")
    assert told() == names[1:]
    sidecar.write_text("{}")
    assert told() == names[1:]


def test_the_sidecar_names_the_texts_that_are_here():
    for model in MODELS:
        sidecar = model_path(ROOT / SHIPPED_RESULTS, model.name, "model.json")
        assert checksums().items() <= json.loads(sidecar.read_bytes())["sha256"].items()
