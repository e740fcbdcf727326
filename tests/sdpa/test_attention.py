"""Softmax and attention against loops, hand-solved cases and PyTorch; sizes are distinct primes."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sdpa import attention_weights, causal_mask, scaled_dot_product_attention, softmax, trace
from sdpa.masks import named_mask, reach_of
from tests.numerics import Tensor, normals
from tests.plain_attention import attention

N_QUERIES, N_KEYS, D_K, D_V = 3, 5, 7, 11


@pytest.fixture
def qkv():
    rng = np.random.default_rng(1)
    shapes = (2, N_QUERIES, D_K), (2, N_KEYS, D_K), (2, N_KEYS, D_V)
    return tuple(map(rng.standard_normal, shapes))


@pytest.mark.parametrize(
    "scaling, divisor, mask", [("d_k^1/2", D_K**0.5, None), (2.5, 2.5, "causal")]
)
def test_every_step_is_that_of_plain_loops(qkv, scaling, divisor, mask):
    steps = trace(*qkv, scaling=scaling, mask=mask)
    assert steps.divisor == divisor

    def hidden(i, j):
        return mask == "causal" and j > N_KEYS - N_QUERIES + i

    for b in range(2):
        plain = attention(*(array[b].tolist() for array in qkv), divisor, hidden)
        for name in ("scores", "scaled_scores", "weights", "output"):
            actual = getattr(steps, name)[b]
            assert_allclose(actual, plain[name], rtol=1e-12, atol=1e-14, err_msg=name)
        exponentials = np.column_stack([steps.exponentials[b], steps.sums[b]])
        assert_allclose(exponentials, plain["exponentials"], rtol=1e-12)
    options = {"scaling": scaling, "mask": mask}
    assert_array_equal(steps.weights, attention_weights(*qkv[:2], **options))
    assert_array_equal(steps.output, scaled_dot_product_attention(*qkv, **options))


def test_leading_axes_broadcast(qkv):
    q, k, v = qkv
    shared = scaled_dot_product_attention(q, k[0], v[:, None])
    assert shared.shape == (2, 2, N_QUERIES, D_V)
    assert_allclose(shared[1, 0], scaled_dot_product_attention(q[0], k[0], v[1]))


def test_keys_of_groups_and_the_words_of_pytorch():
    """Consecutive heads share keys; the first query sees the first key alone."""
    q, k, v = normals(2, 6, 3, 7), normals(2, 2, 5, 7, seed=1), normals(2, 2, 5, 4, seed=2)
    actual = scaled_dot_product_attention(q, k, v, scale=0.5, is_causal=True)
    for head in range(6):
        one = q[:, head], k[:, head // 3], v[:, head // 3]
        mask = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]) == 1
        assert_allclose(actual[:, head], scaled_dot_product_attention(*one, scaling=2.0, mask=mask))
    with pytest.raises(
        ValueError, match=r"scale: expected a finite factor .*, got 0 and scaling d"
    ):
        scaled_dot_product_attention(q, k, v, scale=0)
    with pytest.raises(ValueError, match="is_causal: expected no mask"):
        scaled_dot_product_attention(q, k, v, mask="causal", is_causal=True)
    with pytest.raises(ValueError, match=r"expected leading axes .*, got \(2, 6\), \(2, 4\)"):
        attention_weights(q, normals(2, 4, 5, 7))


def test_tensors_of_bfloat16_and_with_gradients_are_read(qkv):
    tensors = [Tensor(array.astype("f4")) for array in qkv]
    expected = scaled_dot_product_attention(*(tensor.values for tensor in tensors))
    assert_array_equal(scaled_dot_product_attention(*tensors), expected)


@pytest.mark.parametrize("hidden", [-math.inf, -1e4, np.float16(-65504)])
def test_an_additive_mask_hides_what_it_lowers(qkv, hidden):
    causal = causal_mask(N_QUERIES, N_KEYS)
    additive = np.where(causal, 0.0, hidden)
    actual = scaled_dot_product_attention(*qkv, mask=additive)
    assert_array_equal(actual, scaled_dot_product_attention(*qkv, mask=causal))


@pytest.mark.parametrize("n_queries, n_keys", [(1, 5), (3, 5), (5, 5)])
@pytest.mark.parametrize(
    "name, before, after", [("causal", 99, 0), ("window-2", 1, 0), ("local-1", 1, 1)]
)
def test_a_mask_shows_each_query_the_keys_around_its_own(name, before, after, n_queries, n_keys):
    mask = named_mask(name, n_queries, n_keys)
    keys = np.arange(n_keys)
    own = keys[n_keys - n_queries :, None]
    expected = (own - before <= keys) & (keys <= own + after)
    assert_array_equal(mask, expected)
    assert_array_equal(reach_of(name).lengths(n_queries, n_keys), expected.sum(axis=-1))


REFUSED = {
    r"same d_k \(last axis\), got 7 in q .* and 6 in k": {"k": np.zeros((N_KEYS, 6))},
    r"leading axes of q and k that broadcast, got \(2,\), \(4,\)": {
        "k": np.zeros((4, N_KEYS, D_K))
    },
    "mask: expected one of none, causal, .*; did you mean causal": {"mask": "casual"},
    "expected local-N with a whole number N .*, got 'local-N'": {"mask": "local-N"},
    r"\(0, or -10,000 and less\), .* with -100\.0": {"mask": np.full((N_QUERIES, N_KEYS), -100.0)},
    r"a key, got none in row \(0, 1\)": {"mask": np.arange(N_QUERIES)[:, None] != [1] * N_KEYS},
}


@pytest.mark.parametrize("message", REFUSED)
def test_attention_refuses(qkv, message):
    arguments = dict(zip("qkv", qkv, strict=True)) | REFUSED[message]
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(**arguments)


def test_softmax_refuses():
    for message, x in {
        r"got nan in row \(1\)": [[0.0, 1.0], [0.0, np.nan]],
        r"at least one entry per row, got shape \(1, 0\)": [[]],
        "expected real numbers": ["a"],
    }.items():
        with pytest.raises(ValueError, match=message):
            softmax(x)
