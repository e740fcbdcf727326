"""Rows of normalized queries and keys: against quadrature over differences of cosines, and against plain draws."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special
from test_pair_laws import squares_of

from sdpa import LAWS
from sdpa.pairs import PairLaw
from sdpa.theory import UnknownError, attention_expectations, limits
from sdpa.theory.cosine_rows import cosine_row
from sdpa.theory.cosines import CosineLaw
from tests.plain_attention import drawn_rows

L2, RMS = PairLaw(normalize="l2"), PairLaw(normalize="rms", query_std=3.0)


def pieces(function, edges):
    return sum(
        integrate.quad(function, a, b, epsabs=1e-15, epsrel=1e-10, limit=200)[0]
        for a, b in itertools.pairwise(edges)
        if b > a
    )


@pytest.mark.parametrize("gain", [1e-3, 0.5, 1.5, 8.0, 300.0, 1e4])
def test_two_keys_on_a_sphere(gain):
    """d_k = 3, where t is uniform: the difference x of two scores has the density (2 gain - |x|) / (2 gain)^2, and the
    mean of 1 - t^2 given x is that over a uniform mean of the two."""

    def mean(function):
        edges = [0.0, *(x for x in (3.0, 45.0) if x < 2 * gain), min(2 * gain, 300.0)]
        return pieces(lambda x: function(x) * 2 * (2 * gain - x) / (2 * gain) ** 2, edges)

    def jacobian(x):
        return special.expit(x) * special.expit(-x)

    def across(x):
        # Both cosines: middle +- x / (2 gain), middle uniform within 1 - x / (2 gain).
        room, half = 1 - x / (2 * gain), x / (2 * gain)
        return 1 - room**2 / 3 - half**2

    exact = attention_expectations(3, 2, 1 / gain, L2)
    far = (1 - 150 / gain) ** 2 if gain > 150 else 0.0  # whose difference is above 300
    expected = {
        "max_weight": mean(special.expit) + far,
        "entropy": mean(lambda x: special.entr(special.expit(x)) + special.entr(special.expit(-x))),
        "jacobian_trace": mean(lambda x: 2 * jacobian(x)),
        "jacobian_square": mean(lambda x: 4 * jacobian(x) ** 2),
        "query_gradient_square": mean(
            lambda x: 2 * jacobian(x) ** 2 * (x / gain) ** 2 + 4 * jacobian(x) ** 2 * across(x)
        )
        * gain**2,
        "saturated_rows": max(1 - math.log(99) / (2 * gain), 0.0) ** 2,
        "key_gradient_square": mean(lambda x: 4 * jacobian(x) ** 2) * gain**2,
    }
    got = squares_of(exact)
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=1e-7, abs=1e-12), name
    assert got["collision"] == pytest.approx(1 - expected["jacobian_trace"], rel=1e-8)
    assert got["row_variance"] == pytest.approx(gain**2 / 6)


@pytest.mark.parametrize(("d_k", "gain"), [(2, 0.7), (2, 12.0), (7, 4.0), (512, 40.0)])
def test_three_keys_on_a_grid_of_angles(d_k, gain):
    """By Gauss's nodes in panels of all three angles, where the density is written out."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    width = min(math.pi / 2, 11 / math.sqrt(d_k))
    edges = math.pi / 2 + width * np.linspace(-1, 1, 9)
    half = np.diff(edges)[:, None] / 2
    theta = ((edges[1:] + edges[:-1])[:, None] / 2 + half * nodes).ravel()
    density = np.sin(theta) ** (d_k - 2)
    chance = (half * weights).ravel() * density
    chance /= chance.sum()
    t = np.cos(theta)
    trio = np.stack(np.meshgrid(t, t, t, indexing="ij"), axis=-1).reshape(-1, 3)
    p = np.einsum("i,j,k->ijk", chance, chance, chance).ravel()
    w = special.softmax(gain * trio, axis=-1)
    s2, s3 = (w**2).sum(-1), (w**3).sum(-1)
    along = ((w * (trio - (w * trio).sum(-1, keepdims=True))) ** 2).sum(-1)
    across = (w**2 * (1 - 2 * w + s2[:, None]) * (1 - trio**2)).sum(-1)
    expected = {
        "entropy": special.entr(w).sum(-1),
        "jacobian_trace": 1 - s2,
        "jacobian_square": s2 - 2 * s3 + s2**2,
        "query_gradient_square": (along + across) * gain**2,
    }
    got = squares_of(attention_expectations(d_k, 3, 1 / gain, L2))
    for name, values in expected.items():
        assert got[name] == pytest.approx(p @ values, rel=2e-6), name
    assert got["max_weight"] == pytest.approx(p @ w.max(-1), rel=5e-3)  # which has kinks


@pytest.mark.parametrize(("d_k", "gain", "error"), [(2, 4.0, 3e-6), (3, 4.0, 2e-7), (3, 60.0, 1e-7), (6, 10.0, 1e-8)])
def test_the_saturation_of_three_keys_by_quadrature(d_k, gain, error):
    """P(e^(s1 - m) + e^(s2 - m) < 1/99) integrated over s1 and the largest score m, from the distribution function."""
    law, c = CosineLaw(gain, d_k), 1 / 99

    def density(theta):
        return math.gamma(d_k / 2) / math.gamma((d_k - 1) / 2) / math.sqrt(math.pi) * math.sin(theta) ** (d_k - 2)

    def below(score):
        return float(law.cdf(np.array(score))) if score > -gain else 0.0

    def both(m):
        room = c * math.exp(m)
        first = math.acos(min(1.0, math.log(room - math.exp(-gain)) / gain))
        edges = [first, first + 1e-3 * (math.pi - first), first + 0.05 * (math.pi - first), math.pi]
        return pieces(
            lambda theta: density(theta) * below(math.log(max(room - math.exp(gain * math.cos(theta)), 1e-300))), edges
        )

    last = math.acos(min(1.0, (math.log(2 / c) - gain) / gain))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    theta = last * (1 - ((1 - nodes) / 2) ** 3)  # finer where few scores are below
    steps = weights * last * 1.5 * ((1 - nodes) / 2) ** 2
    expected = 3 * sum(h * density(a) * both(gain * math.cos(a)) for a, h in zip(theta, steps, strict=True))
    assert cosine_row(gain, d_k, 3).max_weight_survival(0.99) == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("d_k", [2, 3, 64, 4096])
@pytest.mark.parametrize("gain", [0.1, 10.0, 1e4, 1e5])
@pytest.mark.parametrize("n_keys", [2, 64, 4096])
def test_the_weights_of_a_row_sum_to_1(d_k, gain, n_keys):
    row = cosine_row(gain, d_k, n_keys)
    assert row.power_sum(1) == pytest.approx(1, abs=1e-9)
    assert row.power_sum(2) + row.jacobian_trace() == pytest.approx(1, abs=1e-8)


def test_a_large_gain_leaves_the_rows_near_a_tie():
    """With the density f0 of a gap 0 between the two largest scores, E H = f0 pi^2 / 6: for d_k = 3, n (n - 1) int f^2
    F^(n-2) = n / (2 gain) of scores uniform within gain."""
    for n_keys in (2, 5, 64):
        entropy = attention_expectations(3, n_keys, 1e-4, L2).entropy
        assert entropy == pytest.approx(n_keys / 2e4 * math.pi**2 / 6, rel=2 * n_keys / 1e4)


def test_many_directions_are_gaussian():
    """For d_k to infinity the scores of `rms` vectors over sqrt(d_k) are standard normal."""
    d_k = 10**6
    normalized = squares_of(attention_expectations(d_k, 16, d_k**0.5, RMS))
    for name, value in squares_of(attention_expectations(d_k, 16, d_k**0.5)).items():
        assert normalized[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
    assert limits.small_sigma_entropy(1.0, 64) == pytest.approx(
        attention_expectations(d_k, 64, d_k**0.5, RMS).entropy, rel=0.008
    )


@pytest.mark.parametrize("law", [L2, RMS], ids=lambda law: law.normalize)
@pytest.mark.parametrize(
    ("d_k", "n_keys", "divisor"), [(1, 2, 0.3), (1, 7, 0.5), (2, 5, 0.05), (3, 20, 0.2), (16, 12, 0.1)]
)
def test_draws_agree(law, d_k, n_keys, divisor):
    """20,000 rows at a fixed seed, from vectors divided by their lengths: within 5 standard errors."""
    rng, length = np.random.default_rng(29), 1.0 if law.normalize == "l2" else math.sqrt(d_k)
    q, k = rng.standard_normal((20_000, 1, d_k)), rng.standard_normal((20_000, n_keys, d_k))
    q, k = (length * x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    _, found = drawn_rows(rng, q[:, 0], k, divisor)
    exact = squares_of(attention_expectations(d_k, n_keys, divisor, law))
    for name, values in found.items():
        assert abs(values.mean() - exact[name]) <= 5 * values.std() / math.sqrt(len(values)) + 2e-4, name


def test_causal_rows_of_normalized_vectors():
    masked = attention_expectations(8, 4, 0.1, L2, shortest=2)
    rows = [attention_expectations(8, n, 0.1, L2) for n in (2, 3, 4)]
    assert masked.entropy == pytest.approx(np.mean([row.entropy for row in rows]))
    assert masked.query_gradient_norm**2 == pytest.approx(np.mean([row.query_gradient_norm**2 for row in rows]))


def test_what_is_unknown_is_refused():
    for law in (
        PairLaw(normalize="l2", key_mean=1.0),
        PairLaw(normalize="rms", spectrum=1.0),
        PairLaw(normalize="l2", entries=LAWS["uniform"]),
    ):
        with pytest.raises(UnknownError, match="normalized vectors are known only for gaussian entries of mean 0"):
            attention_expectations(4, 4, 1.0, law)
    with pytest.raises(UnknownError, match="unknown for a gain above 100000"):
        attention_expectations(4, 4, 1e-6, L2)
    with pytest.raises(ValueError, match=r"expected whole numbers beside a normalization, got 2\.5 and 4"):
        attention_expectations(2.5, 4, 1.0, L2)
