"""The transformer of `sdpa.network`: differences of a loss at prime sizes, for each option."""

from dataclasses import fields, replace

import numpy as np
import pytest

from sdpa import network
from sdpa.network import Block, Design, next_token_gradients, next_token_losses
from sdpa.row_maps import RowMap

WIDTH, TOKENS, D_K, D_V, HIDDEN = 5, 7, 2, 3, 11
DESIGNS = {
    "plain": Design(1, 1, divisor=1.0, mask="none", norm="none"),
    "causal": Design(1, 1, divisor=1.3, norm="pre"),
    "divisors": Design(2, 1, divisor=np.linspace(0.6, 2.1, TOKENS)[:, None]),
    "post-norm": Design(2, 2, divisor=1.3, norm="post", residual=0.7),
    "grouped heads": Design(6, 2, divisor=1.3, residual=1.1),
    "window": Design(3, 3, divisor=0.6, mask="window-3"),
    "rope": Design(2, 1, divisor=1.3, rope_base=50.0),
    "soft cap": Design(2, 2, divisor=0.6, row_map=RowMap(softcap=1.7)),
    "cap and sink": Design(2, 1, divisor=0.6, row_map=RowMap(softcap=1.7, sink=0.4)),
    "epsilon": Design(2, 2, divisor=1.3, epsilon=0.2),
}
MLPS = {"none": (), "relu": ("up", "down"), "gated": ("gate", "up", "down")}
CASES = [(name, mlp) for name in DESIGNS for mlp in MLPS]
STEP, ENTRIES = 2e-5, 2


def random_block(design: Design, mlp: str, rng: np.random.Generator) -> Block:
    shapes = {
        "query": (WIDTH, design.n_heads * D_K),
        "key": (WIDTH, design.n_key_heads * D_K),
        "value": (WIDTH, design.n_key_heads * D_V),
        "output": (design.n_heads * D_V, WIDTH),
        "gate": (WIDTH, HIDDEN),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
        "attention_gain": (WIDTH,),
        "mlp_gain": (WIDTH,),
    }
    taken = ["query", "key", "value", "output", *MLPS[mlp]]
    if design.norm != "none":
        taken += ["attention_gain", "mlp_gain"] if MLPS[mlp] else ["attention_gain"]
    return Block(**{name: 0.5 * rng.standard_normal(shapes[name]) for name in taken})


def derivative(function) -> float:
    """The derivative at 0 by differences of fourth order."""
    near, far = (function(h) - function(-h) for h in (STEP, 2 * STEP))
    return (8 * near - far) / (12 * STEP)


def worst_error(name: str, mlp: str) -> float:
    """The largest error of a gradient of two blocks, over the largest gradient of its array."""
    design, rng = DESIGNS[name], np.random.default_rng(5)
    blocks = [random_block(design, mlp, rng) for _ in range(2)]
    x, upstream = rng.standard_normal((2, 3, TOKENS, WIDTH))

    def loss(x, blocks) -> float:
        return float((network.forward(x, blocks, design)[-1].after * upstream).sum())

    def error(gradient, array, loss_of) -> float:
        worst = 0.0
        for entry in (tuple(rng.integers(size) for size in array.shape) for _ in range(ENTRIES)):
            unit = np.zeros_like(array)
            unit[entry] = 1.0
            expected = derivative(lambda h, unit=unit: loss_of(array + h * unit))
            worst = max(worst, abs(gradient[entry] - expected))
        return worst / np.abs(gradient).max()

    found = network.backward(upstream, network.forward(x, blocks, design), blocks, design)
    errors = [error(found[0].x, x, lambda moved: loss(moved, blocks))]
    weights = found[0].weights()
    first, second = blocks
    for field in fields(Block):
        if (array := getattr(first, field.name)) is not None:

            def loss_of(moved, name=field.name) -> float:
                return loss(x, [replace(first, **{name: moved}), second])

            errors.append(error(getattr(weights, field.name), array, loss_of))
    return max(errors)


@pytest.mark.parametrize(("name", "mlp"), CASES)
def test_gradients_are_differences_of_the_loss(name, mlp):
    assert worst_error(name, mlp) < 1e-6


@pytest.mark.parametrize("norm", ["pre", "none"])
def test_the_losses_are_those_of_loops_and_their_gradients_are_differences(norm):
    design, rng = Design(1, 1, divisor=1.0, norm=norm, epsilon=0.2), np.random.default_rng(3)
    x, along = rng.standard_normal((2, 2, TOKENS, WIDTH))
    u, gain = rng.standard_normal((WIDTH, HIDDEN)), rng.standard_normal(WIDTH)
    targets = rng.integers(HIDDEN, size=(2, TOKENS))
    top = u, targets, design, gain
    losses, to_x = next_token_gradients(x, *top)
    expected = []
    for row, target in zip(x.reshape(-1, WIDTH), targets.ravel(), strict=True):
        normed = row * gain / np.sqrt(row @ row / WIDTH + 0.2) if norm == "pre" else row
        shares = np.exp(normed @ u)
        expected.append(-np.log(shares[target] / shares.sum()))
    np.testing.assert_allclose(losses.ravel(), expected, rtol=1e-12)
    assert (next_token_losses(x, *top) == losses).all()
    slope = derivative(lambda h: next_token_losses(x + h * along, *top).sum())
    assert (to_x * along).sum() == pytest.approx(slope, rel=1e-8)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"n_key_heads": 2}, "n_key_heads that divide n_heads, got 3 and 2"),
        ({"row_map": RowMap(normalizer="sigmoid")}, "softmax, got sigmoid"),
    ],
)
def test_impossible_designs_are_refused(change, expected):
    with pytest.raises(ValueError, match=expected):
        replace(Design(3, 3, divisor=1.0), **change)
