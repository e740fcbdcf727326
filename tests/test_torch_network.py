"""The gradients of `sdpa.network` beside PyTorch's autograd, where PyTorch is installed."""

from dataclasses import fields

import numpy as np
import pytest

from sdpa import network
from sdpa.network import Block, Design, next_token_gradients

pytestmark = pytest.mark.models

# The sizes of a block of Llama's kind: RMS norms, RoPE, grouped heads, a causal mask and SwiGLU.
HEADS, KEY_HEADS, D_K, TOKENS, HIDDEN, WORDS = 6, 2, 8, 11, 40, 23
WIDTH = HEADS * D_K
BASE, EPSILON = 100.0, 1e-5
SHAPES = {
    "query": (WIDTH, WIDTH),
    "key": (WIDTH, KEY_HEADS * D_K),
    "value": (WIDTH, KEY_HEADS * D_K),
    "output": (WIDTH, WIDTH),
    "gate": (WIDTH, HIDDEN),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
    "attention_gain": (WIDTH,),
    "mlp_gain": (WIDTH,),
}


def rope(torch, x):
    """Pairs (x_i, x_(i + d/2)) turned by the angle position * BASE^(-2 i / d), as complex numbers."""
    first, second = x.chunk(2, dim=-1)
    frequencies = BASE ** (-torch.arange(0, D_K, 2, dtype=x.dtype) / D_K)
    angles = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), frequencies)
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=-1)


def block_of_llama(torch, x, weights, divisor):
    functions = torch.nn.functional

    def heads(y, count):
        return y.unflatten(-1, (count, D_K)).transpose(-2, -3)

    h = functions.rms_norm(x, (WIDTH,), weights["attention_gain"], EPSILON)
    attended = functions.scaled_dot_product_attention(
        rope(torch, heads(h @ weights["query"], HEADS)),
        rope(torch, heads(h @ weights["key"], KEY_HEADS)),
        heads(h @ weights["value"], KEY_HEADS),
        is_causal=True,
        scale=1 / divisor,
        enable_gqa=True,
    )
    x = x + attended.transpose(-2, -3).flatten(-2) @ weights["output"]
    h = functions.rms_norm(x, (WIDTH,), weights["mlp_gain"], EPSILON)
    return x + (functions.silu(h @ weights["gate"]) * (h @ weights["up"])) @ weights["down"]


@pytest.mark.parametrize("divisor", [1.0, D_K**0.5])
def test_gradients_of_a_llama_are_those_of_autograd(divisor):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    drawn = [
        {name: rng.standard_normal(shape) * shape[0] ** -0.5 for name, shape in SHAPES.items()}
        for _ in range(3)
    ]
    tokens = rng.standard_normal((2, TOKENS, WIDTH))
    unembedding, gain = rng.standard_normal((WIDTH, WORDS)), rng.standard_normal(WIDTH)
    targets = rng.integers(WORDS, size=(2, TOKENS))

    x = torch.from_numpy(tokens).requires_grad_()
    weights = [
        {name: torch.from_numpy(array).requires_grad_() for name, array in layer.items()}
        for layer in drawn
    ]
    stream = x
    for layer in weights:
        stream = block_of_llama(torch, stream, layer, divisor)
    stream = torch.nn.functional.rms_norm(stream, (WIDTH,), torch.from_numpy(gain), EPSILON)
    logits = (stream @ torch.from_numpy(unembedding)).flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(targets).flatten())
    expected.backward()

    blocks = [Block(**layer) for layer in drawn]
    design = Design(HEADS, KEY_HEADS, divisor, rope_base=BASE, epsilon=EPSILON)
    steps = network.forward(tokens, blocks, design)
    losses, top = next_token_gradients(steps[-1].after, unembedding, targets, design, gain)
    found = network.backward(top / targets.size, steps, blocks, design)
    assert losses.mean() == pytest.approx(expected.item(), rel=1e-10)
    np.testing.assert_allclose(found[0].x, x.grad.numpy(), rtol=1e-8, atol=1e-10)
    for gradients, layer in zip(found, weights, strict=True):
        of_weights = gradients.weights()
        for field in fields(Block):
            gradient = getattr(of_weights, field.name)
            np.testing.assert_allclose(
                gradient, layer[field.name].grad.numpy(), rtol=1e-8, atol=1e-10
            )
