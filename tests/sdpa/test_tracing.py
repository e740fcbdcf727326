"""The trace: every step by plain loops, and the same weights and output as attention itself."""

import math

import numpy as np
import pytest

from sdpa import scaled_dot_product_attention, trace, trace_shapes


def draw(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_every_step_is_that_of_plain_loops():
    q, k, v = draw(3, 5, seed=0), draw(7, 5, seed=1), draw(7, 2, seed=2)
    steps = trace(q, k, v)
    assert steps.divisor == math.sqrt(5)
    for i in range(3):
        scores = [sum(q[i][m] * k[j][m] for m in range(5)) for j in range(7)]
        scaled = [score / math.sqrt(5) for score in scores]
        exponentials = [math.exp(score - max(scaled)) for score in scaled]
        weights = [e / sum(exponentials) for e in exponentials]
        output = [sum(weights[j] * v[j][m] for j in range(7)) for m in range(2)]
        np.testing.assert_allclose(steps.scores[i], scores, rtol=1e-12)
        np.testing.assert_allclose(steps.scaled_scores[i], scaled, rtol=1e-12)
        np.testing.assert_allclose(steps.exponentials[i], exponentials, rtol=1e-12)
        np.testing.assert_allclose(steps.sums[i], [sum(exponentials)], rtol=1e-12)
        np.testing.assert_allclose(steps.weights[i], weights, rtol=1e-12)
        np.testing.assert_allclose(steps.output[i], output, rtol=1e-12)


@pytest.mark.parametrize("scaling", ["unscaled", "d_k^1/3", 2.5])
@pytest.mark.parametrize("masked", [False, True])
def test_weights_and_output_are_those_of_attention(scaling, masked):
    q, k, v = draw(2, 4, 3, seed=3), draw(2, 4, 3, seed=4), draw(4, 5, seed=5)
    mask = np.tri(4, dtype=bool) if masked else None
    output, weights = scaled_dot_product_attention(q, k, v, scaling=scaling, mask=mask, return_weights=True)
    steps = trace(q, k, v, scaling=scaling, mask=mask)
    assert np.array_equal(steps.weights, weights)
    assert np.array_equal(steps.output, output)
    assert np.isneginf(steps.scaled_scores).any() == masked


def test_shapes_in_the_order_of_the_formula():
    shapes = trace_shapes(draw(3, 5, seed=0), draw(7, 5, seed=1), draw(7, 2, seed=2))
    assert list(shapes.items()) == [
        ("Q", (3, 5)),
        ("K", (7, 5)),
        ("V", (7, 2)),
        ("K^T", (5, 7)),
        ("Q K^T", (3, 7)),
        ("scaled scores", (3, 7)),
        ("weights", (3, 7)),
        ("output", (3, 2)),
    ]
