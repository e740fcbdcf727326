"""Medians, quantiles and root mean squares of gradient norms: their crossings on drawn rows, and
rows of two keys.
"""

from math import log, sqrt

import numpy as np
import pytest
from scipy.special import expit, gammaincinv, log_ndtr, ndtr, ndtri

from experiments.kinds.saturation import METRICS, STATISTICS, Cell
from sdpa import Scaling, softmax
from sdpa.theory import attention_expectations, limits


def medians(d_k, n_keys, rows, batch=100):
    """Medians of |J|_F and |dL/dq|, unscaled over scaled, of rows drawn at random."""
    rng, norms = np.random.default_rng(11), {0.0: [], 0.5: []}
    for _ in range(rows // batch):
        q, k = (rng.standard_normal((batch, *shape)) for shape in ((1, d_k), (n_keys, d_k)))
        for p, found in norms.items():
            w = softmax((q @ k.swapaxes(-1, -2))[:, 0] / d_k**p)
            first = w.argmax(axis=-1, keepdims=True)
            others = np.where(np.arange(n_keys) == first, 0, w)
            r, u2, u3 = ((others**power).sum(axis=-1) for power in (1, 2, 3))
            square = u2 + (1 - r) ** 2 * r**2 + 2 * (1 - r) ** 2 * u2 - 2 * u3 + u2**2
            relative = k - np.take_along_axis(k, first[..., None], axis=-2)
            gradient = (
                np.linalg.norm(w[..., None] * (relative - w[:, None] @ relative), axis=(-1, -2))
                / d_k**p
            )
            found.append(np.stack([np.sqrt(square), gradient], axis=-1))
    unscaled, scaled = (np.median(np.concatenate(found), axis=0) for found in norms.values())
    return unscaled / scaled


@pytest.mark.parametrize("n_keys", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_the_medians_cross_where_stated(n_keys):
    """At a d_k lower and higher by a factor the medians of 4,000 rows are on either side: by 5 or
    more standard errors of ln(ratio), as measured over six seeds (false alarm 1e-5 in all if it
    were reseeded)."""
    crossings = (
        (limits.jacobian_crossing(n_keys), 0, 1.3),
        (limits.query_gradient_crossing(n_keys), 1, 1.4),
    )
    for crossing, which, factor in crossings:
        low, high = (
            medians(round(d_k), n_keys, 4000)[which]
            for d_k in (crossing / factor, crossing * factor)
        )
        assert low > 1 > high, which


def largest_norms(z, sigma, n_keys):
    """|J|_F of rows whose largest of n_keys standard scores are z, with the sums over the others at
    their means.
    """
    few, least = z.shape[1], z[:, -1]

    def others(p):
        shares = log_ndtr(least - p * sigma) - log_ndtr(least)
        return (n_keys - few) * np.exp(shares + (p * sigma) ** 2 / 2 - p * sigma * z[:, 0])

    x = np.exp(sigma[:, None] * (z[:, 1:] - z[:, :1]))
    r, x2, x3 = ((x**p).sum(axis=-1) + others(p) for p in (1, 2, 3))
    r, u2, u3, first = r / (1 + r), x2 / (1 + r) ** 2, x3 / (1 + r) ** 3, 1 / (1 + r)
    return np.sqrt(u2 + first**2 * (r**2 + 2 * u2) - 2 * u3 + u2**2)


@pytest.mark.slow
@pytest.mark.parametrize(("n_keys", "few"), [(12, 12), (4096, 6), (2**20, 6)])
def test_medians_of_jacobians_cross_within_1_percent(n_keys, few):
    """Of 1,500,000 rows with exact draws of their largest scores: 4 standard errors of the crossing
    or more.
    """
    rng, count = np.random.default_rng(1), 1_500_000
    logs = np.cumsum(np.log(rng.random((count, few))) / (n_keys - np.arange(few)), axis=1)
    z, crossing = -ndtri(-np.expm1(logs)), limits.jacobian_crossing(n_keys)

    def log_ratio(d_k):
        length = np.sqrt(2 * rng.standard_gamma(d_k / 2, count))
        unscaled, scaled = (
            np.median(largest_norms(z, length / c, n_keys)) for c in (1.0, d_k**0.5)
        )
        return log(unscaled / scaled)

    slope = (log_ratio(1.2 * crossing) - log_ratio(crossing / 1.2)) / (2 * log(1.2))
    assert abs(log_ratio(crossing) / slope) < 0.01


def ratios(d_k, n_keys):
    """Exact root mean squares of |J|_F and |dL/dq|, unscaled over scaled."""
    unscaled, scaled = (attention_expectations(d_k, n_keys, divisor) for divisor in (1.0, d_k**0.5))
    return (
        unscaled.jacobian_norm / scaled.jacobian_norm,
        unscaled.query_gradient_norm / scaled.query_gradient_norm,
    )


@pytest.mark.parametrize(("n_keys", "d_k"), [(16, 19.9), (64, 429), (256, 8540), (1024, 170_000)])
def test_root_mean_squares_of_the_jacobian_cross_where_docs_results_says(n_keys, d_k):
    assert ratios(d_k / 1.01, n_keys)[0] > 1 > ratios(d_k * 1.01, n_keys)[0]


@pytest.mark.parametrize("n_keys", [2, 65_536])
def test_root_mean_squares_of_the_query_gradient_never_cross(n_keys):
    found = np.array([ratios(2.0**k, n_keys) for k in (1, 4, 8, 20, 24)])
    assert (found[:, 1] > 1).all()
    # Frozen rows have E |J|_F^2 ~ d_k^-1/2, and unscaled keys another factor d_k.
    np.testing.assert_allclose(found[-1] / found[-2], [0.5, 2.0], rtol=0.01)


@pytest.mark.parametrize(("n_keys", "power"), [(64, 0.41), (65_536, 0.82)])
def test_the_query_gradient_has_another_power_of_d_k_before_the_limit(n_keys, power):
    """docs/results.md: the local power of its ratio from d_k = 16 to 64, and 1/4 in the limit."""
    first, last = (ratios(d_k, n_keys)[1] for d_k in (16, 64))
    assert log(last / first, 4) == pytest.approx(power, abs=0.005)


@pytest.mark.parametrize(("n_keys", "falls"), [(64, -0.02), (4096, 0.195)])
def test_the_largest_weight_is_level_under_the_root_in_short_rows_only(n_keys, falls):
    """docs/results.md: from d_k = 4 to 512."""
    first, last = (attention_expectations(d_k, n_keys, d_k**0.5).max_weight for d_k in (4, 512))
    assert 1 - last / first == pytest.approx(falls, abs=0.001)


def share_below(norm, cell, divisor, value):
    """The share of rows whose norm is below a value, over 4,000 quantiles of R = |k_1 - k_2|; errs
    below 1e-3.

    With y = w_1 w_2, |J|_F = 2 y and |dL/dq| = sqrt(2) y R / c. R is sqrt(2) key_std times the root
    of a chi-squared number; given R, the difference D of the scores is normal of the deviation
    query_std R / c, and y falls with |D| as 1 / (4 cosh^2(D / 2)).
    """
    levels = (np.arange(4000) + 0.5) / 4000
    apart = sqrt(2) * cell.key_std * np.sqrt(2 * gammaincinv(cell.d_k / 2, levels))
    y = value / (2 if norm == "jacobian_norm" else sqrt(2) * apart / divisor)
    difference = 2 * np.arccosh(np.maximum(0.5 / np.sqrt(y), 1.0))
    return float((2 * ndtr(-difference * divisor / (cell.query_std * apart))).mean())


@pytest.mark.parametrize("d_k", [1, 5, 64])
def test_measured_quantiles_agree_with_the_exact_ones(d_k):
    """Within twice the 95% interval, which chance leaves in 9 of 100,000 cases; 54 cases in all."""
    rules = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2", "d_k^1")))
    cell = Cell(d_k=d_k, n_keys=2, n_queries=1, key_mean=3.0, query_std=1.5, scaling=rules)
    measured = STATISTICS.measure(cell, 10_000, np.random.default_rng(d_k))
    for metric in METRICS:
        if metric.kind == "quantile":
            norm = metric.name.rsplit("_", 1)[0]
            for rule, divisor in zip(rules, cell.divisors(), strict=True):
                found = STATISTICS.quantile(cell, measured, str(rule), metric)
                ends = 2 * found.low - found.value, 2 * found.high - found.value
                low, high = (share_below(norm, cell, divisor, max(end, 1e-300)) for end in ends)
                assert low - 1e-3 < metric.share < high + 1e-3, (metric.name, rule)


def test_two_entries_have_exponential_differences():
    """For d_k = 2, q . k of standard normal entries has the density e^-|s| / 2; key differences are
    sqrt(2) larger.
    """
    for share in (0.1, 0.5, 0.9):
        difference = -log(share) * sqrt(2) * 3.0 * 0.5 / 1.4
        value = 2 * expit(difference) * expit(-difference)
        cell = Cell(
            d_k=2, n_keys=2, query_std=3.0, key_std=0.5, scaling=(Scaling.parse("unscaled"),)
        )
        assert share_below("jacobian_norm", cell, 1.4, value) == pytest.approx(share, abs=1e-3)
