"""The exact expectations of one row against routes that share no integrand and no nodes with them.

Three keys: quadrature over their differences. Any n: plain Monte Carlo, and limits solved by hand.
"""

from math import exp, inf, log, log1p, pi, sqrt

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad, simpson
from scipy.special import gammainc, log_ndtr, ndtr, ndtri

from sdpa.theory import GaussianRow, largest_score_survival, score_survival
from sdpa.theory.gaussian_rows import gaussian_rows, saturated_rows
from sdpa.theory.largest_weight import sum_below, terms_for
from sdpa.theory.query_lengths import (
    largest_deviation_survival,
    largest_of_all_mean,
    largest_score_mean,
)


@pytest.mark.parametrize("sigma, n_keys", [(1e5, 2), (1e7, 1e9)])
def test_saturated_rows_are_those_near_a_tie(sigma, n_keys):
    """With a density f0 / sigma of the gap x, E f = f0 / sigma int f(x) dx: of H over x from 0,
    pi^2 / 6; tr J, 1; |J|_F^2, 1/3. f0 = E max of n normals, by parts from n (n - 1) int phi^2
    Phi^(n-2). The next term is below 50 / sigma of it."""
    z = -ndtri(1 / n_keys) + np.linspace(-12, 12, 40_001)
    f0 = simpson(z * n_keys * stats.norm.pdf(z) * np.exp((n_keys - 1) * log_ndtr(z)), x=z)
    row = GaussianRow(sigma, n_keys)
    assert row.entropy() == pytest.approx(f0 / sigma * pi**2 / 6, rel=50 / sigma)
    assert row.jacobian_trace() == pytest.approx(f0 / sigma, rel=1 / sigma, abs=1e-16)
    assert row.jacobian_square() == pytest.approx(f0 / sigma / 3, rel=50 / sigma)


@pytest.mark.parametrize("sigma, threshold", [(0.399, 0.5), (0.45, 0.5), (6.0, 0.99)])
def test_the_largest_of_three_weights_by_quadrature_over_differences(sigma, threshold):
    """P(e^-a + e^-b < c) for a = s1 - s2, b = s1 - s3: given a, b is normal of mean a / 2 and
    variance 3/2 sigma^2.
    """
    c = (1 - threshold) / threshold

    def integrand(a):
        room = c - exp(-a)
        at_least = -log(room) if room > 0 else inf
        chance = ndtr((a / 2 - at_least) / (sigma * sqrt(1.5)))
        return stats.norm.pdf(a, scale=sigma * sqrt(2)) * chance

    low, middle, high = -log(c) + sigma * np.array([0, 2, 14])
    pieces = (low, middle), (middle, high)
    expected = 3 * sum(quad(integrand, *ends, epsabs=1e-14, limit=200)[0] for ends in pieces)
    error = 1e-12 if sigma >= 0.4 else 1e-10  # as stated
    actual = GaussianRow(sigma, 3).remainder_below(log1p(-threshold))
    assert actual == pytest.approx(expected, rel=1e-9, abs=error)


@pytest.mark.parametrize("width", [0.0313, 0.0625, 0.2])
def test_the_inversion_of_the_transform_of_a_gamma_law_is_its_distribution(width):
    """S of mean 1 has E e^(-p S) = (1 + p / shape)^-shape."""
    shape, c = width**-2, 1 + width * np.linspace(-2, 2, 5)
    p = (25 + 2j * pi * np.arange(terms_for(width))) / (2 * c[:, None])
    assert_allclose(sum_below(-shape * np.log1p(p / shape)), gammainc(shape, shape * c), atol=1e-10)


@pytest.mark.parametrize("n_keys", [2, 64, 1e6])
def test_saturation_between_nodes_is_that_of_each_row(n_keys):
    sigma = np.geomspace(0.2, 200, 13)
    expected = [GaussianRow(each, n_keys).remainder_below(log1p(-0.99)) for each in sigma]
    assert_allclose(saturated_rows(sigma, n_keys), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "n_keys, sigmas",
    [
        ([2, 9, 9, 30_000], [1e-4, 0.3, 40.0, 3.0]),
        # More lengths than nodes: interpolated between these.
        (range(20, 34), np.linspace(2.0, 3.9, 14)),
    ],
)
def test_rows_of_any_spread_and_length_have_the_values_of_their_integrals(n_keys, sigmas):
    order = default_rng(0).permutation(len(n_keys))
    n_keys, sigma = np.array(n_keys)[order], np.array(sigmas)[order]
    actual = gaussian_rows(sigma, n_keys)
    rows = list(map(GaussianRow, sigma, n_keys))
    expected = [
        (row.max_weight(), row.entropy(), row.jacobian_square(), row.remainder_below(log1p(-0.99)))
        for row in rows
    ]
    assert_allclose(actual, expected, rtol=0, atol=1e-5)
    assert_allclose(actual[:, ::2], np.array(expected)[:, ::2], rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("d_k", [2, 6])
def test_the_law_of_scores_is_elementary_for_even_d_k(d_k):
    """(1 + t^2)^-m is that of the difference of two Gamma(m) laws, whose tail is written out."""
    s = np.array([0.0, 1e-8, 0.5, 20.0])
    polynomial = {2: 1 / 2, 6: (8 + 5 * s + s * s) / 16}[d_k]
    assert_allclose(score_survival(s, d_k), polynomial * np.exp(-s), rtol=1e-10)


def test_the_largest_of_several_scores_that_share_a_query():
    """As simulated; and far out, where the union bound is exact."""
    rng = default_rng(0)
    q, k = rng.standard_normal((200_000, 1, 3)), rng.standard_normal((200_000, 7, 3))
    largest = (q * k).sum(-1).max(-1)
    s = np.array([-0.5, 1.0, 4.0])
    exact = largest_score_survival(s, 3, 7)
    assert abs((largest[:, None] > s).mean(0) - exact).max() < 4 * 0.5 / sqrt(len(largest))
    far = largest_score_survival(500.0, 3, 7)
    assert far == pytest.approx(7 * score_survival(500.0, 3), rel=1e-9, abs=0)


def test_the_largest_of_normal_scores_of_rows():
    """As order statistics have it; and of two rows by the normal law of their difference."""
    for n in 2, 64, 5000:
        order = stats.order_statistic(stats.Normal(), r=n, n=n).mean()
        assert largest_score_mean([3.0], [n]) == pytest.approx(3 * order, rel=1e-9)
    assert largest_score_mean([3.0, 0.0], [1, 9]) == pytest.approx(3 / sqrt(2 * np.pi), rel=2e-2)
    assert_allclose(largest_score_mean([[3, 4]], [1, 1]), 5 / sqrt(2 * np.pi), rtol=1e-12)


@pytest.mark.parametrize("d_k, n_queries, n_keys", [(1, 3, 5), (4, 30, 20)])
def test_the_largest_of_all_scores_is_as_simulated(d_k, n_queries, n_keys):
    """Each query with keys of its own; four standard errors: a false alarm in 16,000."""
    rng = default_rng(1)
    q = rng.standard_normal((4000, n_queries, 1, d_k))
    k = rng.standard_normal((4000, n_queries, n_keys, d_k))
    largest = (q * k).sum(-1).max((1, 2))
    error = largest.std() / sqrt(len(largest))
    assert abs(largest.mean() - largest_of_all_mean(d_k, n_queries, n_keys)) < 4 * error


def test_the_largest_deviation_of_two_and_of_three_scores():
    """Of three, the deviations are sqrt(2) times the cosines of equally spaced angles."""
    assert largest_deviation_survival(1.0, 2) == 1
    x = np.linspace(0.5**0.5, 2**0.5, 9)
    assert_allclose(largest_deviation_survival(x, 3), 3 * np.arccos(x / 2**0.5) / np.pi, atol=1e-7)
