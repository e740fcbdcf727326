"""The modules with projections against their definition, plain loops, single heads, PyTorch, and bad input."""

import math
from functools import partial

import numpy as np
import pytest

from sdpa import MultiHeadAttention, ScaledDotProductAttention, scaled_dot_product_attention

D_MODEL, N_HEADS, D_K, N = 15, 3, 5, 7
MODULES = {
    "one head": partial(ScaledDotProductAttention, D_MODEL, 3, 2),
    "several heads": partial(MultiHeadAttention, D_MODEL, N_HEADS),
}


@pytest.fixture
def attention() -> ScaledDotProductAttention:
    return ScaledDotProductAttention(7, 3, 5, seed=1)


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
    attention = ScaledDotProductAttention(200, 100, 300, seed=4)
    rng = np.random.default_rng(4)
    for weights, width in ((attention.W_Q, 100), (attention.W_K, 100), (attention.W_V, 300)):
        np.testing.assert_allclose(weights, rng.standard_normal((200, width)) * np.sqrt(2 / (200 + width)))
        # A variance of 20,000 numbers and more is within 5% of its own, 1% being one standard error.
        assert weights.var() == pytest.approx(2 / (200 + width), rel=0.05)


def test_a_published_seed_draws_as_numpy_s_global_generator_did():
    attention = ScaledDotProductAttention(3, 2, 2, rng=np.random.RandomState(42))
    assert attention.W_Q[0, 0] / np.sqrt(2 / 5) == pytest.approx(0.4967141530112327)


@pytest.mark.parametrize("widths", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_widths_below_one_are_refused(widths):
    with pytest.raises(ValueError, match="expected d_model, d_k and d_v of at least 1, got"):
        ScaledDotProductAttention(*widths, seed=0)


def test_tokens_of_another_width_are_refused(attention):
    with pytest.raises(ValueError, match=r"X: expected 7 columns \(d_model\), got shape \(2, 6\)"):
        attention(np.zeros((2, 6)))


@pytest.fixture
def heads() -> MultiHeadAttention:
    return MultiHeadAttention(D_MODEL, N_HEADS, seed=5)


def draw(*shape: int, seed: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.fixture(params=MODULES)
def module(request):
    return MODULES[request.param]


def test_the_seed_says_the_weights(module):
    tokens = draw(N, D_MODEL)
    drawn = module(rng=np.random.default_rng(0))(tokens)
    np.testing.assert_array_equal(module()(tokens), drawn)
    np.testing.assert_array_equal(module(seed=0)(tokens), drawn)
    assert not np.allclose(module(seed=1)(tokens), drawn)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seed": 0, "rng": np.random.default_rng(0)}, ValueError, "expected seed or rng, got both: seed 0 and an rng"),
        ({"seed": -1}, ValueError, "seed: expected a non-negative integer, got -1"),
        ({"seed": 0.5}, TypeError, "seed: expected a non-negative integer, got 0.5"),
        ({"rng": 42}, TypeError, r"rng: expected a NumPy Generator or RandomState, got 42 \(pass an integer as seed\)"),
        ({"scaling": "sqrt"}, ValueError, "expected 'unscaled' or a product .* got 'sqrt'"),
        ({"scaling": 0.0}, ValueError, "finite and above 0, got 0.0"),
    ],
)
def test_wrong_options_are_refused_at_once(module, options, error, message):
    with pytest.raises(error, match=message):
        module(**options)


def test_options_have_no_place():
    with pytest.raises(TypeError, match="positional"):
        ScaledDotProductAttention(7, 3, 5, np.random.default_rng(0))
    with pytest.raises(TypeError, match="positional"):
        MultiHeadAttention(D_MODEL, N_HEADS, 0)


@pytest.mark.parametrize("scaling", ["unscaled", "d_k^1/3", 2.5])
def test_scaling_and_mask_are_those_of_attention(scaling):
    attention, tokens, mask = (
        ScaledDotProductAttention(7, 3, 5, scaling=scaling),
        draw(2, 11, 7),
        np.tri(11, dtype=bool),
    )
    q, k, v = tokens @ attention.W_Q, tokens @ attention.W_K, tokens @ attention.W_V
    expected = scaled_dot_product_attention(q, k, v, scaling=scaling, mask=mask)
    np.testing.assert_array_equal(attention(tokens, mask=mask), expected)


def test_permuted_tokens_have_permuted_outputs(module):
    tokens, order = draw(2, N, D_MODEL), [3, 1, 6, 0, 2, 5, 4]
    attention = module()
    np.testing.assert_allclose(attention(tokens[:, order]), attention(tokens)[:, order], rtol=1e-12, atol=1e-14)


def test_under_a_causal_mask_no_token_sees_a_later_one(module):
    tokens, mask = draw(N, D_MODEL), np.tri(N, dtype=bool)
    changed = tokens.copy()
    changed[4:] += 1
    output, weights = module()(tokens, mask=mask, return_weights=True)
    np.testing.assert_array_equal(weights[..., ~mask], 0)
    np.testing.assert_allclose(module()(changed, mask=mask)[:4], output[:4], rtol=1e-13)
    np.testing.assert_allclose(module()(tokens[:4])[3], output[3], rtol=1e-12)
    assert not np.allclose(module()(changed, mask=mask)[4:], output[4:])


@pytest.mark.parametrize("scaling", ["d_k^1/2", "d_k^1/3", 2.5])
def test_several_heads_are_single_heads_side_by_side(scaling):
    heads, tokens = MultiHeadAttention(D_MODEL, N_HEADS, seed=5, scaling=scaling), draw(2, N, D_MODEL)
    output, weights = heads(tokens, return_weights=True)
    singles = []
    for i in range(N_HEADS):
        single, columns = ScaledDotProductAttention(D_MODEL, D_K, D_K, scaling=scaling), slice(i * D_K, (i + 1) * D_K)
        single.W_Q, single.W_K, single.W_V = heads.W_Q[:, columns], heads.W_K[:, columns], heads.W_V[:, columns]
        one, its_weights = single(tokens, return_weights=True)
        np.testing.assert_allclose(weights[:, i], its_weights, rtol=1e-12)
        singles.append(one)
    np.testing.assert_allclose(output, np.concatenate(singles, axis=-1) @ heads.W_O, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(heads(tokens), output)
    assert (output.shape, weights.shape) == ((2, N, D_MODEL), (2, N_HEADS, N, N))


def projected(tokens, matrix):
    """A product by plain loops."""
    inner, columns = range(len(matrix)), range(len(matrix[0]))
    return [[sum(token[m] * matrix[m][j] for m in inner) for j in columns] for token in tokens]


def test_several_heads_by_plain_loops(heads):
    tokens = draw(N, D_MODEL)
    q, k, v = (projected(tokens, matrix) for matrix in (heads.W_Q, heads.W_K, heads.W_V))
    joined = [[0.0] * D_MODEL for _ in range(N)]
    for first in range(0, D_MODEL, D_K):
        head = range(first, first + D_K)
        for i in range(N):
            exponentials = [math.exp(sum(q[i][m] * k[j][m] for m in head) / math.sqrt(D_K)) for j in range(N)]
            for m in head:
                joined[i][m] = sum(e * v[j][m] for j, e in enumerate(exponentials)) / sum(exponentials)
    np.testing.assert_allclose(heads(tokens), projected(joined, heads.W_O), rtol=1e-11)


def test_a_mask_per_sequence_is_not_one_per_head(heads):
    """As many sequences as heads, each with a mask of its own."""
    batch = draw(N_HEADS, N, D_MODEL)
    masks = (draw(N_HEADS, N, N, seed=8) > 0) | np.eye(N, dtype=bool)
    expected = [heads(tokens, mask=mask) for tokens, mask in zip(batch, masks, strict=True)]
    np.testing.assert_allclose(heads(batch, mask=masks), expected, rtol=1e-12)


def test_the_matrices_of_several_heads_are_drawn_in_order_with_their_variance():
    heads, rng = MultiHeadAttention(202, 2, rng=np.random.RandomState(9)), np.random.RandomState(9)
    for weights in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O):
        np.testing.assert_allclose(weights, rng.standard_normal((202, 202)) / math.sqrt(202), rtol=1e-14)
    assert heads.d_k == heads.d_v == 101


def test_one_head_is_the_single_head_times_w_o():
    heads, single = MultiHeadAttention(7, 1), ScaledDotProductAttention(7, 7, 7)
    tokens = draw(5, 7)
    np.testing.assert_allclose(heads(tokens), single(tokens) @ heads.W_O, rtol=1e-12)


@pytest.mark.parametrize(("d_model", "n_heads"), [(7, 2), (6, 0), (0, 1), (6, -2), (3, 6)])
def test_heads_that_do_not_divide_the_width_are_refused(d_model, n_heads):
    message = f"expected n_heads of at least 1 that divides d_model, got {n_heads} and {d_model}"
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(d_model, n_heads)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((N, N)), "mask: expected booleans"),
        (np.ones((2, N, N), dtype=bool), r"broadcasts to \(7, 7\), got \(2, 7, 7\)"),
        (np.arange(N)[:, None] != [2] * N, r"mask: expected every query to see a key, got none in row \(2\)"),
    ],
)
def test_a_wrong_mask_is_refused_in_the_shape_of_the_tokens(module, mask, message):
    with pytest.raises(ValueError, match=message):
        module()(draw(N, D_MODEL), mask=mask)


def test_several_heads_agree_with_pytorch(heads):
    torch = pytest.importorskip("torch", reason="PyTorch is not in the lock; install it to run this comparison")
    theirs = torch.nn.MultiheadAttention(D_MODEL, N_HEADS, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.tensor(np.concatenate([heads.W_Q.T, heads.W_K.T, heads.W_V.T])))
        theirs.out_proj.weight.copy_(torch.tensor(heads.W_O.T))
        tokens, mask = draw(2, N, D_MODEL), np.tri(N, dtype=bool)
        x = torch.tensor(tokens)
        expected = theirs(x, x, x, attn_mask=torch.tensor(~mask), average_attn_weights=False)
    for ours, other in zip(heads(tokens, mask=mask, return_weights=True), expected, strict=True):
        np.testing.assert_allclose(ours, other.numpy(), rtol=1e-11, atol=1e-14)
