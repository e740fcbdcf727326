"""Moments of the score to the eighth and spreads made of them, against tensor grids, estimates and the normal law."""

import math

import numpy as np
import pytest
from scipy import stats
from test_inputs_and_theory import QUADRATURE

from sdpa import LAWS
from sdpa.theory import score_kurtosis, score_moments, score_power_deviations


def moments_by_convolution(law, d_k):
    """E s^2, s^4, s^6, s^8 by the full tensor grid of 2 d_k entries, exact for polynomials to degree 9."""
    nodes, weights = QUADRATURE[law]
    products, chances = np.multiply.outer(nodes, nodes).ravel(), np.multiply.outer(weights, weights).ravel()
    total, chance = np.zeros(1), np.ones(1)
    for _ in range(d_k):
        total, chance = np.add.outer(total, products).ravel(), np.multiply.outer(chance, chances).ravel()
    return [float(chance @ total**order) for order in (2, 4, 6, 8)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("d_k", [1, 2, 4])
def test_moments_of_the_score_to_the_eighth(law, d_k):
    expected = moments_by_convolution(law, d_k)
    moments = LAWS[law].moments
    assert score_moments(d_k, moments) == pytest.approx(expected, rel=1e-12)
    assert score_kurtosis(d_k, moments[0]) == pytest.approx(expected[1] / expected[0] ** 2 - 3)
    deviations = score_power_deviations(d_k, 2.0, 1.5, moments)
    scale = 1.5**2 / 2
    assert deviations.score_mean == pytest.approx(scale * math.sqrt(expected[0]))
    assert deviations.score_variance == pytest.approx(
        scale**2 * math.sqrt(max(expected[1] - expected[0] ** 2, 0.0)), abs=1e-7
    )


def test_the_kurtosis_of_many_scores_spreads_as_stated():
    """2,000 estimates of 2,000 scores of d_k = 16: their variance within 6% (false alarm 2e-3 if it were reseeded; the
    next term of the delta method is of the order of a percent)."""
    rng, n = np.random.default_rng(9), 2000
    x = rng.uniform(-1, 1, (2000, n, 4)) * rng.uniform(-1, 1, (2000, n, 4))
    estimates = stats.kurtosis(x.sum(-1), axis=1)
    expected = score_power_deviations(4, 1.0, moments=LAWS["uniform"].moments).score_kurtosis / math.sqrt(n)
    assert estimates.std() == pytest.approx(expected, rel=0.06)


def test_a_normal_score_has_the_textbook_spreads():
    """For d_k to infinity: of s^2 sqrt(2), and of the kurtosis sqrt(24)."""
    deviations = score_power_deviations(1e9, 1e9**0.5)
    assert deviations.score_variance == pytest.approx(math.sqrt(2), rel=1e-7)
    assert deviations.score_kurtosis == pytest.approx(math.sqrt(24), rel=1e-6)


@pytest.mark.parametrize("arguments", [(0.5,), (2, (3.0, 15.0))])
def test_impossible_moments_are_refused(arguments):
    with pytest.raises(ValueError, match="expected d_k of at least 1 and three moments"):
        score_moments(*arguments)
