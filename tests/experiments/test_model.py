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

from experiments.diagnosis import minilm, model
from experiments.diagnosis.command import write_diagnosis
from experiments.diagnosis.model_figures import FINDING, REACH
from experiments.diagnosis.model_figures import heads as of_case
from experiments.engine.reporter import Reporter
from experiments.errors import TableError
from experiments.paths import HOME, diagnosis_path
from sdpa import softmax
from sdpa.theory import GaussianRow
from sdpa.theory.limits import median_jacobian_norm
from tests.suite_process import ROOT

WIDTH, HEADS, LAYERS, INNER = 6, 2, 2, 5
DENSE = {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
DENSE |= {
    "attention.output.dense": (WIDTH, WIDTH),
    "intermediate.dense": (INNER, WIDTH),
    "output.dense": (WIDTH, INNER),
}
SHAPES = {
    f"embeddings.{name}_embeddings.weight": (9, WIDTH)
    for name in ("word", "position", "token_type")
}
SHAPES |= {f"embeddings.LayerNorm.{part}": (WIDTH,) for part in ("weight", "bias")}
for layer in range(LAYERS):
    place = f"encoder.layer.{layer}"
    for name, shape in DENSE.items():
        SHAPES |= {f"{place}.{name}.weight": shape, f"{place}.{name}.bias": shape[:1]}
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        SHAPES |= {f"{place}.{name}.weight": (WIDTH,), f"{place}.{name}.bias": (WIDTH,)}


def plain_pass(weights, tokens):
    """Queries and keys of one sequence by loops over tokens and heads, in double precision."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}

    def affine(name, x):
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def normalized(name, x):
        return (x - np.mean(x)) / math.sqrt(np.var(x) + 1e-12) * w[f"{name}.weight"] + w[
            f"{name}.bias"
        ]

    word, position, kind = (
        w[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")
    )
    x = [
        normalized("embeddings.LayerNorm", word[t] + position[i] + kind[0])
        for i, t in enumerate(tokens)
    ]
    recorded = []
    for layer in range(LAYERS):
        place = f"encoder.layer.{layer}"
        q, k, v = (
            [affine(f"{place}.attention.self.{part}", y) for y in x]
            for part in ("query", "key", "value")
        )
        recorded.append((q, k))
        after = []
        for i, y in enumerate(x):
            mixed = []
            for head in np.split(np.arange(WIDTH), HEADS):
                e = [math.exp(q[i][head] @ each[head] / math.sqrt(len(head))) for each in k]
                mixed += [
                    sum(a * each[j] for a, each in zip(e, v, strict=True)) / sum(e) for j in head
                ]
            y = normalized(
                f"{place}.attention.output.LayerNorm",
                y + affine(f"{place}.attention.output.dense", mixed),
            )
            inner = [
                u * (1 + math.erf(u / math.sqrt(2))) / 2
                for u in affine(f"{place}.intermediate.dense", y)
            ]
            after.append(
                normalized(f"{place}.output.LayerNorm", y + affine(f"{place}.output.dense", inner))
            )
        x = after
    return np.array(recorded)  # (layer, 2, n, width)


def test_the_forward_pass_is_that_of_plain_loops(monkeypatch):
    monkeypatch.setattr(minilm, "HEADS", HEADS)
    monkeypatch.setattr(minilm, "LAYERS", LAYERS)
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in SHAPES.items()}
    tokens = rng.integers(9, size=(3, 7))
    q, k = minilm.queries_and_keys(weights, tokens)
    assert q.shape == k.shape == (3, LAYERS, HEADS, 7, WIDTH // HEADS)
    assert q.dtype == np.float32
    for i, sequence in enumerate(tokens):
        plain = plain_pass(weights, sequence)
        for array, one in ((q, plain[:, 0]), (k, plain[:, 1])):
            joined = array[i].swapaxes(-3, -2).reshape(LAYERS, 7, WIDTH)
            np.testing.assert_allclose(joined, one, rtol=0, atol=2e-5)
    initial = minilm.untrained(weights, rng)
    assert {name: values.shape for name, values in initial.items()} == SHAPES
    matrices = np.concatenate([values.ravel() for values in initial.values() if values.ndim == 2])
    assert matrices.std() == pytest.approx(
        0.02, rel=0.2
    )  # of some 450 numbers, within six standard errors
    assert {
        values.sum() for name, values in initial.items() if name.endswith("LayerNorm.weight")
    } == {WIDTH}
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


def test_sequences_have_the_tokens_of_the_text_between_both_marks():
    prose, shuffled = (model.sequences(FAKE, text, 12) for text in ("prose", "shuffled"))
    assert prose.shape == (model.SEQUENCES, 12)
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
    q, k = rng.standard_normal((2, model.SEQUENCES, 4, 3, 64, 32), dtype=np.float32)
    k[:, 1] += 3 * rng.standard_normal((1, 3, 1, 32))
    k[:, 2] += 2 * rng.standard_normal((1, 3, 64, 32))
    q[:, 3, :, :, 0] += 3
    k[:, 3, :, 0, 0] += 15
    monkeypatch.setattr(minilm, "untrained", lambda *_: "initial")
    monkeypatch.setattr(
        minilm, "queries_and_keys", lambda weights, _: (q / 9 if weights == "initial" else q, k)
    )
    return q, k


def plain_columns(q, k):
    """Columns of one head from the weights of each row: (sequences, n, d_k) each."""
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    n, rest = scores.shape[-1], scores[..., 1:]
    shares = [
        -(w * np.log(w)).sum(axis=-1) / math.log(w.shape[-1])
        for w in (softmax(scores), softmax(rest))
    ]
    spreads = [math.sqrt(part.var(axis=-1).mean()) for part in (scores, rest)]
    laws = [
        GaussianRow(s / math.sqrt(1 - 1 / m), m).entropy() / math.log(m)
        for s, m in zip(spreads, (n, n - 1), strict=True)
    ]
    return {
        "spread": spreads[0],
        "entropy_share": shares[0].mean(),
        "entropy_share_law": laws[0],
        "rest_distance": shares[1].mean() - laws[1],
        "first_key_variance": 1 - (spreads[1] / spreads[0]) ** 2,
        "first_key_weight": softmax(scores)[..., 0].mean(),
        "frozen": float(spreads[0] > math.sqrt(2 * math.log(n))),
    }


def test_every_column_is_that_of_plain_rows(gaussian):
    """One group holds all sequences; heads are scaled so that some are frozen."""
    q, k = (array[:, 3, :1].repeat(4, axis=1) for array in gaussian)
    q = q * np.array([0.5, 1, 2, 4], np.float32)[:, None, None]
    results = (
        model.of_case(model.Case(n_keys=64), q[:, None], k[:, None])
        .groupby("head")
        .mean(numeric_only=True)
    )
    for head in range(4):
        groups = [
            plain_columns(q[i : i + 2, head], k[i : i + 2, head])
            for i in range(0, model.SEQUENCES, 2)
        ]
        for name in groups[0]:
            assert results.loc[head, name] == pytest.approx(
                np.mean([each[name] for each in groups]), abs=2e-5
            ), name
    assert results["frozen"].tolist() == [0, 0, 1, 1]


@pytest.mark.usefixtures("gaussian")
def test_initial_weights_are_those_of_the_untrained_network():
    trained, initial = (
        model.measured(FAKE, [model.Case(net, n_keys=64)])["spread"]
        for net in ("trained", "initial")
    )
    np.testing.assert_allclose(trained, 9 * initial, rtol=1e-5)


@pytest.mark.usefixtures("gaussian")
def test_the_tables_tell_apart_what_queries_and_keys_are_made_of():
    cases = [
        replace(model.Case(n_keys=64), keys=keys) for keys in ("recorded", "centred", "content")
    ]
    results = model.measured(FAKE, cases)
    assert len(results) == 3 * model.GROUPS * 4 * 3
    layers = model.tables(results)["layers"].set_index(["keys", "layer"])
    near = layers["entropy_share_distance"].abs() < 0.01
    assert near.loc["recorded"].tolist() == [True, True, True, False]
    assert layers.loc[("recorded", 3), "entropy_share_distance"] < -0.05
    assert abs(layers.loc[("recorded", 3), "rest_distance"]) < 0.02
    assert layers["variance_ratio"].loc["recorded", 1] < 0.2  # of keys with a mean
    assert layers["variance_ratio"].loc["centred", 1] == pytest.approx(1, abs=0.02)
    assert layers["spread"].loc["centred", 2] == pytest.approx(math.sqrt(5 * 63 / 64), rel=0.02)
    assert layers["spread"].loc["content", 2] == pytest.approx(math.sqrt(63 / 64), rel=0.02)
    of_groups = (
        results[(results["keys"] == "recorded") & (results["layer"] == 1)]
        .groupby("group")["spread"]
        .mean()
    )
    assert layers["spread_se"].loc["recorded", 1] == pytest.approx(
        of_groups.std() / math.sqrt(model.GROUPS)
    )


@pytest.mark.parametrize("sigma", [0.2, 1.0, 3.0, 8.0])
def test_laws_are_those_of_simulated_rows(sigma):
    """Bounds of five standard errors; the median is 2% away at most."""
    scores = sigma * np.random.default_rng(3).standard_normal((20_000, 64))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    spread = math.sqrt(scores.var(axis=1).mean())
    entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=1) / math.log(64)
    assert (
        abs(model.law("entropy_share", [spread], 64)[0] - entropy.mean())
        < entropy.std() / 28 + 1e-3
    )
    p2, p3 = ((weights**n).sum(axis=1) for n in (2, 3))
    median = np.median(np.sqrt(np.maximum(p2 + p2**2 - 2 * p3, 0)))
    assert median_jacobian_norm(sigma, 64) == pytest.approx(median, rel=0.03)
    assert model.law("jacobian_norm_median", [spread], 64)[0] == pytest.approx(median, rel=0.03)


LAWS_OF_SCORES = {
    "logistic": stats.logistic(scale=math.sqrt(3) / math.pi),
    "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)),
    "laplace": stats.laplace(scale=1 / math.sqrt(2)),
}


@pytest.mark.parametrize("sigma", [0.5, 2.0])
@pytest.mark.parametrize("name", model.CONTROLS)
def test_control_laws_are_those_of_other_draws(name, sigma):
    """Rows by inversion of SciPy's distributions, H = ln Z - sum w s; within 5 standard errors of
    both simulations.
    """
    uniform = np.random.default_rng([*name.encode()]).random((4096, 40))
    scores = sigma * LAWS_OF_SCORES[name].ppf(uniform)
    entropy = special.logsumexp(scores, axis=1) - (softmax(scores) * scores).sum(axis=1)
    found = model.control(name, [sigma * math.sqrt(1 - 1 / 40)], 40)[0]
    assert found == pytest.approx(
        entropy.mean() / math.log(40), abs=5 * entropy.std() / math.log(40) / 45
    )


@pytest.fixture(scope="module")
def shipped():
    return model.read_model(ROOT / HOME)


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("entropy_share_distance", lambda values: values * 0),
        ("rest_distance_logistic", lambda values: values * 0),
        ("rest_distance", lambda values: values + 0.1),
        ("rest_distance_se", lambda values: values + 0.1),
    ],
)
def test_the_title_of_the_slide_is_refused_when_its_table_changes(shipped, column, change):
    assert FINDING.numbers(shipped)
    heads = shipped["heads"]
    changed = heads.assign(**{column: change(heads[column])})
    assert FINDING.numbers(shipped | {"heads": changed}) is None


def test_the_page_has_the_numbers_of_the_tables(shipped):
    """Numbers of docs/training.md, and by 95% intervals that its statements hold."""
    page = " ".join((ROOT / "docs" / "training.md").read_text(encoding="utf-8").split())
    heads, shuffled, initial = (
        of_case(shipped, *case).reset_index()
        for case in ((), ("trained", "shuffled"), ("initial",))
    )
    layers = shipped["layers"].query(
        "weights == 'trained' and text == 'prose' and keys == 'recorded'"
    )
    used = layers[layers["scaling"] == "d_k^1/2"]
    short, long = (used[used["n_keys"] == n].reset_index() for n in (16, 512))
    of_rule = dict(list(layers[layers["n_keys"] == 128].groupby("scaling")))
    moved = (heads["entropy_share"] - shuffled["entropy_share"]).abs()
    ratio = heads["jacobian_norm_median"] / heads["jacobian_norm_median_law"]
    divisor, power = (
        heads[f"unit_{name}"].quantile([0, 0.25, 0.75, 1]).tolist()
        for name in ("divisor", "exponent")
    )
    spreads = np.array(divisor) / math.sqrt(32)
    for sentence in (
        FINDING.sentence.format(**FINDING.numbers(shipped)),
        f"rises from {short['entropy_share'].mean():.2f} to {long['entropy_share'].mean():.2f}",
        (
            f"falls from {short['first_key_weight'].mean():.2f} to "
            f"{long['first_key_weight'].mean():.2f}"
        ),
        (
            f"goes from {short['entropy_share_law'].mean():.2f} to "
            f"{long['entropy_share_law'].mean():.2f}"
        ),
        (
            f"by {moved.mean():.3f} on average, and by more than 0.05 in {(moved > 0.05).sum()} "
            f"of 72 "
            f"heads"
        ),
        (
            f"in {ratio.between(0.8, 1.25).sum()} of 72 heads; {(heads['frozen'] > 0.5).sum()} "
            f"heads "
            f"have a spread above"
        ),
        (
            f"Without the scale, {12 * of_rule['unscaled']['frozen'].sum():.0f} of 72 heads are "
            f"beyond that spread"
        ),
        (
            f"From {divisor[0]:.1f} to {divisor[3]:.0f}, half of them between {divisor[1]:.1f} and "
            f"{divisor[2]:.1f}"
        ),
        f"half lie between {power[1]:.2f} and {power[2]:.2f}",
        f"half of these heads have one between {spreads[1]:.1f} and {spreads[2]:.1f}",
        f"the spread is {initial['spread'].min():.2f} to {initial['spread'].max():.2f}",
        (
            f"`length_effect` is {heads['length_effect'].min():.2f} to "
            f"{heads['length_effect'].max():.2f}"
        ),
    ):
        assert sentence in page
    for name, rises in (("entropy_share", 1), ("first_key_weight", -1)):
        assert (
            rises * (long[name] - short[name]) > REACH * (long[f"{name}_se"] + short[f"{name}_se"])
        ).all()
    flat = of_rule["d_k^1"]
    assert (flat["entropy_share"] - REACH * flat["entropy_share_se"]).min() > 0.95


def test_an_altered_table_is_refused(tmp_path):
    shutil.copytree(diagnosis_path(ROOT / HOME, ""), diagnosis_path(tmp_path, ""))
    path = diagnosis_path(tmp_path, "by-layer.csv")
    path.write_text(path.read_text().replace("0.1", "0.2", 1))
    with pytest.raises(
        TableError, match=r"altered or missing: .*by-layer.csv; make model writes them again"
    ):
        write_diagnosis(tmp_path, Reporter(say=lambda _: None))


def test_the_sidecar_names_the_texts_that_are_here():
    shipped = json.loads(diagnosis_path(ROOT / HOME, "model.json").read_bytes())["sha256"]
    here = model.checksums(FAKE)
    assert [shipped[f"{name}.txt"] for name in ("prose", "code")] == [
        here[f"{name}.txt"] for name in ("prose", "code")
    ]
