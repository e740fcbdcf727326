"""The laws and the moments of q.k, against quadrature over q and k that knows nothing of either formula."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from sdpa import LAWS, InputLaw, theory
from sdpa.pairs import PairLaw


def gauss_rule(moments):
    """Nodes and probabilities of the five points that have the same moments E x^0 ... E x^9 (Golub and Welsch 1969)."""
    moments = np.array(moments)
    scale = np.sqrt(moments[::2][:5])
    # The last pivot is not used, so that the moment of order 10 may be any that is large enough.
    hankel = np.array([[moments[i + j] for j in range(5)] for i in range(5)]) / np.outer(scale, scale)
    factor = np.linalg.cholesky(hankel) * scale[:, None]
    row = np.linalg.solve(factor, moments[5:10])
    upper = np.column_stack([factor.T, row])
    diagonal = [upper[i, i + 1] / upper[i, i] - (upper[i - 1, i] / upper[i - 1, i - 1] if i else 0) for i in range(5)]
    beside = [upper[i + 1, i + 1] / upper[i, i] for i in range(4)]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    return nodes, vectors[0] ** 2


GAUSSIAN = np.polynomial.hermite_e.hermegauss(5)
UNIFORM = np.polynomial.legendre.leggauss(5)
LAPLACE = gauss_rule([0 if n % 2 else math.factorial(n) / 2 ** (n / 2) for n in range(10)])
EXPONENTIAL = gauss_rule([math.exp(n**2 / 2) for n in range(10)])  # of e^z
# Nodes and probabilities that integrate polynomials to degree 9 exactly under each law; to 5 if it has no more moments.
QUADRATURE = {
    "gaussian": (GAUSSIAN[0], GAUSSIAN[1] / GAUSSIAN[1].sum()),
    "uniform": (UNIFORM[0] * math.sqrt(3), UNIFORM[1] / 2),
    "rademacher": (np.array([-1.0, 1.0]), np.array([0.5, 0.5])),
    "laplace": LAPLACE,
    "student_t": (np.array([-3.0, 0.0, 3.0]), np.array([1 / 18, 8 / 9, 1 / 18])),
    "lognormal": ((EXPONENTIAL[0] - math.e**0.5) / math.sqrt(math.e * (math.e - 1)), EXPONENTIAL[1]),
}
DISTRIBUTIONS = {
    "gaussian": stats.norm(),
    "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)),
    "laplace": stats.laplace(scale=math.sqrt(0.5)),
    "student_t": stats.t(5, scale=math.sqrt(0.6)),
    "lognormal": stats.lognorm(
        1.0, loc=-(math.e**0.5) / math.sqrt(math.e * (math.e - 1)), scale=1 / math.sqrt(math.e * (math.e - 1))
    ),
}


def known_orders(law):
    """The orders from 3 to 8 of the moments that the law has."""
    return [order for order in range(3, 9) if math.isfinite(LAWS[law].moments[order - 3])]


@pytest.mark.parametrize("law", DISTRIBUTIONS)
def test_moments_are_those_of_the_density(law):
    of = DISTRIBUTIONS[law]
    ends = [max(of.support()[0], -np.inf), -1.0, 0.0, 1.0, 10.0, 100.0, 1e4, of.support()[1]]
    ends = [end for end in ends if of.support()[0] <= end <= of.support()[1]]
    for order in [0, 1, 2, *known_orders(law)]:
        mean = sum(
            integrate.quad(lambda x, n=order: x**n * of.pdf(x), a, b, epsabs=1e-13, limit=200)[0]
            for a, b in itertools.pairwise(ends)
        )
        expected = [1.0, 0.0, 1.0, *LAWS[law].moments][order]
        assert mean == pytest.approx(expected, rel=1e-8, abs=1e-10), order


@pytest.mark.parametrize("law", LAWS)
def test_moments_are_those_of_the_quadrature(law):
    nodes, probabilities = QUADRATURE[law]
    for order in known_orders(law):
        expected = LAWS[law].moments[order - 3]
        assert (nodes**order * probabilities).sum() == pytest.approx(expected, rel=1e-9, abs=1e-9), order


@pytest.mark.parametrize("law", DISTRIBUTIONS)
def test_samples_have_the_distribution_of_their_law(law):
    """100,000 draws at a fixed seed: Kolmogorov-Smirnov p above 1e-4."""
    x = LAWS[law].sample(np.random.default_rng(13), (100, 1000)).ravel()
    assert stats.kstest(x, DISTRIBUTIONS[law].cdf).pvalue > 1e-4


@pytest.mark.parametrize("law", LAWS)
def test_samples_follow_their_law(law):
    """Moments 1 to 4 of 10^6 draws at a fixed seed: within 5 standard errors (false alarm 2e-6 if it were reseeded)."""
    n = 10**6
    x = InputLaw.parse(law).sample(np.random.default_rng(12), (1000, n // 1000)).ravel()
    moments = [1.0, 0.0, 1.0, *LAWS[law].moments]
    for order in (1, 2, 3, 4):
        if math.isfinite(moments[2 * order]):
            standard_error = math.sqrt((moments[2 * order] - moments[order] ** 2) / n)
            assert abs((x**order).mean() - moments[order]) <= max(5 * standard_error, 1e-12)


def test_an_unknown_law_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=f"expected one of {', '.join(LAWS)}, got 'normal'"):
        InputLaw.parse("normal")


def test_a_law_without_six_moments_is_refused():
    from sdpa.inputs import input_law

    with pytest.raises(ValueError, match=r"expected the six moments E x\^3 to E x\^8, got 3"):
        input_law(0.0, 3.0, 0.0)
    with pytest.raises(ValueError, match="expected a single law called gaussian, got a second one"):
        input_law(*LAWS["gaussian"].moments)(LAWS["gaussian"].sample)


def test_a_score_without_a_fourth_moment_has_infinite_kurtosis():
    heavy = dataclasses.replace(LAWS["student_t"], moments=(0.0, *(math.inf,) * 5))
    assert theory.score_kurtosis(4, PairLaw(entries=heavy)) == math.inf
