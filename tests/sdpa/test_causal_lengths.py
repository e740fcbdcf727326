"""Rows of every length, as a causal mask makes them: sums over all lengths, and draws under a mask."""

import math

import numpy as np
import pytest
from scipy import special
from test_pair_laws import squares_of

from sdpa.pairs import PairLaw
from sdpa.theory import attention_deviations, attention_expectations, least_draw_deviations
from sdpa.theory.attention import row_means
from sdpa.theory.lengths import length_weights, mean_over_lengths


@pytest.mark.parametrize(("shortest", "n_keys"), [(1, 3), (5, 5), (9, 18), (40, 56)])
def test_expectations_are_means_over_the_lengths(shortest, n_keys):
    masked = squares_of(attention_expectations(64, n_keys, 6.0, shortest=shortest))
    rows = [
        squares_of(attention_expectations(64, n, 6.0))
        if n > 1
        else dict.fromkeys(masked, 0.0) | {"max_weight": 1.0, "saturated_rows": 1.0, "collision": 1.0}
        for n in range(shortest, n_keys + 1)
    ]
    for name, value in masked.items():
        assert value == pytest.approx(np.mean([row[name] for row in rows]), rel=1e-7, abs=1e-10), name


@pytest.mark.parametrize("n_keys", [64, 255, 256, 257, 1000, 4096, 70_000])
@pytest.mark.parametrize("shortest", [1, 3, 16, 60])
def test_weights_of_few_lengths_sum_smooth_functions_of_all(shortest, n_keys):
    weights, lengths = length_weights(shortest, n_keys), np.arange(shortest, n_keys + 1)
    assert len(weights) < 70
    assert min(weights) == shortest or shortest > 16
    for function in (np.log, lambda n: 1 / n, lambda n: n**-0.5, lambda n: np.exp(-(np.log(n) ** 2) / 20)):
        got = sum(weight * float(function(np.float64(n))) for n, weight in weights.items())
        assert got == pytest.approx(function(lengths.astype(float)).mean(), rel=1e-7)


@pytest.mark.parametrize(("d_k", "divisor"), [(64, 6.0)])
def test_interpolation_between_lengths_has_converged(d_k, divisor):
    """The mean over 200 to 263, from the ends of two pieces, against every fourth length by Simpson's rule."""
    got = mean_over_lengths(lambda n: row_means(d_k, n, divisor, PairLaw()), np.ones(9), 263, 200)[:8]
    lengths = np.linspace(199.5, 263.5, 9)  # the sum over 64 whole numbers is that integral, but for f'' / 24
    values = np.array([row_means(d_k, n, divisor, PairLaw())[:8] for n in lengths])
    simpson = np.array([1, 4, 2, 4, 2, 4, 2, 4, 1]) / 24
    np.testing.assert_allclose(got, simpson @ values, rtol=3e-6, atol=1e-10)


def masked_draws(rng, draws, n_keys, shortest, d_k, divisor):
    """Metrics of every row of draws in which query i sees the keys up to its own, (draws, queries)."""
    q, k = rng.standard_normal((draws, n_keys - shortest + 1, d_k)), rng.standard_normal((draws, n_keys, d_k))
    s = np.einsum("tid,tjd->tij", q, k) / divisor
    hidden = np.arange(n_keys) > np.arange(shortest - 1, n_keys)[:, None]
    w = np.exp(np.where(hidden, -np.inf, s))
    w /= w.sum(axis=-1, keepdims=True)
    means = np.einsum("tij,tjd->tid", w, k)
    distances = ((k[:, None] - means[:, :, None]) ** 2).sum(axis=-1)
    s2, s3 = (w**2).sum(axis=-1), (w**3).sum(axis=-1)
    square = s2 - 2 * s3 + s2**2
    return {
        "max_weight": w.max(axis=-1),
        "entropy": special.entr(w).sum(axis=-1),
        "jacobian_trace": 1 - s2,
        "jacobian_square": square,
        "query_gradient_square": (w**2 * distances).sum(axis=-1) / divisor**2,
        "saturated_rows": (w.max(axis=-1) > 0.99) * 1.0,
        "collision": s2,
        "key_gradient_square": square * (q**2).sum(axis=-1) / divisor**2,
        "row_variance": np.array([s[:, i, : shortest + i].var(axis=-1) for i in range(s.shape[1])]).T,
    }


@pytest.mark.parametrize(("shortest", "n_keys", "d_k", "divisor"), [(1, 5, 8, 1.0), (3, 8, 16, 4.0)])
def test_draws_under_a_mask_agree(shortest, n_keys, d_k, divisor):
    """4,000 draws at a fixed seed: within 5 standard errors, and between the limits of deviations."""
    found = masked_draws(np.random.default_rng(23), 4000, n_keys, shortest, d_k, divisor)
    exact = squares_of(attention_expectations(d_k, n_keys, divisor, shortest=shortest))
    largest = attention_deviations(d_k, n_keys, divisor, shortest=shortest)
    least = least_draw_deviations(d_k, n_keys, n_keys - shortest + 1, divisor, shortest=shortest)
    for name, rows in found.items():
        means = rows.mean(axis=1)
        assert abs(means.mean() - exact[name]) <= 5 * means.std() / math.sqrt(len(means)) + 1e-4, name
        if name in least.__dataclass_fields__ and means.std() > 0.01:
            error = ((means - means.mean()) ** 2).std() / math.sqrt(len(means)) / (2 * means.std())
            assert getattr(least, name) <= means.std() + 5 * error, name
            assert means.std() <= getattr(largest, name) + 5 * error, name
            assert getattr(least, name) > 0.05 * means.std(), name


def test_one_length_has_the_deviation_of_a_row():
    one, row = attention_deviations(8, 9, 2.0, shortest=9), attention_deviations(8, 9, 2.0)
    assert one == row


def test_a_row_of_one_key_has_no_spread():
    assert attention_deviations(4, 2, 1.0, shortest=1).entropy == pytest.approx(
        attention_deviations(4, 2, 1.0).entropy / math.sqrt(2)
    )


@pytest.mark.parametrize(("n_keys", "shortest"), [(4, 0), (4, 5), (4.5, 2), (1, 2)])
def test_impossible_lengths_are_refused(n_keys, shortest):
    with pytest.raises(ValueError, match="expected whole numbers with shortest from 1 to n_keys"):
        attention_expectations(4, n_keys, 1.0, shortest=shortest)


def test_rare_saturation_is_never_negative():
    """From 193 to 256 keys under d_k^1/2, fewer than one row in 10^9 saturates; interpolation rings around 0."""
    assert 0 <= attention_expectations(64, 256, 8.0, shortest=193).saturated_rows < 1e-9
