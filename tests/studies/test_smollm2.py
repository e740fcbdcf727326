"""SmolLM2: a tiny model of its kind, written and read back; losses and their gradients.

Only the tests marked `models` need the weights.
"""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from experiments.studies.smollm2 import divisors
from experiments.studies.smollm2 import model as smollm2
from sdpa import diagnose_scores, network
from sdpa.network import Block, Design
from tests.numerics import derivative
from tests.suite_process import ROOT

WIDTH, HIDDEN, HEADS, KEY_HEADS, D_K, N = 5, 32, 4, 2, 6, 11
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
WORDS = ["a", "b", "1", "Ġ", "ab"]
BASE, EPSILON = 50.0, 0.125
DESIGN = Design(HEADS, KEY_HEADS, divisor=8.0, rope_base=BASE, epsilon=EPSILON)
METADATA = {
    "tokenizer.ggml.tokens": WORDS,
    "tokenizer.ggml.merges": ["a b"],
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KEY_HEADS,
    "llama.attention.layer_norm_rms_epsilon": EPSILON,
    "llama.block_count": 2,
    "llama.rope.freq_base": BASE,
}
# Of 32 quantised entries: scale, with 4 bits also the least value, and codes (two in a byte).
SCALE, LEAST = np.float16([0.5, -3])
ROWS = {
    "Q8_0": SCALE.tobytes() + bytes(range(32)),
    "Q4_1": SCALE.tobytes() + LEAST.tobytes() + bytes(range(7, 256, 16)),
}
DIVISORS = np.linspace(0.5, 4, N)[:, None]
TOKENS = default_rng(1).integers(len(WORDS), size=(2, N + 1))


@pytest.fixture(scope="module")
def tiny():
    """Drawn weights, exact in single precision, as doubles."""
    rng = default_rng(0)

    def drawn(*shape):
        return rng.standard_normal(shape, np.float32).astype(np.float64)

    blocks = [Block(**{name: drawn(*shape) for name, shape in SHAPES.items()}) for _ in range(2)]
    top = drawn(len(WORDS), WIDTH), drawn(WIDTH)
    return smollm2.Pretrained(blocks, *top, None, "", DESIGN)


@pytest.fixture
def reread(tmp_path, tiny):
    """The tiny model, written and read, with ROWS in the last matrix of each layer."""
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    add = {int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
    for name, value in METADATA.items():
        add[type(value)](name, value)
    tensors = {"token_embd": tiny.embedding, "output_norm": tiny.final_gain}
    for layer, block in enumerate(tiny.blocks):
        for name, tensor in smollm2.TENSORS.items():
            tensors[f"blk.{layer}.{tensor}"] = getattr(block, name).T
    for layer, (kind, row) in enumerate(ROWS.items()):
        del tensors[f"blk.{layer}.ffn_down"]
        rows = np.tile(np.frombuffer(row, np.uint8), (WIDTH, 1))
        raw_dtype = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", rows, raw_dtype=raw_dtype)
    for name, array in tensors.items():
        writer.add_tensor(f"{name}.weight", np.array(array, np.float32, order="C"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return smollm2.read(tmp_path / "tiny.gguf")


def test_a_file_is_read_as_it_was_written(reread, tiny):
    assert reread[5:] == tiny[5:]
    assert (reread.embedding == tiny.embedding).all()
    assert (reread.final_gain == tiny.final_gain).all()
    for actual, block in zip(reread.blocks, tiny.blocks, strict=True):
        for name in SHAPES.keys() - {"query", "key", "down"}:
            assert (getattr(actual, name) == getattr(block, name)).all()
    assert reread.tokenizer.encode("ab 11").tokens == ["ab", "Ġ", "1", "1"]
    eight_bits, four_bits = (block.down for block in reread.blocks)
    assert (eight_bits == 0.5 * np.arange(32)[:, None]).all()
    assert (four_bits[:16] == 0.5 * 7 - 3).all()  # the lower half of each byte
    assert (four_bits[16:] == 0.5 * np.arange(16)[:, None] - 3).all()


def test_rope_turns_the_pairs_of_the_file(reread, tiny):
    """Scores of the last head by hand, with the entries 2m and 2m + 1 as one complex number."""
    q, k = reread.queries_and_keys(TOKENS[:, 1:])
    assert q.shape == (len(TOKENS), 2, HEADS, N, D_K)
    stored = tiny.blocks[0]
    x = tiny.embedding[TOKENS[1, 1:]]
    length = np.sqrt((x**2).mean(axis=1, keepdims=True) + EPSILON)
    angle = np.arange(N)[:, None] * BASE ** (-2 * np.arange(D_K // 2) / D_K)

    def turned(matrix):
        entries = (x / length * stored.attention_gain @ matrix)[:, -D_K:]
        return (entries[:, ::2] + 1j * entries[:, 1::2]) * np.exp(1j * angle)

    scores = (turned(stored.query) @ turned(stored.key).conj().T).real
    assert_allclose(q[1, 0, -1] @ k[1, 0, -1].T, scores, rtol=1e-5, atol=1e-4)


def test_a_network_before_training_is_drawn_in_the_sizes_of_the_trained_one(tiny):
    initial = tiny.at_start().in_double()
    assert {name: getattr(initial.blocks[1], name).shape for name in SHAPES} == SHAPES
    assert (initial.final_gain == 1).all()
    assert initial.blocks[1].up.std() == pytest.approx(WIDTH**-0.5, rel=0.2)


def test_gradients_are_differences_of_the_loss(tiny):
    """In three random directions; each query has its own divisor."""
    design, rng = tiny.design(DIVISORS), default_rng(2)

    def loss(x):
        last = network.forward(x, tiny.blocks, design)[-1].after
        top = tiny.embedding.T, TOKENS[0, 1:], design, tiny.final_gain
        return network.next_token_losses(last, *top).sum()

    losses, steps, gradients = tiny.gradients(TOKENS[0], DIVISORS)
    assert (losses == tiny.losses(TOKENS[0], DIVISORS)).all()
    assert losses.sum() == loss(steps[0].x)
    for along in rng.standard_normal((3, N, WIDTH)):
        slope = derivative(loss, steps[0].x, along)
        assert np.vdot(gradients[0].x, along) == pytest.approx(slope, rel=1e-6)


def test_the_values_of_a_sequence_are_those_of_a_diagnosis(tiny):
    table = divisors.heads_of_sequence(tiny, TOKENS[0], 2.0)
    losses, steps, gradients = tiny.gradients(TOKENS[0], 2.0)
    rows = diagnose_scores(steps[1].scaled[3], "causal")
    to_q = np.linalg.norm(gradients[1].q[3], axis=1)
    to_x = np.linalg.norm(gradients[1].x, axis=1)
    assert table.iloc[HEADS + 3].to_dict() == pytest.approx(
        {
            "layer": 1,
            "head": 3,
            "spread": np.sqrt(rows["row_variance"].value.item()),
            "entropy_share": rows["entropy_share"].value.item(),
            "first_key_weight": rows["first_key_weight"].value.item(),
            "query_gradient": np.sqrt((to_q**2).mean()),
            "query_gradient_median": np.median(to_q),
            "stream_gradient": np.sqrt((to_x**2).mean()),
            "loss": losses.mean(),
        }
    )


def test_means_over_sequences_are_geometric_for_gradients():
    of = dict.fromkeys(divisors.OVER_HEADS, (1.0, 1.0, 4.0, 4.0))
    of |= {"divisor": 8, "group": (0, 0, 1, 1), "query_gradient": (3.0, 4.0, 30.0, 40.0)}
    row = divisors.means_over_sequences(pd.DataFrame(of), ["divisor"]).loc[0]
    assert row["query_gradient"] == pytest.approx(np.sqrt(12.5 * 10))
    assert row["query_gradient_se"] == pytest.approx(row["query_gradient"] * np.log(10) / 2)
    assert row["stream_gradient"] == pytest.approx(2)
    assert (row["loss"], row["loss_se"]) == (2.5, pytest.approx(1.5))


def test_the_loss_of_a_sequence_changes_from_that_under_its_own_divisor():
    of = {"text": "prose", "group": [0, 0, 1, 1], "divisor": [1, 8, 8, 1], "loss": [2, 1, 3, 7]}
    assert divisors.change_of_loss(pd.DataFrame(of), "text").tolist() == [1, 0, 0, 4]


@pytest.mark.parametrize("centre, expected", [(8.4, 8.4), (30.0, np.nan)])
def test_the_smallest_loss_of_parabolas_is_found(centre, expected):
    """The mean of three parabolas in ln c is one; its vertex is the geometric mean of theirs, and
    without one of them that of the others.
    """
    vertices = centre * np.array([0.9, 1.0, 1.0 / 0.9])
    losses = [
        (group, c, 3 + np.log(c / vertex) ** 2)
        for group, vertex in enumerate(vertices)
        for c in divisors.AROUND
    ]
    table = pd.DataFrame(losses, columns=["group", "divisor", "loss"])
    without = centre * 0.9 ** np.array([0.5, 0, -0.5])
    error = np.sqrt(2 * np.var(without)) if expected == centre else np.nan
    assert divisors.smallest_loss(table) == pytest.approx((expected, error), rel=2e-3, nan_ok=True)


def test_the_start_of_a_long_sequence_is_a_short_one(tiny, monkeypatch):
    monkeypatch.setattr(divisors, "LENGTHS", (3, N))
    monkeypatch.setattr(divisors, "LAST_ROWS", 2)
    monkeypatch.setattr(divisors, "FITTED", 2)
    monkeypatch.setattr(smollm2.Pretrained, "tokens", lambda *_: TOKENS)
    lengths, positions = divisors.by_length(tiny)
    first = positions[positions["rule"] == "ln n"].iloc[0]
    by_row = np.array([[8], [8], [8 * np.log(2) / np.log(3)]])
    short, longer = (
        np.mean([tiny.losses(tokens[:4], divisor) for tokens in TOKENS]) for divisor in (8, by_row)
    )
    assert lengths["loss"][0] == pytest.approx(short)
    assert first["loss"] == pytest.approx(longer)
    assert first["change"] == pytest.approx(longer - short)


@pytest.mark.models
def test_tokens_and_losses_are_those_of_transformers():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")  # with which Transformers reads GGUF files
    if not find_spec(smollm2.PACKAGE):
        pytest.skip(f"needs {smollm2.PACKAGE}")
    trained = smollm2.pretrained()
    folder, file = find_spec(smollm2.PACKAGE).submodule_search_locations[0], smollm2.FILE
    # Single spaces: from a GGUF file, Transformers does not split digits before white space.
    text = " ".join((ROOT / "README.md").read_text().split())
    ids = trained.tokenizer.encode(text).ids
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
    assert ids == tokenizer(text)["input_ids"]
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
    tokens = torch.tensor(ids[:129])
    with torch.no_grad():
        logits = theirs(tokens[None, :-1]).logits[0].float()
    expected = torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="none")
    assert_allclose(trained.losses(tokens.numpy()), expected, rtol=0, atol=1e-3)
