"""P(max w > threshold) against the closed form of two keys, rows drawn at random, and integrals over the largest."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from sdpa import softmax
from sdpa.metrics import SATURATED
from sdpa.theory import GaussianRow, attention_expectations
from sdpa.theory.row_tables import saturated_rows


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 0.399, 0.4, 0.999, 1.0, 4.0, 300.0, 1e6])
@pytest.mark.parametrize("threshold", [0.5, 0.6, 0.9, 0.99, 1 - 1e-9])
def test_two_keys_in_closed_form(sigma, threshold):
    """max w is above it where |s1 - s2|, of variance 2 sigma^2, is above its logit."""
    expected = 2 * special.ndtr(-special.logit(threshold) / (sigma * math.sqrt(2)))
    assert GaussianRow(sigma, 2).max_weight_survival(threshold) == pytest.approx(expected, rel=0, abs=1e-12)
    if sigma >= 0.5 and expected > 1e-30:
        assert GaussianRow(sigma, 2).max_weight_survival(threshold) == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize(("sigma", "threshold"), [(0.2, 0.5), (0.35, 0.6), (0.45, 0.5), (1.3, 0.7), (6.0, 0.99)])
def test_three_keys_by_quadrature_over_differences(sigma, threshold):
    """P(e^-a + e^-b < c) for a = s1 - s2, b = s1 - s3: given a, b is normal of mean a / 2 and variance 3/2 sigma^2."""
    c = (1 - threshold) / threshold

    def integrand(a):
        room = c - math.exp(-a)
        at_least = -math.log(room) if room > 0 else math.inf
        return stats.norm.pdf(a, scale=sigma * math.sqrt(2)) * special.ndtr(
            (a / 2 - at_least) / (sigma * math.sqrt(1.5))
        )

    ends = -math.log(c), -math.log(c) + 2 * sigma, -math.log(c) + 14 * sigma
    expected = 3 * sum(integrate.quad(integrand, a, b, epsabs=1e-14, limit=200)[0] for a, b in itertools.pairwise(ends))
    assert GaussianRow(sigma, 3).max_weight_survival(threshold) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("sigma", "n_keys"), [(0.3, 3), (1.5, 5), (3.0, 64), (8.0, 64), pytest.param(4.0, 1000, marks=pytest.mark.slow)]
)
def test_rows_drawn_at_random_agree(sigma, n_keys):
    """20,000 rows at a fixed seed: within 5 binomial standard errors (false alarm 1e-5 in all if it were reseeded)."""
    largest = softmax(sigma * np.random.default_rng(6).standard_normal((20_000, n_keys))).max(axis=-1)
    for threshold in (0.5, 0.8, SATURATED):
        exact = GaussianRow(sigma, n_keys).max_weight_survival(threshold)
        error = math.sqrt(exact * (1 - exact) / len(largest))
        assert abs((largest > threshold).mean() - exact) <= 5 * error + 5 / len(largest) ** 1.5


@pytest.mark.parametrize(("sigma", "n_keys"), [(12.0, 5), (60.0, 64), (300.0, 4096)])
def test_the_mean_of_the_largest_weight_is_the_area_under_its_survival(sigma, n_keys):
    """E max w = 1/2 + int P(max w > t) dt over t from 1/2, but for rows in which no weight exceeds 1/2."""
    row = GaussianRow(sigma, n_keys)
    area = integrate.quad(row.max_weight_survival, 0.5, 1 - 1e-12, epsrel=1e-9)[0]
    rest = 1 - row.max_weight_survival(0.5)
    assert 0.5 * (1 - rest) + area <= row.max_weight() * (1 + 1e-9)
    assert row.max_weight() <= 0.5 + area


def test_it_falls_with_the_threshold_and_stays_a_probability():
    for n_keys in (2, 2.5, 3.7, 17, 4096, 1e9):
        for sigma in (0, 1e-12, 0.1, 0.39, 0.41, 0.99, 3, 40, 1e6):
            values = [GaussianRow(sigma, n_keys).max_weight_survival(t) for t in (0.5, 0.7, 0.9, 0.99, 1 - 1e-6)]
            assert all(0 <= b <= a + 1e-12 for a, b in zip([1, *values], values, strict=False)), (n_keys, sigma)
    assert GaussianRow(0, 3).max_weight_survival(0.5) == 0
    assert GaussianRow(1e6, 1e9).max_weight_survival(SATURATED) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("n_keys", [2.5, 3, 17])
@pytest.mark.parametrize("sigma", [0.4, 1.0])
def test_it_is_continuous_where_it_changes_its_route(sigma, n_keys):
    below, at = (GaussianRow(sigma * (1 - shift), n_keys).max_weight_survival(0.5) for shift in (1e-12, 0.0))
    assert below == pytest.approx(at, rel=0, abs=1e-10)


@pytest.mark.parametrize("threshold", [0.49, 1.0, math.nan])
def test_thresholds_out_of_range_are_refused(threshold):
    with pytest.raises(ValueError, match="expected a threshold from 1/2 to below 1"):
        GaussianRow(1.0, 4).max_weight_survival(threshold)


@pytest.mark.parametrize("n_keys", [2, 3, 64, 4096, 1e6])
def test_saturation_is_interpolated_within_what_it_says(n_keys):
    sigma = np.geomspace(0.2, 200, 57)
    expected = np.array([GaussianRow(s, n_keys).max_weight_survival(SATURATED) for s in sigma])
    np.testing.assert_allclose(saturated_rows(sigma, n_keys), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("d_k", "n_keys", "divisor"), [(1, 3, 1.0), (4, 64, 1.0), (64, 16, 1.0), (512, 256, 8.0)])
def test_saturated_rows_are_averaged_over_queries(d_k, n_keys, divisor):
    law = stats.chi(d_k)

    def integrand(length):
        return GaussianRow(length / divisor, n_keys).max_weight_survival(SATURATED) * law.pdf(length)

    ends = law.ppf(1e-12), law.median(), law.isf(1e-13)
    expected = sum(integrate.quad(integrand, a, b, epsrel=1e-9)[0] for a, b in itertools.pairwise(ends))
    got = attention_expectations(d_k, n_keys, divisor).saturated_rows
    assert got == pytest.approx(expected, rel=1e-7, abs=1e-10)
