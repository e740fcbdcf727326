"""The spread of a row's variance, and limits of that of score moments, beside a correlation or a normalization."""

import math

import numpy as np
import pytest

from sdpa.inputs import InputLaw
from sdpa.pairs import PairLaw
from sdpa.theory import score_mean, score_power_deviations, score_variance
from sdpa.theory.row_variance import least_shared_row_variance, row_variance, spread_of_row_variance

DRAWS = 100_000


def rows(law, d_k, n_keys, divisor):
    """Scaled scores of one row of each draw; the first key is the query's own."""
    rng = np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (DRAWS, n_keys, d_k))
    queries = law.queries(rng, (DRAWS, 1, d_k), keys[:, :1] if law.correlation else None)
    return (queries @ keys.swapaxes(-1, -2))[:, 0] / divisor


@pytest.mark.parametrize(
    "law",
    [
        PairLaw(correlation=0.6),
        PairLaw(correlation=-1.0, key_std=2.0),
        PairLaw(correlation=0.3, key_mean=3.0),
        PairLaw(normalize="l2"),
        PairLaw(normalize="rms"),
    ],
)
@pytest.mark.parametrize(("d_k", "n_keys"), [(1, 2), (3, 5), (16, 4)])
def test_the_spread_of_a_row_variance_is_that_of_draws(law, d_k, n_keys):
    """Within 5 standard errors of the variance of 100,000 draws: a false alarm has a probability below 1e-5."""
    values = rows(law, d_k, n_keys, 1.7).var(axis=-1)
    assert values.mean() == pytest.approx(row_variance(d_k, n_keys, 1.7, law), abs=5 * values.std() / math.sqrt(DRAWS))
    squares = (values - values.mean()) ** 2
    error = 5 * squares.std() / math.sqrt(DRAWS)
    assert squares.mean() == pytest.approx(spread_of_row_variance(d_k, n_keys, 1.7, law), abs=error)


@pytest.mark.parametrize(
    ("law", "is_exact"),
    [
        (PairLaw(), True),
        (PairLaw(InputLaw.parse("laplace"), query_std=0.5), True),
        (PairLaw(spectrum=1.0, key_std=2.0), True),
        (PairLaw(normalize="l2"), True),
        (PairLaw(normalize="rms"), True),
        (PairLaw(query_mean=1.0), False),
        (PairLaw(correlation=0.5), False),
    ],
)
@pytest.mark.parametrize(("d_k", "n_keys"), [(1, 3), (3, 5)])
def test_two_rows_of_the_same_keys_vary_together(law, is_exact, d_k, n_keys):
    """Within 5 standard errors of the covariance of 100,000 draws: a false alarm has a probability below 1e-5."""
    rng = np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (DRAWS, n_keys, d_k))
    queries = law.queries(rng, (DRAWS, 2, d_k), keys[:, :2] if law.correlation else None)
    values = (queries @ keys.swapaxes(-1, -2) / 1.7).var(axis=-1)
    products = np.prod(values - values.mean(axis=0), axis=1)
    limit, error = least_shared_row_variance(d_k, n_keys, 1.7, law), 5 * products.std() / math.sqrt(DRAWS)
    assert limit <= products.mean() + error
    assert not is_exact or limit >= products.mean() - error


@pytest.mark.parametrize("rho", [0.3, 0.9, -1.0])
@pytest.mark.parametrize(("d_k", "n_keys"), [(1, 2), (3, 5), (16, 4)])
def test_correlated_score_moments_have_limits_of_their_spread(rho, d_k, n_keys):
    """One query: the limit of the mean is exact, that of the variance leaves out what differs between keys."""
    law = PairLaw(correlation=rho, query_std=0.5)
    scores = rows(law, d_k, n_keys, 1.3)
    limits = score_power_deviations(d_k, n_keys, 1, 1.3, law)
    assert scores.mean(axis=-1).std() == pytest.approx(limits.score_mean, rel=0.02)
    centre, variance = score_mean(d_k, 1.3, law, n_keys), score_variance(d_k, 1.3, law, n_keys)
    influence = ((scores - centre) ** 2).mean(axis=-1)
    assert influence.mean() == pytest.approx(variance, rel=0.03)
    assert 0.1 * influence.std() < limits.score_variance <= 1.02 * influence.std()


def test_a_draw_of_several_queries_has_the_limits_of_one_over_their_number():
    law = PairLaw(correlation=0.5)
    one, four = (score_power_deviations(3, 5, n_queries, 1.0, law) for n_queries in (1, 4))
    assert four.score_variance == pytest.approx(one.score_variance / 2)
    assert score_power_deviations(3, 5, 1, 1.0, PairLaw(correlation=0.5, key_mean=1.0)).score_mean == 0
