"""The recipes of docs/your-model.md record what the attention of PyTorch, Transformers and JAX
receives.

Each test runs the code blocks of a section as they stand, on a tiny random model, and computes the
weights of the framework from the file that the blocks write.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sdpa import attention_weights, causal_mask
from tests.tools.recipes import GROUPED, SMALL, run_blocks

TORCH, TRANSFORMERS, JAX = "PyTorch", "Hugging Face Transformers", "JAX"  # the sections
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


def run_recipe(section, names):
    """The same, and add `saved`, the arrays of the file that they write."""
    run_blocks(section, names)
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
    "options, mask, call",
    [
        ({}, None, ("d_k^1/2", "none")),
        ({"scale": 7**-0.5}, None, ("2.645751", "none")),
        ({}, CAUSAL, ("d_k^1/2", "causal")),
        ({}, CAUSAL & PADDED, ("d_k^1/2", "tensor")),
        ({"is_causal": True, "enable_gqa": True, "scale": 1.0}, None, ("1", "causal")),
    ],
)
def test_the_attention_function_of_pytorch(options, mask, call):
    """Under two names."""
    torch = pytest.importorskip("torch")
    from torch.nn import functional
    from torch.nn.functional import scaled_dot_product_attention

    heads = 2 if "enable_gqa" in options else 4
    q, k, v = tensors((3, 4, N, 8), (3, heads, N, 8), (3, heads, N, 5))
    options["attn_mask"] = None if mask is None else torch.from_numpy(mask)
    outputs = []

    def model(_):
        for attend in (scaled_dot_product_attention, functional.scaled_dot_product_attention):
            outputs.append(attend(q, key=k, value=v, **options))

    recipe = run_recipe(TORCH, {"model": model, "inputs": None})
    assert recipe["recorded"].calls == {0: call, 1: call}
    assert recipe["saved"]["k.0"].shape == (3, heads, N, 8)
    ours = weights(recipe["saved"], 0, call[0], CAUSAL if "is_causal" in options else mask)
    assert_allclose(ours @ np.repeat(v.numpy(), 4 // heads, axis=1), outputs[0].numpy(), **CLOSE)
    model(None)
    assert all(map(outputs[0].equal, outputs))
    assert len(recipe["recorded"].calls) == 2  # after the recipe, nothing is recorded


ROOT = ["d_k^1/2"] * 3


@pytest.mark.parametrize(
    "name, options, divisors",
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
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
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


@pytest.mark.parametrize("is_compiled", [False, True])
def test_attention_of_jax(is_compiled):
    jax = pytest.importorskip("jax")
    random = jax.random.split(jax.random.key(0), 3)
    # layer, batch, position, head, d_k
    shapes = [(3, 2, N, heads, 8) for heads in (4, 2, 2)]
    given = [2 * jax.random.normal(*each) for each in zip(random, shapes, strict=True)]
    names = {"inputs": given}

    def layers(inputs):
        return [names["attention"](layer, *(x[layer] for x in inputs)) for layer in range(3)]

    model = jax.jit(layers) if is_compiled else layers
    outputs = []
    names["model"] = lambda inputs: outputs.extend(model(inputs))
    saved = run_recipe(JAX, names)["saved"]
    assert len(saved) == 6
    q, k, v, output = (
        np.stack([np.asarray(x) for x in array]).swapaxes(-3, -2) for array in (*given, outputs)
    )
    for layer in range(3):
        assert_array_equal(saved[f"q.{layer}"], q[layer])
        assert_array_equal(saved[f"k.{layer}"], k[layer])
        values = np.repeat(v[layer], 2, axis=-3)
        ours = weights(saved, layer, "d_k^1/2", CAUSAL) @ values
        assert_allclose(ours, output[layer], **CLOSE)
