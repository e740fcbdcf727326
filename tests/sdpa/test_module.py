"""The module with projections against its definition, another library's convention of shapes, and bad input."""

import numpy as np
import pytest

from sdpa import ScaledDotProductAttention, scaled_dot_product_attention


@pytest.fixture
def attention() -> ScaledDotProductAttention:
    return ScaledDotProductAttention(7, 3, 5, np.random.default_rng(1))


def test_it_is_attention_of_the_projected_tokens(attention):
    tokens = np.random.default_rng(2).standard_normal((11, 7))
    expected = scaled_dot_product_attention(tokens @ attention.W_Q, tokens @ attention.W_K, tokens @ attention.W_V)
    output, weights = attention(tokens, return_weights=True)
    np.testing.assert_array_equal(attention(tokens), output)
    np.testing.assert_allclose(output, expected, rtol=1e-14)
    assert (output.shape, weights.shape) == ((11, 5), (11, 11))


def test_a_batch_is_a_loop_over_its_sequences(attention):
    batch = np.random.default_rng(3).standard_normal((2, 13, 7))
    np.testing.assert_allclose(attention(batch), np.stack([attention(tokens) for tokens in batch]), rtol=1e-13)


def test_weights_are_drawn_in_order_with_their_variance():
    attention = ScaledDotProductAttention(200, 100, 300, np.random.default_rng(4))
    rng = np.random.default_rng(4)
    for weights, width in ((attention.W_Q, 100), (attention.W_K, 100), (attention.W_V, 300)):
        np.testing.assert_allclose(weights, rng.standard_normal((200, width)) * np.sqrt(2 / (200 + width)))
        # A variance of 20,000 numbers and more is within 5% of its own, 1% being one standard error.
        assert weights.var() == pytest.approx(2 / (200 + width), rel=0.05)


def test_a_published_seed_draws_as_numpy_s_global_generator_did():
    attention = ScaledDotProductAttention(3, 2, 2, np.random.RandomState(42))
    assert attention.W_Q[0, 0] / np.sqrt(2 / 5) == pytest.approx(0.4967141530112327)


@pytest.mark.parametrize("widths", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_widths_below_one_are_refused(widths):
    with pytest.raises(ValueError, match="expected d_model, d_k and d_v from 1, got"):
        ScaledDotProductAttention(*widths, np.random.default_rng(0))


def test_tokens_of_another_width_are_refused(attention):
    with pytest.raises(ValueError, match=r"X: expected 7 columns \(d_model\), got shape \(2, 6\)"):
        attention(np.zeros((2, 6)))
