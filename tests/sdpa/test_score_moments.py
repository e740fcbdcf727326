"""Moments of the score and the spreads of their estimates, against tensor grids, draws and the normal law."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import stats
from test_inputs_and_theory import QUADRATURE, known_orders

from sdpa import LAWS
from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory import (
    UnknownError,
    correlated_score_moments,
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
    q, k = law.query_mean + law.query_std * root * points, law.key_mean + law.key_std * root * points
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
    assert score_kurtosis(d_k, law) == pytest.approx(expected[2] / expected[0] ** 2 - 3, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
@pytest.mark.parametrize("entries", LAWS)
@pytest.mark.parametrize(("d_k", "n_queries", "n_keys"), [(1, 2, 3), (2, 1, 3), (2, 3, 1)])
def test_the_spreads_of_scores_that_share_queries_and_keys(entries, d_k, n_queries, n_keys, shape):
    """The mean over all pairs of queries and keys, by quadrature over the entries of one query and one key."""
    law = PairLaw(entries=LAWS[entries], **shape)
    scores, chance = scores_on_a_grid(law, d_k)
    c = scores - chance @ scores @ chance
    second, third, fourth = (chance @ c**n @ chance for n in (2, 3, 4))
    functions = {"score_mean": c, "score_variance": c**2}
    functions["score_kurtosis"] = (c**4 - 4 * third * c) / second**2 - 2 * fourth * c**2 / second**3
    found = score_power_deviations(d_k, n_keys, n_queries, 2.0, law)
    for (name, of_pairs), scale, power in zip(functions.items(), (2, 4, 1), (1, 2, 4), strict=True):
        if entries not in FULL and power == 4:
            assert getattr(found, name) == math.inf
            continue
        mean = chance @ of_pairs @ chance
        same = chance @ of_pairs**2 @ chance - mean**2
        by_query = chance @ (of_pairs @ chance - mean) ** 2
        by_key = chance @ (chance @ of_pairs - mean) ** 2
        total = (same + (n_keys - 1) * by_query + (n_queries - 1) * by_key) / (n_queries * n_keys)
        size = math.sqrt(chance @ of_pairs**2 @ chance) / scale
        assert getattr(found, name) == pytest.approx(math.sqrt(max(total, 0)) / scale, rel=1e-7, abs=2e-8 * size), name


def estimates(scores):
    """Mean, variance and kurtosis of the scores of every draw, (draws,) each."""
    pooled = scores.reshape(len(scores), -1)
    return {
        "score_mean": pooled.mean(axis=1),
        "score_variance": pooled.var(axis=1),
        "score_kurtosis": stats.kurtosis(pooled, axis=1),
    }


@pytest.mark.parametrize(
    "law",
    [
        PairLaw(),
        PairLaw(entries=LAWS["uniform"], query_mean=1.0, key_mean=1.0),
        PairLaw(spectrum=1.0),
        PairLaw(normalize="l2"),
    ],
    ids=repr,
)
def test_estimates_of_draws_spread_as_stated(law):
    """3,000 estimates from 300 draws of two queries and three keys each: their spread within 7% (false alarm 1e-6 if it
    were reseeded, but for the next term of the delta method, of the order of a percent)."""
    rng, repeats, draws, d_k = np.random.default_rng(9), 3000, 300, 6
    found = {}
    for _ in range(10):
        keys = law.keys(rng, (repeats // 10 * draws, 3, d_k))
        queries = law.queries(rng, (repeats // 10 * draws, 2, d_k))
        scores = (queries @ keys.swapaxes(-1, -2)).reshape(repeats // 10, -1)
        for name, values in estimates(scores).items():
            found.setdefault(name, []).append(values)
    expected = score_power_deviations(d_k, 3, 2, 1.0, law)
    for name, values in found.items():
        spread = np.concatenate(values).std()
        assert spread == pytest.approx(getattr(expected, name) / math.sqrt(draws), rel=0.07), name


def test_a_normal_score_has_the_textbook_spreads():
    """For d_k to infinity: of s^2 sqrt(2), and of the kurtosis sqrt(24)."""
    deviations = score_power_deviations(1e9, 1, 1, 1e9**0.5)
    assert deviations.score_variance == pytest.approx(math.sqrt(2), rel=1e-7)
    assert deviations.score_kurtosis == pytest.approx(math.sqrt(24), rel=1e-6)


@pytest.mark.parametrize("spectrum", [0.0, 1.5])
@pytest.mark.parametrize("n_keys", [1, 3, 50])
def test_scores_of_queries_with_their_own_keys(n_keys, spectrum):
    """The mixture by Hermite quadrature over b and the noise of two entries, exact for the fourth power."""
    law = PairLaw(correlation=0.6, key_mean=0.8, query_std=0.7, key_std=1.4, spectrum=spectrum)
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    grid = np.array(list(itertools.product(nodes, repeat=4)))
    chance = np.array([math.prod(each) for each in itertools.product(weights, repeat=4)])
    root = np.sqrt(spectrum_of(2, spectrum))
    b, noise = grid[:, :2], grid[:, 2:]
    key = 0.8 + 1.4 * root * b
    own, other = (
        (0.7 * root * (rho * b + math.sqrt(1 - rho**2) * noise) * key).sum(axis=1) / 3 for rho in (law.correlation, 0)
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
        PairLaw(entries=LAWS["laplace"], query_mean=0.5, key_mean=0.3, key_std=2.0),
        PairLaw(entries=LAWS["uniform"], spectrum=1.0, key_mean=1.0),
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
        of_draws = ((scores - mean) ** power).mean(axis=(1, 2))
        assert abs(of_draws.mean() - expected) < 5 * of_draws.std() / math.sqrt(len(of_draws)), power


def test_what_is_unknown_or_impossible_is_refused():
    for change in ({"query_mean": 1.0}, {"spectrum": 1.0}, {"entries": LAWS["uniform"]}):
        law = dataclasses.replace(PairLaw(normalize="l2"), **change)
        for function in (lambda of: score_mean(2, 1.0, of), lambda of: score_power_deviations(2, 2, 2, 1.0, of)):
            with pytest.raises(UnknownError, match="normalized vectors are known only for gaussian entries of mean 0"):
                function(law)
    with pytest.raises(ValueError, match="n_keys: expected the number of keys beside a correlation"):
        score_mean(2, 1.0, PairLaw(correlation=0.5))
    for function in (score_kurtosis, lambda d_k: score_power_deviations(d_k, 1, 1, 1.0)):
        with pytest.raises(ValueError, match=r"expected d_k of at least 1, got 0\.5"):
            function(0.5)


@pytest.mark.parametrize("case", [(0, 0, 1, 1, 0), (0, 0, 1, 1, 0.6), (0.5, -2, 1.5, 0.7, -0.3)])
def test_moments_of_correlated_scores_on_a_tensor_grid(case):
    q_mean, k_mean, q_std, k_std, rho = case
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    a, b = np.meshgrid(nodes, nodes)
    probability = np.outer(weights, weights) / weights.sum() ** 2
    products = (q_mean + q_std * a) * (k_mean + k_std * (rho * a + math.sqrt(1 - rho**2) * b))
    mean = (probability * products).sum()
    variance = (probability * products**2).sum() - mean**2
    assert correlated_score_moments(7, *case) == pytest.approx((7 * mean, 7 * variance), rel=1e-12)
