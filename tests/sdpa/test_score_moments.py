"""Moments of the score, the variance within a row, and spreads of their estimates: tensor grids,
sums and draws.
"""

import itertools
import math

import numpy as np
import pytest
from test_inputs import QUADRATURE, known_orders

from sdpa import LAWS
from sdpa.inputs import InputLaw
from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory import (
    UnknownError,
    least_shared_row_variance,
    row_variance,
    row_variance_deviation,
    score_kurtosis,
    score_mean,
    score_power_deviations,
    score_variance,
)
from tests.numerics import is_mean

FULL = [name for name in LAWS if len(known_orders(name)) == 6]
SHAPES = [
    {"query_mean": 0.4, "key_mean": -1.5, "query_std": 0.7, "key_std": 1.3},
    {"spectrum": 1.5, "query_mean": 0.5},
]


def vectors(law, d_k):
    """Points and probabilities of a vector of independent entries of mean 0 and variance 1."""
    nodes, weights = QUADRATURE[law.entries.name]
    points = np.stack(np.meshgrid(*[nodes] * d_k, indexing="ij")).reshape(d_k, -1)
    return points, np.prod(np.meshgrid(*[weights] * d_k, indexing="ij"), axis=0).ravel()


def scores_on_a_grid(law, d_k):
    """q.k for every pair of points, (points, points), and the probability of a point."""
    points, chance = vectors(law, d_k)
    root = np.sqrt(spectrum_of(d_k, law.spectrum))[:, None]
    q = law.query_mean + law.query_std * root * points
    k = law.key_mean + law.key_std * root * points
    return q.T @ k, chance


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
@pytest.mark.parametrize("entries", LAWS)
def test_moments_of_the_score_and_their_spreads_on_a_tensor_grid(entries, shape):
    """The spreads are means over all pairs of queries and keys."""
    d_k, n_queries, n_keys = 2, 2, 3
    law = PairLaw(entries=LAWS[entries], **shape)
    scores, chance = scores_on_a_grid(law, d_k)
    center = chance @ scores @ chance
    c = scores - center
    second, third, fourth = (chance @ c**n @ chance for n in (2, 3, 4))
    assert score_mean(d_k, 2.0, law) == pytest.approx(center / 2, abs=1e-9)
    assert score_variance(d_k, 2.0, law) == pytest.approx(second / 4, rel=1e-9)
    excess = fourth / second**2 - 3
    assert score_kurtosis(d_k, law) == pytest.approx(excess, rel=1e-8, abs=1e-10)

    def assert_deviation(found, of_pairs):
        mean = chance @ of_pairs @ chance
        mean_square = chance @ of_pairs**2 @ chance
        by_query = chance @ (of_pairs @ chance - mean) ** 2
        by_key = chance @ (chance @ of_pairs - mean) ** 2
        shared = (n_keys - 1) * by_query + (n_queries - 1) * by_key
        total = (mean_square - mean**2 + shared) / (n_queries * n_keys)
        least = 2e-8 * math.sqrt(mean_square)
        assert found == pytest.approx(math.sqrt(max(total, 0)), rel=1e-7, abs=least)

    found = score_power_deviations(d_k, n_keys, n_queries, 2.0, law)
    assert_deviation(found.score_mean, c / 2)
    assert_deviation(found.score_variance, c**2 / 4)
    if entries in FULL:
        in_variance = 4 * third * c * second + 2 * fourth * c**2
        assert_deviation(found.score_kurtosis, c**4 / second**2 - in_variance / second**3)
    else:
        assert found.score_kurtosis == math.inf


@pytest.mark.parametrize("spectrum", [0.0, 1.5])
@pytest.mark.parametrize("n_keys", [1, 50])
def test_scores_of_queries_with_their_own_keys(n_keys, spectrum):
    """The mixture by Hermite quadrature over b and the noise of two entries, exact for the fourth
    power.
    """
    law = PairLaw(correlation=0.6, key_mean=0.8, query_std=0.7, key_std=1.4, spectrum=spectrum)
    points, chance = vectors(law, 4)
    b, noise = points[:2], points[2:]
    root = np.sqrt(spectrum_of(2, spectrum))[:, None]
    key = 0.8 + 1.4 * root * b
    own = (0.7 * root * (0.6 * b + 0.8 * noise) * key).sum(axis=0) / 3
    other = (0.7 * root * noise * key).sum(axis=0) / 3

    def pooled(centre, power):
        of_own = chance @ (own - centre) ** power
        of_other = chance @ (other - centre) ** power
        return of_own / n_keys + (1 - 1 / n_keys) * of_other

    mean = pooled(0, 1)
    variance, fourth = pooled(mean, 2), pooled(mean, 4)
    assert score_mean(2, 3.0, law, n_keys) == pytest.approx(mean, rel=1e-10)
    assert score_variance(2, 3.0, law, n_keys) == pytest.approx(variance, rel=1e-10)
    assert score_kurtosis(2, law, n_keys) == pytest.approx(fourth / variance**2 - 3, rel=1e-9)


@pytest.mark.parametrize("d_k", [1, 6])
def test_scores_of_normalized_vectors_are_cosines(d_k):
    l2, rms = PairLaw(normalize="l2", key_std=3.0), PairLaw(normalize="rms", query_std=0.2)
    assert score_mean(d_k, 2.0, rms) == 0
    assert score_variance(d_k, 2.0, l2) == pytest.approx(1 / d_k / 4)
    assert score_variance(d_k, 2.0, rms) == pytest.approx(d_k / 4)
    for law in (l2, rms):
        assert score_kurtosis(d_k, law) == pytest.approx(-6 / (d_k + 2))


CORRELATED = PairLaw(correlation=0.5)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            row_variance_deviation,
            (6, 4, 2.0, PairLaw(correlation=0.5, spectrum=1.0)),
            "correlation with a spectrum",
        ),
        (
            score_mean,
            (2, 1.0, CORRELATED),
            "n_keys: expected the number of keys beside a correlation",
        ),
        (score_kurtosis, (0.5,), r"expected d_k of at least 1, got 0\.5"),
    ],
)
def test_what_is_unknown_or_impossible_is_refused(function, arguments, message):
    with pytest.raises((UnknownError, ValueError), match=message):
        function(*arguments)


DRAWS = 40_000
# Mean 0, variance 1, and moments that differ from those of a normal law: 2 with the probability
# 1/5, else -1/2.
TWO_POINTS = InputLaw(
    "two points",
    lambda rng, shape: rng.choice([2.0, -0.5], shape, p=[0.2, 0.8]),
    (1.5, 3.25, 0, 0, 0, 0),
)


@pytest.mark.parametrize(
    "law",
    [
        PairLaw(TWO_POINTS, query_mean=0.7, key_mean=-2.0, query_std=1.5, key_std=0.4),
        PairLaw(TWO_POINTS, query_mean=-0.3, spectrum=1.5),
    ],
)
def test_the_spread_of_the_variance_within_rows_by_summing_over_all_draws(law):
    d_k, n_keys, divisor = 2, 3, 1.7
    entries = np.array(list(itertools.product([2.0, -0.5], repeat=d_k * (1 + n_keys))))
    chances = np.where(entries == 2.0, 0.2, 0.8).prod(axis=1)
    roots = np.sqrt(spectrum_of(d_k, law.spectrum))
    q = law.query_mean + law.query_std * roots * entries[:, :d_k]
    k = law.key_mean + law.key_std * roots * entries[:, d_k:].reshape(-1, n_keys, d_k)
    of_row = np.einsum("rd,rkd->rk", q, k / divisor).var(axis=-1)
    mean = chances @ of_row
    assert row_variance(d_k, n_keys, divisor, law) == pytest.approx(mean, rel=1e-12)
    expected = math.sqrt(chances @ (of_row - mean) ** 2)
    assert row_variance_deviation(d_k, n_keys, divisor, law) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("law", "is_exact"),  # the limit of the covariance of two rows
    [
        (PairLaw(InputLaw.parse("laplace"), query_std=0.5), True),
        (PairLaw(spectrum=1.0, key_std=2.0), True),
        (PairLaw(normalize="rms"), True),
        (PairLaw(query_mean=1.0), False),
        (PairLaw(correlation=-1.0, key_std=2.0, key_mean=3.0), False),
    ],
    ids=repr,
)
def test_the_variance_within_rows_of_draws(law, is_exact):
    """Mean, variance and covariance over 40,000 draws."""
    d_k, n_keys = 3, 5
    rng = np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (DRAWS, n_keys, d_k))
    queries = law.queries(rng, (DRAWS, 2, d_k), keys[:, :2] if law.correlation else None)
    values = (queries @ keys.swapaxes(-1, -2) / 1.7).var(axis=-1)
    one = values[:, 0]
    deviation = row_variance_deviation(d_k, n_keys, 1.7, law)
    assert is_mean(one, row_variance(d_k, n_keys, 1.7, law))
    assert is_mean((one - one.mean()) ** 2, deviation**2)
    products = np.prod(values - values.mean(axis=0), axis=1)
    limit = least_shared_row_variance(d_k, n_keys, 1.7, law)
    assert is_mean(products, limit) or (limit < products.mean() and not is_exact)


@pytest.mark.parametrize(("d_k", "n_keys", "rho"), [(3, 5, 0.9), (16, 4, -1.0)])
def test_correlated_score_moments_have_limits_of_their_spread(d_k, n_keys, rho):
    """One query: the limit of the mean is exact, that of the variance leaves out what differs
    between keys.
    """
    law = PairLaw(correlation=rho, query_std=0.5)
    rng = np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (DRAWS, n_keys, d_k))
    queries = law.queries(rng, (DRAWS, 1, d_k), keys[:, :1])
    scores = np.vecdot(queries, keys) / 1.3
    limits = score_power_deviations(d_k, n_keys, 1, 1.3, law)
    assert scores.mean(axis=-1).std() == pytest.approx(limits.score_mean, rel=0.02)
    squares = ((scores - score_mean(d_k, 1.3, law, n_keys)) ** 2).mean(axis=-1)
    assert 0.1 * squares.std() < limits.score_variance <= 1.02 * squares.std()


def test_the_mean_of_correlated_scores_has_no_limit_beside_a_mean_of_keys():
    law = PairLaw(correlation=0.5, key_mean=1.0)
    assert score_power_deviations(3, 5, 1, 1.0, law).score_mean == 0
