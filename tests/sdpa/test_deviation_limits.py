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
from sdpa.theory.attention import row_means
from sdpa.theory.deviation_limits import least_row_variances

NAMES = [field.name for field in dataclasses.fields(attention_deviations(4, 4, 2.0))]


def limits(d_k, n_keys, divisor, law=PairLaw()):
    means = row_means(d_k, n_keys, divisor, law)
    return dict(zip(NAMES, np.sqrt(least_row_variances(means, n_keys)), strict=True))


@pytest.mark.parametrize("d_k", [1, 8, 64, 4096])
@pytest.mark.parametrize("n_keys", [2, 7, 300])
@pytest.mark.parametrize("power", [0, 1 / 3, 1 / 2, 1])
@pytest.mark.parametrize("key_std", [1.0, 30.0])
def test_no_limit_exceeds_an_exact_deviation(d_k, n_keys, power, key_std):
    """For independent rows, whose deviations are exact; 0 stands for a deviation too small to compute."""
    law = PairLaw(key_std=key_std, query_mean=0.3)
    exact = dataclasses.asdict(attention_deviations(d_k, n_keys, d_k**power, law))
    for name, limit in limits(d_k, n_keys, d_k**power, law).items():
        if exact[name] > 0:
            assert limit <= exact[name] * (1 + 1e-6), name


@pytest.mark.parametrize(("d_k", "n_keys"), [(4096, 7), (4096, 300), (2**20, 64)])
def test_limits_reveal_rare_rows(d_k, n_keys):
    """Unscaled at large d_k, most rows are saturated: the limits are near the deviations."""
    exact = dataclasses.asdict(attention_deviations(d_k, n_keys, 1.0))
    found = limits(d_k, n_keys, 1.0)
    nearness = {name: found[name] / exact[name] for name in NAMES if name != "row_variance"}
    for name, ratio in nearness.items():
        assert ratio >= 0.5, (name, ratio)


@pytest.mark.parametrize("law", [PairLaw(correlation=0.5), PairLaw(correlation=-0.9), PairLaw(normalize="l2")])
@pytest.mark.parametrize(("d_k", "n_keys", "divisor"), [(16, 2, 1.0), (16, 5, 1.0), (64, 9, 4.0), (64, 3, 0.02)])
def test_limits_are_below_the_deviations_of_draws(law, d_k, n_keys, divisor):
    """20,000 rows of their own keys: a standard deviation of heavy tails comes out too small, by less than a third."""
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
        assert found[name] <= 1.5 * values.std() + 1e-12, name


def test_the_limit_of_the_own_weight_is_below_its_deviation_by_quadrature():
    """Two keys, of which one is the query: its weight is 1 / (1 + e^(L z - L^2)), L = |q| of 16 entries, z normal."""
    length = np.linspace(0.01, 12, 600)[:, None]
    z = np.linspace(-9, 9, 2000)
    density = stats.chi.pdf(length, 16) * stats.norm.pdf(z)
    other = special.expit(length * z - length**2)
    first, second = ((density * other**k).sum() / density.sum() for k in (1, 2))
    limit = limits(16, 2, 1.0, PairLaw(correlation=1.0))["own_weight"]
    assert 0.4 < limit / math.sqrt(second - first**2) < 1


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
