"""The decoder and the optimizers against finite differences, plain loops and hand-solved cases."""

import math

import numpy as np
import pytest

from sdpa.decoder import Adam, Decoder, Momentum, loss_and_gradients, losses
from sdpa.network import Block, Design
from tests.numerics import derivative
from tests.random_blocks import WIDTH, random_arrays

DESIGN = Design(2, 2, divisor=1.5, rope_base=100.0, epsilon=1e-6)
VOCABULARY = 5
RNG = np.random.default_rng(3)
TOKENS = RNG.integers(VOCABULARY, size=(3, 8))


def _decoder():
    blocks = tuple(Block(**random_arrays(DESIGN, "relu", RNG)) for _ in range(2))
    embedding, unembedding = RNG.standard_normal((2, VOCABULARY, WIDTH)) / 2
    return Decoder(embedding, blocks, unembedding.T)


def test_the_gradient_of_every_array_is_that_of_differences():
    decoder = _decoder()
    actual = loss_and_gradients(decoder, TOKENS, DESIGN)
    assert np.allclose(actual.losses, losses(decoder, TOKENS, DESIGN), rtol=1e-14)
    pairs = list(zip(decoder.arrays(), actual.to_weights.arrays(), strict=True))
    assert len(pairs) == 2 + 2 * 7
    for (name, array), (_, gradient) in pairs:
        before, along = array.copy(), RNG.standard_normal(array.shape)

        def loss(values, array=array):
            array[:] = values
            return losses(decoder, TOKENS, DESIGN).sum()

        slope = derivative(loss, before, along)
        assert slope == pytest.approx(np.vdot(gradient, along), rel=1e-6, abs=1e-7), name
        array[:] = before


def test_no_loss_depends_on_later_tokens():
    decoder, others = _decoder(), TOKENS.copy()
    others[:, -1] = (others[:, -1] + 1) % VOCABULARY
    changed = losses(decoder, others, DESIGN) - losses(decoder, TOKENS, DESIGN)
    assert not changed[:, :-1].any()
    assert changed[:, -1].all()


GRADIENTS = (2.0, -1.0, 4.0)


def test_adam_is_algorithm_1():
    weights, rate = np.array([1.0]), 0.1
    optimizer, m, v, expected = Adam([weights]), 0.0, 0.0, 1.0
    for t, g in enumerate(GRADIENTS, 1):
        optimizer.step([np.array([g])], [rate])
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        expected -= rate * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
        assert weights[0] == pytest.approx(expected, rel=1e-13)


def test_momentum_adds_earlier_gradients():
    fast, slow = np.array([1.0]), np.array([1.0])
    optimizer = Momentum([fast, slow])
    for g in GRADIENTS:
        optimizer.step([np.array([g]), np.array([g])], [0.1, 0.01])
    # velocities 2, 0.8 and 4.72
    assert fast[0] == pytest.approx(1 - 0.1 * 7.52)
    assert slow[0] == pytest.approx(1 - 0.01 * 7.52)
