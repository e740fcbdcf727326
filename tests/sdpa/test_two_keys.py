"""Quantiles of rows of two keys: against closed forms and a direct sum, and the measured quantiles against them."""

import math

import numpy as np
import pytest
from scipy import special

from experiments.saturation import METRICS, STATISTICS, Cell
from sdpa import LAWS, PairLaw, Scaling
from sdpa.theory import UnknownError, two_key_quantile

NORMS = ("jacobian_norm", "query_gradient_norm")


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize(("divisor", "query_std", "key_std"), [(1.0, 1.0, 1.0), (1.4, 3.0, 0.5), (0.02, 2.0, 1.0)])
def test_two_entries_have_exponential_differences(share, divisor, query_std, key_std):
    """For d_k = 2, q . k of standard normal entries has the density e^-|s| / 2; key differences are sqrt(2) larger."""
    difference = -math.log(share) * math.sqrt(2) * query_std * key_std / divisor
    expected = 2 * special.expit(difference) * special.expit(-difference)
    found = two_key_quantile(NORMS[0], share, 2, divisor, PairLaw(query_std=query_std, key_std=key_std))
    assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("d_k", [1, 3, 40])
def test_gradient_norms_agree_with_a_sum_over_lengths_and_angles(share, d_k):
    """The share of norms below the quantile, over midpoints of 2,000 quantiles each of R and of D given R.

    The midpoint rule errs by less than a row of cells, 1/2,000.
    """
    c, levels = math.sqrt(d_k), (np.arange(2000) + 0.5) / 2000
    apart = np.sqrt(2 * special.chdtri(d_k, levels))[:, None]
    scores = apart * special.ndtri(levels) / c
    norms = math.sqrt(2) * apart / c * special.expit(scores) * special.expit(-scores)
    assert (norms < two_key_quantile(NORMS[1], share, d_k, c)).mean() == pytest.approx(share, abs=1 / 2000)


def test_unknown_laws_raise():
    for law in (PairLaw(LAWS["uniform"]), PairLaw(query_mean=1.0), PairLaw(correlation=0.5)):
        with pytest.raises(UnknownError, match="independent Gaussian"):
            two_key_quantile(NORMS[0], 0.5, 4, 2.0, law)


@pytest.mark.parametrize("d_k", [1, 5, 64])
def test_measured_quantiles_agree_with_the_exact_ones(d_k):
    """Within twice the 95% interval, which chance leaves in 9 of 100,000 cases; 54 cases in all."""
    rules = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2", "d_k^1")))
    cell = Cell(d_k=d_k, n_keys=2, n_queries=1, key_mean=3.0, query_std=1.5, scaling=rules)
    measured = STATISTICS.measure(cell, 20_000, np.random.default_rng(d_k))
    for metric in METRICS:
        if metric.kind == "quantile":
            norm = metric.name.rsplit("_", 1)[0]
            for rule, divisor in zip(rules, cell.divisors(), strict=True):
                found = STATISTICS.quantile(cell, measured, str(rule), metric)
                exact = two_key_quantile(norm, metric.share, d_k, divisor, cell.law)
                assert 2 * found.low - found.value < exact < 2 * found.high - found.value
