"""SmolLM2: a tiny model of its kind, written and read back; losses and their gradients.

Only the tests marked `models` need the weights.
"""

from importlib.util import find_spec

import numpy as np
import pytest

from experiments.errors import UsageError
from experiments.models import smollm2
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
