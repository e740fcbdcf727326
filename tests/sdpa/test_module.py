"""Modules with projections, and the comparison of one draw, by plain loops and
exact values.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sdpa import (
    MultiHeadAttention,
    ScaledDotProductAttention,
    compare_scaling,
    trace,
)
from sdpa.theory import attention_expectations
from tests.plain_attention import attention, entropy

D_MODEL, N_HEADS, D_K, N = 15, 3, 5, 7


@pytest.fixture
def heads() -> MultiHeadAttention:
    return MultiHeadAttention(D_MODEL, N_HEADS, seed=5)


def draw(*shape: int, seed: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (ScaledDotProductAttention(20, 10, 30, seed=4), "QKV"),
        (MultiHeadAttention(20, 2, seed=4), "QKVO"),
    ],
)
def test_weights_are_drawn_in_order_with_their_variance(module, names):
    rng = np.random.default_rng(4)
    for name in names:
        weights = getattr(module, f"W_{name}")
        variance = 2 / sum(weights.shape)
        assert_allclose(weights, rng.standard_normal(weights.shape) * math.sqrt(variance))


def test_one_head_is_attention_of_its_projections():
    head = ScaledDotProductAttention(7, 3, 5, scaling="d_k^1/3/ln(n_keys-1)")
    tokens = draw(2, 11, 7)
    q, k, v = (tokens @ matrix for matrix in (head.W_Q, head.W_K, head.W_V))
    expected = trace(q, k, v, scaling=head.scaling, mask="causal")
    output, weights = head.attend(tokens, mask="causal")
    assert_array_equal(output, expected.output)
    assert_array_equal(weights, expected.weights)


def test_several_heads_by_plain_loops(heads):
    tokens = draw(N, D_MODEL)
    projected = [tokens @ matrix for matrix in (heads.W_Q, heads.W_K, heads.W_V)]
    of_heads = [
        attention(
            *(x[:, first : first + D_K].tolist() for x in projected), hidden=lambda i, j: j > i
        )["output"]
        for first in range(0, D_MODEL, D_K)
    ]
    found = heads(tokens, mask="causal")
    assert_allclose(found, np.hstack(of_heads) @ heads.W_O, rtol=1e-11)


def test_a_mask_per_sequence_is_not_one_per_head(heads):
    """As many sequences as heads, each with a mask of its own."""
    batch = draw(N_HEADS, N, D_MODEL)
    masks = (draw(N_HEADS, N, N, seed=8) > 0) | np.eye(N, dtype=bool)
    expected = [heads(tokens, mask=mask) for tokens, mask in zip(batch, masks, strict=True)]
    assert_allclose(heads(batch, mask=masks), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MultiHeadAttention(7, 2), "n_heads of at least 1 that divides d_model, got 2 and"),
        (lambda: MultiHeadAttention(6, 2)(np.zeros((2, 5))), r"X: expected 6 columns .*\(2, 5\)"),
        (lambda: compare_scaling(64.0), "d_k: expected a whole number of at least 1, got 64.0"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_both_sides_are_those_of_plain_loops():
    drawn = compare_scaling(7, n_queries=3, n_keys=5, scaling=2.5, seed=11)
    rng = np.random.default_rng(11)
    q, k = rng.standard_normal((3, 7)), rng.standard_normal((5, 7))
    for side, over in ((drawn.unscaled, 1.0), (drawn.scaled, 2.5)):
        plain = attention(q.tolist(), k.tolist(), divisor=over)
        weights = plain["weights"]
        assert_allclose(side.scores, plain["scaled_scores"], rtol=1e-12)
        assert_allclose(side.weights, weights, rtol=1e-12)
        assert side.score_std == pytest.approx(np.std(side.scores))
        assert side.max_weight == pytest.approx(np.mean([max(row) for row in weights]))
        assert side.entropy == pytest.approx(np.mean([entropy(row) for row in weights]))
        exact = attention_expectations(7, 5, over)
        assert (side.exact_max_weight, side.exact_entropy) == (exact.max_weight, exact.entropy)
        assert side.exact_score_std == pytest.approx(math.sqrt(7) / over)
