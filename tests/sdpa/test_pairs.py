"""The joint law of queries and keys, against moments of large samples and by hand."""

import dataclasses

import numpy as np
import pytest

from sdpa import LAWS
from sdpa.pairs import PairLaw, spectrum_of

N = 200_000


def sample(law, d_k=5):
    """Queries and their own keys, one pair per draw, (N, d_k) each."""
    rng = np.random.default_rng(3)
    keys = law.keys(rng, (N, 1, d_k))
    return law.queries(rng, (N, 1, d_k), own_keys=keys)[:, 0], keys[:, 0]


def assert_mean(values, expected):
    """Within 5 standard errors: a false alarm for one entry in 1.7 million, if the seed changed."""
    assert (np.abs(values.mean(axis=0) - expected) <= 5 * values.std(axis=0) / np.sqrt(len(values)) + 1e-12).all()


@pytest.mark.parametrize(
    "law",
    [
        PairLaw(),
        PairLaw(query_mean=0.3, key_mean=-2.0, query_std=0.5, key_std=3.0),
        PairLaw(entries=LAWS["uniform"], query_mean=1.0, key_std=2.0),
        PairLaw(spectrum=1.5, key_std=2.0),
        PairLaw(correlation=-0.7, key_mean=2.0, query_std=0.5, key_std=3.0),
        PairLaw(correlation=0.4, spectrum=1.0, query_std=2.0),
        PairLaw(correlation=1.0),
    ],
)
def test_means_variances_and_correlation(law):
    queries, keys = sample(law)
    variance = spectrum_of(5, law.spectrum)
    q, k = (queries - law.query_mean) / law.query_std, (keys - law.key_mean) / law.key_std
    for standard in (q, k):
        assert_mean(standard, 0)
        assert_mean(standard**2, variance)
    assert_mean(q * k, law.correlation * variance)
    assert_mean(q * np.roll(k, 1, axis=-1), 0)


@pytest.mark.parametrize(("normalize", "length"), [("l2", 1.0), ("rms", np.sqrt(5))])
def test_normalized_vectors_have_one_length(normalize, length):
    for vectors in sample(PairLaw(query_mean=1.0, key_std=7.0, normalize=normalize)):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), length, rtol=1e-12)


def test_the_spectrum_is_a_power_law_of_mean_1():
    values = spectrum_of(7, 2.0)
    assert values.mean() == pytest.approx(1)
    np.testing.assert_allclose(values / values[0], np.arange(1, 8.0) ** -2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"query_std": 0.0}, "query_std: expected a finite number above 0, got 0.0"),
        ({"key_std": np.inf}, "key_std: expected a finite number above 0, got inf"),
        ({"key_mean": np.nan}, "key_mean: expected a finite number, got nan"),
        ({"correlation": 1.01}, "correlation: expected a number from -1 to 1, got 1.01"),
        ({"spectrum": -1.0}, "spectrum: expected a finite number of at least 0, got -1.0"),
        ({"normalize": "L2"}, "normalize: expected one of none, l2, rms, got 'L2'"),
        ({"correlation": 0.5, "normalize": "l2"}, "correlation: expected normalize none beside it, got l2"),
        ({"correlation": 0.5, "query_mean": 1.0}, "correlation: expected query_mean 0 beside it, got 1.0"),
        (
            {"correlation": 0.5, "entries": LAWS["uniform"]},
            "correlation: expected gaussian entries beside it, got",
        ),
    ],
)
def test_impossible_laws_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PairLaw(), **given)


def test_correlated_queries_need_their_keys():
    with pytest.raises(ValueError, match=r"own_keys: expected the key of each query, of shape \(2, 3, 4\), got None"):
        PairLaw(correlation=0.5).queries(np.random.default_rng(0), (2, 3, 4))
