"""The heads of a pretrained BERT: its forward pass, its tables from known queries and keys, and
what they show.

Nothing here needs the weights; `make test-models` compares the forward pass with Transformers.
"""

import json
import math
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from experiments.engine.reporter import Reporter
from experiments.errors import TableError
from experiments.models import heads, minilm
from experiments.models.command import write_models
from experiments.models.declared import MINILM, MODELS, SMOLLM2
from experiments.models.figures import FINDINGS, REACH, read_model
from experiments.models.figures import rows_of_case as of_case
from experiments.models.model import Case
from experiments.models.texts import checksums
from experiments.paths import HOME, model_path
from sdpa import softmax
from sdpa.theory import GaussianRow
from sdpa.theory.norm_quantiles import jacobian_quantile
from tests.suite_process import ROOT

WIDTH, HEADS, LAYERS, INNER = 6, 2, 2, 5
DENSE = {
    "attention.self.query": (WIDTH, WIDTH),
    "attention.self.key": (WIDTH, WIDTH),
    "attention.self.value": (WIDTH, WIDTH),
    "attention.output.dense": (WIDTH, WIDTH),
    "intermediate.dense": (INNER, WIDTH),
    "output.dense": (WIDTH, INNER),
}
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")


def with_bias(name, shape):
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def shapes():
    tables = ("word", "position", "token_type")
    found = {f"embeddings.{name}_embeddings.weight": (9, WIDTH) for name in tables}
    found |= with_bias("embeddings.LayerNorm", (WIDTH,))
    for layer in range(LAYERS):
        for name, shape in (DENSE | dict.fromkeys(NORMS, (WIDTH,))).items():
            found |= with_bias(f"encoder.layer.{layer}.{name}", shape)
    return found


def plain_pass(weights, tokens):
    """Queries and keys of one sequence by loops over tokens and heads, in double precision."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}

    def affine(name, x):
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def normalized(name, x):
        unit = (x - np.mean(x)) / math.sqrt(np.var(x) + 1e-12)
        return unit * w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x):
        return [u * (1 + math.erf(u / math.sqrt(2))) / 2 for u in x]

    def mixed(q, k, v):
        """The values of a query's heads, one after the other."""
        found = []
        for head in np.split(np.arange(WIDTH), HEADS):
            e = [math.exp(q[head] @ key[head] / math.sqrt(len(head))) for key in k]
            found += list(np.array(e) / sum(e) @ np.array(v)[:, head])
        return found

    tables = ("word", "position", "token_type")
    word, position, kind = (w[f"embeddings.{name}_embeddings.weight"] for name in tables)
    inputs = [word[token] + position[i] + kind[0] for i, token in enumerate(tokens)]
    x = [normalized("embeddings.LayerNorm", row) for row in inputs]
    recorded = []
    for layer in range(LAYERS):
        place = f"encoder.layer.{layer}"
        parts = [f"{place}.attention.self.{part}" for part in ("query", "key", "value")]
        q, k, v = ([affine(part, row) for row in x] for part in parts)
        recorded.append((q, k))
        for i, row in enumerate(x):
            output = affine(f"{place}.attention.output.dense", mixed(q[i], k, v))
            row = normalized(f"{place}.attention.output.LayerNorm", row + output)
            inner = gelu(affine(f"{place}.intermediate.dense", row))
            output = affine(f"{place}.output.dense", inner)
            x[i] = normalized(f"{place}.output.LayerNorm", row + output)
    return np.array(recorded)  # (layer, 2, n, width)


@pytest.fixture
def weights(monkeypatch):
    monkeypatch.setattr(minilm, "HEADS", HEADS)
    monkeypatch.setattr(minilm, "LAYERS", LAYERS)
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes().items()}


def test_the_forward_pass_is_that_of_plain_loops(weights):
    tokens = np.random.default_rng(1).integers(9, size=(3, 7))
    q, k = minilm.queries_and_keys(weights, tokens)
    assert q.shape == k.shape == (3, LAYERS, HEADS, 7, WIDTH // HEADS)
    assert q.dtype == np.float32
    for i, sequence in enumerate(tokens):
        found = np.stack([q[i], k[i]], axis=1).swapaxes(-3, -2).reshape(LAYERS, 2, 7, WIDTH)
        np.testing.assert_allclose(found, plain_pass(weights, sequence), rtol=0, atol=2e-5)


def test_an_untrained_network_has_small_matrices_and_plain_norms(weights):
    """The deviation of some 450 numbers, within six standard errors."""
    initial = minilm.untrained(weights, np.random.default_rng(0))
    assert {name: values.shape for name, values in initial.items()} == shapes()
    matrices = [values.ravel() for values in initial.values() if values.ndim == 2]
    assert np.concatenate(matrices).std() == pytest.approx(0.02, rel=0.2)
    for name, values in initial.items():
        if name.endswith("LayerNorm.weight"):
            assert values.sum() == WIDTH


def test_too_long_a_sequence_is_refused(weights):
    with pytest.raises(ValueError, match="tokens: expected at most 512 in a sequence, got 513"):
        minilm.queries_and_keys(weights, np.zeros((1, 513), np.int64))


class Tokenizer:
    """Each letter is a token."""

    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        return SimpleNamespace(ids=[ord(letter) % 100 for letter in text])

    def token_to_id(self, token):
        return {"[CLS]": 101, "[SEP]": 102}[token]


FAKE = minilm.Pretrained({}, Tokenizer(), "")
FINDING = FINDINGS["minilm"]
SEQUENCES = minilm.SEQUENCES


def test_sequences_have_the_tokens_of_the_text_between_both_marks():
    prose, shuffled = (FAKE.tokens(text, 12) for text in ("prose", "shuffled"))
    assert prose.shape == (SEQUENCES, 12)
    assert set(prose[:, 0]) == {101}
    assert set(prose[:, -1]) == {102}
    assert prose[0, 1:-1].tolist() == [ord(letter) % 100 for letter in "Scaled dot"]
    assert (np.sort(prose[:, 1:-1].ravel()) == np.sort(shuffled[:, 1:-1].ravel())).all()
    assert (prose != shuffled).mean() > 0.5


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
    monkeypatch.setattr(minilm, "untrained", lambda *_: "initial")
    monkeypatch.setattr(
        minilm, "queries_and_keys", lambda weights, _: (q / 9 if weights == "initial" else q, k)
    )
    return q, k


def plain_columns(q, k, mask):
    """Columns of one head from the weights of each row: (sequences, n, d_k) each."""
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    n = scores.shape[-1]
    seen = range(1, n + 1) if mask == "causal" else [n] * n
    rows = [of[i, :m] for of in scores for i, m in enumerate(seen) if m > 1]

    def described(rows):
        """Spread, entropy share, and that of Gaussian rows of this spread."""
        lengths = np.unique([len(row) for row in rows])
        share = np.mean([stats.entropy(softmax(row)) / math.log(len(row)) for row in rows])
        spread = math.sqrt(np.mean([np.var(row) for row in rows]))
        sigma = spread / math.sqrt(np.mean(1 - 1 / lengths))
        law = np.mean([GaussianRow(sigma, m).entropy() / math.log(m) for m in lengths.tolist()])
        return spread, share, law

    spread, share, law = described(rows)
    rest_spread, rest_share, rest_law = described([row[1:] for row in rows if len(row) > 2])
    return {
        "spread": spread,
        "entropy_share": share,
        "entropy_share_law": law,
        "rest_distance": rest_share - rest_law,
        "first_key_variance": 1 - (rest_spread / spread) ** 2,
        "first_key_weight": np.mean([softmax(row)[0] for row in rows]),
        "frozen": float(spread > math.sqrt(2 * math.log(n))),
    }


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_every_column_is_that_of_plain_rows(gaussian, mask):
    """Two heads, of which one is frozen, in the first and the last group of sequences."""
    q, k = (array[:, 3, :1].repeat(2, axis=1) for array in gaussian)
    q = q * np.array([0.5, 4], np.float32)[:, None, None]
    found = heads.of_case(Case(64), q[:, None], k[:, None], mask)
    assert len(found) == heads.GROUPS * 2
    for row in found[found["group"].isin([0, 7])].to_dict("records"):
        group = slice(2 * row["group"], 2 * row["group"] + 2)
        expected = plain_columns(q[group, row["head"]], k[group, row["head"]], mask)
        assert expected["frozen"] == row["head"]
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=2e-5)


@pytest.mark.usefixtures("gaussian")
def test_initial_weights_are_those_of_the_untrained_network():
    cases = Case(64, "initial"), Case(64)
    found = heads.of_network(replace(MINILM, cases=cases), FAKE)
    initial, trained = (rows["spread"] for _, rows in found.groupby("weights"))
    np.testing.assert_allclose(trained, 9 * initial, rtol=1e-5)


@pytest.mark.usefixtures("gaussian")
def test_the_tables_tell_apart_what_queries_and_keys_are_made_of():
    cases = [Case(64, keys=keys) for keys in ("recorded", "centred", "content")]
    results = heads.of_network(replace(MINILM, cases=tuple(cases)), FAKE)
    assert len(results) == 3 * heads.GROUPS * 4 * 3
    _, layers = heads.by_head_and_layer(results)
    layers = layers.set_index(["keys", "layer"])
    recorded, centred, content = (layers.loc[case.keys] for case in cases)
    near = recorded["entropy_share_distance"].abs() < 0.01
    assert near.tolist() == [True, True, True, False]
    assert recorded["entropy_share_distance"][3] < -0.05
    assert abs(recorded["rest_distance"][3]) < 0.02
    assert recorded["variance_ratio"][1] < 0.2  # of keys with a mean
    assert centred["variance_ratio"][1] == pytest.approx(1, abs=0.02)
    assert centred["spread"][2] == pytest.approx(math.sqrt(5 * 63 / 64), rel=0.02)
    assert content["spread"][2] == pytest.approx(math.sqrt(63 / 64), rel=0.02)
    of_groups = results.query("keys == 'recorded' and layer == 1").groupby("group")["spread"].mean()
    error = of_groups.std() / math.sqrt(heads.GROUPS)
    assert recorded["spread_se"][1] == pytest.approx(error)


@pytest.mark.parametrize("sigma", [0.2, 3.0, 8.0])
def test_laws_are_those_of_simulated_rows(sigma):
    """Bounds of five standard errors; the median is 2% away at most."""
    scores = sigma * np.random.default_rng(3).standard_normal((20_000, 64))
    weights = softmax(scores)
    spread = math.sqrt(scores.var(axis=1).mean())
    share = special.entr(weights).sum(axis=1) / math.log(64)
    error = abs(heads.law([spread], (64,))[0] - share.mean())
    assert error < share.std() / 28 + 1e-3
    p2, p3 = ((weights**n).sum(axis=1) for n in (2, 3))
    median = np.median(np.sqrt(np.maximum(p2 + p2**2 - 2 * p3, 0)))
    assert jacobian_quantile(sigma, 64) == pytest.approx(median, rel=0.03)
    assert heads.median_law([spread], 64)[0] == pytest.approx(median, rel=0.03)


LAWS_OF_SCORES = {
    "logistic": stats.logistic(scale=math.sqrt(3) / math.pi),
    "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)),
    "laplace": stats.laplace(scale=1 / math.sqrt(2)),
}


@pytest.mark.parametrize("name", heads.CONTROLS)
def test_control_laws_are_those_of_other_draws(name):
    """Rows by inversion of SciPy's distributions, H = ln Z - sum w s; within 5 standard errors of
    both simulations.
    """
    uniform = np.random.default_rng([*name.encode()]).random((4096, 40))
    scores = 2 * LAWS_OF_SCORES[name].ppf(uniform)
    entropy = special.logsumexp(scores, axis=1) - (softmax(scores) * scores).sum(axis=1)
    share = entropy / math.log(40)
    found = heads.control(name, [2 * math.sqrt(1 - 1 / 40)], (40,))[0]
    assert found == pytest.approx(share.mean(), abs=5 * share.std() / 45)


@pytest.fixture(scope="module")
def shipped():
    return read_model(ROOT / HOME, MINILM)


@pytest.mark.parametrize(
    ("column", "factor", "further"),
    [
        ("entropy_share_distance", 0, 0),
        ("rest_distance_logistic", 0, 0),
        ("rest_distance", 1, 0.1),
        ("rest_distance_se", 1, 0.1),
    ],
)
def test_the_title_of_the_slide_is_refused_when_its_table_changes(shipped, column, factor, further):
    assert FINDING.numbers(shipped)
    found = shipped["by-head"].copy()
    found[column] = factor * found[column] + further
    assert FINDING.numbers(shipped | {"by-head": found}) is None


def test_the_page_has_the_numbers_of_the_tables(shipped):
    """Numbers of docs/models.md, and by 95% intervals that its statements hold."""
    page = " ".join((ROOT / "docs" / "models.md").read_text(encoding="utf-8").split())
    used, other, start = (
        of_case(shipped, case).reset_index()
        for case in (Case(128), Case(128, text="shuffled"), Case(128, "initial"))
    )
    initial = start["spread"]
    recorded = "weights == 'trained' and text == 'prose' and keys == 'recorded'"
    layers = shipped["by-layer"].query(recorded)
    as_used = layers[layers["scaling"] == "d_k^1/2"]
    short, long = (as_used[as_used["n_keys"] == n].reset_index() for n in (16, 512))
    of_rule = dict(list(layers[layers["n_keys"] == 128].groupby("scaling")))
    moved = (used["entropy_share"] - other["entropy_share"]).abs()
    ratio = used["jacobian_norm_median"] / used["jacobian_norm_median_law"]
    divisor = used["unit_divisor"].quantile([0, 0.25, 0.75, 1]).tolist()
    power = used["unit_exponent"].quantile([0.25, 0.75]).tolist()
    spreads = np.array(divisor) / math.sqrt(32)
    length = used["length_effect"]
    frozen = 12 * of_rule["unscaled"]["frozen"].sum()

    def from_to(verb, name):
        return f"{verb} from {short[name].mean():.2f} to {long[name].mean():.2f}"

    many = f"by more than 0.05 in {(moved > 0.05).sum()} of 72 heads"
    similar, beyond = ratio.between(0.8, 1.25).sum(), (used["frozen"] > 0.5).sum()
    half = f"half of them between {divisor[1]:.1f} and {divisor[2]:.1f}"
    for sentence in (
        FINDING.sentence.format(**FINDING.numbers(shipped)),
        from_to("rises", "entropy_share"),
        from_to("falls", "first_key_weight"),
        from_to("goes", "entropy_share_law"),
        f"by {moved.mean():.3f} on average, and {many}",
        f"in {similar} of 72 heads; {beyond} heads have a spread above",
        f"Without the scale, {frozen:.0f} of 72 heads are beyond that spread",
        f"From {divisor[0]:.1f} to {divisor[3]:.0f}, {half}",
        f"half lie between {power[0]:.2f} and {power[1]:.2f}",
        f"half of these heads have one between {spreads[1]:.1f} and {spreads[2]:.1f}",
        f"the spread is {initial.min():.2f} to {initial.max():.2f}",
        f"`length_effect` is {length.min():.2f} to {length.max():.2f}",
    ):
        assert sentence in page
    for name, sign in (("entropy_share", 1), ("first_key_weight", -1)):
        reach = REACH * (long[f"{name}_se"] + short[f"{name}_se"])
        assert (sign * (long[name] - short[name]) > reach).all()
    flat = of_rule["d_k^1"]
    assert (flat["entropy_share"] - REACH * flat["entropy_share_se"]).min() > 0.95


@pytest.mark.parametrize("name", ["smollm2", "divisors", "layers"])
def test_the_page_has_the_findings_of_the_language_model(name):
    page = " ".join((ROOT / "docs" / "models.md").read_text(encoding="utf-8").split())
    numbers = FINDINGS[name].numbers(read_model(ROOT / HOME, SMOLLM2))
    assert FINDINGS[name].sentence.format(**numbers) in page


@pytest.mark.parametrize(
    ("name", "table", "column", "factor"),
    [
        ("smollm2", "by-head", "rest_distance", 3),
        ("divisors", "smallest-loss", "divisor", 1.2),
        ("divisors", "by-divisor", "query_gradient_se", 20),
        ("layers", "by-divisor", "stream_gradient_se", 10),
    ],
)
def test_a_finding_of_the_language_model_needs_its_numbers(name, table, column, factor):
    tables = read_model(ROOT / HOME, SMOLLM2)
    tables[table][column] *= factor
    assert FINDINGS[name].numbers(tables) is None


def test_the_start_must_not_explode_more_than_the_trained_network():
    tables = read_model(ROOT / HOME, SMOLLM2)
    runs = tables["by-divisor"]
    runs["weights"] = runs["weights"].map({"trained": "initial", "initial": "trained"})
    assert FINDINGS["layers"].numbers(tables) is None


def test_an_altered_table_is_refused(tmp_path):
    for model in MODELS:
        folder = model_path(ROOT / HOME, model.name, "")
        shutil.copytree(folder, model_path(tmp_path, model.name, ""))
    path = model_path(tmp_path, "minilm", "by-layer.csv")
    path.write_text(path.read_text().replace("0.1", "0.2", 1))
    with pytest.raises(
        TableError, match=r"altered or missing: .*by-layer.csv; make model writes them again"
    ):
        write_models(tmp_path, Reporter(say=lambda _: None))


def test_the_sidecar_names_the_texts_that_are_here():
    for model in MODELS:
        sidecar = model_path(ROOT / HOME, model.name, "model.json")
        assert checksums().items() <= json.loads(sidecar.read_bytes())["sha256"].items()
