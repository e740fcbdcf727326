"""Rows of queries that correlate with their own key: against quadrature over two scores, and against plain draws."""

import math

import numpy as np
import pytest
from scipy import special, stats
from test_pair_laws import squares_of

from sdpa.pairs import PairLaw
from sdpa.theory import UnknownError, attention_deviations, attention_expectations
from tests.plain_attention import drawn_rows


@pytest.mark.parametrize("rho", [0.4, -0.8, 0.999, 1.0])
@pytest.mark.parametrize(("d_k", "divisor"), [(6, 1.5), (20, 4.0)])
def test_two_keys_by_quadrature(d_k, divisor, rho):
    """The own score minus the other's is N(m, (2 - rho^2) sigma^2) given |q|. With p the own weight, J g is p (1 - p)
    (g1 - g2) (1, -1), and K^T J g along the difference of the keys, whose d_k - 1 entries across q have the variance
    (2 - rho^2) key_std^2."""
    law = PairLaw(correlation=rho, key_mean=3.0, query_std=0.8, key_std=1.5)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    most = stats.chi.isf(1e-15, d_k)
    length, steps = most / 2 * (nodes[:, None] + 1), most / 2 * weights[:, None]
    sigma = law.query_std * law.key_std * length / divisor
    z, z_steps = 9 * nodes, 9 * weights
    chance = stats.chi.pdf(length, d_k) * steps * stats.norm.pdf(z) * z_steps
    x = sigma * (rho * length + math.sqrt(2 - rho**2) * z)
    p, other = special.expit(x), special.expit(-x)
    gradient = 2 * (p * other) ** 2 * ((x / sigma) ** 2 + (d_k - 1) * (2 - rho**2)) * (law.key_std / divisor) ** 2
    expected = {
        "entropy": special.entr(p) + special.entr(other),
        "jacobian_trace": 2 * p * other,
        "jacobian_square": (2 * p * other) ** 2,
        "query_gradient_square": gradient,
        "collision": p**2 + other**2,
        "key_gradient_square": (2 * p * other) ** 2 * (law.query_std * length / divisor) ** 2,
        "row_variance": x**2 / 4,
    }
    exact = attention_expectations(d_k, 2, divisor, law)
    for name, values in expected.items():
        assert squares_of(exact)[name] == pytest.approx((chance * values).sum(), rel=1e-6), name
    assert exact.own_weight == pytest.approx((chance * p).sum(), rel=1e-6)
    # A step in z, whose integral is elementary.
    deviation = math.sqrt(2 - rho**2)
    threshold = special.logit(0.99) / sigma
    saturated = special.ndtr((rho * length - threshold) / deviation) + special.ndtr(
        (-rho * length - threshold) / deviation
    )
    of_length = stats.chi.pdf(length, d_k) * steps
    assert exact.saturated_rows == pytest.approx((of_length * saturated).sum(), rel=1e-6)
    # max(p, 1 - p) on either side of its kink.
    kink = np.clip(-rho * length / deviation, -9, 9)
    largest = 0.0
    for low, high in ((-9.0, kink), (kink, 9.0)):
        z = (low + high) / 2 + (high - low) / 2 * nodes
        values = special.expit(np.abs(sigma * (rho * length + deviation * z))) * stats.norm.pdf(z)
        largest = largest + (values * weights).sum(axis=1, keepdims=True) * (high - low) / 2
    assert exact.max_weight == pytest.approx((of_length * largest).sum(), rel=1e-6)


@pytest.mark.parametrize(("n_keys", "divisor"), [(2, 1.0), (64, 4.0)])
def test_without_a_correlation_the_own_key_is_like_any_other(n_keys, divisor):
    law = PairLaw(correlation=1e-12, query_std=1.2)
    correlated, independent = (
        attention_expectations(16, n_keys, divisor, each) for each in (law, PairLaw(query_std=1.2))
    )
    for name, value in squares_of(independent).items():
        assert squares_of(correlated)[name] == pytest.approx(value, rel=2e-8, abs=1e-10), name
    assert correlated.own_weight == pytest.approx(1 / n_keys, rel=1e-8)


@pytest.mark.parametrize(
    ("rho", "d_k", "n_keys", "divisor"),
    [(0.5, 16, 64, 1.0), (-0.7, 8, 5, 2.0), (1.0, 16, 20, 4.0), (0.9, 64, 16, 20.0), (1.0, 400, 6, 55.0)],
)
def test_draws_agree(rho, d_k, n_keys, divisor):
    """20,000 rows at a fixed seed: within 5 standard errors, or 5 saturated rows."""
    rng = np.random.default_rng(31)
    q = 0.9 * rng.standard_normal((20_000, d_k))
    k = rng.standard_normal((20_000, n_keys, d_k))
    k[:, 2 % n_keys] = rho * q / 0.9 + math.sqrt(1 - rho**2) * k[:, 2 % n_keys]
    k = 0.7 + 1.1 * k
    w, found = drawn_rows(rng, q, k, divisor)
    exact = attention_expectations(d_k, n_keys, divisor, PairLaw(correlation=rho, query_std=0.9, key_std=1.1))
    for name, values in found.items():
        error = 5 * values.std() / math.sqrt(len(values)) + 2.5e-4
        assert abs(values.mean() - squares_of(exact)[name]) <= error, name
    own = w[:, 2 % n_keys]
    assert abs(own.mean() - exact.own_weight) <= 5 * own.std() / math.sqrt(len(own))


def test_causal_rows_average_the_own_weight():
    law = PairLaw(correlation=0.6)
    masked = attention_expectations(64, 3, 8.0, law, shortest=1)
    rows = [attention_expectations(64, n, 8.0, law) for n in (2, 3)]
    assert masked.own_weight == pytest.approx((1 + sum(row.own_weight for row in rows)) / 3)
    assert masked.entropy == pytest.approx(sum(row.entropy for row in rows) / 3)


def test_what_is_unknown_is_refused():
    with pytest.raises(UnknownError, match="deviations of rows are unknown for queries that correlate"):
        attention_deviations(4, 4, 1.0, PairLaw(correlation=0.5))
    with pytest.raises(UnknownError, match="softmax rows are unknown for entries of unequal variance"):
        attention_expectations(4, 4, 1.0, PairLaw(correlation=0.5, spectrum=1.0))
    with pytest.raises(ValueError, match=r"expected a whole number of keys beside a correlation, got 2\.5"):
        attention_expectations(4, 2.5, 1.0, PairLaw(correlation=0.5))


def test_expectations_of_rare_rows_are_good_or_unknown():
    """Two keys of which one is the query: the other weight is 1 / (1 + e^(L^2 - L z)), L = |q|, z normal.

    At d_k = 60, its mean is 4e-10, and short queries carry it.
    """
    z, length = np.linspace(-12, 16, 4001), np.linspace(1e-3, 20, 4000)[:, None]
    other = special.expit(length * (z - length))
    for d_k in (40, 60):
        density = stats.chi.pdf(length, d_k) * stats.norm.pdf(z)
        trace = (density * 2 * other * (1 - other)).sum() / density.sum()
        found = attention_expectations(d_k, 2, 1.0, PairLaw(correlation=1.0))
        assert found.jacobian_trace == pytest.approx(trace, rel=1e-6)
    assert trace < 1e-9
    unknown = attention_expectations(80, 2, 1.0, PairLaw(correlation=1.0))
    assert np.isnan([unknown.entropy, unknown.jacobian_trace, unknown.jacobian_norm, unknown.key_gradient_norm]).all()
    assert unknown.max_weight == pytest.approx(1)


def test_an_own_score_far_above_the_others_has_all_weight():
    """Unscaled at d_k = 4096, the own score is 58 standard deviations of the others above them."""
    exact = attention_expectations(4096, 5, 1.0, PairLaw(correlation=0.9))
    assert exact.own_weight == pytest.approx(1, rel=1e-9)
    assert exact.output_std == pytest.approx(1, rel=1e-9)
    assert exact.saturated_rows == pytest.approx(1, rel=1e-9)


def test_a_whole_number_is_a_correlation_too():
    found = attention_expectations(7, 5, 2.0, PairLaw(correlation=1))
    assert found == attention_expectations(7, 5, 2.0, PairLaw(correlation=1.0))
