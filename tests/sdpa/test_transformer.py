"""The transformer of `sdpa.network`: differences of a loss at prime sizes, for each option."""

import numpy as np
import pytest
from numpy.random import default_rng
from scipy.special import log_softmax

from sdpa import network
from sdpa.network import Block, Design, next_token_gradients, next_token_losses
from sdpa.row_maps import RowMap
from tests.numerics import derivative
from tests.random_blocks import HIDDEN, TOKENS, WIDTH, random_arrays

EACH_ROW = np.linspace(0.6, 2.1, TOKENS)[:, None]
CAPPED = RowMap(softcap=1.7, sink=0.4)
CASES = [
    (Design(1, 1, divisor=1.0, mask="none", norm="none"), "relu"),
    (Design(2, 2, divisor=1.3, norm="post", residual=0.7), "relu"),
    (Design(3, 3, divisor=0.6, mask="window-3", norm="post", epsilon=0.2), "none"),
    (Design(6, 2, divisor=EACH_ROW, residual=1.1, rope_base=50.0, epsilon=0.2), "gated"),
    (Design(2, 1, divisor=0.6, row_map=CAPPED), "gated"),
    (Design(2, 1, divisor=0.6, row_map=RowMap(1.7, normalizer="sigmoid")), "none"),
    (Design(6, 2, divisor=0.6, rope_base=50.0, epsilon=0.2, qk_norm=True), "none"),
]


@pytest.mark.parametrize("design, mlp", CASES)
def test_gradients_are_differences_of_the_loss(design, mlp):
    """Of two blocks, along a random direction of each array."""
    rng = default_rng(5)
    weights = [random_arrays(design, mlp, rng) for _ in range(2)]
    x, along_x, upstream = rng.standard_normal((3, 3, TOKENS, WIDTH))

    def loss(x, weights):
        blocks = [Block(**arrays) for arrays in weights]
        return (network.forward(x, blocks, design)[-1].after * upstream).sum()

    blocks = [Block(**arrays) for arrays in weights]
    steps = network.forward(x, blocks, design)
    actual = network.backward(upstream, steps, blocks, design)
    slope = derivative(lambda x: loss(x, weights), x, along_x)
    assert np.vdot(actual[0].x, along_x) == pytest.approx(slope, rel=1e-6)
    first, second = weights

    for name, array in first.items():

        def of_array(values, name=name):
            return loss(x, [first | {name: values}, second])

        gradient = getattr(actual[0].weights(), name)
        along = rng.standard_normal(array.shape)
        slope = derivative(of_array, array, along)
        assert np.vdot(gradient, along) == pytest.approx(slope, rel=1e-6), name


def test_the_losses_are_those_of_scipy():
    design, rng = Design(1, 1, divisor=1.0, norm="pre", epsilon=0.2), default_rng(3)
    x = rng.standard_normal((2, TOKENS, WIDTH))
    u, gain = rng.standard_normal((WIDTH, HIDDEN)), rng.standard_normal(WIDTH)
    targets = rng.integers(HIDDEN, size=(2, TOKENS))
    top = u, targets, design, gain
    losses, *_ = next_token_gradients(x, *top)
    normed = x * gain / np.sqrt(np.vecdot(x, x)[..., None] / WIDTH + 0.2)
    expected = -log_softmax(normed @ u, axis=-1)[*np.indices(targets.shape), targets]
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    assert (next_token_losses(x, *top) == losses).all()
