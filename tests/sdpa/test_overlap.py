"""The overlap of two rows beside its special cases and drawn rows, and the map of a layer beside
wide layers.
"""

import tracemalloc
from math import sqrt

import numpy as np
import pytest
from numerics import standard_errors

from sdpa import softmax
from sdpa.theory import GaussianRow, UnknownError
from sdpa.theory.overlap import attention_overlap, next_cosine, next_moments, weight_overlap


@pytest.mark.parametrize("n_keys", [2, 64, pytest.param(2**20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0, 12.0])
def test_overlap_of_equal_and_of_independent_rows(n_keys, sigma):
    assert weight_overlap(sigma, sigma, 1.0, n_keys) == pytest.approx(
        GaussianRow(sigma, n_keys).power_sum(2), rel=1e-8
    )
    assert weight_overlap(sigma, 2 * sigma, 0.0, n_keys) == pytest.approx(1 / n_keys, rel=1e-8)


@pytest.mark.parametrize(
    ("sigma", "other", "correlation"), [(1.5, 1.5, 0.6), (0.4, 2.0, -0.3), (1.0, 1.0, 0.01)]
)
def test_overlap_of_two_keys_is_a_mean_of_logistic_functions(sigma, other, correlation):
    """w = 1 / (1 + e^-x) with x the difference of two scores: E w w' + (1 - w)(1 - w') = 2 E w w'."""
    x = np.linspace(-9, 9, 601)
    chance = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    z = correlation * x[:, None] + sqrt(1 - correlation**2) * x
    w, v = 1 / (1 + np.exp(-sqrt(2) * sigma * x)), 1 / (1 + np.exp(-sqrt(2) * other * z))
    assert weight_overlap(sigma, other, correlation, 2) == pytest.approx(
        2 * (chance * w) @ v @ chance, rel=1e-8
    )


@pytest.mark.parametrize("n_keys", [5, 4096])
def test_overlap_of_small_scores(n_keys):
    """(1 + (n - 1) rho sigma sigma' / n) / n up to fourth powers, as w_j = (1 + s_j - mean of
    s) / n.
    """
    added = weight_overlap(0.02, 0.01, 0.7, n_keys) * n_keys - 1
    assert added == pytest.approx((n_keys - 1) / n_keys * 0.7 * 2e-4, rel=1e-3)


@pytest.mark.parametrize(
    ("n_keys", "sigma", "other", "correlation"), [(20, 3.0, 2.0, 0.5), (300, 3.0, 3.0, 0.8)]
)
def test_overlap_of_drawn_rows(n_keys, sigma, other, correlation):
    """Five standard errors: a false alarm in a million runs, if reseeded."""
    rng = np.random.default_rng(n_keys)
    one, apart = rng.standard_normal((2, 20_000, n_keys))
    two = correlation * one + sqrt(1 - correlation**2) * apart
    drawn = np.vecdot(softmax(sigma * one), softmax(other * two))
    assert standard_errors(drawn, weight_overlap(sigma, other, correlation, n_keys)) < 5


@pytest.mark.parametrize(("d_k", "cosine"), [(16, 0.0), (32, 0.5)])
def test_attention_overlap_of_drawn_queries_and_keys(d_k, cosine):
    """Five standard errors, as above."""
    rng, n_keys = np.random.default_rng(d_k), 16
    common, own = sqrt(cosine), sqrt(1 - cosine)
    q, k = (
        common * rng.standard_normal((20_000, 1, d_k))
        + own * rng.standard_normal((20_000, count, d_k))
        for count in (2, n_keys)
    )
    weights = softmax(q @ k.swapaxes(1, 2) / 2)
    drawn = np.vecdot(weights[:, 0], weights[:, 1])
    assert standard_errors(drawn, attention_overlap(d_k, n_keys, 2.0, cosine)) < 5


def test_the_map_is_that_of_a_wide_layer():
    """Layers of width 1024 and d_k = 512: five standard errors, and 1% for both finite widths."""
    rng, width, d_k, n_keys, cosine, sigma = np.random.default_rng(3), 1024, 512, 24, 0.3, 4.0
    divisor, moments, cosines = sqrt(d_k) / sigma, [], []
    for _ in range(60):
        common, own = rng.standard_normal((1, width)), rng.standard_normal((n_keys, width))
        tokens = sqrt(cosine) * common + sqrt(1 - cosine) * own
        q, k = (tokens @ rng.standard_normal((width, d_k)) / sqrt(width) for _ in range(2))
        mixed = softmax(q @ k.T / divisor) @ (
            tokens @ rng.standard_normal((width, width)) / sqrt(width)
        )
        gram = mixed @ mixed.T / width
        moments.append(
            [gram.trace() / n_keys, (gram.sum() - gram.trace()) / (n_keys * (n_keys - 1))]
        )
        after = 2 * tokens + mixed
        after /= np.linalg.norm(after, axis=1, keepdims=True)
        cosines.append((np.square(after.sum(axis=0)).sum() - n_keys) / (n_keys * (n_keys - 1)))
    expected = [
        *next_moments(cosine, sigma, n_keys),
        next_cosine(cosine, sigma, n_keys, residual=2.0),
    ]
    for drawn, value in zip(np.column_stack([moments, cosines]).T, expected, strict=True):
        assert abs(drawn.mean() - value) < 5 * drawn.std() / sqrt(len(drawn)) + 0.01 * value


@pytest.mark.parametrize("other", [100.0, 1000.0, 1e6])
def test_very_different_deviations_are_refused_before_they_take_the_memory(other):
    tracemalloc.start()
    with pytest.raises(UnknownError, match="unknown for deviations of scores that differ so much"):
        weight_overlap(1.0, other, -0.8, 2)
    assert tracemalloc.get_traced_memory()[1] < 2e8
    tracemalloc.stop()


def test_impossible_arguments_are_refused():
    for call in (lambda: weight_overlap(1.0, 1.0, 1.1, 8), lambda: attention_overlap(8, 8, 1.0)):
        with pytest.raises(ValueError, match="expected"):
            call()
