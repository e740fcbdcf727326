"""Intervals, standard errors and quantiles against hand-solved cases, the binomial law and the
jackknife.
"""

import math

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

from experiments.kinds.saturation.cell import KERNEL, Cell
from experiments.measuring.experiment import MEASURED
from experiments.measuring.intervals import Limits, mean_interval, share_interval
from experiments.measuring.moments import Moments, ScoreMoments
from experiments.measuring.quantiles import MAX_BINS, Histograms
from experiments.measuring.row_metrics import METRICS
from experiments.running.work import merged
from tests.plain_rows import RULES


def close(expected):
    return pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("spread", [1e-7, 30.0])
def test_the_median_of_many_values_is_found_well_within_its_error(spread):
    """However narrow or wide the values spread; the plain error of a median is sqrt(pi / 2) spread
    / sqrt(values).
    """
    values = 0.3 * np.exp(spread * default_rng(3).normal(size=(1, 4000, 32)))
    histograms = merged(map(Histograms.of, np.split(values, 4, axis=1)))
    median = histograms.quantile(0, 0.5)
    expected = np.sqrt(np.pi / 2) * spread / np.sqrt(4000 * 32)
    error = np.log(median.high / median.low) / (2 * 1.96)
    assert error == pytest.approx(expected, rel=0.1)
    assert abs(np.log(median.value / np.median(values))) < 0.05 * expected
    assert median.inside
    assert len(histograms.series[0].keys) <= MAX_BINS


def test_standard_errors_are_the_jackknife_over_draws():
    """Estimates with every draw left out once: their spread times sqrt(draws - 1) is the standard
    error.
    """
    cell = Cell(d_k=4, n_keys=8, n_queries=6, scaling=RULES)
    rng = default_rng(5)
    draws = [KERNEL.measure(cell, 1, rng) for _ in range(40)]

    def rows_of(draws):
        return list(KERNEL.tabulate(cell, merged(draws))[MEASURED])

    left_out = [rows_of(draws[:i] + draws[i + 1 :]) for i in range(40)]
    # The jackknife is not consistent for quantiles.
    names = [metric.name for metric in METRICS if metric.kind != "quantile"]
    for i, row in enumerate(rows_of(draws)):
        for name in names:
            spread = np.std([rows[i][name] for rows in left_out]) * np.sqrt(39)
            assert row[f"{name}_se"] == pytest.approx(spread, rel=0.08, abs=1e-12), name


def test_the_variance_of_scores_of_one_size_is_rarely_far_off():
    """Each of 20 trials has one score of +-1, of variance 1: by the binomial law of positive ones,
    Student's t of the error finds a difference with p < 1e-3 in fewer than 1 of 1,000 cases.
    """
    chance, trials = 0.0, 20
    for positive in range(1, trials):
        signs = np.where(np.arange(trials) < positive, 1.0, -1.0)
        moments = Moments.of(np.stack([signs**power for power in (1, 2, 3, 4)]))
        value, error = ScoreMoments.of(moments).variance.with_error(moments)
        far = abs(value - 1) > stats.t.isf(5e-4, trials - 1) * error
        chance += stats.binom.pmf(positive, trials, 0.5) * far
    assert chance < 1e-3


@pytest.mark.parametrize("share, value", [(0.1, 5), (0.5, 23), (0.9, 41)])
def test_the_interval_of_a_quantile_is_that_of_the_trials_shares_below_it(share, value):
    """From the counts of each trial, of which there are few, so that n - 1 is not n."""
    values = default_rng(7).lognormal(size=(1, 5, 9))
    histograms = Histograms.of(values)
    edge = np.sort(values.ravel())[value - 1]
    # A share of 45 values that lies midway through one: between the shares below that value and up
    # to it.
    below, up_to = ((values[0] < x).mean(axis=1) for x in (edge, np.nextafter(edge, np.inf)))
    error = np.sqrt((below.var(ddof=1) + up_to.var(ddof=1)) / 2 / 5)
    low, high = share_interval(share, error, 5, 9)
    actual = histograms.quantile(0, share)
    assert actual.low == close(histograms.series[0].quantile(45 * low))
    assert actual.high == close(histograms.series[0].quantile(45 * high))
    assert actual.inside == (low * 45 >= 1 and high * 45 <= 44)


@pytest.mark.parametrize("value, limits", [(0.8, Limits(0, 1)), (0.2, Limits(0))])
def test_near_a_limit_the_interval_is_one_of_the_logarithm_of_the_distance(value, limits):
    """And that of Student without one."""
    half = stats.t.ppf(0.975, 49) * 0.05
    assert mean_interval(value, 0.05, 50, Limits()) == close((value - half, value + half))
    ends = np.array(mean_interval(value, 0.05, 50, limits))
    near, far = ends if value < 0.5 else 1 - ends[::-1]
    factor = math.exp(half / 0.2)
    assert (near, far) == close((0.2 / factor, 0.2 * factor))


def test_an_interval_stays_within_the_limits():
    assert mean_interval(0.4, 0.39, 2, Limits(0, 1))[1] == 1
    assert mean_interval(0.6, 0.39, 2, Limits(0, 1))[0] == 0
    assert mean_interval(5e-17, 1.1e-16, 20, Limits(0))[0] > 0
    assert math.isfinite(mean_interval(1e-300, 1.0, 2, Limits(0))[1])


@pytest.mark.parametrize("count", [1, 17])
def test_a_share_of_one_row_per_trial_is_clopper_and_pearson_of_fewer_draws(count):
    """The law that it inverts: at the ends the binomial tails of the reduced number of draws are
    2.5%.
    """
    share = count / 40
    low, high = share_interval(share, math.sqrt(share * (1 - share) / 39), 40, 1)
    draws = 39 * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 39)) ** 2
    x = share * draws
    assert low == close(stats.beta.ppf(0.025, x, draws - x + 1))
    assert high == close(stats.beta.ppf(0.975, x + 1, draws - x))


def test_a_share_of_all_rows_rests_on_the_trials_alone():
    """0.025 = share^trials, whatever the number of rows."""
    assert share_interval(1.0, 0.0, 30, 64) == close((0.025 ** (1 / 30), 1))
    # Equal shares of trials have an error of rounding alone.
    assert share_interval(0.1, 1e-19, 30, 64) == share_interval(0.1, 0.0, 30, 64)
