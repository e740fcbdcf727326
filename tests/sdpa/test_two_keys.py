"""Measured quantiles of the gradient norms of rows of two keys, against their exact distribution."""

import math

import numpy as np
import pytest
from scipy import special

from experiments.saturation import METRICS, STATISTICS, Cell
from sdpa import Scaling


def share_below(norm, cell, divisor, value):
    """The share of rows whose norm is below a value, over 4,000 quantiles of R = |k_1 - k_2|; errs below 1e-3.

    With y = w_1 w_2, |J|_F = 2 y and |dL/dq| = sqrt(2) y R / c. R is sqrt(2) key_std times the root of a chi-squared
    number; given R, the difference D of the scores is normal of the deviation query_std R / c, and y falls with
    |D| as 1 / (4 cosh^2(D / 2)).
    """
    levels = (np.arange(4000) + 0.5) / 4000
    apart = math.sqrt(2) * cell.key_std * np.sqrt(2 * special.gammaincinv(cell.d_k / 2, levels))
    y = value / (2 if norm == "jacobian_norm" else math.sqrt(2) * apart / divisor)
    difference = 2 * np.arccosh(np.maximum(0.5 / np.sqrt(y), 1.0))
    return float((2 * special.ndtr(-difference * divisor / (cell.query_std * apart))).mean())


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
                ends = 2 * found.low - found.value, 2 * found.high - found.value
                low, high = (share_below(norm, cell, divisor, max(end, 1e-300)) for end in ends)
                assert low - 1e-3 < metric.share < high + 1e-3, (metric.name, rule)


def test_two_entries_have_exponential_differences():
    """For d_k = 2, q . k of standard normal entries has the density e^-|s| / 2; key differences are sqrt(2) larger."""
    for share in (0.1, 0.5, 0.9):
        difference = -math.log(share) * math.sqrt(2) * 3.0 * 0.5 / 1.4
        value = 2 * special.expit(difference) * special.expit(-difference)
        cell = Cell(d_k=2, n_keys=2, query_std=3.0, key_std=0.5, scaling=(Scaling.parse("unscaled"),))
        assert share_below("jacobian_norm", cell, 1.4, value) == pytest.approx(share, abs=1e-3)
