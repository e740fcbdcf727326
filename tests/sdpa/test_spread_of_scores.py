"""The variance of the scores within a row, its spread, and limits of the spread of score moments."""

import itertools
import math

import numpy as np
import pytest

from sdpa.inputs import InputLaw
from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory import (
    UnknownError,
    least_draw_deviations,
    least_shared_row_variance,
    row_variance,
    row_variance_deviation,
    score_mean,
    score_power_deviations,
    score_variance,
)

DRAWS = 100_000
# Mean 0, variance 1, and moments that differ from those of a normal law: 2 with the probability 1/5, else -1/2.
TWO_POINTS = InputLaw(
    "two points", lambda rng, shape: rng.choice([2.0, -0.5], shape, p=[0.2, 0.8]), (1.5, 3.25, 0, 0, 0, 0)
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
    """Mean, variance and covariance over 100,000 draws: within 5 standard errors (false alarm 1e-4 if reseeded)."""
    rng = np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (DRAWS, n_keys, d_k))
    queries = law.queries(rng, (DRAWS, 2, d_k), keys[:, :2] if law.correlation else None)
    values = (queries @ keys.swapaxes(-1, -2) / 1.7).var(axis=-1)
    for of, expected in (
        (values[:, 0], row_variance(d_k, n_keys, 1.7, law)),
        ((values[:, 0] - values[:, 0].mean()) ** 2, row_variance_deviation(d_k, n_keys, 1.7, law) ** 2),
    ):
        assert abs(of.mean() - expected) < 5 * of.std() / math.sqrt(DRAWS)
    products = np.prod(values - values.mean(axis=0), axis=1)
    limit, error = least_shared_row_variance(d_k, n_keys, 1.7, law), 5 * products.std() / math.sqrt(DRAWS)
    assert limit <= products.mean() + error
    assert not is_exact or limit >= products.mean() - error


def test_rows_of_several_lengths_and_what_is_unknown():
    for law in (PairLaw(query_mean=0.6, key_std=1.4), PairLaw(correlation=0.6), PairLaw(normalize="rms")):
        found = row_variance_deviation(6, 4, 2.0, law)
        assert least_draw_deviations(6, 4, 1, 2.0, law).row_variance == pytest.approx(found, rel=1e-9)
        several = math.sqrt(np.mean([row_variance_deviation(6, n, 2.0, law) ** 2 for n in (2, 3, 4)]))
        assert row_variance_deviation(6, 4, 2.0, law, shortest=2) == pytest.approx(several, rel=1e-12)
    with pytest.raises(UnknownError, match="correlation with a spectrum"):
        row_variance_deviation(6, 4, 2.0, PairLaw(correlation=0.5, spectrum=1.0))


@pytest.mark.parametrize("rho", [0.3, 0.9, -1.0])
@pytest.mark.parametrize(("d_k", "n_keys"), [(1, 2), (3, 5), (16, 4)])
def test_correlated_score_moments_have_limits_of_their_spread(rho, d_k, n_keys):
    """One query: the limit of the mean is exact, that of the variance leaves out what differs between keys."""
    law, rng = PairLaw(correlation=rho, query_std=0.5), np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (DRAWS, n_keys, d_k))
    scores = (law.queries(rng, (DRAWS, 1, d_k), keys[:, :1]) @ keys.swapaxes(-1, -2))[:, 0] / 1.3
    limits = score_power_deviations(d_k, n_keys, 1, 1.3, law)
    assert scores.mean(axis=-1).std() == pytest.approx(limits.score_mean, rel=0.02)
    centre, variance = score_mean(d_k, 1.3, law, n_keys), score_variance(d_k, 1.3, law, n_keys)
    influence = ((scores - centre) ** 2).mean(axis=-1)
    assert influence.mean() == pytest.approx(variance, rel=0.03)
    assert 0.1 * influence.std() < limits.score_variance <= 1.02 * influence.std()
    assert score_power_deviations(d_k, n_keys, 4, 1.3, law).score_variance == pytest.approx(limits.score_variance / 2)
    assert score_power_deviations(d_k, n_keys, 1, 1.0, PairLaw(correlation=0.5, key_mean=1.0)).score_mean == 0
