"""Laws of entries against SciPy, impossible joint laws, and initial weights
by hand.
"""

import math

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

from sdpa import LAWS
from sdpa.initialisation import SCHEMES
from sdpa.pairs import PairLaw
from tests.numerics import is_mean

# Before they have mean 0 and variance 1.
DISTRIBUTIONS = {
    "gaussian": stats.norm(),
    "uniform": stats.uniform(),
    "laplace": stats.laplace(),
    "student_t": stats.t(5),
    "lognormal": stats.lognorm(1),
}


HEAVY = {"student_t", "lognormal"}  # powers of their draws have no normal means


@pytest.mark.parametrize("law", LAWS)
def test_samples_have_the_distribution_and_the_first_moments_of_their_law(law):
    """200,000 draws at a fixed seed: Kolmogorov-Smirnov p above 1e-4, and moments 1 to 4,
    of heavy tails 1 and 2, within 5 standard errors (false alarm 2e-6).
    """
    x = LAWS[law].sample(default_rng(12), (1000, 200)).ravel()
    moments = [0.0, 1.0, *LAWS[law].moments]
    for order, moment in enumerate(moments[: 2 if law in HEAVY else 4], 1):
        assert is_mean(x**order, moment, within=1e-12)
    if law in DISTRIBUTIONS:
        exact = DISTRIBUTIONS[law]
        skewness, excess = exact.stats("sk")
        assert moments == pytest.approx([0, 1, skewness, excess + 3], abs=1e-9)
        assert stats.kstest(x * exact.std() + exact.mean(), exact.cdf).pvalue > 1e-4


def test_an_eighth_of_sparse_entries_is_not_zero():
    x = LAWS["sparse"].sample(default_rng(12), (1000, 200))
    assert np.unique(x) == pytest.approx([-math.sqrt(8), 0, math.sqrt(8)], rel=1e-12)
    assert is_mean(x != 0, 1 / 8)


IMPOSSIBLE = {
    "query_std: expected a finite number above 0, got 0": {"query_std": 0.0},
    "correlation: expected a number from -1 to 1, got": {"correlation": 1.01},
    "normalize: expected none beside entries that may all be 0, of the law sparse, got rms": {
        "entries": LAWS["sparse"],
        "normalize": "rms",
    },
    "all be 0, of the law rademacher, got l2": {
        "entries": LAWS["rademacher"],
        "key_mean": -2.0,
        "key_std": 2.0,
        "normalize": "l2",
    },
    "expected normalize none beside it, got l2": {"correlation": 0.5, "normalize": "l2"},
}


@pytest.mark.parametrize("message", IMPOSSIBLE)
def test_impossible_laws_are_refused(message):
    with pytest.raises((ValueError, TypeError), match=message):
        PairLaw(**IMPOSSIBLE[message])


# Variances of the entries of q and k at d_model = 512 with 8 heads (d_k = 64), worked out by hand.
AT_512 = {
    "gpt2": (0.2048, 0.2048),  # 512 * 0.0004
    "smollm2": (8 / 9, 8 / 9),  # 512 / 576
    "xavier": (1, 1),
    "xavier_packed": (0.5, 0.5),
    "kaiming": (1 / 3, 1 / 3),
    "lecun": (1, 1),
    "mup": (1, 1),
    "t5": (1 / 64, 1),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_variances_of_queries_and_keys(name):
    actual = [512 * variance for variance in SCHEMES[name].variances(512, 64)]
    assert actual == pytest.approx(AT_512[name], rel=1e-12)


@pytest.mark.parametrize("name", SCHEMES)
def test_weights_follow_their_law(name):
    """Mean and variance within 5 standard errors, for an alarm of 2e-6 under another seed; a
    uniform law is bounded.
    """
    scheme = SCHEMES[name]
    standard = scheme.matrix(default_rng(4), 9, (7, 300, 50)) / 3
    assert standard.shape == (7, 300, 50)
    assert is_mean(standard, 0)
    assert is_mean(standard**2, 1)
    assert (np.abs(standard).max() <= math.sqrt(3)) == (scheme.law == "uniform")
