"""The diagnostics of rows against functions of their weights, explicit Jacobians and long doubles."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sdpa
from sdpa import row_diagnostics
from tests.numerics import normals

# n_keys and d_k: short rows and long ones, with vectors and with distances of keys.
SIZES = [(7, 3), (7, 11), (40, 11), (40, 64)]
DIVISORS = (1.0, 2.5, 0.7)


def inputs(n_keys, d_k, n_queries=5, spread=2.0):
    scores = spread * normals(2, n_queries, n_keys, seed=10)
    return scores, normals(2, n_keys, d_k, seed=11)


def masked_inputs(n_keys, d_k, n_queries, spread):
    """With a row of one visible key, one of all, and a key that no query of its draw sees."""
    scores, keys = inputs(n_keys, d_k, n_queries, spread)
    mask = np.random.default_rng(14).random(scores.shape) < 0.6
    mask[..., 2] = True
    mask[0, 1] = np.arange(n_keys) == 3
    mask[1, 4] = True
    mask[0, :, 4], keys[0, 4] = False, 1e200
    return np.where(mask, scores, -np.inf), keys


OF_WEIGHTS = (
    *("max_weight", "entropy", "effective_keys", "collision"),
    *("jacobian_trace", "jacobian_norm"),
)


def plain(scores, keys, divisor, gradients):
    """By the functions of weights, and the Jacobian as a matrix."""
    w = sdpa.softmax(scores / divisor)
    to_query = sdpa.softmax_jacobian(w) @ keys[:, None] / divisor
    of_loss = np.vecdot(to_query.swapaxes(-1, -2), gradients[..., None, :])
    return {name: getattr(sdpa, name)(w) for name in OF_WEIGHTS} | {
        "participation": 1 / sdpa.collision(w),
        "weight_jacobian_norm": np.linalg.norm(to_query, axis=(-2, -1)),
        "query_gradient_norm": np.linalg.norm(of_loss, axis=-1),
    }


@pytest.mark.parametrize("given, spread", [(inputs, 0.1), (masked_inputs, 2.0)])
@pytest.mark.parametrize(
    "n_keys, d_k, n_queries",
    [*((*size, 5) for size in SIZES), (7, 11, 5000), (40, 11, 1000)],  # long draws come in tiles
)
def test_equals_the_plain_definition(n_keys, d_k, n_queries, given, spread):
    scores, keys = given(n_keys, d_k, n_queries, spread)
    gradients = normals(*scores.shape, seed=n_keys)
    rows = row_diagnostics(scores, DIVISORS, keys, gradients=gradients)
    for i, divisor in enumerate(DIVISORS):
        for name, expected in plain(scores, keys, divisor, gradients).items():
            assert_allclose(getattr(rows, name)[i], expected, rtol=1e-10, atol=1e-28, err_msg=name)
    assert_array_equal(row_diagnostics(scores, 2.5, keys).entropy, rows.entropy[1])


@pytest.mark.parametrize("n_keys, d_k", SIZES)
def test_saturated_rows_keep_their_digits(n_keys, d_k):
    """As the functions of weights do, which their own tests compare with rational arithmetic; the
    place of all keys changes nothing.
    """
    scores, keys = inputs(n_keys, d_k, spread=200.0)
    rows, w = row_diagnostics(scores, 1.0, keys), sdpa.softmax(scores)
    assert rows.jacobian_norm.min() < 1e-40
    for name in OF_WEIGHTS:
        assert_allclose(getattr(rows, name), getattr(sdpa, name)(w), rtol=1e-11, err_msg=name)
    moved = row_diagnostics(scores, 1.0, keys + 1000).weight_jacobian_norm
    assert_allclose(moved, rows.weight_jacobian_norm, rtol=1e-9)


ROWS, KEYS = np.zeros((3, 2, 5)), np.zeros((3, 5, 4))


WRONG = {
    r"\(\.\.\., n_queries, n_keys\) with 2 keys or more, got \(3,\)": (np.zeros(3), 1.0),
    r"keys: expected \(5, d_k\), got \(3, 5, 4\)": (ROWS[0], 1.0, KEYS),
    r"scores tell no d_k.*Scaling.parse\('d_k\^1/2'\).divisor\(d_k, ": (ROWS, "d_k^1/2"),
    "divisors: expected finite numbers from 1e-300, got 1e-310": (ROWS, 1e-310),
    r"a finite largest score, got nan in row \(1\)": ([[0.0, 1.0], [0.0, np.nan]], 1.0),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_refused(message):
    with pytest.raises((ValueError, TypeError), match=message):
        row_diagnostics(*WRONG[message])


def test_gradients_need_keys():
    with pytest.raises(ValueError, match=r"gradients: expected \(3, 2, 5\) beside keys, got"):
        row_diagnostics(ROWS, 1.0, gradients=ROWS)
