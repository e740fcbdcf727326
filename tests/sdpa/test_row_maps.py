"""Row maps against plain loops, Jacobians by differences."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sdpa import attention_weights, row_diagnostics, scaled_dot_product_attention
from sdpa.positions import alibi_bias
from sdpa.row_maps import NORMALIZERS, RowMap
from tests.numerics import normals
from tests.plain_maps import plain_weights

D_K, N_KEYS, N_QUERIES = 4, 7, 3
MAPS = [RowMap(0.0, 2.5), *(RowMap(1.5, None, name) for name in NORMALIZERS)]


@pytest.mark.parametrize("row_map", [RowMap(), RowMap(sink=-1e4)])
@pytest.mark.parametrize("n_keys, d_k", [(64, 4), (40, 64)])
def test_saturated_rows_keep_their_digits(row_map, n_keys, d_k):
    """Rows of gaps up to hundreds, and of two equal scores at the top: the plain map has the norms
    of the kernel, a weak sink those without it.
    """
    scores, keys = 200 * normals(50, n_keys), normals(n_keys, d_k, seed=1)
    scores[:5, :2] = scores[:5].max(axis=-1, keepdims=True)
    gradients = normals(*scores.shape, seed=2)
    expected = row_diagnostics(scores, 1.0, keys, gradients=gradients)
    assert expected.jacobian_norm.min() < 1e-40
    actual = row_map.rows(scores, keys, gradients=gradients)
    assert_allclose(actual.query_gradient_norm, expected.query_gradient_norm, rtol=1e-9)
    assert_allclose(actual.jacobian_norm, expected.jacobian_norm, rtol=1e-12)
    assert_allclose(actual.weight_jacobian_norm, expected.weight_jacobian_norm, rtol=1e-9)


def test_the_entropy_of_sigmoids_far_below_0_is_that_of_1_over_1_plus_e():
    far = RowMap(normalizer="sigmoid").rows([[-2000.0, -2001.0]])
    assert far.visible_mass.item() == 0
    assert far.entropy.item() == pytest.approx(0.582203108)


@pytest.mark.parametrize("row_map", MAPS, ids=str)
def test_attention_takes_a_map_between_divisor_and_weights(row_map):
    alibi = 0.5
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal((n, D_K)) for n in (N_QUERIES, N_KEYS, N_KEYS))
    chosen = {"row_map": row_map, "bias": alibi_bias(alibi, N_QUERIES, N_KEYS)}
    weights = attention_weights(q, k, scaling=0.7, **chosen)
    for i in range(N_QUERIES):
        own = N_KEYS - N_QUERIES + i
        expected = plain_weights(k @ q[i] / 0.7, row_map, -alibi * (own - np.arange(N_KEYS)))
        assert_allclose(weights[i], expected, rtol=1e-12, atol=1e-14)
    output = scaled_dot_product_attention(q, k, v, scaling=0.7, **chosen)
    assert_allclose(output, weights @ v, rtol=1e-12)
    single = attention_weights(q.astype(np.float32), k.astype(np.float32), **chosen)
    assert single.dtype == np.float32


ROWS = np.zeros((2, 5))
REFUSED = {
    "softcap: expected a finite number above 0, or 0 for none, got -1.0": lambda: RowMap(-1.0),
    r"one for each head of the scores \(1, 1, 1\), got 3 numbers": lambda: RowMap(
        sink=(0.0, 1.0, 2.0)
    ).weights([[[1.0]]]),
    "sink: expected none beside the normalizer sigmoid, got 0.0": lambda: RowMap(
        sink=0.0, normalizer="sigmoid"
    ),
    r"alibi: expected a slope within ±1e6, .* got nan": lambda: alibi_bias(math.nan, 1, 1),
    r"window-N with a whole number N .*, got 'window-0'": lambda: attention_weights(
        [[1.0]], [[1.0]], mask="window-0"
    ),
    r"bias: expected .* scores \(1, 1\), got \(2, 1, 1\)": lambda: attention_weights(
        [[1.0]], [[1.0]], bias=np.zeros((2, 1, 1))
    ),
    r"bias: expected .* \(3, 1, 1\), got \(2, 1, 1\)": lambda: attention_weights(
        *np.ones((2, 3, 1, 1)), bias=np.zeros((2, 1, 1))
    ),
    r"scores \+ bias: expected .* finite .*, got nan in row \(1\)": lambda: RowMap().weights(
        ROWS, np.array([[0.0], [math.nan]])
    ),
    r"scores \+ bias: expected .* finite .*, got -inf in row \(0\)": lambda: RowMap(
        sink=0.0
    ).weights(ROWS, np.array([[-math.inf], [0.0]])),
    r"gradients: expected \(2, 5\) beside keys, got \(5, 2\)": lambda: RowMap().rows(
        ROWS, np.ones((5, 3)), ROWS.T
    ),
    r"keys: expected \(5, d_k\), got \(2, 3\)": lambda: RowMap().rows(ROWS, np.ones((2, 3))),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_refused(message):
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def test_single_precision_ends_the_gradients_that_vanish():
    w, g = RowMap().weights(30 * normals(999, 12)), normals(999, 12, seed=1)
    backward = NORMALIZERS["softmax"].backward
    double = np.linalg.norm(backward(g, w), axis=-1)
    single = np.linalg.norm(backward(np.float32(g), np.float32(w)), axis=-1)
    error = np.abs(single / double - 1)
    assert error[double > 1e-5].max() < 0.01
    assert np.median(error[double < 1e-6]) > 0.1
