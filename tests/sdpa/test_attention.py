"""Softmax and attention against loops, hand-solved cases and PyTorch; sizes are distinct primes."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdpa
from sdpa import (
    attention_weights,
    causal_mask,
    row_diagnostics,
    scaled_dot_product_attention,
    softmax,
    trace,
    trace_shapes,
)

N_QUERIES, N_KEYS, D_K, D_V = 3, 5, 7, 11


@pytest.fixture
def qkv() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = (2, N_QUERIES, D_K), (2, N_KEYS, D_K), (2, N_KEYS, D_V)
    return tuple(rng.standard_normal(shape) for shape in shapes)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=9), st.floats(-1e3, 1e3))
def test_softmax_is_the_quotient_of_exponentials_and_ignores_a_shift(scores, shift):
    exponentials = [math.exp(s) for s in scores]
    expected = [e / math.fsum(exponentials) for e in exponentials]
    np.testing.assert_allclose(softmax(scores), expected, rtol=1e-12)
    np.testing.assert_allclose(softmax(np.array(scores) + shift), expected, rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_summed_in_single(half):
    weights = softmax(np.zeros(70_000, dtype=half))
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_sums_to_one_along_its_axis_alone(axis):
    x = np.random.default_rng(2).standard_normal((2, 3, 5))
    weights = softmax(x, axis=axis)
    np.testing.assert_allclose(weights.sum(axis=axis), 1)
    moved = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    rows = np.array([np.exp(row) / np.exp(row).sum() for row in moved])
    np.testing.assert_allclose(np.moveaxis(weights, axis, -1).reshape(rows.shape), rows)


@pytest.mark.parametrize(
    ("x", "axis", "message"),
    [
        ([[0.0, 1.0], [0.0, np.nan]], -1, r"got nan in row \(1\)"),
        ([[-np.inf, -np.inf]], -1, r"got -inf in row \(0\)"),
        ([0.0, np.inf], -1, "got inf in the only row"),
        ([0.0], 1, "axis 1"),
        (np.zeros((2, 0)), 1, r"at least one entry along axis 1, got shape \(2, 0\)"),
        (["a"], -1, "expected real numbers"),
        (1.0, -1, "at least 1 axes"),
    ],
)
def test_softmax_refuses(x, axis, message):
    with pytest.raises(ValueError, match=message):
        softmax(x, axis=axis)


def test_attention_equals_a_loop_over_batch_queries_and_keys(qkv):
    q, k, v = qkv
    output, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    assert output.shape == (2, N_QUERIES, D_V)
    assert weights.shape == (2, N_QUERIES, N_KEYS)
    for b in range(2):
        for i in range(N_QUERIES):
            exponentials = [math.exp(sum(q[b, i] * k[b, j]) / math.sqrt(D_K)) for j in range(N_KEYS)]
            row = [e / sum(exponentials) for e in exponentials]
            np.testing.assert_allclose(weights[b, i], row)
            np.testing.assert_allclose(output[b, i], sum(row[j] * v[b, j] for j in range(N_KEYS)))


def test_leading_axes_broadcast(qkv):
    q, k, v = qkv
    shared = scaled_dot_product_attention(q, k[0], v[:, None])
    assert shared.shape == (2, 2, N_QUERIES, D_V)
    np.testing.assert_allclose(shared[1, 0], scaled_dot_product_attention(q[0], k[0], v[1]))


def test_scaling_is_a_rule_its_name_or_the_divisor(qkv):
    q, k, _ = qkv
    by_name = attention_weights(q, k, scaling="d_k^1/3")
    np.testing.assert_allclose(attention_weights(q, k, scaling=D_K ** (1 / 3)), by_name)
    np.testing.assert_allclose(attention_weights(q / D_K ** (1 / 3), k, scaling="unscaled"), by_name)


def test_a_masked_key_gets_no_weight_and_the_rest_are_renormalised(qkv):
    q, k, v = qkv
    mask = np.ones((N_QUERIES, N_KEYS), dtype=bool)
    mask[1, [0, 3]] = False
    output, weights = scaled_dot_product_attention(q, k, v, mask=mask, return_weights=True)
    kept = [1, 2, 4]
    np.testing.assert_array_equal(weights[:, 1, [0, 3]], 0)
    np.testing.assert_allclose(output[:, 1], scaled_dot_product_attention(q, k[:, kept], v[:, kept])[:, 1])
    np.testing.assert_allclose(output[:, 2], scaled_dot_product_attention(q, k, v)[:, 2])


@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (1, 5), (3, 5), (5, 5)])
def test_a_causal_mask_shows_each_query_the_keys_up_to_its_own_position(n_queries, n_keys):
    mask = causal_mask(n_queries, n_keys)
    assert mask.shape == (n_queries, n_keys)
    for query, key in np.ndindex(mask.shape):
        assert mask[query, key] == (key <= n_keys - n_queries + query)


@pytest.mark.parametrize(("word", "mask"), [("none", None), ("causal", causal_mask(N_QUERIES, N_KEYS))])
def test_a_mask_has_the_same_words_everywhere(qkv, word, mask):
    q, k, v = qkv
    tokens, heads = q, sdpa.MultiHeadAttention(D_K, n_heads=1, rng=np.random.default_rng(0))
    calls = {
        "attention": lambda mask: scaled_dot_product_attention(q, k, v, mask=mask),
        "gradients": lambda mask: sdpa.attention_gradients(q, k, v, np.ones((2, N_QUERIES, D_V)), mask=mask).q,
        "rows": lambda mask: row_diagnostics(q @ k.swapaxes(-1, -2), 2.0, mask=mask).max_weight,
        "trace": lambda mask: sdpa.trace(q, k, v, mask=mask).output,
        "module": lambda mask: heads(tokens, mask=mask),
        "diagnose": lambda mask: sdpa.diagnose(q, k, mask=mask)["entropy"].value,
    }
    for name, call in calls.items():
        of_array = np.tri(N_QUERIES, dtype=bool) if name == "module" and mask is not None else mask
        np.testing.assert_array_equal(call(word), call(of_array), err_msg=name)
        with pytest.raises(ValueError, match="mask: expected one of none, causal, got 'casual'; did you mean"):
            call("casual")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": np.zeros((N_KEYS, 6))}, r"same d_k \(last axis\), got 7 in q .* and 6 in k"),
        ({"v": np.zeros((4, D_V))}, r"v: expected 5 rows, one per key, got shape \(4, 11\)"),
        ({"q": np.zeros(D_K)}, "q: expected at least 2 axes"),
        ({"k": np.zeros((4, N_KEYS, D_K))}, r"leading axes of q and k that broadcast, got \(2,\), \(4,\)"),
        ({"k": np.zeros((2, 0, D_K)), "v": np.zeros((2, 0, D_V))}, "at least one key"),
        ({"mask": np.ones((N_QUERIES, N_KEYS))}, "expected booleans .* got an array of float64"),
        ({"mask": np.ones((2, 2), dtype=bool)}, r"broadcasts to \(2, 3, 5\), got \(2, 2\)"),
        ({"mask": np.arange(N_QUERIES)[:, None] != [1] * N_KEYS}, r"a key, got none in row \(0, 1\)"),
        ({"scaling": 0.0}, "finite and above 0, got 0.0"),
        ({"scaling": "sqrt"}, "expected 'unscaled' or a product"),
    ],
)
def test_attention_refuses(qkv, change, message):
    arguments = dict(zip("qkv", qkv, strict=True)) | change
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(**arguments)


def test_agrees_with_pytorch(qkv):
    torch = pytest.importorskip("torch", reason="PyTorch is not in the lock; install it to run this comparison")
    q, k, v = qkv
    mask = np.random.default_rng(3).random((N_QUERIES, N_KEYS)) < 0.6
    mask[:, 0] = True
    tensors = [torch.tensor(array) for array in qkv]
    theirs = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=torch.tensor(mask), scale=0.3)
    ours = scaled_dot_product_attention(q, k, v, mask=mask, scaling=1 / 0.3)
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12)


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
