"""The exact expectations against routes that share no integrand and no nodes with them.

Two keys: everything is a function of one normal difference, integrated adaptively. Three keys: a tensor grid over
the scores. Any n: the derivative of E ln Z, plain Monte Carlo, limits solved by hand, and the shipped measurements.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from sdpa import softmax
from sdpa.pairs import PairLaw
from sdpa.theory import (
    GaussianRow,
    attention_expectations,
    correlated_score_moments,
    largest_score_survival,
    limits,
    score_log_density,
    score_survival,
)

METRICS = ("max_weight", "entropy", "jacobian_trace", "jacobian_square", "score_gradient_square")


def of_weights(w, z):
    """The metrics of rows of weights at standard scores z, from their definitions."""
    s2, s3 = (w**2).sum(-1), (w**3).sum(-1)
    mean = (w * z).sum(-1, keepdims=True)
    return {
        "max_weight": w.max(-1),
        "entropy": special.entr(w).sum(-1),
        "jacobian_trace": 1 - s2,
        "jacobian_square": s2 - 2 * s3 + s2**2,
        "score_gradient_square": ((w * (z - mean)) ** 2).sum(-1),
    }


@pytest.mark.parametrize("sigma", [0.1, 0.7, 1.0, 3.0, 20.0])
def test_two_keys_by_adaptive_quadrature(sigma):
    row = GaussianRow(sigma, 2)
    for metric in METRICS:

        def integrand(y, metric=metric):
            z = np.array([y / math.sqrt(2), -y / math.sqrt(2)])  # the difference of two normals has variance 2
            return float(of_weights(softmax(sigma * z), z)[metric]) * stats.norm.pdf(y)

        points = [-9.0, *sorted({-min(4 / sigma, 8.0), 0.0, min(4 / sigma, 8.0)}), 9.0]
        expected = sum(
            integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-11, limit=200)[0]
            for a, b in itertools.pairwise(points)
        )
        assert getattr(row, metric)() == pytest.approx(expected, rel=1e-7, abs=1e-12), metric


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_three_keys_on_a_tensor_grid(sigma):
    nodes, weights = np.polynomial.hermite_e.hermegauss(110)
    weights = weights / weights.sum()
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    probability = np.einsum("i,j,k->ijk", weights, weights, weights).ravel()
    row, values = GaussianRow(sigma, 3), of_weights(softmax(sigma * z), z)
    for metric in set(METRICS) - {"max_weight"}:  # which has a kink where scores tie, and no polynomial follows
        assert getattr(row, metric)() == pytest.approx(float(probability @ values[metric]), rel=1e-7), metric


@pytest.mark.parametrize("n_keys", [2, 2.5, 17, 64, 4096, 16384])
@pytest.mark.parametrize("sigma", [0.2, 0.999, 1.001, 4.0, 30.0])
def test_the_slope_of_the_log_partition_is_sigma_times_the_trace(sigma, n_keys):
    """d E ln Z / d sigma = E sum w z = sigma (1 - E sum w^2): the same integration by parts, by finite differences."""
    step = 1e-4 * sigma
    slope = (GaussianRow(sigma + step, n_keys).log_partition() - GaussianRow(sigma - step, n_keys).log_partition()) / (
        2 * step
    )
    assert slope == pytest.approx(sigma * GaussianRow(sigma, n_keys).jacobian_trace(), rel=2e-7)


@pytest.mark.parametrize(("sigma", "n_keys"), [(0.5, 5), (1.0, 64), (2.5, 200), (8.0, 16), (25.0, 64)])
def test_rows_drawn_at_random_agree(sigma, n_keys):
    """20,000 rows at a fixed seed: within 5 standard errors (false alarm 1e-5 in all if it were reseeded)."""
    z = np.random.default_rng(1).standard_normal((20_000, n_keys))
    row = GaussianRow(sigma, n_keys)
    for metric, values in of_weights(softmax(sigma * z), z).items():
        assert abs(values.mean() - getattr(row, metric)()) < 5 * values.std() / math.sqrt(len(z)), metric


@pytest.mark.parametrize("n_keys", [2, 7, 300])
def test_equal_scores_give_uniform_weights(n_keys):
    row = GaussianRow(0.0, n_keys)
    expected = (1 / n_keys, math.log(n_keys), 1 - 1 / n_keys, 1 / n_keys - 1 / n_keys**2, 1 / n_keys - 1 / n_keys**2)
    assert [getattr(row, metric)() for metric in METRICS] == pytest.approx(expected, rel=1e-8)


def test_it_is_smooth_where_it_changes_its_nodes():
    for metric in METRICS:
        below, at = (getattr(GaussianRow(sigma, 64), metric)() for sigma in (1 - 1e-12, 1.0))
        assert below == pytest.approx(at, rel=1e-9)


def test_finite_and_in_bounds_everywhere_without_a_warning():
    for n_keys in (2, 3.7, 64, 16384):
        for sigma in (0, 1e-12, 1e-3, 0.3, 1, 10, 64, 300):
            row = GaussianRow(sigma, n_keys)
            assert 1 / n_keys * (1 - 1e-7) <= row.max_weight() <= 1
            assert 0 <= row.entropy() <= math.log(n_keys) * (1 + 1e-12)
            assert 0 <= row.jacobian_square() <= 0.25 * (1 + 1e-9)


@pytest.mark.parametrize(("sigma", "n_keys"), [(-1, 4), (math.nan, 4), (math.inf, 4), (1, 1), (1, math.inf)])
def test_arguments_out_of_range_are_refused(sigma, n_keys):
    with pytest.raises(ValueError, match="expected sigma of at least 0 and n_keys from 2"):
        GaussianRow(sigma, n_keys)


@pytest.mark.parametrize(("d_k", "n_keys", "divisor"), [(1, 3, 1.0), (4, 64, 1.0), (64, 16, 8.0), (512, 4096, 1.0)])
def test_the_average_over_queries_by_adaptive_quadrature(d_k, n_keys, divisor):
    """Over the chi law of |q|, with the row's own functions in the place of the interpolated ones."""
    law = stats.chi(d_k)
    low, high = law.ppf(1e-12), law.isf(1e-13)

    def average(function):
        def integrand(length):
            return function(GaussianRow(length / divisor, n_keys)) * law.pdf(length)

        middle = law.mean()
        return sum(integrate.quad(integrand, *ends, epsrel=1e-9)[0] for ends in ((low, middle), (middle, high)))

    exact = attention_expectations(d_k, n_keys, divisor)
    assert exact.max_weight == pytest.approx(average(GaussianRow.max_weight), rel=1e-6)
    assert exact.entropy == pytest.approx(average(GaussianRow.entropy), rel=1e-6)
    assert exact.jacobian_trace == pytest.approx(average(GaussianRow.jacobian_trace), rel=1e-6)
    assert exact.jacobian_norm**2 == pytest.approx(average(GaussianRow.jacobian_square), rel=1e-6)


def test_inputs_of_another_spread_act_through_the_scores_and_the_keys():
    """Entries of spread s: scores as with the divisor / s^2, and K^T J g as many times longer as K."""
    one, other = (
        attention_expectations(8, 16, 2.0, PairLaw(query_std=1.5, key_std=1.5)),
        attention_expectations(8, 16, 2.0 / 1.5**2),
    )
    assert one.entropy == pytest.approx(other.entropy, rel=1e-12)
    assert one.query_gradient_norm == pytest.approx(other.query_gradient_norm * 1.5 / 1.5**2, rel=1e-12)


@pytest.mark.parametrize("arguments", [(0.5, 4, 1.0), (4, 4, 0.0), (4, 4, math.inf), (4, 1, 1.0)])
def test_an_average_of_impossible_arguments_is_refused(arguments):
    with pytest.raises(ValueError, match="expected"):
        attention_expectations(*arguments)


@pytest.mark.parametrize("d_k", [2, 4, 6])
def test_the_density_is_elementary_for_even_d_k(d_k):
    """(1 + t^2)^-m is that of the difference of two Gamma(m) laws: for m = 1, 2, 3 the density is written out."""
    s = np.array([-3.0, 0.0, 1e-8, 0.5, 20.0])
    a = np.abs(s)
    polynomial = {2: 1 / 2, 4: (1 + a) / 4, 6: (3 + 3 * a + a * a) / 16}[d_k]
    np.testing.assert_allclose(np.exp(score_log_density(s, d_k)), polynomial * np.exp(-a), rtol=1e-12)


def test_the_density_of_a_product_of_normals_is_that_of_bessel():
    s = np.array([1e-300, 1e-5, 1.0, 30.0])
    np.testing.assert_allclose(np.exp(score_log_density(s, 1)), special.k0(s) / math.pi, rtol=1e-12)
    assert score_log_density(0.0, 1) == math.inf


@pytest.mark.parametrize("d_k", [1, 3, 16, 300, 4096])
def test_density_and_survival_are_of_one_law(d_k):
    """Two routes, a Bessel function and a mixture of normal laws: the one integrated over an interval is the other."""
    for low, high in ((0.1, 0.7), (1.0, 2.0), (5.0, 5.5)):
        a, b = low * math.sqrt(d_k), high * math.sqrt(d_k)
        mass = integrate.quad(lambda s: float(np.exp(score_log_density(s, d_k))), a, b, epsrel=1e-11, epsabs=0)[0]
        assert float(score_survival(a, d_k) - score_survival(b, d_k)) == pytest.approx(mass, rel=1e-9, abs=0)


@pytest.mark.parametrize("d_k", [1, 2, 64, 4096])
def test_the_survival_is_symmetric_and_tends_to_the_normal(d_k):
    s = np.array([0.0, 0.3, 2.0, 8.0]) * math.sqrt(d_k)
    np.testing.assert_allclose(score_survival(s, d_k) + score_survival(-s, d_k), 1, rtol=1e-12)
    if d_k == 4096:  # excess kurtosis 6 / d_k: the central limit is near, but for the tail
        np.testing.assert_allclose(score_survival(s[:3], d_k), stats.norm.sf(s[:3] / 64), rtol=1e-2)


def test_the_largest_of_several_scores_that_share_a_query():
    """As simulated; of one key as of one score; and far out, where the union bound is exact."""
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((200_000, 1, 3)), rng.standard_normal((200_000, 7, 3))
    largest = (q * k).sum(-1).max(-1)
    s = np.array([-0.5, 1.0, 4.0])
    exact = largest_score_survival(s, 3, 7)
    assert abs((largest[:, None] > s).mean(0) - exact).max() < 4 * 0.5 / math.sqrt(len(largest))
    np.testing.assert_allclose(largest_score_survival(s, 3, 1), score_survival(s, 3), rtol=1e-12)
    np.testing.assert_allclose(largest_score_survival(500.0, 3, 7), 7 * score_survival(500.0, 3), rtol=1e-9)


def test_moments_of_correlated_scores_on_a_tensor_grid():
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    a, b = np.meshgrid(nodes, nodes)
    probability = np.outer(weights, weights) / weights.sum() ** 2
    for q_mean, k_mean, q_std, k_std, rho in ((0, 0, 1, 1, 0), (0, 0, 1, 1, 0.6), (0.5, -2, 1.5, 0.7, -0.3)):
        products = (q_mean + q_std * a) * (k_mean + k_std * (rho * a + math.sqrt(1 - rho**2) * b))
        mean = (probability * products).sum()
        variance = (probability * products**2).sum() - mean**2
        got = correlated_score_moments(7, q_mean, k_mean, q_std, k_std, rho)
        assert got == pytest.approx((7 * mean, 7 * variance), rel=1e-12)


@pytest.mark.parametrize(
    ("limit", "exact", "stated"),
    [
        (limits.small_sigma_entropy(0.3, 64), GaussianRow(0.3, 64).entropy(), -0.0002),
        (limits.small_sigma_entropy(1.0, 64), GaussianRow(1.0, 64).entropy(), -0.007),
        (limits.small_sigma_entropy(2.0, 64), GaussianRow(2.0, 64).entropy(), -0.18),
        (limits.small_sigma_collision(0.3, 64), GaussianRow(0.3, 64).power_sum(2), 0.002),
        (limits.small_sigma_collision(1.0, 64), GaussianRow(1.0, 64).power_sum(2), 0.09),
        (limits.small_sigma_collision(1.0, 4096), GaussianRow(1.0, 4096).power_sum(2), 0.002),
        (limits.small_sigma_collision(2.0, 4096), GaussianRow(2.0, 4096).power_sum(2), 0.38),
        (limits.saturated_trace(8.0, 64), GaussianRow(8.0, 64).jacobian_trace(), 0.016),
        (limits.saturated_trace(64.0, 64), GaussianRow(64.0, 64).jacobian_trace(), 0.0002),
        (limits.saturated_attention_trace(64, 64, 1.0), attention_expectations(64, 64, 1.0).jacobian_trace, 0.017),
        (limits.saturated_attention_trace(4096, 64, 1.0), attention_expectations(4096, 64, 1.0).jacobian_trace, 0.0002),
    ],
)
def test_limits_are_as_far_from_the_exact_values_as_they_say(limit, exact, stated):
    assert limit / exact - 1 == pytest.approx(stated, rel=0.2)


@pytest.mark.parametrize(("n_keys", "entropy_share", "collision"), [(64, 0.45, 0.31), (16384, 0.33, 0.20)])
def test_at_the_freezing_point_the_limits_are_far(n_keys, entropy_share, collision):
    row = GaussianRow(limits.freezing_sigma(n_keys), n_keys)
    assert row.entropy() / math.log(n_keys) == pytest.approx(entropy_share, abs=0.005)
    assert row.power_sum(2) == pytest.approx(collision, abs=0.005)
    assert limits.frozen_entropy_share(1.0) == limits.frozen_collision(1.0) == 0


@pytest.mark.parametrize("ratio", [0.3, 0.6, 1.5, 3.0])
def test_large_n_approaches_the_frozen_limits(ratio):
    """Nearer with a billion keys, which no simulation could see, than with a hundred."""
    few, many = (GaussianRow(ratio * limits.freezing_sigma(n_keys), n_keys) for n_keys in (1e2, 1e9))
    entropy, collision = limits.frozen_entropy_share(ratio), limits.frozen_collision(ratio)
    near, far = (abs(row.entropy() / math.log(row.n_keys) - entropy) for row in (many, few))
    assert near < far / 1.5
    near, far = (abs(row.power_sum(2) - collision) for row in (many, few))
    assert near < far / 1.5


def test_the_tie_density_is_that_of_gaps_drawn_at_random():
    z = np.sort(np.random.default_rng(2).standard_normal((200_000, 20)), axis=1)
    share = ((z[:, -1] - z[:, -2]) < 0.01).mean()
    assert limits.tie_density(20) == pytest.approx(share / 0.01, rel=0.1)  # 3 standard errors and the slope
    assert limits.tie_density(2) == pytest.approx(1 / math.sqrt(math.pi))


def test_no_row_is_below_the_entropy_floor_and_one_shape_reaches_it():
    rng = np.random.default_rng(3)
    for n_keys in (2, 7, 50):
        peaked = np.full(n_keys, -1 / math.sqrt(n_keys * (n_keys - 1)))
        peaked[0] = math.sqrt((n_keys - 1) / n_keys)
        for norm in (0.1, 2.0, 9.0):
            floor = limits.entropy_floor(norm, n_keys)
            assert special.entr(softmax(norm * peaked)).sum() == pytest.approx(floor, rel=1e-10)
            scores = rng.standard_normal((500, n_keys))
            scores *= norm / np.linalg.norm(scores, axis=1, keepdims=True)
            assert (special.entr(softmax(scores)).sum(axis=1) >= floor * (1 - 1e-12)).all()


def test_the_saturated_average_needs_more_than_one_dimension():
    with pytest.raises(ValueError, match="expected d_k above 1, got 1"):
        limits.saturated_attention_trace(1, 64, 1.0)


@pytest.mark.parametrize("d_k", [1, 2, 5])
def test_the_query_gradient_of_draws_agrees(d_k):
    """40,000 draws of one query and five keys, from the definition: within 5 standard errors (false alarm 2e-6)."""
    rng, n_keys, std, divisor = np.random.default_rng(4), 5, 1.3, 1.7
    q, k = std * rng.standard_normal((40_000, 1, d_k)), std * rng.standard_normal((40_000, n_keys, d_k))
    w = softmax((q @ k.swapaxes(-1, -2))[:, 0] / divisor)
    g = rng.standard_normal(w.shape)
    to_scores = w * (g - (w * g).sum(-1, keepdims=True)) / divisor
    squares = ((to_scores[:, None] @ k) ** 2).sum((-1, -2))
    exact = attention_expectations(d_k, n_keys, divisor, PairLaw(query_std=std, key_std=std)).query_gradient_norm ** 2
    assert abs(squares.mean() - exact) < 5 * squares.std() / 200
    assert squares.std() / 200 < 0.02 * exact


def test_arrays_and_rules_give_the_numbers_one_by_one():
    """Broadcast as NumPy does, with a divisor that the rule gives for each pair of sizes."""
    found = attention_expectations([[8], [18]], [4, 9, 16], "d_k^1/2*n_keys^1/2")
    assert found.entropy.shape == (2, 3)
    for i, d_k in enumerate((8, 18)):
        for j, n_keys in enumerate((4, 9, 16)):
            one = attention_expectations(d_k, n_keys, math.sqrt(d_k * n_keys))
            assert {name: values[i, j] for name, values in vars(found).items()} == pytest.approx(vars(one), rel=1e-12)
    assert attention_expectations(8, 4, [2.0, 3.0]).max_weight[1] == attention_expectations(8, 4, 3).max_weight


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wide", 64, 8.0), "d_k: expected real numbers, got an array of <U4"),
        ((64, 64, None), "divisor: expected real numbers, got an array of object"),
        ((64, 64, "d_q"), "expected 'unscaled' or a product"),
        (([4, 5], [1, 2, 3], 1.0), "cannot be broadcast"),
        ((64, 64, 8.0, "gaussian"), "law: expected a PairLaw, got 'gaussian'"),
        ((64, 64, 8.0, PairLaw(), [1, 2]), r"shortest: expected a whole number or None, got \[1, 2\]"),
    ],
)
def test_arguments_of_another_type_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        attention_expectations(*arguments)
