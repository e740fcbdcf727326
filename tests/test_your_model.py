"""The recipes of docs/your-model.md record what the attention of PyTorch, Transformers and JAX
receives.

Each test runs the code blocks of a section as they stand, on a tiny random model, and computes the
weights of the framework from the file that the blocks write.
"""

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sdpa import attention_weights, causal_mask
from sdpa.record import recorded_attention
from tests.suite_process import ROOT

PAGE = (ROOT / "docs" / "your-model.md").read_text(encoding="utf-8")
TORCH, TRANSFORMERS, JAX = "PyTorch", "Hugging Face Transformers", "JAX"  # the sections
NAMES = {"torch": "PyTorch", "transformers": "Transformers", "jax": "JAX"}
CLOSE = {"rtol": 0, "atol": 1e-5}
N = 7  # positions
CAUSAL = causal_mask(N, N)
# the positions of three sequences that are no padding
REAL = np.arange(N) < np.array([[N], [N - 2], [3]])
PADDED = REAL[:, None, None, :]

# A warning of another package, such as that of a prototype, is no error here.
pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _offline_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def framework(package):
    """The package; skips the test where it is not installed. pytest reports all skips by one line
    of code together.
    """
    return pytest.importorskip(package, reason=f"{NAMES[package]} is not installed")


def run_recipe(section, names):
    """Run the Python blocks of a section among these names, and add `saved`, the arrays of the file
    that they write.
    """
    (text,) = re.findall(rf"^## {section}\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(block, names)
    with np.load("qk.npz", allow_pickle=False) as file:
        names["saved"] = dict(file)
    return names


def weights(saved, layer, scaling, mask):
    """The weights of a layer from its saved q and k; each key head serves a block of query
    heads.
    """
    q, k = saved[f"q.{layer}"], saved[f"k.{layer}"]
    assert q.dtype == k.dtype == np.float32
    return attention_weights(
        q, np.repeat(k, q.shape[-3] // k.shape[-3], axis=-3), scaling=scaling, mask=mask
    )


def tensors(*shapes):
    import torch

    generator = torch.Generator().manual_seed(0)
    return [2 * torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize(
    ("options", "mask", "call"),
    [
        ({}, None, ("d_k^1/2", "none")),
        ({"is_causal": True}, None, ("d_k^1/2", "causal")),
        ({"scale": 8**-0.5}, None, ("d_k^1/2", "none")),
        ({"scale": 7**-0.5}, None, ("2.645751", "none")),
        ({}, CAUSAL, ("d_k^1/2", "causal")),
        ({}, CAUSAL & PADDED, ("d_k^1/2", "tensor")),
        ({"is_causal": True, "enable_gqa": True, "scale": 1.0}, None, ("1", "causal")),
    ],
)
@pytest.mark.parametrize("imported", [True, False])
def test_the_attention_function_of_pytorch(options, mask, call, imported):
    torch = framework("torch")
    from torch.nn import functional
    from torch.nn.functional import scaled_dot_product_attention

    heads = 2 if "enable_gqa" in options else 4
    q, k, v = tensors((3, 4, N, 8), (3, heads, N, 8), (3, heads, N, 5))
    outputs = []

    def model(_):
        attend = (
            scaled_dot_product_attention if imported else functional.scaled_dot_product_attention
        )
        outputs.append(
            attend(
                q,
                key=k,
                value=v,
                attn_mask=None if mask is None else torch.from_numpy(mask),
                **options,
            )
        )

    recipe = run_recipe(TORCH, {"model": model, "inputs": None})
    assert recipe["recorded"].calls == {0: call}
    assert recipe["saved"]["k.0"].shape == (3, heads, N, 8)
    ours = weights(recipe["saved"], 0, call[0], CAUSAL if "is_causal" in options else mask)
    assert_allclose(ours @ np.repeat(v.numpy(), 4 // heads, axis=1), outputs[0].numpy(), **CLOSE)
    model(None)
    assert outputs[0].equal(outputs[1])
    assert len(recipe["recorded"].calls) == 1  # after the recipe, nothing is recorded


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("mask", ["none", "causal", "tensor"])
def test_multi_head_attention_of_pytorch(need_weights, training, mask):
    """In evaluation mode, batch first, it has a path that calls no Python function."""
    torch = framework("torch")
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(32, 4, dropout=0.5, batch_first=True).train(training)
    torch.nn.init.normal_(layer.in_proj_bias)
    (x,) = tensors((3, N, 32))
    allowed, options = {
        "none": (None, {}),
        "causal": (CAUSAL, {"attn_mask": torch.from_numpy(~CAUSAL)}),
        "tensor": (PADDED, {"key_padding_mask": torch.from_numpy(~REAL)}),
    }[mask]
    results = []

    def model(x):
        torch.manual_seed(1)  # of the dropout
        results.append(layer(x, x, x, need_weights=need_weights, **options))

    recipe = run_recipe(TORCH, {"model": model, "inputs": x})
    assert recipe["recorded"].calls == {0: ("d_k^1/2", mask)}
    with torch.no_grad():
        model(x)
        theirs = layer.eval()(x, x, x, average_attn_weights=False, **options)[1]
    assert_allclose(weights(recipe["saved"], 0, "d_k^1/2", allowed), theirs.numpy(), **CLOSE)
    (recorded, recorded_weights), (output, output_weights) = results
    assert_allclose(recorded.numpy(), output.numpy(), **CLOSE)
    assert (recorded_weights is None) == (output_weights is None) == (not need_weights)


SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 50}
GROUPED = SMALL | {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8}
ROOT = ["d_k^1/2"] * 3


@pytest.mark.parametrize(
    ("name", "options", "divisors"),
    [
        ("Llama", GROUPED, ROOT),
        ("Gemma3Text", GROUPED | {"query_pre_attn_scalar": 64}, ["8"] * 3),
        (
            "GPT2",
            SMALL | {"scale_attn_by_inverse_layer_idx": True},
            ["d_k^1/2", "5.656854", "8.485281"],
        ),
        ("OPT", SMALL | {"word_embed_proj_dim": 32, "ffn_dim": 64}, ["1"] * 3),
        ("Bert", SMALL | {"intermediate_size": 64}, ROOT),
    ],
)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_model_of_transformers(name, options, divisors, implementation):
    transformers = framework("transformers")
    torch = framework("torch")
    config = getattr(transformers, f"{name}Config")(**options)
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}Model")(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:  # the initial matrices give nearly uniform rows
            torch.nn.init.normal_(parameter, std=0.5)
    input_ids = torch.randint(3, 50, (2, N))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = model(input_ids, output_attentions=True).attentions
    model.set_attn_implementation(implementation)
    recipe = run_recipe(TRANSFORMERS, {"model": model, "input_ids": input_ids})
    assert recipe["recorded"].calls == {
        layer: (divisor, "not recorded") for layer, divisor in enumerate(divisors)
    }
    saved = recipe["saved"]
    assert len(saved) == 6
    for layer in range(3):
        assert saved[f"q.{layer}"].shape == (2, 4, N, 8)
        assert saved[f"k.{layer}"].shape == (2, options.get("num_key_value_heads", 4), N, 8)
        ours = weights(saved, layer, divisors[layer], None if name == "Bert" else CAUSAL)
        assert_allclose(ours, theirs[layer].numpy(), **CLOSE)
        assert ours.max() > 0.5
    with torch.no_grad(), recorded_attention(model) as outer, recorded_attention(model) as inner:
        model(input_ids)
    assert outer.calls == inner.calls == recipe["recorded"].calls  # the recipe records no more


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 0.05)])
@pytest.mark.parametrize("key_heads", [4, 2])
@pytest.mark.parametrize("transform", ["none", "jit", "scan"])
def test_attention_of_jax(dtype, error, key_heads, transform):
    jax = framework("jax")
    random = jax.random.split(jax.random.key(0), 3)
    # layer, batch, position, head, d_k
    shapes = [(3, 2, N, heads, 8) for heads in (4, key_heads, key_heads)]
    given = [
        2 * jax.random.normal(key, shape, dtype) for key, shape in zip(random, shapes, strict=True)
    ]
    names: dict[str, Any] = {"inputs": given}

    def layers(inputs):
        return [names["attention"](layer, *(x[layer] for x in inputs)) for layer in range(3)]

    def scanned(inputs):
        return jax.lax.scan(lambda layer, x: (layer + 1, names["attention"](layer, *x)), 0, inputs)[
            1
        ]

    model = {"none": layers, "jit": jax.jit(layers), "scan": jax.jit(scanned)}[transform]
    outputs = []
    names["model"] = lambda inputs: outputs.extend(model(inputs))
    saved = run_recipe(JAX, names)["saved"]
    assert len(saved) == 6
    q, k, v, output = (
        np.stack([np.asarray(x, dtype=np.float32) for x in array]).swapaxes(-3, -2)
        for array in (*given, outputs)
    )
    for layer in range(3):
        assert_array_equal(saved[f"q.{layer}"], q[layer])
        assert_array_equal(saved[f"k.{layer}"], k[layer])
        ours = weights(saved, layer, "d_k^1/2", CAUSAL) @ np.repeat(
            v[layer], 4 // key_heads, axis=-3
        )
        assert_allclose(ours, output[layer], rtol=0, atol=error)
