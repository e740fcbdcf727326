"""The exact expectations of one row against routes that share no integrand and no nodes with them.

Two keys: everything is a function of one normal difference, integrated adaptively. Three keys: a tensor grid over
the scores. Any n: plain Monte Carlo, and limits solved by hand.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from sdpa import softmax
from sdpa.metrics import SATURATED
from sdpa.theory import GaussianRow, largest_score_survival, score_log_density, score_survival
from sdpa.theory.gaussian_rows import gaussian_rows, saturated_rows
from sdpa.theory.polynomials import METRICS, metric_expansion

MEANS = {"max w", "H", *METRICS} - {"JJ.c"}


def of_weights(w, z, squares=1.0):
    """Metrics of rows of weights at standard scores z, from their definitions and with J written out."""
    j = w[..., :, None] * (np.eye(w.shape[-1]) - w[..., None, :])
    trace, square = np.trace(j, axis1=-2, axis2=-1), (j**2).sum((-1, -2))
    along = ((j @ z[..., None])[..., 0] ** 2).sum(-1)
    return {
        "max w": w.max(-1),
        "H": special.entr(w).sum(-1),
        "tr J": trace,
        "(tr J)^2": trace**2,
        "|J|^2": square,
        "|J|^4": square**2,
        "|Jx|^2": along,
        "JJ.c": (np.diagonal(j @ j, axis1=-2, axis2=-1) * squares).sum(-1),
        "|Jx|^4": along**2,
        "|Jx|^2 |J|^2": along * square,
        "tr J^4": ((j @ j) ** 2).sum((-1, -2)),
    }


def mean_of(row, name):
    return (
        row.max_weight()
        if name == "max w"
        else row.entropy()
        if name == "H"
        else row.metric_mean(name)
    )


def test_the_polynomials_are_the_metrics():
    """Each side at one row of weights and scores, on polynomials as written and as expanded by brute force."""
    rng = np.random.default_rng(7)
    for n in (2, 5):
        z = rng.standard_normal(n)
        w, squares = softmax(2 * rng.standard_normal(n)), rng.random(n)
        values = of_weights(w, z, squares)
        for name, polynomial in METRICS.items():
            as_written = sum(
                c * math.prod((w**k * z**q * squares**a).sum() for k, q, a in product)
                for product, c in polynomial.items()
            )
            expanded = sum(
                c
                * math.prod(
                    w[i] ** k * z[i] ** q * squares[i] ** a
                    for i, (k, q, a) in zip(indices, term, strict=True)
                )
                for term, c in metric_expansion(name)
                for indices in itertools.permutations(range(n), len(term))
            )
            assert [as_written, expanded] == pytest.approx([float(values[name])] * 2, rel=1e-9), (
                name
            )


@pytest.mark.parametrize("sigma", [0.1, 1.0, 20.0, 1e4])
def test_two_keys_by_adaptive_quadrature(sigma):
    """Over the difference of the two standard scores, of variance 2."""

    def mean(function):
        def integrand(y):
            z = np.array([y / math.sqrt(2), -y / math.sqrt(2)])
            return float(function(of_weights(softmax(sigma * z), z))) * 2 * stats.norm.pdf(y)

        ends = [0.0, *(x / sigma for x in (2.0, 12.0, 45.0) if x < 9 * sigma), 9.0]
        return sum(
            integrate.quad(integrand, a, b, epsabs=1e-16, epsrel=1e-11)[0]
            for a, b in itertools.pairwise(ends)
        )

    row = GaussianRow(sigma, 2)
    for name in MEANS:
        assert mean_of(row, name) == pytest.approx(
            mean(lambda of, n=name: of[n]), rel=1e-7, abs=1e-12
        ), name
    assert 1 - 2 * row.max_weight() + row.max_weight_square() == pytest.approx(
        mean(lambda of: (1 - of["max w"]) ** 2), abs=1e-9
    )
    square = mean(lambda of: of["H"] ** 2)
    assert row.entropy_variance() == pytest.approx(
        square - mean(lambda of: of["H"]) ** 2, rel=1e-7, abs=1e-11
    )


@pytest.mark.parametrize("sigma", [0.3, 1.4])
def test_three_keys_on_a_tensor_grid(sigma):
    nodes, weights = np.polynomial.hermite_e.hermegauss(70)
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    probability = np.einsum("i,j,k->ijk", weights, weights, weights).ravel() / weights.sum() ** 3
    row, values = GaussianRow(sigma, 3), of_weights(softmax(sigma * z), z)
    for name in MEANS - {"max w"}:  # which has a kink where scores tie, and no polynomial follows
        assert mean_of(row, name) == pytest.approx(float(probability @ values[name]), rel=1e-6), (
            name
        )
    variance = probability @ (values["H"] - probability @ values["H"]) ** 2
    assert row.entropy_variance() == pytest.approx(float(variance), rel=1e-6)


@pytest.mark.parametrize(("sigma", "n_keys"), [(0.5, 5), (1.0, 64), (2.5, 200), (25.0, 64)])
def test_rows_drawn_at_random_agree(sigma, n_keys):
    """20,000 rows at a fixed seed: within 5 standard errors (false alarm 1e-4 in all if it were reseeded)."""
    z = np.random.default_rng(1).standard_normal((20_000, n_keys))
    row, w = GaussianRow(sigma, n_keys), softmax(sigma * z)
    s2 = (w**2).sum(-1)
    found = {"max w": w.max(-1), "H": special.entr(w).sum(-1), "tr J": 1 - s2}
    found["|J|^2"] = s2 - 2 * (w**3).sum(-1) + s2**2
    found["|Jx|^2"] = ((w * (z - (w * z).sum(-1, keepdims=True))) ** 2).sum(-1)
    for name, values in found.items():
        assert abs(values.mean() - mean_of(row, name)) < 5 * values.std() / math.sqrt(len(z)), name
    for threshold in (0.5, 0.8, SATURATED):
        exact = row.max_weight_survival(threshold)
        error = math.sqrt(exact * (1 - exact) / len(z))
        assert abs((w.max(-1) > threshold).mean() - exact) <= 5 * error + 5 / len(z) ** 1.5


@pytest.mark.parametrize("n_keys", [2, 64, 4096, 1e9])
@pytest.mark.parametrize("sigma", [1e5, 1e7])
def test_saturated_rows_are_those_near_a_tie(sigma, n_keys):
    """With a density f0 / sigma of the gap x, E f = f0 / sigma int f(x) dx: of H over x from 0, pi^2 / 6; tr J, 1;
    |J|_F^2, 1/3. f0 = E max of n normals, by parts from n (n - 1) int phi^2 Phi^(n-2). The next term is below
    50 / sigma of it."""
    z = -special.ndtri(1 / n_keys) + np.linspace(-12, 12, 40_001)
    f0 = integrate.simpson(
        z * n_keys * stats.norm.pdf(z) * np.exp((n_keys - 1) * special.log_ndtr(z)), x=z
    )
    row = GaussianRow(sigma, n_keys)
    assert row.entropy() == pytest.approx(f0 / sigma * math.pi**2 / 6, rel=50 / sigma)
    assert row.jacobian_trace() == pytest.approx(f0 / sigma, rel=1 / sigma, abs=1e-16)
    assert row.jacobian_square() == pytest.approx(f0 / sigma / 3, rel=50 / sigma)


@pytest.mark.parametrize("n_keys", [2, 3.7, 300, 16384])
def test_equal_scores_give_uniform_weights_and_all_rows_are_within_bounds(n_keys):
    row = GaussianRow(0.0, n_keys)
    found = row.max_weight(), row.entropy(), row.jacobian_trace(), row.jacobian_square()
    expected = (1 / n_keys, math.log(n_keys), 1 - 1 / n_keys, 1 / n_keys - 1 / n_keys**2)
    assert found == pytest.approx(expected, rel=1e-8)
    for sigma in (1e-12, 1e-3, 0.3, 1, 10, 64, 300):
        row = GaussianRow(sigma, n_keys)
        assert 1 / n_keys * (1 - 1e-7) <= row.max_weight() <= 1
        assert 0 <= row.entropy() <= math.log(n_keys) * (1 + 1e-12)
        assert 0 <= row.jacobian_square() <= 0.25 * (1 + 1e-9)


@pytest.mark.parametrize("sigma", [1e-3, 0.399, 0.4, 0.999, 4.0, 1e6])
@pytest.mark.parametrize("threshold", [0.5, 0.99, 1 - 1e-9])
def test_the_largest_of_two_weights_in_closed_form(sigma, threshold):
    """max w is above it where |s1 - s2|, of variance 2 sigma^2, is above its logit."""
    expected = 2 * special.ndtr(-special.logit(threshold) / (sigma * math.sqrt(2)))
    found = GaussianRow(sigma, 2).max_weight_survival(threshold)
    assert found == pytest.approx(expected, rel=0, abs=1e-12)
    if sigma >= 0.5 and expected > 1e-30:
        assert found == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("sigma", "threshold"), [(0.2, 0.5), (0.399, 0.5), (0.45, 0.5), (6.0, 0.99)]
)
def test_the_largest_of_three_weights_by_quadrature_over_differences(sigma, threshold):
    """P(e^-a + e^-b < c) for a = s1 - s2, b = s1 - s3: given a, b is normal of mean a / 2 and variance 3/2 sigma^2."""
    c = (1 - threshold) / threshold

    def integrand(a):
        room = c - math.exp(-a)
        at_least = -math.log(room) if room > 0 else math.inf
        return stats.norm.pdf(a, scale=sigma * math.sqrt(2)) * special.ndtr(
            (a / 2 - at_least) / (sigma * math.sqrt(1.5))
        )

    ends = -math.log(c), -math.log(c) + 2 * sigma, -math.log(c) + 14 * sigma
    expected = 3 * sum(
        integrate.quad(integrand, a, b, epsabs=1e-14, limit=200)[0]
        for a, b in itertools.pairwise(ends)
    )
    error = 1e-12 if sigma >= 0.4 else 1e-10  # as stated
    assert GaussianRow(sigma, 3).max_weight_survival(threshold) == pytest.approx(
        expected, rel=1e-9, abs=error
    )


@pytest.mark.parametrize("n_keys", [2, 3, 64, 4096, 1e6])
def test_saturation_is_interpolated_within_what_it_says(n_keys):
    sigma = np.geomspace(0.2, 200, 57)
    expected = np.array([GaussianRow(s, n_keys).max_weight_survival(SATURATED) for s in sigma])
    np.testing.assert_allclose(saturated_rows(sigma, n_keys), expected, rtol=1e-8, atol=1e-10)


def test_rows_of_any_spread_and_length_have_the_values_of_their_integrals():
    """Lengths on both sides of those that share integrals; more lengths than nodes in one of these."""
    rng = np.random.default_rng(0)
    n_keys = rng.permutation([2, 2, 7, 8, 9, 9, 13, 128, 129, 30000, *range(20, 29)])
    sigma = np.exp(rng.uniform(np.log(1e-4), np.log(40), len(n_keys)))
    found = gaussian_rows(sigma, n_keys)
    rows = [GaussianRow(float(s), int(n)) for s, n in zip(sigma, n_keys, strict=True)]
    expected = np.array(
        [
            [r.max_weight(), r.entropy(), r.jacobian_square(), r.max_weight_survival(0.99)]
            for r in rows
        ]
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found[:, [0, 2]], expected[:, [0, 2]], rtol=1e-5, atol=1e-15)
    for n in (2, 7, 1000):
        uniform = [[1 / n, np.log(n), (1 - 1 / n) / n, 0]]
        np.testing.assert_allclose(gaussian_rows(np.zeros(1), np.array([n])), uniform, rtol=1e-12)
    assert gaussian_rows(np.empty(0), np.empty(0, int)).shape == (0, 4)


@pytest.mark.parametrize("d_k", [2, 4, 6])
def test_the_density_is_elementary_for_even_d_k(d_k):
    """(1 + t^2)^-m is that of the difference of two Gamma(m) laws: for m = 1, 2, 3 the density is written out."""
    s = np.array([-3.0, 0.0, 1e-8, 0.5, 20.0])
    a = np.abs(s)
    polynomial = {2: 1 / 2, 4: (1 + a) / 4, 6: (3 + 3 * a + a * a) / 16}[d_k]
    np.testing.assert_allclose(
        np.exp(score_log_density(s, d_k)), polynomial * np.exp(-a), rtol=1e-12
    )


@pytest.mark.parametrize("d_k", [1, 3, 16, 300, 4096])
def test_density_and_survival_are_of_one_law(d_k):
    """Two routes, a Bessel function and a mixture of normal laws: the one integrated over an interval is the other."""
    for low, high in ((0.1, 0.7), (1.0, 2.0), (5.0, 5.5)):
        a, b = low * math.sqrt(d_k), high * math.sqrt(d_k)
        mass = integrate.quad(
            lambda s: float(np.exp(score_log_density(s, d_k))), a, b, epsrel=1e-11, epsabs=0
        )[0]
        assert float(score_survival(a, d_k) - score_survival(b, d_k)) == pytest.approx(
            mass, rel=1e-9, abs=0
        )
        assert float(score_survival(a, d_k) + score_survival(-a, d_k)) == pytest.approx(
            1, rel=1e-12
        )
    if d_k == 1:
        np.testing.assert_allclose(
            np.exp(score_log_density(1e-300, 1)), special.k0(1e-300) / math.pi, rtol=1e-12
        )
        assert score_log_density(0.0, 1) == math.inf


def test_the_largest_of_several_scores_that_share_a_query():
    """As simulated; of one key as of one score; and far out, where the union bound is exact."""
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((200_000, 1, 3)), rng.standard_normal((200_000, 7, 3))
    largest = (q * k).sum(-1).max(-1)
    s = np.array([-0.5, 1.0, 4.0])
    exact = largest_score_survival(s, 3, 7)
    assert abs((largest[:, None] > s).mean(0) - exact).max() < 4 * 0.5 / math.sqrt(len(largest))
    np.testing.assert_allclose(largest_score_survival(s, 3, 1), score_survival(s, 3), rtol=1e-12)
    np.testing.assert_allclose(
        largest_score_survival(500.0, 3, 7), 7 * score_survival(500.0, 3), rtol=1e-9
    )
