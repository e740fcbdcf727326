"""Medians and quantiles of gradient norms, on drawn rows and on rows of two keys."""

import math

import numpy as np
import pytest
from scipy import special

from experiments.kinds.saturation import METRICS, STATISTICS, Cell
from sdpa import PairLaw, Scaling, row_diagnostics
from sdpa.theory import UnknownError, attention_quantiles


def share_below(metric, cell, divisor, value):
    """The share of rows whose norm is below a value, over 4,000 quantiles of R = |k_1 - k_2|; errs
    below 1e-3.

    With y = w_1 w_2, |J|_F = 2 y and |dL/dq| = sqrt(2) y R / c. R is sqrt(2) key_std times the root
    of a chi-squared number; given R, the difference D of the scores is normal of the deviation
    query_std R / c, and y falls with
    |D| as 1 / (4 cosh^2(D / 2)).
    """
    levels = (np.arange(4000) + 0.5) / 4000
    apart = 2 * cell.key_std * np.sqrt(special.gammaincinv(cell.d_k / 2, levels))
    of_y = 2 if metric.startswith("jacobian") else math.sqrt(2) * apart / divisor
    y = max(value, 1e-300) / of_y
    difference = 2 * np.arccosh(np.maximum(0.5 / np.sqrt(y), 1.0))
    deviation = cell.query_std * apart / divisor
    return 2 * special.ndtr(-difference / deviation).mean()


@pytest.mark.parametrize("d_k", [1, 64])
@pytest.mark.parametrize(
    "metric", [one for one in METRICS if one.kind == "quantile"], ids=lambda one: one.name
)
def test_measured_quantiles_agree_with_the_exact_ones(metric, d_k):
    """Within twice the 95% interval, which chance leaves in 9 of 100,000 cases."""
    rules = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2", "d_k^1")))
    cell = Cell(d_k=d_k, n_keys=2, n_queries=1, key_mean=3.0, query_std=1.5, scaling=rules)
    measured = STATISTICS.measure(cell, 10_000, np.random.default_rng(d_k))
    for rule, divisor in zip(rules, cell.divisors(), strict=True):
        found = STATISTICS.quantile(cell, measured, str(rule), metric)
        low = share_below(metric.name, cell, divisor, 2 * found.low - found.value)
        high = share_below(metric.name, cell, divisor, 2 * found.high - found.value)
        assert low - 1e-3 < metric.share < high + 1e-3, rule


NORMS = ("jacobian_norm", "query_gradient_norm")


@pytest.mark.parametrize(
    ("d_k", "divisor", "share"), [(8, 2.8, 0.1), (64, 8.0, 0.5), (64, 1.0, 0.9), (512, 1.0, 0.5)]
)
def test_quantiles_of_two_keys_are_those_of_their_gap(d_k, divisor, share):
    """0.1 of a percent of the norm, in shares of rows."""
    law = PairLaw(query_std=1.5, key_mean=3.0)
    cell = Cell(d_k=d_k, n_keys=2, query_std=1.5, key_mean=3.0, scaling=())
    found = attention_quantiles(d_k, 2, divisor, law, share=share)
    for norm, error in zip(NORMS, (1e-3, 3e-3), strict=True):
        value = getattr(found, norm)
        low, high = (share_below(norm, cell, divisor, value * (1 + e)) for e in (-error, error))
        assert low - 2e-4 < share < high + 2e-4, norm


@pytest.mark.parametrize(
    ("d_k", "n_keys", "divisor", "shortest"),
    [(8, 12, 1.0, None), (16, 64, 4.0, None), (64, 16, 1.0, 1)],
)
def test_medians_halve_simulated_rows(d_k, n_keys, divisor, shortest):
    """Within 4.5 standard errors of the share, of 1 in 150,000 honest medians, beside the stated
    error."""
    rows = 40_000
    rng = np.random.default_rng(d_k + n_keys)
    found = attention_quantiles(d_k, n_keys, divisor, shortest=shortest)
    q = rng.standard_normal((rows, 1, d_k)) / divisor
    k = rng.standard_normal((rows, n_keys, d_k))
    scores = q @ k.swapaxes(-1, -2)
    if shortest:
        seen = rng.integers(shortest, n_keys + 1, (rows, 1, 1))
        scores[np.arange(n_keys) >= np.broadcast_to(seen, scores.shape)] = -np.inf
    drawn = row_diagnostics(scores, [1.0], k)
    reach = 4.5 * 0.5 / math.sqrt(rows)
    for norm, error, per in zip(NORMS, (1e-3, 3e-3), (1.0, divisor), strict=True):
        ratio_to_median = getattr(drawn, norm) / per / getattr(found, norm)
        assert (ratio_to_median < 1 - error).mean() < 0.5 + reach, norm
        assert (ratio_to_median < 1 + error).mean() > 0.5 - reach, norm


def test_quantiles_are_unknown_where_rows_are():
    with pytest.raises(UnknownError, match="correlate"):
        attention_quantiles(16, 8, 4.0, PairLaw(correlation=0.5))
    assert math.isnan(attention_quantiles(4, 8, 2.0).query_gradient_norm)
    assert attention_quantiles(64, 4, 1e-4).jacobian_norm == 0.0
    assert attention_quantiles(16, 2, 4.0, shortest=1) == (0.0, 0.0)
