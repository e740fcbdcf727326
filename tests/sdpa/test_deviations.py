"""Standard deviations of one row's metrics, against quadrature, brute force, draws and limits."""

import dataclasses
import itertools
import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy import integrate, special, stats

from sdpa import row_diagnostics, softmax
from sdpa.metrics import SATURATED
from sdpa.pairs import PairLaw
from sdpa.theory import (
    GaussianRow,
    attention_deviations,
    attention_expectations,
    least_draw_deviations,
    limits,
)
from sdpa.theory.expansion import expand, metric_expansion, metrics


def jacobian(w):
    return w[..., :, None] * (np.eye(w.shape[-1]) - w[..., None, :])


def of_row(w, z, squares=1.0):
    """The metrics of `expansion`, of rows of weights at scores z, from their definitions."""
    j = jacobian(w)
    trace, square = np.trace(j, axis1=-2, axis2=-1), (j**2).sum((-1, -2))
    jz = (j @ z[..., None])[..., 0]
    along = (jz**2).sum(-1)
    return {
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


def test_the_polynomials_are_the_metrics():
    """Each side at one row of weights and scores, on polynomials as written and as expanded by brute force."""
    rng = np.random.default_rng(7)
    for n in (2, 5):
        z = rng.standard_normal(n)
        w, squares = softmax(2 * rng.standard_normal(n)), rng.random(n)
        for name, value in of_row(w, z, squares).items():
            as_written = sum(
                c * math.prod((w**k * z**q * squares**a).sum() for k, q, a in product)
                for product, c in metrics()[name].items()
            )
            assert as_written == pytest.approx(float(value), rel=1e-11), name
            expanded = sum(
                c
                * math.prod(w[i] ** k * z[i] ** q * squares[i] ** a for i, (k, q, a) in zip(indices, term, strict=True))
                for term, c in metric_expansion(name)
                for indices in itertools.permutations(range(n), len(term))
            )
            assert expanded == pytest.approx(float(value), rel=1e-9), name
            assert metric_expansion(name) == expand(metrics()[name])


@pytest.mark.parametrize("sigma", [0.3, 0.999, 1.0, 1.4])
def test_three_keys_on_a_tensor_grid(sigma):
    nodes, weights = np.polynomial.hermite_e.hermegauss(70)
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    probability = np.einsum("i,j,k->ijk", weights, weights, weights).ravel() / weights.sum() ** 3
    w, row = softmax(sigma * z), GaussianRow(sigma, 3)
    for name, values in of_row(w, z).items():
        assert row.metric_mean(name) == pytest.approx(float(probability @ values), rel=1e-6), name
    entropy = special.entr(w).sum(-1)
    variance = probability @ (entropy - probability @ entropy) ** 2
    assert row.entropy_variance() == pytest.approx(float(variance), rel=1e-6)


@pytest.mark.parametrize("sigma", [0.1, 0.7, 1.0, 20.0, 1e4])
def test_two_keys_by_adaptive_quadrature(sigma):
    """Over the gap x of the two scores, of variance 2 sigma^2."""

    def mean(function):
        def integrand(x):
            return function(1 / (1 + math.exp(-x))) * 2 * stats.norm.pdf(x, scale=sigma * math.sqrt(2))

        ends = (0.0, min(2.0, sigma), min(12.0, 4 * sigma), min(45.0, 12 * sigma))
        return sum(integrate.quad(integrand, a, b, epsabs=1e-16, epsrel=1e-11)[0] for a, b in itertools.pairwise(ends))

    row = GaussianRow(sigma, 2)
    assert 1 - 2 * row.max_weight() + row.max_weight_square() == pytest.approx(mean(lambda p: (1 - p) ** 2), abs=1e-9)
    h = [mean(lambda p, k=k: float(special.entr(p) + special.entr(1 - p)) ** k) for k in (1, 2)]
    assert row.entropy() == pytest.approx(h[0], rel=1e-8)
    assert row.entropy_variance() == pytest.approx(h[1] - h[0] ** 2, rel=1e-7, abs=1e-11)
    assert row.metric_mean("|J|^4") == pytest.approx(mean(lambda p: (2 * p * (1 - p)) ** 4), rel=1e-9)
    assert row.metric_mean("tr J^4") == pytest.approx(mean(lambda p: (2 * p * (1 - p)) ** 4), rel=1e-9)


@pytest.mark.parametrize("n_keys", [2, 64, 4096, 1e9])
@pytest.mark.parametrize("sigma", [1e5, 1e6, 1e7])
def test_saturated_rows_are_those_near_a_tie(sigma, n_keys):
    """With a density f0 / sigma of the gap x, E f = f0 / sigma int f(x) dx: of H over x from 0, pi^2 / 6; tr J, 1;
    |J|_F^2 = (2 p (1 - p))^2, 1/3. The next term is below 50 / sigma of it."""
    row = GaussianRow(sigma, n_keys)
    tie = limits.tie_density(n_keys) / sigma
    area = integrate.quad(lambda x: float(special.entr(special.expit(x)) + special.entr(special.expit(-x))), 0, 50)[0]
    assert area == pytest.approx(math.pi**2 / 6, rel=1e-9)
    assert row.entropy() == pytest.approx(tie * area, rel=50 / sigma)
    assert row.jacobian_trace() == pytest.approx(tie, rel=1 / sigma)
    assert row.jacobian_square() == pytest.approx(tie / 3, rel=50 / sigma)


def draws(d_k, n_keys, divisor, std, rows):
    rng = np.random.default_rng(8)
    q, k = std * rng.standard_normal((rows, 1, d_k)), std * rng.standard_normal((rows, n_keys, d_k))
    w = softmax((q @ k.swapaxes(-1, -2))[:, 0] / divisor)
    s2, s3 = (w**2).sum(-1), (w**3).sum(-1)
    return {
        "max_weight": w.max(-1),
        "entropy": special.entr(w).sum(-1),
        "jacobian_trace": 1 - s2,
        "jacobian_square": s2 - 2 * s3 + s2**2,
        "query_gradient_square": ((w[..., None] * (k - w[:, None] @ k)) ** 2).sum((-1, -2)) / divisor**2,
        "saturated_rows": (w.max(-1) > SATURATED).astype(float),
    }


@pytest.mark.parametrize(
    ("d_k", "n_keys", "divisor", "std"),
    [(1, 5, 1.0, 1.0), (3, 2, 1.7, 1.3), (8, 64, 8**0.5, 1.0), (16, 11, 1.0, 1.0), (5, 30, 20.0, 1.0)],
)
def test_the_deviations_of_draws_agree(d_k, n_keys, divisor, std):
    """40,000 draws at a fixed seed: variances within 5 standard errors (false alarm 2e-5 in all if reseeded)."""
    exact = asdict(attention_deviations(d_k, n_keys, divisor, PairLaw(query_std=std, key_std=std)))
    for name, values in draws(d_k, n_keys, divisor, std, 40_000).items():
        error = ((values - values.mean()) ** 2).std() / math.sqrt(len(values))
        if name == "saturated_rows":  # which may be none
            error = exact[name] / math.sqrt(len(values)) + 5 / len(values) ** 1.5
        assert abs(values.var() - exact[name] ** 2) <= 5 * error, name


@pytest.mark.parametrize("d_k", [2, 5])
def test_the_deviations_of_two_keys_by_quadrature(d_k):
    """Over |q| and y = (z1 - z2) / sqrt(2). J has one eigenvalue, 2 p (1 - p) = b, along the vector to which z has the
    component y: |K^T J|_F^2 = b^2 (y^2 + chi^2 of d_k - 1), whose square has the mean b^4 (y^4 + 2 y^2 (d_k - 1)
    + d_k^2 - 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    y, y_weights = 5 * (nodes + 1), 5 * weights
    length, length_weights = 5 * (nodes[:, None] + 1), 5 * weights[:, None]
    probability = 2 * stats.norm.pdf(y) * y_weights * stats.chi.pdf(length, d_k) * length_weights
    p = special.expit(length * math.sqrt(2) * y)
    b = 2 * p * (1 - p)
    first = {
        "max_weight": p,
        "entropy": special.entr(p) + special.entr(1 - p),
        "jacobian_trace": b,
        "jacobian_square": b**2,
        "query_gradient_square": b**2 * (y**2 + d_k - 1),
    }
    second = {name: value**2 for name, value in first.items()}
    second["query_gradient_square"] = b**4 * (y**4 + 2 * y**2 * (d_k - 1) + d_k**2 - 1)
    exact = attention_deviations(d_k, 2, 1.0)
    for name, value in first.items():
        variance = (probability * second[name]).sum() - (probability * value).sum() ** 2
        assert getattr(exact, name) == pytest.approx(math.sqrt(variance), rel=1e-6), name


@pytest.mark.parametrize("d_k", [2, 6])
def test_the_query_gradient_of_three_keys_by_quadrature(d_k):
    """Over |q|, the two differences of the scores and, with J written out, those of each column of keys across q.

    |K^T J|_F^2 is then a sum of d_k - 1 independent numbers and one that the scores fix.
    """
    nodes, weights = np.polynomial.legendre.leggauss(100)
    y = np.stack(np.meshgrid(7 * nodes, 7 * nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    y_probability = np.outer(7 * weights, 7 * weights).ravel() * stats.norm.pdf(y).prod(axis=-1)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    length, length_weights = 4 * (nodes + 1), 4 * weights
    probability = (length_weights * stats.chi.pdf(length, d_k))[:, None] * y_probability
    differences = np.array([[1, -1, 0] / np.sqrt(2), [1, 1, -2] / np.sqrt(6)])
    three, three_weights = np.polynomial.hermite_e.hermegauss(3)  # exact for the fourth powers
    column = np.stack(np.meshgrid(three, three, indexing="ij"), axis=-1).reshape(-1, 2) @ differences
    column_probability = np.outer(three_weights, three_weights).ravel() / three_weights.sum() ** 2
    z = y @ differences
    j = jacobian(softmax(length[:, None, None] / 2 * z))
    along = ((j @ z[..., None]) ** 2).sum((-1, -2))
    across = ((j @ column.T) ** 2).sum(-2)
    mean = across @ column_probability
    variance = across**2 @ column_probability - mean**2
    first = (probability * (along + (d_k - 1) * mean)).sum()
    second = (probability * ((along + (d_k - 1) * mean) ** 2 + (d_k - 1) * variance)).sum()
    found = attention_deviations(d_k, 3, 2.0).query_gradient_square
    assert found == pytest.approx(math.sqrt(second - first**2) / 2**2, rel=1e-6)


def test_inputs_of_another_spread_scale_the_query_gradient():
    one, other = (
        attention_deviations(8, 16, 2.0, PairLaw(query_std=1.5, key_std=1.5)),
        attention_deviations(8, 16, 2.0 / 1.5**2),
    )
    assert one.jacobian_square == pytest.approx(other.jacobian_square, rel=1e-12)
    assert one.query_gradient_square == pytest.approx(other.query_gradient_square / 1.5**2, rel=1e-12)


@pytest.mark.slow
def test_no_deviation_exceeds_what_bounds_allow_and_none_is_lost():
    """Within [0, c] a standard deviation is at most sqrt(mean (c - mean)); finite from uniform to one-hot rows."""
    for d_k, n_keys, divisor in itertools.product((1, 64, 4096), (2, 4096), (1e-3, 1.0, 8.0, 1e6)):
        exact, spread = attention_expectations(d_k, n_keys, divisor), attention_deviations(d_k, n_keys, divisor)
        pairs = (
            (exact.max_weight, spread.max_weight, 1.0),
            (exact.entropy, spread.entropy, math.log(n_keys)),
            (exact.jacobian_trace, spread.jacobian_trace, 1.0),
            (exact.jacobian_norm**2, spread.jacobian_square, 0.25 * 1.0001),
            (exact.saturated_rows, spread.saturated_rows, 1.0),
        )
        for mean, deviation, most in pairs:
            assert 0 <= deviation <= math.sqrt(max(mean * (most - mean), 0)) + 1e-6
        assert 0 < spread.query_gradient_square < math.inf


@pytest.mark.parametrize(
    ("d_k", "n_keys", "n_queries", "divisor", "std", "sharpness"),
    [(1, 2, 64, 1.0, 1.0, 0.75), (4, 8, 16, 4.0, 1.5, 0.6), (32, 64, 1, 32.0, 1.0, 0.9), (16, 2, 64, 1.0, 1.0, 0.9)],
)
def test_the_least_deviation_of_a_draw_is_below_its_deviation_and_near(d_k, n_keys, n_queries, divisor, std, sharpness):
    """5,000 draws at a fixed seed: deviations within 5 standard errors (false alarm 1e-5 in all if reseeded)."""
    rng = np.random.default_rng(11)
    queries, keys = (std * rng.standard_normal((5000, count, d_k)) for count in (n_queries, n_keys))
    rows = row_diagnostics(queries @ keys.swapaxes(-1, -2), [divisor], keys)
    values = {
        "max_weight": rows.max_weight,
        "entropy": rows.entropy,
        "jacobian_trace": rows.jacobian_trace,
        "jacobian_square": rows.jacobian_norm**2,
        "query_gradient_square": rows.query_gradient_norm**2,
        "saturated_rows": (rows.max_weight > SATURATED).astype(float),
    }
    least = asdict(least_draw_deviations(d_k, n_keys, n_queries, divisor, PairLaw(query_std=std, key_std=std)))
    for name, of_rows in values.items():
        means = of_rows[0].mean(axis=-1)
        if name == "saturated_rows" and means.sum() < 100:
            continue
        error = ((means - means.mean()) ** 2).std() / math.sqrt(len(means)) / (2 * means.std())
        assert sharpness * means.std() - 5 * error <= least[name] <= means.std() + 5 * error, name


def test_deviations_need_a_whole_number_of_keys():
    with pytest.raises(ValueError, match=r"expected a whole number of keys, got 2\.5"):
        attention_deviations(4, 2.5, 1.0)
    with pytest.raises(ValueError, match="expected d_k of at least 1"):
        attention_deviations(0.5, 4, 1.0)


@pytest.mark.slow
def test_rows_that_hardly_differ_have_a_number_as_deviation():
    """Variances of nearly equal rows come out at the size of rounding errors, of either sign."""
    for d_k, n_keys, divisor in itertools.product((1, 64, 4096), (2, 5, 300), (1e2, 1e4, 1e7)):
        deviations = dataclasses.astuple(attention_deviations(d_k, n_keys, divisor))
        assert all(math.isfinite(value) and value >= 0 for value in deviations), (d_k, n_keys, divisor)
