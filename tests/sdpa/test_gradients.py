"""Gradients and metrics of rows against differences, explicit Jacobians, rational sums and
solved rows.
"""

import math
from fractions import Fraction
from statistics import pvariance

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sdpa import (
    attention_gradients,
    causal_mask,
    collision,
    effective_keys,
    entropy,
    jacobian_norm,
    jacobian_trace,
    max_weight,
    row_variance,
    scaled_dot_product_attention,
    softmax_jacobian,
    softmax_vjp,
)
from tests.numerics import Tensor, derivative, normals

N_QUERIES, N_KEYS, D_K, D_V = 3, 5, 7, 2
CAUSAL = causal_mask(N_QUERIES, N_KEYS)


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_gradients_are_differences_of_the_loss(name):
    arrays = {"q": normals(N_QUERIES, D_K), "k": normals(N_KEYS, D_K, seed=1)}
    arrays["v"], upstream = normals(N_KEYS, D_V, seed=2), normals(N_QUERIES, D_V, seed=5)
    options = {"scaling": "d_k^1/3", "mask": CAUSAL}

    def loss(x):
        output = scaled_dot_product_attention(**arrays | {name: x}, **options)
        return (output * upstream).sum()

    gradients = attention_gradients(**arrays, output_gradient=upstream, **options)
    along = normals(*arrays[name].shape, seed=6)
    slope = derivative(loss, arrays[name], along)
    assert np.vdot(getattr(gradients, name), along) == pytest.approx(slope, rel=1e-8)


@given(st.lists(st.floats(1e-100, 0.2), min_size=1, max_size=4))
@example([3e-30, 1e-30])
def test_trace_and_norm_equal_rational_arithmetic(others):
    """From the definitions; the largest weight is 1 minus the others."""
    w = [1 - sum(map(Fraction, others)), *map(Fraction, others)]
    squares = sum(x * x for x in w)
    square = squares - 2 * sum(x**3 for x in w) + squares**2
    rounded = [float(x) for x in w]
    assert jacobian_trace(rounded) == pytest.approx(float(1 - squares), rel=1e-13, abs=0)
    assert jacobian_norm(rounded) == pytest.approx(math.sqrt(square), rel=1e-13, abs=0)


def test_vjp_of_a_saturated_row_keeps_its_precision():
    assert_allclose(softmax_vjp([1e-25, 1.0], [1.0, 3.0]), [-2e-25, 2e-25], rtol=1e-14)


@pytest.mark.parametrize(
    "row, largest, nats, squares",
    [
        ([0.0, 1.0, 0.0], 1.0, 0.0, 1.0),
        ([0.5, 0.25, 0.25], 0.5, 1.5 * math.log(2), 0.375),
        ([1.0, 1e-30], 1.0, 1e-30 * (1 - math.log(1e-30)), 1.0),
    ],
)
def test_hand_solved_rows(row, largest, nats, squares):
    """a = 1 - r has -a ln a = r to first order, which 1 ln 1 would lose."""
    assert max_weight(row) == largest
    assert collision(row) == squares
    assert entropy(row) == pytest.approx(nats, rel=1e-14, abs=0)
    assert effective_keys(row) == pytest.approx(math.exp(nats), rel=1e-15)


def test_a_row_has_an_entropy_where_all_but_one_weight_sum_to_over_1():
    row = np.full(3240, 1 / 3240, np.float16)
    assert effective_keys(row) == pytest.approx(3240, rel=0.005)


METRICS = [max_weight, entropy, effective_keys, collision, jacobian_trace, jacobian_norm]


@pytest.mark.parametrize("metric", [*METRICS, softmax_jacobian])
def test_tensors_may_be_rounded_as_arrays_of_float16(metric):
    row = np.float32([0.25, 0.25, 0.50390625])
    for has_gradient in (True, False):
        actual = metric(Tensor(row, has_gradient=has_gradient))
        assert_array_equal(actual, metric(row.astype(np.float16)))
    with pytest.raises(ValueError, match=r"got sum 1\.00390625"):
        metric(row)


def test_the_variance_of_a_row_is_that_of_its_visible_scores():
    scores = 1e6 + 3 * normals(2, 3, 7, seed=2)
    scores[0, 1, [0, 4, 6]] = scores[1, 2, 1:] = -np.inf
    actual = row_variance(scores)
    assert actual.shape == (2, 3)
    for row in np.ndindex(2, 3):
        expected = pvariance(s for s in scores[row] if s > -np.inf)
        assert actual[row] == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("function", [softmax_jacobian, jacobian_norm, max_weight, entropy])
@pytest.mark.parametrize(
    "bad, got",
    [([0.5, 0.6], "sum 1.1"), ([0.5, np.nan], "sum nan"), ([1.5, -0.5], "a negative number")],
)
def test_rows_that_are_no_weights_are_refused(function, bad, got):
    with pytest.raises(ValueError, match=rf"that sum to 1, got {got} in row \(1\)"):
        function([[0.5, 0.5], bad])


def test_rows_without_a_finite_score_have_no_variance():
    message = r"scores: expected every row to have a finite number.* row \(1\) has not"
    with pytest.raises(ValueError, match=message):
        row_variance([[0.0, 1.0], [-np.inf] * 2])
