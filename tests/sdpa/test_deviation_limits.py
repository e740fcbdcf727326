"""Lower limits of the deviations of a row's metrics, against exact deviations and against draws."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import special, stats

from sdpa import row_diagnostics
from sdpa.metrics import SATURATED
from sdpa.pairs import PairLaw
from sdpa.theory import attention_deviations, least_draw_deviations
from sdpa.theory.attention import OF_ROWS, row_means, row_moments
from sdpa.theory.deviation_limits import least_row_variances

NAMES = [field.name for field in dataclasses.fields(attention_deviations(4, 4, 2.0))]


def limits(d_k, n_keys, divisor, law):
    variances = least_row_variances(*row_moments(d_k, n_keys, divisor, law))
    return dict(zip(NAMES, np.sqrt(variances), strict=True))


def independent(d_k, n_keys, divisor, law=PairLaw()):
    """The limits of independent rows, from their exact mean squares, beside their exact deviations."""
    exact = dataclasses.asdict(attention_deviations(d_k, n_keys, divisor, law))
    means = dict(zip(OF_ROWS, row_means(d_k, n_keys, divisor, law), strict=True))
    squared = ("max_weight", "jacobian_trace", "jacobian_square", "own_weight")
    squares = np.array([exact[name] ** 2 + means[name] ** 2 for name in squared])
    found = least_row_variances(np.array(list(means.values())), squares)
    return dict(zip(NAMES, np.sqrt(found), strict=True)), exact


@pytest.mark.parametrize("d_k", [1, 8, 64, 4096, 2**20])
@pytest.mark.parametrize("n_keys", [2, 7, 300, 1000])
@pytest.mark.parametrize("power", [0, 1 / 3, 1 / 2, 1])
@pytest.mark.parametrize("key_std", [1.0, 30.0])
def test_no_limit_exceeds_an_exact_deviation(d_k, n_keys, power, key_std):
    """0 stands for a deviation too small to compute."""
    found, exact = independent(d_k, n_keys, d_k**power, PairLaw(key_std=key_std, query_mean=0.3))
    for name, limit in found.items():
        if exact[name] > 0:
            assert limit <= exact[name] * (1 + 1e-4), name


@pytest.mark.parametrize(("d_k", "n_keys"), [(4096, 7), (4096, 300), (2**20, 64)])
def test_limits_reveal_rare_rows(d_k, n_keys):
    """Unscaled at large d_k, most rows are saturated: the limits are near the deviations."""
    found, exact = independent(d_k, n_keys, 1.0)
    for name in NAMES:
        assert found[name] >= 0.5 * exact[name] or name == "row_variance", (name, found[name] / exact[name])


@pytest.mark.parametrize("law", [PairLaw(correlation=0.5), PairLaw(correlation=-0.9), PairLaw(normalize="l2")])
@pytest.mark.parametrize(("d_k", "n_keys", "divisor"), [(16, 2, 1.0), (16, 5, 1.0), (64, 9, 4.0), (64, 3, 0.02)])
def test_limits_are_below_the_deviations_of_draws(law, d_k, n_keys, divisor):
    """20,000 rows of their own keys: heavy tails come out too small, by less than a third, or are not seen at all."""
    rng = np.random.default_rng([d_k, n_keys])
    keys = law.keys(rng, (20000, n_keys, d_k))
    queries = law.queries(rng, (20000, 1, d_k), keys[:, :1] if law.correlation else None)
    scores = queries @ keys.swapaxes(-1, -2)
    rows = row_diagnostics(scores, divisor, own_keys=np.zeros((20000, 1), dtype=int))
    measured = {
        "max_weight": rows.max_weight,
        "entropy": rows.entropy,
        "jacobian_trace": rows.jacobian_trace,
        "jacobian_square": rows.jacobian_norm**2,
        "saturated_rows": rows.max_weight > SATURATED,
        "key_gradient_square": (rows.jacobian_norm * np.linalg.norm(queries, axis=-1) / divisor) ** 2,
    }
    if law.correlation:
        measured["own_weight"] = rows.own_weight
    found = limits(d_k, n_keys, divisor, law)
    for name, values in measured.items():
        assert found[name] <= 1.5 * values.std() + 1e-6, name


def test_mean_squares_of_two_correlated_keys_by_quadrature():
    """Two keys, of which one is the query: its weight is 1 / (1 + e^(L z - L^2)), L = |q| of 16 entries, z normal."""
    length = np.linspace(0.01, 12, 1200)[:, None]
    z = np.linspace(-9, 9, 4000)
    density = stats.chi.pdf(length, 16) * stats.norm.pdf(z)
    other = special.expit(length * z - length**2)
    trace = 2 * other * (1 - other)
    of_rows = [np.maximum(other, 1 - other), trace, trace**2, 1 - other]
    expected = [(density * values**2).sum() / density.sum() for values in of_rows]
    _, squares = row_moments(16, 2, 1.0, PairLaw(correlation=1.0))
    assert squares.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("d_k", [1, 3])
def test_mean_squares_of_two_cosines_by_quadrature(d_k):
    """Rows of two unit keys: with the gain 4, weights depend on the difference of two cosines, uniform for d_k = 3."""
    cosines, weights = np.polynomial.legendre.leggauss(200) if d_k == 3 else (np.array([-1.0, 1.0]), np.ones(2))
    density = np.outer(weights, weights)
    one = special.expit(4 * (cosines[:, None] - cosines))
    trace = 2 * one * (1 - one)
    of_rows = [np.maximum(one, 1 - one), trace, trace**2, one]
    expected = [(density * values**2).sum() / density.sum() for values in of_rows]
    _, squares = row_moments(d_k, 2, 0.25, PairLaw(normalize="l2"))
    assert squares.tolist() == pytest.approx(expected, rel=1e-4 if d_k == 3 else 1e-9)


def test_a_draw_has_the_limit_of_its_rows():
    law = PairLaw(correlation=0.9)
    draw = least_draw_deviations(64, 5, 4, 2.0, law)
    assert draw.entropy == pytest.approx(limits(64, 5, 2.0, law)["entropy"] / 2)
    assert draw.entropy > 0


def test_causal_rows_average_the_limits_of_every_length():
    law = PairLaw(correlation=0.9)
    draw = least_draw_deviations(64, 3, 3, 2.0, law, shortest=1)
    of_rows = [0.0, *(limits(64, n, 2.0, law)["jacobian_trace"] ** 2 for n in (2, 3))]
    assert draw.jacobian_trace == pytest.approx(math.sqrt(np.mean(of_rows) / 3))


def test_squares_too_small_for_a_double_leave_a_limit_of_zero():
    means = np.array([1.0, 1e-160, 1e-162, 1e-170, 1e-170, 1.0, 1.0, 1e-170, 1.0])
    assert least_row_variances(means, np.zeros(4)).tolist() == [0.0] * 9
    strong = least_draw_deviations(4096, 16, 8, 1.0, PairLaw(correlation=1.0))
    assert all(math.isfinite(value) and value >= 0 for value in dataclasses.astuple(strong))
