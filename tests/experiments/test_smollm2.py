"""SmolLM2: a tiny model of its kind, written and read back; losses and their gradients.

Only the tests marked `models` need the weights.
"""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.errors import UsageError
from experiments.models import language, smollm2
from sdpa import network
from sdpa.network import Block
from tests.suite_process import ROOT

WIDTH, HIDDEN, HEADS, KEY_HEADS, D_K, LONGEST = 5, 7, 4, 2, 6, 11
SHAPES = {
    "query": (WIDTH, HEADS * D_K),
    "key": (WIDTH, KEY_HEADS * D_K),
    "value": (WIDTH, KEY_HEADS * D_K),
    "output": (HEADS * D_K, WIDTH),
    "gate": (WIDTH, HIDDEN),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
    "attention_gain": (WIDTH,),
    "mlp_gain": (WIDTH,),
}
WORDS = ["<|end|>", "a", "b", "1", "Ġ", "ab"]
BASE, EPSILON = 50.0, 0.125
METADATA = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": WORDS,
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1],
    "tokenizer.ggml.merges": ["a b"],
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KEY_HEADS,
    "llama.attention.layer_norm_rms_epsilon": EPSILON,
    "llama.block_count": 2,
    "llama.context_length": LONGEST,
    "llama.rope.dimension_count": D_K,
    "llama.rope.freq_base": BASE,
}
DIVISORS = np.linspace(0.5, 4, LONGEST)[:, None]
TOKENS = np.random.default_rng(1).integers(len(WORDS), size=(3, LONGEST + 1))


@pytest.fixture(scope="module")
def tiny():
    """Drawn weights, exact in single precision, as doubles."""
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return rng.standard_normal(shape, np.float32).astype(np.float64)

    blocks = [Block(**{name: drawn(*shape) for name, shape in SHAPES.items()}) for _ in range(2)]
    top = drawn(len(WORDS), WIDTH), drawn(WIDTH)
    sizes = HEADS, KEY_HEADS, D_K, BASE, EPSILON, LONGEST
    return smollm2.Pretrained(blocks, *top, None, "", *sizes)


def reread(path, model, architecture="llama", **more):
    """The model after writing it to a file, with further tensors."""
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    writer = gguf.GGUFWriter(path / "tiny.gguf", architecture)
    add = {int: writer.add_uint32, float: writer.add_float32}
    add |= {str: writer.add_string, list: writer.add_array}
    for name, value in METADATA.items():
        add[type(value)](name, value)
    tensors = {"token_embd": model.embedding, "output_norm": model.final_gain, **more}
    for layer, block in enumerate(model.blocks):
        for name, tensor in smollm2._TENSORS.items():
            tensors[f"blk.{layer}.{tensor}"] = getattr(block, name).T
    for name, array in tensors.items():
        writer.add_tensor(f"{name}.weight", np.array(array, np.float32, order="C"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return smollm2.read(path / "tiny.gguf")


def test_a_file_is_read_as_it_was_written(tmp_path, tiny):
    model = reread(tmp_path, tiny)
    assert model[5:] == tiny[5:]
    assert (model.embedding == tiny.embedding).all()
    assert (model.final_gain == tiny.final_gain).all()
    for found, block in zip(model.blocks, tiny.blocks, strict=True):
        for name in SHAPES.keys() - {"query", "key"}:
            assert (getattr(found, name) == getattr(block, name)).all()
    assert model.tokenizer.encode("ab 11<|end|>").tokens == ["ab", "Ġ", "1", "1", "<|end|>"]


def test_rope_turns_the_pairs_of_the_file_and_each_query_has_its_divisor(tmp_path, tiny):
    """Scores of the last head, with the entries 2m and 2m + 1 as one complex number."""
    model, stored = reread(tmp_path, tiny), tiny.blocks[0]
    x = model.embedding[TOKENS[0, :-1]]
    steps = network.block_forward(x, model.blocks[0], smollm2.design(model, DIVISORS))
    assert steps.scaled.dtype == np.float32
    angle = np.arange(LONGEST)[:, None] * BASE ** (-2 * np.arange(D_K // 2) / D_K)

    def turned(matrix):
        entries = (steps.h @ matrix)[:, -D_K:]
        return (entries[:, ::2] + 1j * entries[:, 1::2]) * np.exp(1j * angle)

    scores = (turned(stored.query) @ turned(stored.key).conj().T).real
    found = np.where(np.isfinite(steps.scaled[-1]), steps.scaled[-1], 0.0)
    np.testing.assert_allclose(found, np.tril(scores / DIVISORS), rtol=1e-5, atol=1e-4)


def test_queries_and_keys_are_those_of_each_layer(tiny):
    q, k = tiny.queries_and_keys(TOKENS[:, 1:], "trained")
    assert q.shape == (len(TOKENS), 2, HEADS, LONGEST, D_K)
    x = tiny.embedding[TOKENS[2, 1:]]
    steps = network.forward(x, tiny.blocks, smollm2.design(tiny))
    with pytest.raises(ValueError, match="expected 1 to 11 read by the network, got 12"):
        tiny.queries_and_keys(TOKENS, "trained")
    for layer, step in enumerate(steps):
        np.testing.assert_allclose(q[2, layer], step.q, rtol=1e-12)
        np.testing.assert_allclose(k[2, layer], step.k, rtol=1e-12)


def test_a_model_at_its_start_has_small_matrices_and_gains_of_1(tiny):
    """Some 800 entries: their standard deviation is within 6 standard errors."""
    start = tiny.at_start()
    block = start.blocks[1]
    assert (block.mlp_gain == 1).all()
    assert (start.final_gain == 1).all()
    drawn = [x.ravel() for each in start.blocks for x in vars(each).values() if x.ndim == 2]
    assert np.concatenate(drawn).std() == pytest.approx(WIDTH**-0.5, rel=0.15)


def test_another_model_is_refused(tmp_path, tiny):
    with pytest.raises(ValueError, match=r"got \['output.weight'\] besides, and not \[\]"):
        reread(tmp_path, tiny, output=tiny.embedding)
    with pytest.raises(ValueError, match="architecture: expected llama, got phi3"):
        reread(tmp_path, tiny, "phi3")


def test_gradients_are_differences_of_the_mean_loss(tiny):
    shared, rng = smollm2.design(tiny, DIVISORS), np.random.default_rng(2)

    def mean_loss(x):
        last = network.forward(x, tiny.blocks, shared)[-1].after
        top = tiny.embedding.T, TOKENS[:, 1:], shared, tiny.final_gain
        return network.next_token_losses(last, *top).mean()

    seen = []
    loss = smollm2.loss_and_gradients(tiny, TOKENS, DIVISORS, lambda *found: seen.append(found))
    assert [layer for layer, _, _ in seen] == [1, 0]
    x, to_x = seen[-1][1].x, seen[-1][2].x
    assert loss == smollm2.losses(tiny, TOKENS, DIVISORS).mean() == mean_loss(x)
    for step in 1e-6 * rng.standard_normal((3, *x.shape)):
        expected = (mean_loss(x + step) - mean_loss(x - step)) / 2
        assert (to_x * step).sum() == pytest.approx(expected, rel=1e-6)


def test_the_values_of_a_sequence_are_those_of_plain_rows(tiny):
    tokens, divisor = TOKENS[0], 2.0
    found = language._of_sequence(tiny, tokens, divisor).set_index(["layer", "head"])
    shared = smollm2.design(tiny, divisor)
    x = tiny.embedding[tokens[:-1]]
    steps = network.forward(x, tiny.blocks, shared)
    top = tiny.embedding.T, tokens[1:], shared, tiny.final_gain
    losses, to_last = network.next_token_gradients(steps[-1].after, *top)
    gradients = network.backward(to_last / LONGEST, steps, tiny.blocks, shared)
    for layer, head in [(0, 1), (1, 3)]:
        rows = [steps[layer].scaled[head, i, : i + 1] for i in range(1, LONGEST)]
        weights = [np.exp(row) / np.exp(row).sum() for row in rows]
        row = found.loc[layer, head]
        assert row["spread"] == pytest.approx(np.sqrt(np.mean([np.var(each) for each in rows])))
        assert row["first_key_weight"] == pytest.approx(np.mean([w[0] for w in weights]))
        shares = [stats.entropy(w) / np.log(len(w)) for w in weights]
        assert row["entropy_share"] == pytest.approx(np.mean(shares))
        to_q = LONGEST * np.linalg.norm(gradients[layer].q[head], axis=1)
        assert row["query_gradient"] == pytest.approx(np.sqrt((to_q**2).mean()))
        assert row["query_gradient_median"] == pytest.approx(np.median(to_q))
    to_x = LONGEST * np.linalg.norm(gradients[0].x, axis=1)
    assert found.loc[0, "stream_gradient"].to_numpy() == pytest.approx(np.sqrt((to_x**2).mean()))
    assert found.loc[1, 0]["loss"] == pytest.approx(losses.mean())


def test_means_over_sequences_are_geometric_for_gradients():
    of = {"weights": "trained", "divisor": 8, "loss": [1.0, 1.0, 3.0, 3.0]}
    of |= {"layer": 0, "head": [0, 1, 0, 1], "group": [0, 0, 1, 1]}
    of |= dict.fromkeys(("spread", "entropy_share", "first_key_weight"), (1, 2, 3, 4))
    of |= dict.fromkeys(("query_gradient_median", "stream_gradient"), (1.0, 1.0, 4.0, 4.0))
    found = pd.DataFrame(of).assign(query_gradient=[3.0, 4.0, 30.0, 40.0])
    others = found.assign(divisor=1, loss=[2.0, 2.0, 7.0, 7.0])
    found = language._with_change(pd.concat([others, found]), "weights")
    changed, row = language._summary(found).to_dict("records")
    assert (changed["change"], changed["change_se"]) == (2.5, pytest.approx(1.5))
    assert row["query_gradient"] == pytest.approx(np.sqrt(12.5 * 10))
    assert row["query_gradient_se"] == pytest.approx(row["query_gradient"] * np.log(10) / 2)
    assert row["stream_gradient"] == pytest.approx(2)
    assert (row["loss"], row["loss_se"], row["spread"]) == (2, pytest.approx(1), 2.5)


@pytest.mark.parametrize(("centre", "expected"), [(8.4, 8.4), (30.0, np.nan)])
def test_the_smallest_loss_of_parabolas_is_found(centre, expected):
    """The mean of three parabolas in ln c is one; its vertex is the geometric mean of theirs, and
    without one of them that of the others.
    """
    vertices = centre * np.array([0.9, 1.0, 1.0 / 0.9])
    losses = [
        (group, c, 3 + np.log(c / vertex) ** 2)
        for group, vertex in enumerate(vertices)
        for c in language.AROUND
    ]
    found = pd.DataFrame(losses, columns=["group", "divisor", "loss"])
    without = centre * 0.9 ** np.array([0.5, 0, -0.5])
    error = np.sqrt(2 * np.var(without)) if expected == centre else np.nan
    assert language._smallest(found) == pytest.approx((expected, error), rel=2e-3, nan_ok=True)


def test_the_start_of_a_long_sequence_is_a_short_one(tiny, monkeypatch):
    monkeypatch.setattr(language, "LENGTHS", (3, LONGEST))
    monkeypatch.setattr(language, "_LAST_ROWS", 2)
    monkeypatch.setattr(language, "FITTED", 2)
    monkeypatch.setattr(smollm2.Pretrained, "tokens", lambda *_: TOKENS[:2])
    lengths, positions = language.by_length(tiny)
    short = [smollm2.losses(tiny, tokens[:4]).mean() for tokens in TOKENS[:2]]
    assert lengths["loss"][0] == pytest.approx(np.mean(short))
    first = positions[positions["rule"] == "ln n"].iloc[0]
    divisors = [8, 8, 8 * np.log(2) / np.log(3)]
    losses = [
        smollm2.losses(tiny, tokens[:4], np.reshape(divisors, (3, 1))).mean() for tokens in TOKENS
    ]
    assert first["loss"] == pytest.approx(np.mean(losses[:2]))
    assert first["change"] == pytest.approx(np.mean(losses[:2]) - np.mean(short))


@pytest.fixture(scope="module")
def trained():
    try:
        return smollm2.pretrained()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.models
def test_madrid_is_the_capital_of_spain(trained):
    tokens = np.array(trained.tokenizer.encode("The capital of Spain is Madrid").ids)
    assert smollm2.losses(trained, tokens)[-1] < 1


@pytest.mark.models
def test_tokens_and_losses_are_those_of_transformers(trained):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder, file = find_spec(smollm2.PACKAGE).submodule_search_locations[0], smollm2.FILE
    text = (ROOT / "README.md").read_text()
    ids = trained.tokenizer.encode(text).ids
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
    assert ids == tokenizer(text)["input_ids"]
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
    tokens = torch.tensor([ids[:129]])
    with torch.no_grad():
        logits = theirs(tokens[:, :-1]).logits[0].float()
    expected = torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="none")
    losses = smollm2.losses(trained, tokens.numpy())[0]
    np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-3)
