"""The laws and the moments of q.k, against quadrature over q and k that knows nothing of either formula."""

import math

import numpy as np
import pytest

from sdpa import LAWS, InputLaw, theory

GAUSSIAN = np.polynomial.hermite_e.hermegauss(6)
UNIFORM = np.polynomial.legendre.leggauss(6)
# Nodes and probabilities that integrate polynomials to degree 11 exactly under each law.
QUADRATURE = {
    "gaussian": (GAUSSIAN[0], GAUSSIAN[1] / GAUSSIAN[1].sum()),
    "uniform": (UNIFORM[0] * math.sqrt(3), UNIFORM[1] / 2),
}


def moment_of_the_score(law, d_k, order, input_std):
    """E (q.k)^order by a full tensor grid over the 2 d_k entries."""
    nodes, probabilities = QUADRATURE[law]
    products = np.multiply.outer(nodes, nodes).ravel() * input_std**2
    weights = np.multiply.outer(probabilities, probabilities).ravel()
    total, weight = np.zeros(1), np.ones(1)
    for _ in range(d_k):
        total, weight = np.add.outer(total, products).ravel(), np.multiply.outer(weight, weights).ravel()
    return float((total**order * weight).sum())


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("d_k", [1, 2, 3])
def test_moments_of_the_score(law, d_k):
    std, divisor = 1.5, 2.5
    mean, variance, _, fourth = (moment_of_the_score(law, d_k, order, std) / divisor**order for order in (1, 2, 3, 4))
    assert theory.score_mean() == pytest.approx(mean, abs=1e-12)
    assert theory.score_variance(d_k, divisor, std) == pytest.approx(variance)
    assert theory.score_kurtosis(d_k, LAWS[law].moments[0]) == pytest.approx(fourth / variance**2 - 3)


@pytest.mark.parametrize("law", LAWS)
def test_samples_follow_their_law(law):
    """Moments 1 to 4 of 10^6 draws at a fixed seed: within 5 standard errors (false alarm 2e-6 if it were reseeded)."""
    n = 10**6
    x = InputLaw.parse(law).sample(np.random.default_rng(12), (1000, n // 1000)).ravel()
    nodes, probabilities = QUADRATURE[law]
    for order in (1, 2, 3, 4):
        mean = (nodes**order * probabilities).sum()
        standard_error = math.sqrt(((nodes ** (2 * order) * probabilities).sum() - mean**2) / n)
        assert abs((x**order).mean() - mean) <= max(5 * standard_error, 1e-12)


def test_an_unknown_law_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=f"expected one of {', '.join(LAWS)}, got 'normal'"):
        InputLaw.parse("normal")
