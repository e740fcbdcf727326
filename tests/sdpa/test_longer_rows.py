"""Spreads that keep attention as rows grow, and rules of length, against simulated rows and a plain
integral.
"""

import math
from math import exp, log, pi, sqrt

import numpy as np
import pytest
from numerics import standard_errors
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import digamma, entr, expit
from scipy.special import softmax as scipy_softmax

from sdpa import softmax
from sdpa.theory import poisson_dirichlet
from sdpa.theory.longer_rows import (
    RULES,
    TRAINED,
    correlated_row,
    lengths_that_keep,
    sigma_for,
    unit_row,
)
from sdpa.theory.rows import GaussianRow

ROWS = 4000


def entropies(scores):
    """Entropy and largest weight of each row."""
    weights = scipy_softmax(scores, axis=1)
    return entr(weights).sum(axis=1), weights.max(axis=1)


def gaussian(rng, sigma, n):
    return sigma * rng.standard_normal((ROWS, n))


def unit(rng, sigma, n, d_k=8):
    """Cosines of one fixed direction and isotropic vectors, written out."""
    keys = rng.standard_normal((ROWS, n, d_k))
    return sigma * sqrt(d_k) * keys[..., 0] / np.sqrt((keys**2).sum(axis=-1))


def correlated(rng, sigma, n, d_k=64, rho=0.5):
    """Scores of a query of length sqrt(d_k) along the first axis; its own key is rho
    q + sqrt(1 - rho^2) noise.
    """
    along = rng.standard_normal((ROWS, n))
    along[:, 0] = rho * sqrt(d_k) + sqrt(1 - rho**2) * along[:, 0]
    return sigma * along


@pytest.mark.parametrize(
    ("draw", "row_of"),
    [
        (gaussian, GaussianRow),
        (unit, lambda sigma, n: unit_row(sigma, n, 8)),
        (correlated, lambda sigma, n: correlated_row(sigma, n, 64, 0.5)),
    ],
)
@pytest.mark.parametrize(
    ("target", "value", "n"), [("entropy", 1.5, 16), ("entropy", 3.0, 100), ("max_weight", 0.5, 64)]
)
def test_rows_with_that_spread_have_the_wanted_value(draw, row_of, target, value, n):
    """The mean of 4000 simulated rows, within five standard errors: one false alarm in 200,000
    runs.
    """
    rng = np.random.default_rng([n, *target.encode()])
    scores = draw(rng, sigma_for(target, value, n, row_of), n)
    found = entropies(scores)[target == "max_weight"]
    assert standard_errors(found, value) < 5


def test_two_keys_agree_with_an_integral():
    """H of two keys with the difference N(0, 2 sigma^2) of scores, by quadrature."""
    sigma = sigma_for("entropy", 0.4, 2)

    def integrand(z):
        p = expit(sqrt(2) * sigma * z)
        return (entr(p) + entr(1 - p)) * exp(-z * z / 2) / sqrt(2 * pi)

    assert quad(integrand, -12, 12, epsabs=1e-12)[0] == pytest.approx(0.4, abs=1e-8)


def test_an_impossible_value_is_refused():
    with pytest.raises(ValueError, match=r"entropy: expected a value from 0\.\d+ to 2\.77, got 3"):
        sigma_for("entropy", 3.0, 16)


@pytest.mark.parametrize(
    ("rule", "multiplier"),
    [
        (RULES[1], lambda n: sqrt(log(n))),
        (RULES[4], lambda n: 1 + 0.1 * log(1 + n // 8192)),
        (RULES[5], lambda n: (1 + 0.1 * log(max(n / 4096, 1))) ** 2),
    ],
)
def test_a_rule_keeps_the_entropy_up_to_its_ends(rule, multiplier):
    """Entropies of plain rows on both sides of both ends; the search leaves steps of a thousandth."""
    at_trained = sigma_for("entropy", 3.0, TRAINED)
    for end, outwards in zip(lengths_that_keep(rule, 3.0), (0.99, 1.01), strict=True):
        inside, outside = (
            GaussianRow(at_trained * multiplier(n) / multiplier(TRAINED), n).entropy()
            for n in (end, int(end * outwards))
        )
        assert abs(inside / 3 - 1) <= 0.1 < abs(outside / 3 - 1)


def test_the_polynomial_leaves_long_rows_alone():
    """It is below 1 from 5.9 nats on, and 2.25 at 3 nats."""
    by_entropy = RULES[6].sigma
    sigma = sigma_for("entropy", 3.0, 1024)
    assert by_entropy(0.5, 4096) == 0.5
    multiplier = -0.037 * 81 + 0.481 * 27 - 2.3 * 9 + 4.917 * 3 - 1.791
    assert by_entropy(sigma, 1024) / sigma == pytest.approx(multiplier)


@pytest.mark.parametrize(
    ("entropy", "n_keys"), [(1.5, 16), (1.5, 2**20), (3.0, 1024), (6.0, 1024), (6.0, 2**20)]
)
def test_the_law_of_the_power_is_up_to_a_fifth_low(entropy, n_keys):
    """docs/theory.md: (1/2) / (1 - H / ln n), the exact power by central differences; sigma itself
    up to 44% low.
    """
    low, high = round(n_keys / 1.2), round(n_keys * 1.2)
    ends = [sigma_for("entropy", entropy, n) for n in (low, high)]
    exact = log(ends[1] / ends[0]) / log(log(high) / log(low))
    assert 0.79 < 0.5 / (1 - entropy / log(n_keys)) / exact < 1
    assert 0.55 < sqrt(2 * (log(n_keys) - entropy)) / sigma_for("entropy", entropy, n_keys) < 1


@pytest.mark.parametrize(("entropy", "above"), [(1.5, 1.14), (6.0, 1.50)])
def test_the_frozen_phase_gives_the_limit_of_a_constant_entropy(entropy, above):
    """docs/theory.md: sigma_c / m with psi(1) - psi(1 - m) = H, over the exact value at 2^20 keys."""
    m = brentq(lambda m: digamma(1) - digamma(1 - m) - entropy, 1e-6, 1 - 1e-9)
    exact = sigma_for("entropy", entropy, 2**20)
    assert sqrt(2 * log(2**20)) / m / exact == pytest.approx(above, abs=0.005)


@pytest.mark.parametrize(("ratio", "high"), [(3.0, 0.998), (1.5, 1.12)])
def test_the_largest_of_normal_scores_explains_the_slow_convergence(ratio, high):
    """docs/theory.md: PD(m, 0) with m (1 - (ln ln n + ln 4 pi) / (4 ln n)), over the exact entropy
    at 2^20 keys.
    """
    ln_n = log(2**20)
    m = (1 - (log(ln_n) + log(4 * pi)) / (4 * ln_n)) / ratio
    exact = GaussianRow(ratio * sqrt(2 * ln_n), 2**20).entropy()
    assert poisson_dirichlet.entropy(m) / exact == pytest.approx(high, abs=0.005)


def test_the_mean_jacobian_crosses_near_n_and_rows_have_entropies_of_their_own():
    """By 4000 and 1000 rows and five errors: E|J|_F with 1024 keys, and the polynomial at 4096
    keys.
    """

    def norms(weights):
        p2, p3 = np.vecdot(weights, weights), np.vecdot(weights, weights * weights)
        return np.sqrt(np.maximum(p2 + p2**2 - 2 * p3, 0))

    rng = np.random.default_rng(5)
    crossing = 2 * log(1024) * 1024 / math.e / 1.44  # the law is 44% high
    unscaled = norms(softmax(gaussian(rng, sqrt(crossing), 1024)))
    scaled = norms(softmax(gaussian(rng, 1.0, 1024)))
    assert standard_errors(unscaled, scaled.mean()) < 5
    scores = 2.5 * rng.standard_normal((1000, TRAINED))
    beta = np.maximum(np.polyval([-0.037, 0.481, -2.3, 4.917, -1.791], entropies(scores)[0]), 1.0)
    own = entropies(beta[:, None] * scores)[0]
    assert abs(own.mean() - 2.70) < 0.05 + 5 * own.std() / sqrt(1000)
    flattened = GaussianRow(RULES[6].sigma(2.5, TRAINED), TRAINED)
    assert flattened.entropy() == pytest.approx(2.11, abs=0.005)
