"""Moments of the score, and the variance within a row: tensor grids, sums and draws."""

import numpy as np
import pytest
from scipy import stats

from sdpa import LAWS
from sdpa.inputs import InputLaw
from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory import row_variance, score_kurtosis, score_mean, score_variance

# Mean 0, variance 1, and moments that differ from those of a normal law: 2 with the probability
# 1/5, else -1/2.
TWO_POINTS = InputLaw(
    "two points", lambda rng, shape: rng.choice([2.0, -0.5], shape, p=[0.2, 0.8]), (1.5, 3.25)
)
SHIFTED = {"query_mean": 0.4, "key_mean": -1.5, "query_std": 0.7, "key_std": 1.3}
OF_LAWS = [
    *(
        PairLaw(entries, spectrum=spectrum, **SHIFTED)
        for entries in (LAWS["gaussian"], TWO_POINTS)
        for spectrum in (0.0, 1.5)
    ),
    PairLaw(correlation=0.6, key_mean=0.8, query_std=0.7, key_std=1.4),
    PairLaw(correlation=0.6, key_mean=0.8, query_std=0.7, key_std=1.4, spectrum=1.5),
]
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
# Points and probabilities that integrate polynomials to degree 4 in each entry.
QUADRATURE = {
    "gaussian": (NODES, WEIGHTS / WEIGHTS.sum()),
    "two points": (np.array([2.0, -0.5]), np.array([0.2, 0.8])),
}


def scores_on_a_grid(law):
    """q.k of two entries for a query's own key and for another, and the probability of a point."""
    nodes, weights = QUADRATURE[law.entries.name]
    b, other, noise = np.stack(np.meshgrid(*[nodes] * 6, indexing="ij")).reshape(3, 2, -1)
    chance = np.prod(np.meshgrid(*[weights] * 6, indexing="ij"), axis=0).ravel()
    root = np.sqrt(spectrum_of(2, law.spectrum))[:, None]
    of_noise = (1 - law.correlation**2) ** 0.5 * noise
    q = law.query_mean + law.query_std * root * (law.correlation * b + of_noise)
    keys = (law.key_mean + law.key_std * root * each for each in (b, other))
    return *((q * key).sum(axis=0) for key in keys), chance


@pytest.mark.parametrize("law", OF_LAWS, ids=repr)
@pytest.mark.parametrize("n_keys", [1, 50])
def test_moments_of_the_score_on_a_tensor_grid(law, n_keys):
    """One key of n_keys is the query's own."""
    own, other, chance = scores_on_a_grid(law)

    def pooled(centre, power):
        of_own, of_other = (chance @ (scores - centre) ** power for scores in (own, other))
        return of_own / n_keys + (1 - 1 / n_keys) * of_other

    mean = pooled(0, 1)
    variance, fourth = pooled(mean, 2), pooled(mean, 4)
    assert score_mean(2, 3.0, law, n_keys) == pytest.approx(mean / 3, abs=1e-9)
    assert score_variance(2, 3.0, law, n_keys) == pytest.approx(variance / 9, rel=1e-9)
    excess = fourth / variance**2 - 3
    assert score_kurtosis(2, law, n_keys) == pytest.approx(excess, rel=1e-8, abs=1e-10)
    if not law.correlation:
        within = (1 - 1 / n_keys) * (chance @ own**2 - chance @ (own * other))
        assert row_variance(2, n_keys, 3.0, law) == pytest.approx(within / 9, rel=1e-9)


@pytest.mark.parametrize("law, length", [("l2", 1.0), ("rms", 6.0)])
def test_scores_of_normalized_vectors_are_cosines(law, length):
    """(1 + t) / 2 has a beta law, t a cosine in six dimensions."""
    variance, excess = stats.beta(2.5, 2.5, -1, 2).stats("vk")
    law = PairLaw(normalize=law, key_std=3.0)
    assert score_mean(6, 2.0, law) == 0
    assert score_variance(6, 2.0, law) == pytest.approx(length**2 * variance / 4)
    assert score_kurtosis(6, law) == pytest.approx(excess)


def test_a_spectrum_has_a_whole_number_of_entries():
    for moment in (score_variance, row_variance):
        with pytest.raises(ValueError, match="expected a whole number beside a spectrum"):
            moment(8.9, n_keys=4, divisor=1.0, law=PairLaw(spectrum=1.0))
