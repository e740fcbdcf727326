"""Modules with projections, and the comparison of one draw, by plain loops and
exact values.
"""

import math

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from sdpa import MultiHeadAttention, ScaledDotProductAttention, compare_scaling
from sdpa.theory import attention_expectations
from tests.numerics import normals
from tests.plain_attention import attention

D_MODEL, N = 15, 7


@pytest.mark.parametrize(
    "module, names",
    [
        (ScaledDotProductAttention(20, 10, 30, seed=4), "QKV"),
        (MultiHeadAttention(20, 2, seed=4), "QKVO"),
    ],
)
def test_weights_are_drawn_in_order_with_their_variance(module, names):
    rng = default_rng(4)
    for name in names:
        weights = getattr(module, f"W_{name}")
        variance = 2 / sum(weights.shape)
        assert_allclose(weights, rng.standard_normal(weights.shape) * math.sqrt(variance))


@pytest.mark.parametrize(
    "module",
    [
        ScaledDotProductAttention(D_MODEL, 4, 6, scaling=2.5),
        MultiHeadAttention(D_MODEL, 3, scaling=2.5),
    ],
)
def test_heads_are_attention_of_their_projections(module):
    """The output of several heads is their outputs side by side times W_O."""
    tokens = normals(N, D_MODEL)
    projected = [tokens @ matrix for matrix in (module.W_Q, module.W_K, module.W_V)]
    n_heads = getattr(module, "n_heads", 1)
    of_heads = zip(*(np.split(each, n_heads, axis=1) for each in projected), strict=True)
    plain_heads = [
        attention(*(each.tolist() for each in head), divisor=2.5, hidden=lambda i, j: j > i)
        for head in of_heads
    ]
    output, weights = module.attend(tokens, mask="causal")
    expected = np.hstack([head["output"] for head in plain_heads])
    assert_allclose(output, expected @ getattr(module, "W_O", np.eye(6)), rtol=1e-11)
    assert_allclose(np.reshape(weights, (n_heads, N, N)), [head["weights"] for head in plain_heads])


def test_a_mask_per_sequence_is_not_one_per_head():
    """As many sequences as heads, each with a mask of its own."""
    heads, batch = MultiHeadAttention(D_MODEL, 3, seed=5), normals(3, N, D_MODEL)
    masks = (normals(3, N, N, seed=8) > 0) | np.eye(N, dtype=bool)
    expected = [heads(tokens, mask=mask) for tokens, mask in zip(batch, masks, strict=True)]
    assert_allclose(heads(batch, mask=masks), expected, rtol=1e-12)


REFUSED = {
    "n_heads of at least 1 that divides d_model, got 2 and": lambda: MultiHeadAttention(7, 2),
    r"X: expected 6 columns .*\(2, 5\)": lambda: MultiHeadAttention(6, 2)(np.zeros((2, 5))),
    "d_k: expected a whole number of at least 1, got 64.0": lambda: compare_scaling(64.0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_arguments_are_refused(message):
    with pytest.raises((TypeError, ValueError), match=message):
        REFUSED[message]()


def test_both_sides_are_those_of_plain_loops():
    drawn = compare_scaling(7, n_queries=3, n_keys=5, scaling=2.5, seed=11)
    rng = default_rng(11)
    q, k = rng.standard_normal((3, 7)), rng.standard_normal((5, 7))
    for side, over in ((drawn.unscaled, 1.0), (drawn.scaled, 2.5)):
        plain = attention(q.tolist(), k.tolist(), divisor=over)
        assert_allclose(side.scores, plain["scaled_scores"], rtol=1e-12)
        assert_allclose(side.weights, plain["weights"], rtol=1e-12)
        assert side.score_std == pytest.approx(np.std(side.scores))
        _, largest, _, nats = np.mean(plain["divisor_effect"], axis=0)
        assert (side.max_weight, side.entropy) == pytest.approx((largest, nats))
        exact = attention_expectations(7, 5, over)
        assert (side.exact_max_weight, side.exact_entropy) == (exact.max_weight, exact.entropy)
        assert side.exact_score_std == pytest.approx(math.sqrt(7) / over)
