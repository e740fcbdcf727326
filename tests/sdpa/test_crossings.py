"""Quantiles and root mean squares of gradient norms: drawn rows, rows of two keys, and
where their ratios cross.
"""

import math

import numpy as np
import pytest
from scipy import special

from sdpa import PairLaw, row_diagnostics
from sdpa.theory import UnknownError, attention_expectations, attention_medians


def ratio(d_k, n_keys):
    """The exact r.m.s. of |dL/dq|, unscaled over scaled."""
    both = (attention_expectations(d_k, n_keys, divisor) for divisor in (1.0, d_k**0.5))
    unscaled, scaled = (means.query_gradient_norm for means in both)
    return unscaled / scaled


@pytest.mark.parametrize("n_keys", [64, 65_536])
def test_root_mean_squares_of_the_query_gradient_never_cross(n_keys):
    """Frozen rows have E |J|_F^2 ~ d_k^-1/2, and unscaled keys another factor d_k."""
    assert ratio(2, n_keys) > 1
    frozen = ratio(2.0**24, n_keys) / ratio(2.0**20, n_keys)
    assert math.log(frozen, 2**4) == pytest.approx(1 / 4, abs=0.005)


def share_below(metric, d_k, law, divisor, value):
    """The share of rows whose norm is below a value, over 4,000 quantiles of R = |k_1 - k_2|; errs
    below 1e-3.

    With y = w_1 w_2, |J|_F = 2 y and |dw/dq|_F = sqrt(2) y R / c. R is sqrt(2) key_std times the root
    of a chi-squared number; given R, the difference D of the scores is normal of the deviation
    query_std R / c, and y falls with
    |D| as 1 / (4 cosh^2(D / 2)).
    """
    levels = (np.arange(4000) + 0.5) / 4000
    apart = 2 * law.key_std * np.sqrt(special.gammaincinv(d_k / 2, levels))
    of_y = 2 if metric.startswith("jacobian") else math.sqrt(2) * apart / divisor
    y = max(value, 1e-300) / of_y
    difference = 2 * np.arccosh(np.maximum(0.5 / np.sqrt(y), 1.0))
    deviation = law.query_std * apart / divisor
    return 2 * special.ndtr(-difference / deviation).mean()


NORMS = ("jacobian_norm", "weight_jacobian_norm")


@pytest.mark.parametrize("d_k, divisor", [(8, 2.8), (64, 8.0), (64, 1.0), (512, 1.0)])
def test_medians_of_two_keys_are_those_of_their_gap(d_k, divisor):
    """0.1 of a percent of the norm, in shares of rows."""
    law = PairLaw(query_std=1.5, key_mean=3.0)
    actual = attention_medians(d_k, 2, divisor, law)
    for norm, error in zip(NORMS, (1e-3, 3e-3), strict=True):
        value = getattr(actual, norm)
        low, high = (share_below(norm, d_k, law, divisor, value * (1 + e)) for e in (-error, error))
        assert low - 2e-4 < 0.5 < high + 2e-4, norm


@pytest.mark.parametrize(
    "d_k, n_keys, divisor, shortest",
    [(8, 2, 1e5, None), (8, 12, 1.0, None), (16, 64, 4.0, None), (64, 16, 1.0, 1)],
)
def test_half_of_simulated_rows_are_below_a_median(d_k, n_keys, divisor, shortest):
    """Within 4.5 standard errors, of 1 in 150,000 honest medians, beside the stated error."""
    rows = 40_000
    rng = np.random.default_rng(d_k + n_keys)
    actual = attention_medians(d_k, n_keys, divisor, lengths=shortest)
    q, k = (rng.standard_normal((rows, count, d_k)) for count in (1, n_keys))
    scores = q @ k.mT
    if shortest:
        seen = rng.integers(shortest, n_keys + 1, (rows, 1, 1))
        scores[np.arange(n_keys) >= np.broadcast_to(seen, scores.shape)] = -np.inf
    drawn = row_diagnostics(scores, divisor, k, gradients=rng.standard_normal(scores.shape))
    reach = 4.5 * math.sqrt(0.25 / rows)
    for norm, error in zip(actual._fields, (1e-3, 3e-3, 1e-2), strict=True):
        ratio = getattr(drawn, norm) / getattr(actual, norm)
        assert (ratio < 1 - error).mean() < 0.5 + reach, norm
        assert (ratio < 1 + error).mean() > 0.5 - reach, norm


@pytest.mark.slow
def test_the_typical_gradient_of_long_rows_in_narrow_heads_is_that_of_drawn_rows():
    """Within 4.5 standard errors, beside the stated error; there z.J g counts most.

    Parts of keys across a query are independent of scores: of the length |J g| they add chi-squared.
    """
    d_k, n_keys, divisor, rows = 8, 4096, 2.0, 60_000
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(rows // 1000):
        z, g = rng.standard_normal((2, 1000, n_keys), dtype=np.float32)
        length = np.sqrt(rng.chisquare(d_k, (1000, 1))).astype(np.float32)
        weights = special.softmax(z * length / divisor, axis=-1)
        change = weights * (g - (weights * g).sum(axis=-1, keepdims=True))
        along = (change * z).sum(axis=-1)
        across = (change**2).sum(axis=-1) * rng.chisquare(d_k - 1, 1000)
        drawn.append(np.sqrt(along**2 + across) / divisor)
    ratio = np.array(drawn) / attention_medians(d_k, n_keys, divisor).query_gradient_norm
    reach = 4.5 * math.sqrt(0.25 / rows)
    assert (ratio < 0.99).mean() < 0.5 + reach
    assert (ratio < 1.01).mean() > 0.5 - reach


def test_quantiles_are_unknown_where_rows_are():
    with pytest.raises(UnknownError, match="correlate"):
        attention_medians(16, 8, 4.0, PairLaw(correlation=0.5))
    assert math.isnan(attention_medians(4, 8, 2.0).query_gradient_norm)
    assert attention_medians(64, 4, 1e-4).jacobian_norm == 0.0
    assert attention_medians(16, 2, 4.0, lengths=1) == (0.0, 0.0, 0.0)
    with pytest.raises(UnknownError, match="a causal one alone"):
        attention_medians(16, 8, 4.0, lengths=((2, 1), (3, 7)))
