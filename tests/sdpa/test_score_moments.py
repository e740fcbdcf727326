"""Moments of the score, the variance within a row, and spreads of their estimates: tensor grids,
sums and draws.
"""

import itertools
from math import inf, prod, sqrt

import numpy as np
import pytest
from numerics import standard_errors
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

FULL = [name for name in LAWS if len(known_orders(name)) == 6]
SHAPES = [
    {},
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
@pytest.mark.parametrize("d_k", [1, 2])
def test_moments_of_the_score_on_a_tensor_grid(entries, d_k, shape):
    law = PairLaw(entries=LAWS[entries], **shape)
    scores, chance = scores_on_a_grid(law, d_k)
    mean = chance @ scores @ chance
    expected = [chance @ (scores - mean) ** n @ chance for n in range(2, 5)]
    assert score_mean(d_k, 2.0, law) == pytest.approx(mean / 2, abs=1e-9)
    assert score_variance(d_k, 2.0, law) == pytest.approx(expected[0] / 4, rel=1e-9)
    kurtosis = expected[2] / expected[0] ** 2 - 3
    assert score_kurtosis(d_k, law) == pytest.approx(kurtosis, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
@pytest.mark.parametrize("entries", LAWS)
@pytest.mark.parametrize(("d_k", "n_queries", "n_keys"), [(1, 2, 3), (2, 3, 1)])
def test_the_spreads_of_scores_that_share_queries_and_keys(entries, d_k, n_queries, n_keys, shape):
    """The mean over all pairs of queries and keys, by quadrature over the entries of one query and
    one key.
    """
    law = PairLaw(entries=LAWS[entries], **shape)
    scores, chance = scores_on_a_grid(law, d_k)
    c = scores - chance @ scores @ chance
    second, third, fourth = (chance @ c**n @ chance for n in (2, 3, 4))
    functions = {"score_mean": c, "score_variance": c**2}
    functions["score_kurtosis"] = (c**4 - 4 * third * c) / second**2 - 2 * fourth * c**2 / second**3
    found = score_power_deviations(d_k, n_keys, n_queries, 2.0, law)
    for (name, of_pairs), scale, power in zip(functions.items(), (2, 4, 1), (1, 2, 4), strict=True):
        if entries not in FULL and power == 4:
            assert getattr(found, name) == inf
            continue
        mean = chance @ of_pairs @ chance
        same = chance @ of_pairs**2 @ chance - mean**2
        by_query = chance @ (of_pairs @ chance - mean) ** 2
        by_key = chance @ (chance @ of_pairs - mean) ** 2
        total = (same + (n_keys - 1) * by_query + (n_queries - 1) * by_key) / (n_queries * n_keys)
        expected = sqrt(max(total, 0)) / scale
        size = sqrt(chance @ of_pairs**2 @ chance) / scale
        close = pytest.approx(expected, rel=1e-7, abs=2e-8 * size)
        assert getattr(found, name) == close, name


@pytest.mark.parametrize("spectrum", [0.0, 1.5])
@pytest.mark.parametrize("n_keys", [1, 3, 50])
def test_scores_of_queries_with_their_own_keys(n_keys, spectrum):
    """The mixture by Hermite quadrature over b and the noise of two entries, exact for the fourth
    power.
    """
    law = PairLaw(correlation=0.6, key_mean=0.8, query_std=0.7, key_std=1.4, spectrum=spectrum)
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    grid = np.array(list(itertools.product(nodes, repeat=4)))
    chance = np.array([prod(each) for each in itertools.product(weights, repeat=4)])
    root = np.sqrt(spectrum_of(2, spectrum))
    b, noise = grid[:, :2], grid[:, 2:]
    key = 0.8 + 1.4 * root * b
    own, other = (
        (0.7 * root * (rho * b + sqrt(1 - rho**2) * noise) * key).sum(axis=1) / 3
        for rho in (law.correlation, 0)
    )

    def pooled(function):
        return chance @ function(own) / n_keys + (1 - 1 / n_keys) * (chance @ function(other))

    mean = pooled(lambda s: s)
    variance, fourth = (pooled(lambda s, n=n: (s - mean) ** n) for n in (2, 4))
    assert score_mean(2, 3.0, law, n_keys) == pytest.approx(mean, rel=1e-10)
    assert score_variance(2, 3.0, law, n_keys) == pytest.approx(variance, rel=1e-10)
    assert score_kurtosis(2, law, n_keys) == pytest.approx(fourth / variance**2 - 3, rel=1e-9)


@pytest.mark.parametrize("d_k", [1, 2, 6])
def test_scores_of_normalized_vectors_are_cosines(d_k):
    l2, rms = PairLaw(normalize="l2", key_std=3.0), PairLaw(normalize="rms", query_std=0.2)
    assert score_mean(d_k, 2.0, rms) == 0
    assert score_variance(d_k, 2.0, l2) == pytest.approx(1 / d_k / 4)
    assert score_variance(d_k, 2.0, rms) == pytest.approx(d_k / 4)
    for law in (l2, rms):
        assert score_kurtosis(d_k, law) == pytest.approx(-6 / (d_k + 2))


@pytest.mark.parametrize(
    "law",
    [
        PairLaw(correlation=-0.8, key_mean=0.5),
        PairLaw(correlation=0.9, spectrum=2.0),
        PairLaw(normalize="rms"),
    ],
    ids=repr,
)
def test_scores_of_sampled_pairs(law):
    """20,000 draws of three queries and four keys at a fixed seed: within 5 standard errors."""
    rng = np.random.default_rng(3)
    keys = law.keys(rng, (20_000, 4, 5))
    queries = law.queries(rng, (20_000, 3, 5), own_keys=keys[:, 1:])
    scores = queries @ keys.swapaxes(-1, -2) / 2
    mean, variance = score_mean(5, 2.0, law, 4), score_variance(5, 2.0, law, 4)
    fourth = (score_kurtosis(5, law, 4) + 3) * variance**2
    for power, expected in ((1, 0.0), (2, variance), (4, fourth)):
        powers = ((scores - mean) ** power).mean(axis=(1, 2))
        assert standard_errors(powers, expected) < 5, power


def test_what_is_unknown_or_impossible_is_refused():
    law = PairLaw(normalize="l2", query_mean=1.0)
    reason = "normalized vectors are known only for gaussian entries of mean 0"
    with pytest.raises(UnknownError, match=reason):
        score_mean(2, 1.0, law)
    with pytest.raises(UnknownError, match=reason):
        score_power_deviations(2, 2, 2, 1.0, law)
    with pytest.raises(UnknownError, match="correlation with a spectrum"):
        row_variance_deviation(6, 4, 2.0, PairLaw(correlation=0.5, spectrum=1.0))
    expected = "n_keys: expected the number of keys beside a correlation"
    with pytest.raises(ValueError, match=expected):
        score_mean(2, 1.0, PairLaw(correlation=0.5))
    with pytest.raises(ValueError, match=r"expected d_k of at least 1, got 0\.5"):
        score_kurtosis(0.5)


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
    expected = sqrt(chances @ (of_row - mean) ** 2)
    assert row_variance_deviation(d_k, n_keys, divisor, law) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("law", "is_exact"),  # the limit of the covariance of two rows
    [
        (PairLaw(), True),
        (PairLaw(InputLaw.parse("laplace"), query_std=0.5), True),
        (PairLaw(spectrum=1.0, key_std=2.0), True),
        (PairLaw(normalize="l2"), True),
        (PairLaw(normalize="rms"), True),
        (PairLaw(query_mean=1.0), False),
        (PairLaw(correlation=0.6), False),
        (PairLaw(correlation=-1.0, key_std=2.0, key_mean=3.0), False),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("d_k", "n_keys"), [(1, 3), (3, 5)])
def test_the_variance_within_rows_of_draws(law, is_exact, d_k, n_keys):
    """Mean, variance and covariance over 40,000 draws: within 5 standard errors (false alarm 1e-4
    if reseeded).
    """
    rng = np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (DRAWS, n_keys, d_k))
    queries = law.queries(rng, (DRAWS, 2, d_k), keys[:, :2] if law.correlation else None)
    values = (queries @ keys.swapaxes(-1, -2) / 1.7).var(axis=-1)
    centred = values - values.mean(axis=0)
    assert standard_errors(values[:, 0], row_variance(d_k, n_keys, 1.7, law)) < 5
    deviation = row_variance_deviation(d_k, n_keys, 1.7, law)
    assert standard_errors(centred[:, 0] ** 2, deviation**2) < 5
    products = centred.prod(axis=1)
    error = 5 * products.std() / sqrt(DRAWS)
    limit = least_shared_row_variance(d_k, n_keys, 1.7, law)
    assert limit <= products.mean() + error
    assert not is_exact or limit >= products.mean() - error


@pytest.mark.parametrize("rho", [0.6, -1.0])
@pytest.mark.parametrize("d_k", [1, 3, 20])
def test_the_spread_of_the_variance_of_two_correlated_scores(d_k, rho):
    """R is x^2 / 4 of the gap x, which given L = |q| is N(rho L^2, (2 - rho^2) L^2)."""
    of_length = np.cumprod([d_k, d_k + 2, d_k + 4, d_k + 6])  # E L^2, L^4, L^6, L^8
    mean, variance = rho, 2 - rho**2
    second = mean**2 * of_length[1] + variance * of_length[0]
    fourth = np.dot([3 * variance**2, 6 * mean**2 * variance, mean**4], of_length[1:])
    expected = sqrt(fourth - second**2) / 4
    found = row_variance_deviation(d_k, 2, 1.0, PairLaw(correlation=rho))
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rho", [0.3, 0.9, -1.0])
@pytest.mark.parametrize(("d_k", "n_keys"), [(1, 2), (3, 5), (16, 4)])
def test_correlated_score_moments_have_limits_of_their_spread(rho, d_k, n_keys):
    """One query: the limit of the mean is exact, that of the variance leaves out what differs
    between keys.
    """
    law, rng = PairLaw(correlation=rho, query_std=0.5), np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (DRAWS, n_keys, d_k))
    scores = (law.queries(rng, (DRAWS, 1, d_k), keys[:, :1]) @ keys.swapaxes(-1, -2))[:, 0] / 1.3
    limits = score_power_deviations(d_k, n_keys, 1, 1.3, law)
    assert scores.mean(axis=-1).std() == pytest.approx(limits.score_mean, rel=0.02)
    centre, variance = score_mean(d_k, 1.3, law, n_keys), score_variance(d_k, 1.3, law, n_keys)
    influence = ((scores - centre) ** 2).mean(axis=-1)
    assert influence.mean() == pytest.approx(variance, rel=0.03)
    assert 0.1 * influence.std() < limits.score_variance <= 1.02 * influence.std()
    of_four = score_power_deviations(d_k, n_keys, 4, 1.3, law)
    assert of_four.score_variance == pytest.approx(limits.score_variance / 2)
    shifted = PairLaw(correlation=0.5, key_mean=1.0)
    assert score_power_deviations(d_k, n_keys, 1, 1.0, shifted).score_mean == 0
