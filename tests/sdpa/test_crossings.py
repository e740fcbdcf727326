"""Medians, quantiles and root mean squares of gradient norms: their crossings on drawn rows, and
rows of two keys.
"""

import math

import numpy as np
import pytest
from scipy import special

from experiments.kinds.saturation import METRICS, STATISTICS, Cell
from sdpa import PairLaw, Scaling, row_diagnostics
from sdpa.theory import UnknownError, attention_expectations, attention_quantiles, limits
from sdpa.theory.norm_quantiles import jacobian_median


def largest_norms(z, sigma, n_keys):
    """|J|_F of rows whose largest of n_keys standard scores are z, with the sums over the others at
    their means.
    """
    first, least = z[:, 0], z[:, -1]
    sums = []
    for p in (1, 2, 3):
        shares = special.log_ndtr(least - p * sigma) - special.log_ndtr(least)
        others = np.exp(shares + (p * sigma) ** 2 / 2 - p * sigma * first)
        drawn = np.exp(p * sigma[:, None] * (z[:, 1:] - first[:, None])).sum(axis=-1)
        sums.append(drawn + (n_keys - z.shape[1]) * others)
    w = 1 / (1 + sums[0])
    r, u2, u3 = (total * w**p for p, total in enumerate(sums, 1))
    return np.sqrt(u2 + w**2 * (r**2 + 2 * u2) - 2 * u3 + u2**2)


@pytest.mark.slow
@pytest.mark.parametrize(("n_keys", "few"), [(12, 12), (4096, 6), (2**20, 6)])
def test_medians_of_jacobians_cross_within_1_percent(n_keys, few):
    """Of 1,500,000 rows with exact draws of their largest scores: 4 standard errors of the crossing
    or more.
    """
    rng = np.random.default_rng(1)
    count = 1_500_000
    shares = np.log(rng.random((count, few))) / (n_keys - np.arange(few))
    z = -special.ndtri(-np.expm1(np.cumsum(shares, axis=1)))
    crossing = limits.jacobian_crossing(n_keys)

    def log_ratio(d_k):
        length = np.sqrt(2 * rng.standard_gamma(d_k / 2, count))
        unscaled = np.median(largest_norms(z, length, n_keys))
        scaled = np.median(largest_norms(z, length / d_k**0.5, n_keys))
        return math.log(unscaled / scaled)

    slope = (log_ratio(1.2 * crossing) - log_ratio(crossing / 1.2)) / (2 * math.log(1.2))
    assert abs(log_ratio(crossing) / slope) < 0.01


def ratio(metric, d_k, n_keys):
    """An exact root mean square, unscaled over scaled."""
    unscaled = attention_expectations(d_k, n_keys, 1.0)
    scaled = attention_expectations(d_k, n_keys, d_k**0.5)
    return getattr(unscaled, metric) / getattr(scaled, metric)


@pytest.mark.parametrize(("n_keys", "d_k"), [(16, 19.9), (64, 429), (256, 8540), (1024, 170_000)])
def test_root_mean_squares_of_the_jacobian_cross_where_docs_results_says(n_keys, d_k):
    low = ratio("jacobian_norm", d_k / 1.01, n_keys)
    assert low > 1 > ratio("jacobian_norm", d_k * 1.01, n_keys)


@pytest.mark.parametrize("n_keys", [2, 65_536])
def test_root_mean_squares_of_the_query_gradient_never_cross(n_keys):
    found = [ratio("query_gradient_norm", 2.0**k, n_keys) for k in (1, 4, 8, 20, 24)]
    assert min(found) > 1
    # Frozen rows have E |J|_F^2 ~ d_k^-1/2, and unscaled keys another factor d_k.
    assert found[-1] / found[-2] == pytest.approx(2.0, rel=0.01)
    jacobian = [ratio("jacobian_norm", 2.0**k, n_keys) for k in (20, 24)]
    assert jacobian[1] / jacobian[0] == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(("n_keys", "power"), [(64, 0.41), (65_536, 0.82)])
def test_the_query_gradient_has_another_power_of_d_k_before_the_limit(n_keys, power):
    """results/README.md: the local power of its ratio from d_k = 16 to 64, and 1/4 in the limit."""
    first, last = (ratio("query_gradient_norm", d_k, n_keys) for d_k in (16, 64))
    assert math.log(last / first, 4) == pytest.approx(power, abs=0.005)


@pytest.mark.parametrize(("n_keys", "falls"), [(64, -0.02), (4096, 0.195)])
def test_the_largest_weight_is_level_under_the_root_in_short_rows_only(n_keys, falls):
    """results/README.md: from d_k = 4 to 512."""
    first, last = (attention_expectations(d_k, n_keys, d_k**0.5).max_weight for d_k in (4, 512))
    assert 1 - last / first == pytest.approx(falls, abs=0.001)


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


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("d_k", "divisor"), [(8, 2.8), (64, 1.0), (64, 8.0), (512, 1.0)])
def test_quantiles_of_two_keys_are_those_of_their_gap(d_k, divisor, share):
    """0.1 of a percent of the norm, in shares of rows."""
    law = PairLaw(query_std=1.5, key_mean=3.0)
    cell = Cell(d_k=d_k, n_keys=2, query_std=1.5, key_mean=3.0, scaling=())
    found = attention_quantiles(d_k, 2, divisor, law, share=share)
    for norm, error in zip(NORMS, (1e-3, 3e-3), strict=True):
        value = getattr(found, norm)
        low, high = (share_below(norm, cell, divisor, value * (1 + e)) for e in (-error, error))
        assert low - 2e-4 < share < high + 2e-4, norm


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0, 12.0])
def test_medians_of_three_keys_are_those_of_the_plane_of_differences(sigma):
    """Three scores less their mean have a uniform angle and a radius with a Rayleigh law."""
    angle = 2 * np.pi * (np.arange(400) + 0.5)[:, None, None] / 400
    radius = sigma * np.sqrt(-2 * np.log((np.arange(2000) + 0.5) / 2000))[:, None]
    corners = 2 * np.pi * np.arange(3) / 3
    norms = row_diagnostics(radius * np.sqrt(2 / 3) * np.cos(angle - corners), [1.0]).jacobian_norm
    assert jacobian_median(sigma, 3) == pytest.approx(np.median(norms), rel=1e-3)


@pytest.mark.parametrize(
    ("d_k", "n_keys", "divisor", "shortest", "rows"),
    [
        (8, 12, 1.0, None, 40_000),
        (16, 64, 4.0, None, 40_000),
        (64, 16, 1.0, 1, 40_000),
        (16, 2000, 1.0, None, 4000),
        pytest.param(16, 300, 2.0, None, 300_000, marks=pytest.mark.slow),
    ],
)
def test_medians_halve_simulated_rows(d_k, n_keys, divisor, shortest, rows):
    """Within 4.5 standard errors of the share, of 1 in 150,000 honest medians, beside the stated
    error."""
    rng = np.random.default_rng(d_k + n_keys)
    batch = max(1, 2**21 // (n_keys * d_k))
    found = attention_quantiles(d_k, n_keys, divisor, shortest=shortest)
    below = np.zeros((2, 2))  # norms, and the ends of the stated errors
    for first in range(0, rows, batch):
        count = min(batch, rows - first)
        q = rng.standard_normal((count, 1, d_k)) / divisor
        k = rng.standard_normal((count, n_keys, d_k))
        scores = q @ k.swapaxes(-1, -2)
        if shortest:
            seen = rng.integers(shortest, n_keys + 1, (count, 1, 1))
            scores[np.arange(n_keys) >= np.broadcast_to(seen, scores.shape)] = -np.inf
        norms = row_diagnostics(scores, [1.0], k)
        for i, (norm, error) in enumerate(zip(NORMS, (1e-3, 3e-3), strict=True)):
            per = divisor if i else 1.0
            for j, end in enumerate((1 - error, 1 + error)):
                below[i, j] += (getattr(norms, norm) / per < end * getattr(found, norm)).sum()
    reach = 4.5 * 0.5 / math.sqrt(rows)
    assert (below[:, 0] / rows < 0.5 + reach).all()
    assert (below[:, 1] / rows > 0.5 - reach).all()


def test_quantiles_are_unknown_where_rows_are():
    with pytest.raises(UnknownError, match="correlate"):
        attention_quantiles(16, 8, 4.0, PairLaw(correlation=0.5))
    assert math.isnan(attention_quantiles(4, 8, 2.0).query_gradient_norm)
    assert attention_quantiles(64, 4, 1e-4).jacobian_norm == 0.0
    assert attention_quantiles(16, 2, 4.0, shortest=1) == (0.0, 0.0)
