"""Optimizers against plain loops of the textbook formulas, one number at a time."""

import math

import numpy as np
import pytest

from sdpa.training import OPTIMIZERS

SHAPES = (2, 3, 5), (7,)
STEPS = 11
RATE = 0.03


def sgd(weight, gradients):
    for gradient in gradients:
        weight -= RATE * gradient
    return weight


def adam(weight, gradients):
    """Algorithm 1 of Kingma and Ba (2015), with its constants."""
    m = v = 0.0
    for t, gradient in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        weight -= RATE * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return weight


TEXTBOOK = {"adam": adam, "sgd": sgd}


def drawn(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in SHAPES]


@pytest.mark.parametrize("size", [1.0, 1e-8, 1e60, 0.0])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_textbook(name, size):
    """Among them gradients as small as Adam's epsilon, and 0, which changes nothing."""
    arrays, gradients = drawn(0), [[size * array for array in drawn(1 + step)] for step in range(STEPS)]
    expected = [
        [TEXTBOOK[name](weight, numbers) for weight, *numbers in zip(*(x.ravel().tolist() for x in each), strict=True)]
        for each in zip(arrays, *gradients, strict=True)
    ]
    descend = OPTIMIZERS[name](arrays, RATE)
    for each in gradients:
        descend(each)
    for found, numbers in zip(arrays, expected, strict=True):  # the arrays themselves have changed
        np.testing.assert_allclose(found.ravel(), numbers, rtol=1e-12, atol=1e-15)
