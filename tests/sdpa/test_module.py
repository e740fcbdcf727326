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


@pytest.fixture
def heads() -> MultiHeadAttention:
    return MultiHeadAttention(D_MODEL, N_HEADS, seed=5)


def draw(*shape: int, seed: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.fixture(params=MODULES)
def module(request):
    return MODULES[request.param]


def test_weights_are_drawn_in_order_with_their_variance():
    """A variance of 20,000 numbers and more is within 5% of its own, 1% being one standard error."""
    one, several = ScaledDotProductAttention(200, 100, 300, seed=4), MultiHeadAttention(200, 2, seed=4)
    for matrices in ((one.W_Q, one.W_K, one.W_V), (several.W_Q, several.W_K, several.W_V, several.W_O)):
        rng = np.random.default_rng(4)
        for weights in matrices:
            variance = 2 / sum(weights.shape)
            np.testing.assert_allclose(weights, rng.standard_normal(weights.shape) * math.sqrt(variance))
            assert weights.var() == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScaledDotProductAttention(1, 0, 1), "expected d_model, d_k and d_v of at least 1, got 1, 0 and 1"),
        (lambda: MultiHeadAttention(7, 2), "expected n_heads of at least 1 that divides d_model, got 2 and 7"),
        (lambda: MultiHeadAttention(6, 0), "got 0 and 6"),
        (lambda: MultiHeadAttention(6, 2)(np.zeros((2, 5))), r"X: expected 6 columns \(d_model\), got shape \(2, 5\)"),
    ],
)
def test_wrong_widths_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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


def test_under_a_causal_mask_no_token_sees_a_later_one(module):
    tokens, mask = draw(N, D_MODEL), np.tri(N, dtype=bool)
    changed = tokens.copy()
    changed[4:] += 1
    output, weights = module()(tokens, mask=mask, return_weights=True)
    np.testing.assert_array_equal(weights[..., ~mask], 0)
    np.testing.assert_allclose(module()(changed, mask=mask)[:4], output[:4], rtol=1e-13)
    np.testing.assert_allclose(module()(tokens[:4])[3], output[3], rtol=1e-12)
    assert not np.allclose(module()(changed, mask=mask)[4:], output[4:])


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
