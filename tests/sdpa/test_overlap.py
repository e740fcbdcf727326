"""The overlap of two rows beside its special cases and drawn rows, and the law of a stack."""

from math import log, sqrt

import numpy as np
import pytest

from sdpa import softmax
from sdpa.theory import GaussianRow, UnknownError, attention_expectations, attention_stack
from sdpa.theory.special.gradient_growth import LayerRows
from sdpa.theory.special.overlap import attention_overlap, weight_overlap
from tests.numerics import is_mean


@pytest.mark.parametrize("sigma, n_keys", [(0.3, 2), (12.0, 64), (4.0, 2**20)])
def test_overlap_of_equal_and_of_independent_rows(n_keys, sigma):
    equal = GaussianRow(sigma, n_keys).power_sum(2)
    assert weight_overlap(sigma, sigma, 1.0, n_keys) == pytest.approx(equal, rel=1e-8)
    assert weight_overlap(sigma, 2 * sigma, 0.0, n_keys) == pytest.approx(1 / n_keys, rel=1e-8)


@pytest.mark.parametrize("sigma, other, correlation", [(0.4, 2.0, -0.3), (1.0, 1.0, 0.01)])
def test_overlap_of_two_keys_is_a_mean_of_logistic_functions(sigma, other, correlation):
    """w = 1 / (1 + e^-x) with x the difference of two scores: E w w' + (1 - w)(1 - w') = 2 E w
    w'.
    """
    x = np.linspace(-9, 9, 601)
    density = np.exp(-(x**2) / 2)
    chance = density / density.sum()
    z = correlation * x[:, None] + sqrt(1 - correlation**2) * x
    w = 1 / (1 + np.exp(-sqrt(2) * sigma * x))
    v = 1 / (1 + np.exp(-sqrt(2) * other * z))
    expected = 2 * (chance * w) @ v @ chance
    assert weight_overlap(sigma, other, correlation, 2) == pytest.approx(expected, rel=1e-8)


def test_attention_overlap_of_drawn_queries_and_keys():
    d_k, cosine = 32, 0.5
    rng = np.random.default_rng(d_k)

    def vectors(count):
        common = rng.standard_normal((20_000, 1, d_k))
        own = rng.standard_normal((20_000, count, d_k))
        return sqrt(cosine) * common + sqrt(1 - cosine) * own

    weights = softmax(vectors(2) @ vectors(16).swapaxes(1, 2) / 2)
    drawn = np.vecdot(weights[:, 0], weights[:, 1])
    assert is_mean(drawn, attention_overlap(d_k, 16, 2.0, cosine))


def test_very_different_deviations_are_refused():
    with pytest.raises(
        UnknownError, match="unknown for a deviation of their correlated part above"
    ):
        weight_overlap(1.0, 100.0, -0.8, 2)


def test_rows_between_nodes_have_the_values_of_one_layer():
    d_k, divisor = 32, 1.0
    rows = LayerRows(d_k, 64, divisor)
    for cosine in (0.0, 0.9, 1 - 1e-6):
        one = attention_expectations(d_k, 64, divisor / sqrt(1 - cosine))
        overlap = attention_overlap(d_k, 64, divisor, cosine)
        gradients = one.query_gradient_norm**2, one.key_gradient_norm**2
        expected = one.output_std**2, overlap, *gradients
        assert rows.at(cosine) == pytest.approx(expected, rel=1e-4)


def test_the_gradient_of_post_norm_stops_growing_once_tokens_are_alike():
    growth = [
        attention_stack(n, 32, 64, 1.0, post_norm=True)[0].stream_gradient for n in (3, 48, 192)
    ]
    assert growth[1] > 100 * growth[0]
    assert growth[2] == pytest.approx(growth[1], rel=0.01)


def test_powers_of_depth_end_at_one_half():
    shallow, deep = (attention_stack(n, 32, 64, 1.0)[0].stream_gradient for n in (3072, 12288))
    assert log(deep / shallow, 4) / 2 == pytest.approx(0.5, abs=0.02)
