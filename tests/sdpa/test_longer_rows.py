"""Spreads that keep attention as rows grow, and rules of length, against simulated rows and a plain
integral.
"""

import math

import numpy as np
import pytest

from sdpa import entropy, softmax
from sdpa.theory.longer_rows import (
    RULES,
    TRAINED,
    lengths_that_keep,
    sigma_for,
    unit_row,
)
from sdpa.theory.row_moments import correlated_row
from sdpa.theory.rows import GaussianRow
from tests.numerics import is_mean

ROWS = 4000


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
    ("draw", "row_of", "target", "value", "n"),
    [
        (unit, lambda sigma, n: unit_row(sigma, n, 8), "entropy", 1.5, 16),
        (correlated, lambda sigma, n: correlated_row(sigma, n, 8.0, 0.5), "max_weight", 0.5, 64),
    ],
)
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
