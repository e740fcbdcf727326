"""The law of a stack: its rows at any cosine, and stacks whose tokens become alike."""

import math

import pytest

from sdpa.theory.attention import attention_expectations
from sdpa.theory.gradient_growth import LayerRows, attention_stack
from sdpa.theory.overlap import attention_overlap


def test_rows_between_nodes_have_the_values_of_one_layer():
    d_k, divisor = 32, 1.0
    rows = LayerRows(d_k, 64, divisor)
    for cosine in (0.0, 0.9, 1 - 1e-6):
        one = attention_expectations(d_k, 64, divisor / math.sqrt(1 - cosine))
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
    assert math.log(deep / shallow, 4) / 2 == pytest.approx(0.5, abs=0.02)
