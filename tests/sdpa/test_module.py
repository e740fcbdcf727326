"""Modules with projections, and the comparison of one draw, by plain loops, published numbers and
exact values.
"""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from sdpa import (
    MultiHeadAttention,
    ScaledDotProductAttention,
    Scaling,
    compare_scaling,
    scaled_dot_product_attention,
)

D_MODEL, N_HEADS, D_K, N = 15, 3, 5, 7
MODULES = {
    "one head": partial(ScaledDotProductAttention, D_MODEL, 3, 2),
    "several heads": partial(MultiHeadAttention, D_MODEL, N_HEADS),
}


@pytest.fixture
def heads() -> MultiHeadAttention:
    return MultiHeadAttention(D_MODEL, N_HEADS, seed=5)


def draw(*shape: int, seed: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.fixture(params=MODULES)
def module(request):
    return MODULES[request.param]


def test_weights_are_drawn_in_order_with_their_variance():
    """A variance of 20,000 numbers and more is within 5% of its own, 1% being one standard
    error.
    """
    one, several = (
        ScaledDotProductAttention(200, 100, 300, seed=4),
        MultiHeadAttention(200, 2, seed=4),
    )
    for matrices in (
        (one.W_Q, one.W_K, one.W_V),
        (several.W_Q, several.W_K, several.W_V, several.W_O),
    ):
        rng = np.random.default_rng(4)
        for weights in matrices:
            variance = 2 / sum(weights.shape)
            np.testing.assert_allclose(
                weights, rng.standard_normal(weights.shape) * math.sqrt(variance)
            )
            assert weights.var() == pytest.approx(variance, rel=0.05)


def test_under_a_causal_mask_no_token_sees_a_later_one(module):
    tokens, mask = draw(N, D_MODEL), np.tri(N, dtype=bool)
    changed = tokens.copy()
    changed[4:] += 1
    output, weights = module()(tokens, mask=mask, return_weights=True)
    np.testing.assert_array_equal(weights[..., ~mask], 0)
    np.testing.assert_allclose(module()(changed, mask=mask)[:4], output[:4], rtol=1e-13)
    np.testing.assert_allclose(module()(tokens[:4])[3], output[3], rtol=1e-12)
    assert not np.allclose(module()(changed, mask=mask)[4:], output[4:])


def test_one_head_is_attention_of_its_projections():
    attention, tokens = ScaledDotProductAttention(7, 3, 5, scaling="d_k^1/3"), draw(2, 11, 7)
    q, k, v = tokens @ attention.W_Q, tokens @ attention.W_K, tokens @ attention.W_V
    np.testing.assert_array_equal(
        attention(tokens), scaled_dot_product_attention(q, k, v, scaling="d_k^1/3")
    )


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
            exponentials = [
                math.exp(sum(q[i][m] * k[j][m] for m in head) / math.sqrt(D_K)) for j in range(N)
            ]
            for m in head:
                joined[i][m] = sum(e * v[j][m] for j, e in enumerate(exponentials)) / sum(
                    exponentials
                )
    np.testing.assert_allclose(heads(tokens), projected(joined, heads.W_O), rtol=1e-11)


def test_a_mask_per_sequence_is_not_one_per_head(heads):
    """As many sequences as heads, each with a mask of its own."""
    batch = draw(N_HEADS, N, D_MODEL)
    masks = (draw(N_HEADS, N, N, seed=8) > 0) | np.eye(N, dtype=bool)
    expected = [heads(tokens, mask=mask) for tokens, mask in zip(batch, masks, strict=True)]
    np.testing.assert_allclose(heads(batch, mask=masks), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: MultiHeadAttention(7, 2),
            ValueError,
            "n_heads of at least 1 that divides d_model, got 2 and 7",
        ),
        (
            lambda: MultiHeadAttention(6, 2)(np.zeros((2, 5))),
            ValueError,
            r"X: expected 6 columns .*got shape \(2, 5\)",
        ),
        (
            lambda: MultiHeadAttention(6, 2, seed=0.5),
            TypeError,
            "seed: expected a non-negative integer, got 0.5",
        ),
        (lambda: MultiHeadAttention(6, 2, scaling=0.0), ValueError, "finite and above 0, got 0.0"),
    ],
)
def test_wrong_options_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


# As an article prints them for five queries and keys of RandomState(42): d_k; deviation of scores
# unscaled and scaled, mean largest weight unscaled and scaled.
PRINTED = [
    (4, (1.56, 0.78), (0.6048, 0.4355)),
    (16, (3.00, 0.75), (0.8633, 0.4592)),
    (64, (8.66, 1.08), (0.7493, 0.4398)),
    (256, (13.47, 0.84), (1.0000, 0.4961)),
    (512, (20.79, 0.92), (1.0000, 0.4842)),
]


@pytest.mark.parametrize(("d_k", "deviations", "largest"), PRINTED)
def test_the_legacy_generator_gives_the_published_numbers(d_k, deviations, largest):
    drawn = compare_scaling(d_k, rng=np.random.RandomState(42))
    sides = drawn.unscaled, drawn.scaled
    assert tuple(round(side.score_std, 2) for side in sides) == deviations
    assert tuple(round(side.max_weight, 4) for side in sides) == largest


@pytest.mark.parametrize(
    ("scaling", "divisor"), [("d_k^1/2", math.sqrt(7)), (Scaling.parse("d_k^1"), 7.0), (2.5, 2.5)]
)
def test_both_sides_are_those_of_plain_loops(scaling, divisor):
    drawn = compare_scaling(7, n_queries=3, n_keys=5, scaling=scaling, seed=11)
    rng = np.random.default_rng(11)
    q, k = rng.standard_normal((3, 7)), rng.standard_normal((5, 7))
    assert (drawn.d_k, drawn.unscaled.divisor, drawn.scaled.divisor) == (
        7,
        1.0,
        pytest.approx(divisor),
    )
    for side, over in ((drawn.unscaled, 1.0), (drawn.scaled, divisor)):
        scores = [[sum(q[i] * k[j]) / over for j in range(5)] for i in range(3)]
        weights = [[math.exp(s) / sum(math.exp(t) for t in row) for s in row] for row in scores]
        every = [s for row in scores for s in row]
        variance = sum((s - sum(every) / 15) ** 2 for s in every) / 15
        np.testing.assert_allclose(side.scores, scores, rtol=1e-12)
        np.testing.assert_allclose(side.weights, weights, rtol=1e-12)
        assert side.score_std == pytest.approx(math.sqrt(variance))
        assert side.max_weight == pytest.approx(sum(max(row) for row in weights) / 3)
        assert side.entropy == pytest.approx(sum(stats.entropy(row) for row in weights) / 3)


def test_exact_values_are_the_means_over_many_draws():
    """200 draws of 3 queries and 5 keys, within 4.5 standard errors: chance goes so far once in
    150,000.
    """
    draws = [compare_scaling(2, n_queries=3, n_keys=5, seed=seed) for seed in range(200)]
    for name in ("unscaled", "scaled"):
        sides = [getattr(draw, name) for draw in draws]
        for metric in ("max_weight", "entropy"):
            values = np.array([getattr(side, metric) for side in sides])
            error = values.std() / math.sqrt(len(values))
            assert abs(values.mean() - getattr(sides[0], f"exact_{metric}")) < 4.5 * error
        squares = np.array([(side.scores**2).mean() for side in sides])
        assert abs(
            squares.mean() - sides[0].exact_score_std ** 2
        ) < 4.5 * squares.std() / math.sqrt(len(squares))
    assert draws[0].scaled.exact_score_std == pytest.approx(1)
