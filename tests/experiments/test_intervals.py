"""Intervals against hand-solved cases, the binomial law and simulated coverage; effective draws against Kish."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.statistics.intervals import Limits, effective_draws, mean_interval, share_interval

FREE = Limits()


def test_a_mean_without_limits_has_the_interval_of_student():
    half = stats.t.ppf(0.975, 9) * 0.3
    assert mean_interval(1.0, 0.3, 10, FREE) == pytest.approx((1 - half, 1 + half), rel=1e-12)


@pytest.mark.parametrize(("value", "limits"), [(0.2, Limits(0, 1)), (0.8, Limits(0, 1)), (0.2, Limits(0))])
def test_near_a_limit_the_interval_is_one_of_the_logarithm_of_the_distance(value, limits):
    low, high = mean_interval(value, 0.05, 50, limits)
    distance = [value, low, high] if value < 0.5 else [1 - value, 1 - high, 1 - low]
    step = stats.t.ppf(0.975, 49) * 0.05 / 0.2
    assert np.log(np.array(distance[1:]) / distance[0]) == pytest.approx([-step, step], rel=1e-12)


def test_an_interval_stays_within_the_limits():
    assert mean_interval(0.4, 0.39, 2, Limits(0, 1))[1] == 1
    assert mean_interval(0.6, 0.39, 2, Limits(0, 1))[0] == 0
    assert mean_interval(5e-17, 1.1e-16, 20, Limits(0))[0] > 0
    assert math.isfinite(mean_interval(1e-300, 1.0, 2, Limits(0))[1])


@pytest.mark.parametrize("count", [0, 1, 17, 40])
def test_a_share_of_one_row_per_trial_is_clopper_and_pearson_of_fewer_draws(count):
    """The law that it inverts: at the ends the binomial tails of the reduced number of draws are 2.5%."""
    share, trials = count / 40, 40
    error = math.sqrt(share * (1 - share) / (trials - 1))
    low, high = share_interval(share, error, trials, 1)
    reduced = trials * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 39)) ** 2 if 0 < count < 40 else trials
    draws = min(trials - 1, trials) / trials * reduced if 0 < count < 40 else reduced
    x = share * draws
    assert low == pytest.approx(stats.beta.ppf(0.025, x, draws - x + 1) if count else 0, rel=1e-9)
    assert high == pytest.approx(stats.beta.ppf(0.975, x + 1, draws - x) if count < 40 else 1, rel=1e-9)


def test_a_share_that_no_trial_departs_from_rests_on_the_trials_alone():
    """Whatever the number of rows: 0.025 = (1 - p)^trials."""
    for rows in (1, 64):
        assert share_interval(0.0, 0.0, 30, rows) == pytest.approx((0, 1 - 0.025 ** (1 / 30)), rel=1e-9)
        assert share_interval(1.0, 0.0, 30, rows) == pytest.approx((0.025 ** (1 / 30), 1), rel=1e-9)


@pytest.mark.parametrize("share", [0.003, 0.1, 0.6, 0.99])
@pytest.mark.parametrize("together", [1, 8])
def test_intervals_of_a_share_hold_it(share, together):
    """800 seeds of 60 trials of 8 rows, dependent or not; at 95% fewer than 740 have a probability of 0.0003."""
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(800):
        rows = np.repeat(rng.random((60, 8 // together)) < share, together, axis=1).mean(axis=1)
        low, high = share_interval(rows.mean(), rows.std(ddof=1) / math.sqrt(60), 60, 8)
        held += low <= share <= high
    assert held >= 740


def test_effective_draws_of_rare_events_are_their_number():
    events, trials = 9, 10_000
    share = events / trials
    error = math.sqrt(share * (1 - share) / trials)
    assert effective_draws(share, error, Limits(0, 1)) == pytest.approx(events / (1 - share), rel=1e-9)
    assert effective_draws(1 - share, error, Limits(0, 1)) == pytest.approx(events / (1 - share), rel=1e-9)


def test_effective_draws_of_a_heavy_mean_are_near_those_of_kish():
    x = np.exp(3 * np.random.default_rng(2).standard_normal(400))
    kish = x.sum() ** 2 / (x**2).sum()
    assert effective_draws(x.mean(), x.std() / 20, Limits(0)) == pytest.approx(kish / (1 - kish / 400), rel=1e-9)


def test_effective_draws_without_a_limit_or_without_spread():
    values, errors = np.array([0.5, 0.0, 0.5]), np.array([0.0, 0.0, 0.05])
    assert effective_draws(values, errors, Limits(0, 1)).tolist() == pytest.approx([math.inf, 0.0, 100.0])
    assert effective_draws(0.5, 0.1, FREE) == math.inf
