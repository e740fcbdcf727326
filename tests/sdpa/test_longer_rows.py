"""Spreads that keep attention as rows grow, and rules of length, against simulated rows and a plain
integral.
"""

import math

import numpy as np
import pytest
from numerics import is_mean
from scipy import optimize, special

from sdpa import entropy, softmax
from sdpa.theory import poisson_dirichlet
from sdpa.theory.longer_rows import (
    RULES,
    TRAINED,
    lengths_that_keep,
    sigma_for,
    unit_row,
)
from sdpa.theory.row_moments import correlated_row
from sdpa.theory.rows import GaussianRow

ROWS = 4000


def gaussian(rng, sigma, n):
    return sigma * rng.standard_normal((ROWS, n))


def unit(rng, sigma, n, d_k=8):
    """Cosines of one fixed direction and isotropic vectors, written out."""
    keys = rng.standard_normal((ROWS, n, d_k))
    return sigma * math.sqrt(d_k) * keys[..., 0] / np.linalg.norm(keys, axis=-1)


def correlated(rng, sigma, n, d_k=64, rho=0.5):
    """Scores of a query of length sqrt(d_k) along the first axis; its own key is rho q + sqrt(1 -
    rho^2) noise.
    """
    along = rng.standard_normal((ROWS, n))
    along[:, 0] = rho * math.sqrt(d_k) + math.sqrt(1 - rho**2) * along[:, 0]
    return sigma * along


@pytest.mark.parametrize(
    ("draw", "row_of"),
    [
        (gaussian, GaussianRow),
        (unit, lambda sigma, n: unit_row(sigma, n, 8)),
        (correlated, lambda sigma, n: correlated_row(sigma, n, 8.0, 0.5)),
    ],
)
@pytest.mark.parametrize(("target", "value", "n"), [("entropy", 1.5, 16), ("max_weight", 0.5, 64)])
def test_rows_with_that_spread_have_the_wanted_value(draw, row_of, target, value, n):
    rng = np.random.default_rng([n, *target.encode()])
    weights = softmax(draw(rng, sigma_for(target, value, n, row_of), n))
    found = weights.max(axis=-1) if target == "max_weight" else entropy(weights)
    assert is_mean(found, value)


def test_an_impossible_value_is_refused():
    with pytest.raises(ValueError, match=r"entropy: expected a value from 0\.\d+ to 2\.77, got 3"):
        sigma_for("entropy", 3.0, 16)


@pytest.mark.parametrize(
    ("rule", "multiplier"),
    [
        (RULES[1], lambda n: math.sqrt(math.log(n))),
        (RULES[4], lambda n: 1 + 0.1 * math.log(1 + n // 8192)),
        (RULES[5], lambda n: (1 + 0.1 * math.log(max(n / 4096, 1))) ** 2),
    ],
)
def test_a_rule_keeps_the_entropy_up_to_its_ends(rule, multiplier):
    """Entropies of plain rows on both sides of both ends; the search leaves steps of a
    thousandth.
    """
    unit_sigma = sigma_for("entropy", 3.0, TRAINED) / multiplier(TRAINED)

    def change(n):
        return abs(GaussianRow(unit_sigma * multiplier(n), n).entropy() / 3 - 1)

    shortest, longest = lengths_that_keep(rule, 3.0)
    assert change(shortest) <= 0.1 < change(int(0.99 * shortest))
    assert change(longest) <= 0.1 < change(int(1.01 * longest))


def test_the_polynomial_leaves_long_rows_alone():
    """It is below 1 from 5.9 nats on, and 2.25 at 3 nats."""
    by_entropy = RULES[6].sigma
    sigma = sigma_for("entropy", 3.0, 1024)
    polynomial = -0.037 * 81 + 0.481 * 27 - 2.3 * 9 + 4.917 * 3 - 1.791
    assert by_entropy(0.5, 4096) == 0.5
    assert by_entropy(sigma, 1024) / sigma == pytest.approx(polynomial)


@pytest.mark.parametrize(("nats", "n_keys"), [(1.5, 16), (1.5, 2**20), (6.0, 1024), (6.0, 2**20)])
def test_the_law_of_the_power_is_up_to_a_fifth_low(nats, n_keys):
    """docs/theory.md: (1/2) / (1 - H / ln n), the exact power by central differences; sigma itself
    up to 44% low.
    """
    low, high = round(n_keys / 1.2), round(n_keys * 1.2)
    growth = math.log(sigma_for("entropy", nats, high) / sigma_for("entropy", nats, low))
    exact = growth / math.log(math.log(high) / math.log(low))
    power = 0.5 / (1 - nats / math.log(n_keys))
    assert 0.79 < power / exact < 1
    sigma = math.sqrt(2 * (math.log(n_keys) - nats))
    assert 0.55 < sigma / sigma_for("entropy", nats, n_keys) < 1


@pytest.mark.parametrize(("nats", "above"), [(1.5, 1.14), (6.0, 1.50)])
def test_the_frozen_phase_gives_the_limit_of_a_constant_entropy(nats, above):
    """docs/theory.md: sigma_c / m with psi(1) - psi(1 - m) = H, over the exact value at 2^20
    keys.
    """

    def excess(m):
        return special.digamma(1) - special.digamma(1 - m) - nats

    limit = math.sqrt(2 * math.log(2**20)) / optimize.brentq(excess, 1e-6, 1 - 1e-9)
    assert limit / sigma_for("entropy", nats, 2**20) == pytest.approx(above, abs=0.005)


@pytest.mark.parametrize(("ratio", "high"), [(3.0, 0.998), (1.5, 1.12)])
def test_the_largest_of_normal_scores_explains_the_slow_convergence(ratio, high):
    """docs/theory.md: PD(m, 0) with m (1 - (ln ln n + ln 4 pi) / (4 ln n)), over the exact entropy
    at 2^20 keys.
    """
    ln_n = math.log(2**20)
    m = (1 - (math.log(ln_n) + math.log(4 * math.pi)) / (4 * ln_n)) / ratio
    exact = GaussianRow(ratio * math.sqrt(2 * ln_n), 2**20).entropy()
    assert poisson_dirichlet.entropy(m) / exact == pytest.approx(high, abs=0.005)


def test_rows_have_entropies_of_their_own():
    """By 1000 rows of 4096 keys and five errors: the polynomial of each row, and of their mean."""
    scores = 2.5 * np.random.default_rng(5).standard_normal((1000, TRAINED))
    polynomial = np.polyval([-0.037, 0.481, -2.3, 4.917, -1.791], entropy(softmax(scores)))
    beta = np.maximum(polynomial, 1.0)
    assert is_mean(entropy(softmax(beta[:, None] * scores)), 2.70, within=0.05)
    of_mean = GaussianRow(RULES[6].sigma(2.5, TRAINED), TRAINED).entropy()
    assert of_mean == pytest.approx(2.11, abs=0.005)
