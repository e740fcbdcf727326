"""Initial weights: their variances by hand, and samples that follow them."""

import math

import numpy as np
import pytest

from sdpa.initialisation import SCHEMES, Scheme, layer_normed_tokens

# Variances of the entries of q and k at d_model = 512 with 8 heads (d_k = 64), worked out by hand.
AT_512 = {
    "gpt2": (0.2048, 0.2048),  # 512 * 0.0004
    "xavier": (1, 1),
    "xavier_packed": (0.5, 0.5),
    "kaiming": (1 / 3, 1 / 3),
    "lecun": (1, 1),
    "mup": (1, 1),
    "t5": (1 / 64, 1),
}


def test_every_scheme_has_a_case():
    assert set(AT_512) == set(SCHEMES)


@pytest.mark.parametrize("name", SCHEMES)
def test_variances_of_queries_and_keys(name):
    found = [512 * variance for variance in SCHEMES[name].variances(512, 64)]
    assert found == pytest.approx(AT_512[name], rel=1e-12)


@pytest.mark.parametrize("name", SCHEMES)
def test_weights_follow_their_law(name):
    """Mean and variance within 5 standard errors, for an alarm of 2e-6 under another seed; a uniform law is bounded."""
    scheme = Scheme.parse(name)
    for weights, variance in zip(
        scheme.weights(np.random.default_rng(4), 7, 300, 50), scheme.variances(300, 50), strict=True
    ):
        assert weights.shape == (7, 300, 50)
        fourth = 1.8 if scheme.law == "uniform" else 3
        assert abs(weights.mean()) < 5 * math.sqrt(variance / weights.size)
        assert abs((weights**2).mean() / variance - 1) < 5 * math.sqrt((fourth - 1) / weights.size)
        within = np.abs(weights).max() <= math.sqrt(3 * variance)
        assert within == (scheme.law == "uniform")


def test_query_and_key_weights_are_independent():
    query, key = Scheme.parse("lecun").weights(np.random.default_rng(4), 7, 300, 50)
    assert abs((query * key).mean() * 300) < 5 / math.sqrt(query.size)


def test_tokens_have_mean_0_and_variance_1_each():
    tokens = layer_normed_tokens(np.random.default_rng(4), (3, 11, 7))
    np.testing.assert_allclose(tokens.mean(axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(tokens.var(axis=-1), 1, rtol=1e-12)


def test_bad_names_and_sizes_are_refused():
    with pytest.raises(ValueError, match=r"expected one of gpt2, xavier, .*, got 'he'"):
        Scheme.parse("he")
    with pytest.raises(ValueError, match="expected d_model of at least 2, got 1"):
        layer_normed_tokens(np.random.default_rng(0), (3, 1))
