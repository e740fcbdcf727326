"""Intervals, standard errors and quantiles against hand-solved cases, the binomial law and the
jackknife.
"""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.kinds.saturation import STATISTICS, Cell
from experiments.measuring.experiment import MEASURED
from experiments.measuring.intervals import Limits, effective_draws, mean_interval, share_interval
from experiments.measuring.moments import Estimate, Estimates, Moments, ScoreMoments
from experiments.measuring.quantiles import MAX_BINS, Histograms
from experiments.measuring.row_metrics import METRICS
from experiments.measuring.row_statistics import RowMeasurement
from sdpa import Scaling

SCALINGS = (Scaling.parse("unscaled"), Scaling.parse("d_k^1/2"))


@pytest.fixture
def samples():
    return np.random.default_rng(1).standard_normal((3, 41)) * [[1.0], [10.0], [0.1]] + 5


def test_merging_chunks_gives_the_moments_of_all_trials(samples):
    merged = (
        Moments.of(samples[:, :7])
        .merge(Moments.of(samples[:, 7:8]))
        .merge(Moments.of(samples[:, 8:]))
    )
    whole = Moments.of(samples)
    assert merged.trials == 41
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(merged.comoment, whole.comoment, rtol=1e-12)


def test_errors_and_correlations_of_sums_are_those_of_their_samples(samples):
    gradients = np.array([[2.0, -1.0, 3.0], [0.0, 1.0, 0.5], [0.0, 0.0, 0.0]])
    estimates = Estimates.of(
        Moments.of(samples), {i: Estimate(1.0, gradient) for i, gradient in enumerate(gradients)}
    )
    sums = gradients @ samples
    np.testing.assert_allclose(estimates.errors, sums.std(axis=1, ddof=1) / np.sqrt(41), rtol=1e-12)
    assert estimates.correlation[:2, :2] == pytest.approx(np.corrcoef(sums[:2]), rel=1e-12)
    assert not estimates.correlation[2].any()


@pytest.mark.parametrize(("trials", "rows"), [(301, 1), (200, 7), (51, 64)])
def test_the_median_of_few_values_is_exact(trials, rows):
    values = np.exp(np.random.default_rng(2).normal(size=(2, trials, rows)) * [[[0.3]], [[9.0]]])
    histograms = Histograms.of(values[:, :20]).merge(Histograms.of(values[:, 20:]))
    for series in (0, 1):
        assert histograms.quantile(series, 0.5).value == pytest.approx(
            np.median(values[series]), rel=1e-14
        )


@pytest.mark.parametrize("spread", [1e-7, 1e-3, 0.1, 1.0, 30.0])
def test_the_median_of_many_values_is_found_well_within_its_error(spread):
    """However narrow or wide the values spread; the plain error of a median is sqrt(pi / 2) spread
    / sqrt(values).
    """
    values = 0.3 * np.exp(spread * np.random.default_rng(3).normal(size=(1, 4000, 32)))
    chunks = [Histograms.of(values[:, first : first + 1000]) for first in range(0, 4000, 1000)]
    merged = chunks[0].merge(chunks[1]).merge(chunks[2]).merge(chunks[3])
    median = merged.quantile(0, 0.5)
    expected = np.sqrt(np.pi / 2) * spread / np.sqrt(4000 * 32)
    assert np.log(median.high / median.low) / (2 * 1.96) == pytest.approx(expected, rel=0.1)
    assert abs(np.log(median.value / np.median(values))) < 0.05 * expected
    assert median.inside
    assert len(merged.series[0].keys) <= MAX_BINS


def test_chunks_merge_to_the_same_bins_in_any_order():
    values = np.random.default_rng(4).lognormal(sigma=[[[0.001]], [[5.0]]], size=(2, 900, 16))
    chunks = [Histograms.of(values[:, first : first + 300]) for first in (0, 300, 600)]
    whole = Histograms.of(values)
    for a, b, c in ((0, 1, 2), (2, 0, 1)):
        merged = chunks[a].merge(chunks[b].merge(chunks[c]))
        for one, other in zip(merged.series, whole.series, strict=True):
            assert one.dropped == other.dropped
            for name in ("keys", "counts", "rank_sums"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_rank_sums_are_second_moments_between_trials():
    """Summed up to an edge they give sum_t c_t^2, counted here trial by trial."""
    values = np.random.default_rng(5).lognormal(size=(1, 700, 11))
    (bins,) = Histograms.of(values).series
    assert bins.dropped > 0
    edges = ((bins.keys + 1) << bins.dropped).view(np.float64)
    for edge, count, squares in zip(
        edges, bins.counts.cumsum(), bins.rank_sums.cumsum(), strict=True
    ):
        below = (values[0] < edge).sum(axis=1)
        assert (count, squares) == (below.sum(), (below**2).sum())


def test_the_error_of_a_median_sees_that_rows_of_a_trial_hang_together():
    """Rows that repeat their trial's value bring nothing: the error must be that of the trials
    alone.
    """
    one = np.random.default_rng(6).lognormal(sigma=0.2, size=(1, 401, 1))
    alone = Histograms.of(one).quantile(0, 0.5)
    repeated = Histograms.of(np.repeat(one, 16, axis=2)).quantile(0, 0.5)
    assert [repeated.value, repeated.low, repeated.high] == pytest.approx(
        [alone.value, alone.low, alone.high], rel=0.02
    )
    assert (alone.high - alone.low) / (2 * 1.96) == pytest.approx(
        np.sqrt(np.pi / 2) * 0.2 / 20, rel=0.25
    )


@pytest.mark.parametrize("trials", [50, 5000])
def test_infinite_values_lie_above_all_others(trials):
    """Such as the steps of runs that never solve their task; in exact bins and in wide ones."""
    values = np.random.default_rng(9).lognormal(sigma=3.0, size=(1, trials, 1))
    values[0, ::5] = np.inf
    found = Histograms.of(values[:, : trials // 2]).merge(Histograms.of(values[:, trials // 2 :]))
    assert found.quantile(0, 0.5).value == pytest.approx(np.quantile(values, 0.5), rel=0.01)
    assert np.isfinite(found.quantile(0, 0.5).high)
    beyond = found.quantile(0, 0.9)
    assert (beyond.value, beyond.high) == (np.inf, np.inf)


def jackknife(cell: Cell, draws: list[RowMeasurement]):
    """Estimates with every draw left out once: their spread times sqrt(draws - 1) is the standard
    error.
    """

    def estimates(kept):
        merged = kept[0]
        for draw in kept[1:]:
            merged = merged.merge(draw)
        return [
            {metric.name: row[metric.name] for metric in METRICS}
            for row in STATISTICS.tabulate(cell, merged)[MEASURED]
        ]

    return [estimates(draws[:i] + draws[i + 1 :]) for i in range(len(draws))]


def test_standard_errors_are_the_jackknife_over_draws():
    cell = Cell(d_k=4, n_keys=8, n_queries=6, scaling=SCALINGS)
    rng = np.random.default_rng(5)
    draws = [STATISTICS.measure(cell, 1, rng) for _ in range(60)]
    merged = draws[0]
    for draw in draws[1:]:
        merged = merged.merge(draw)
    left_out = jackknife(cell, draws)
    for i, row in enumerate(STATISTICS.tabulate(cell, merged)[MEASURED]):
        for metric in METRICS:
            name = metric.name
            if metric.kind == "quantile":  # for which the jackknife is not consistent
                continue
            spread = np.std([estimates[i][name] for estimates in left_out]) * np.sqrt(
                len(draws) - 1
            )
            assert row[f"{name}_se"] == pytest.approx(spread, rel=0.08, abs=1e-12), name


@pytest.mark.parametrize("trials", [20, 100, 300])
def test_the_variance_of_scores_of_one_size_is_rarely_far_off(trials):
    """Each trial has one score of +-1, of variance 1. All numbers of positive ones, with their
    binomial probability: Student's t of the error finds a difference with p < 1e-3 in fewer than 1
    of 1,000 cases."""
    found = 0.0
    for positive in range(1, trials):
        signs = np.where(np.arange(trials) < positive, 1.0, -1.0)
        moments = Moments.of(np.stack([signs**power for power in (1, 2, 3, 4)]))
        value, error = Estimates.of(moments, {"": ScoreMoments.of(moments).variance}).pair("")
        far = abs(value - 1) > stats.t.isf(5e-4, trials - 1) * error
        found += stats.binom.pmf(positive, trials, 0.5) * far
    assert found < 1e-3


def rows_held(rows, share):
    """The probability that the interval of a quantile of that many independent values contains it.

    Ranks alone determine it: the number of values below the quantile follows the binomial law.
    """
    found = Histograms.of(np.arange(1.0, rows + 1).reshape(1, rows, 1)).quantile(0, share)
    below = stats.binom(rows, share)
    return below.cdf(np.floor(found.high) - 1) - below.cdf(np.ceil(found.low) - 1)


def test_quantiles_of_enough_separate_rows_have_intervals_that_hold():
    assert rows_held(40, 0.1) < 0.92
    assert min(rows_held(rows, share) for rows in range(200, 300) for share in (0.1, 0.9)) > 0.93
    assert min(rows_held(rows, 0.5) for rows in range(50, 200)) > 0.94


@pytest.mark.parametrize(("share", "value"), [(0.1, 5), (0.5, 23), (0.9, 41)])
def test_the_interval_of_a_quantile_is_that_of_the_trials_shares_below_it(share, value):
    """From the counts of each trial, of which there are few, so that n - 1 is not n."""
    values = np.random.default_rng(7).lognormal(size=(1, 5, 9))
    histograms = Histograms.of(values)
    edges = (
        np.sort(values.ravel())[value - 1],
        np.nextafter(np.sort(values.ravel())[value - 1], np.inf),
    )
    # A share of 45 values that lies midway through one: between the shares below that value and up
    # to it.
    shares = [(values[0] < edge).mean(axis=1) for edge in edges]
    error = np.sqrt(np.mean([below.var(ddof=1) for below in shares]) / 5)
    ends = share_interval(share, error, 5, 9)
    found = histograms.quantile(0, share)
    expected = [histograms.series[0].quantile(45 * p) for p in ends]
    assert [found.low, found.high] == pytest.approx(expected, rel=1e-9)
    assert found.inside == (ends[0] * 45 >= 1 and ends[1] * 45 <= 44)


FREE = Limits()


def test_a_mean_without_limits_has_the_interval_of_student():
    half = stats.t.ppf(0.975, 9) * 0.3
    assert mean_interval(1.0, 0.3, 10, FREE) == pytest.approx((1 - half, 1 + half), rel=1e-12)


@pytest.mark.parametrize(
    ("value", "limits"), [(0.2, Limits(0, 1)), (0.8, Limits(0, 1)), (0.2, Limits(0))]
)
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
    """The law that it inverts: at the ends the binomial tails of the reduced number of draws are
    2.5%.
    """
    share, trials = count / 40, 40
    error = math.sqrt(share * (1 - share) / (trials - 1))
    low, high = share_interval(share, error, trials, 1)
    reduced = (
        trials * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 39)) ** 2 if 0 < count < 40 else trials
    )
    draws = min(trials - 1, trials) / trials * reduced if 0 < count < 40 else reduced
    x = share * draws
    assert low == pytest.approx(stats.beta.ppf(0.025, x, draws - x + 1) if count else 0, rel=1e-9)
    assert high == pytest.approx(
        stats.beta.ppf(0.975, x + 1, draws - x) if count < 40 else 1, rel=1e-9
    )


def test_a_share_that_no_trial_departs_from_rests_on_the_trials_alone():
    """Whatever the number of rows: 0.025 = (1 - p)^trials."""
    for rows in (1, 64):
        assert share_interval(0.0, 0.0, 30, rows) == pytest.approx(
            (0, 1 - 0.025 ** (1 / 30)), rel=1e-9
        )
        assert share_interval(1.0, 0.0, 30, rows) == pytest.approx((0.025 ** (1 / 30), 1), rel=1e-9)


@pytest.mark.parametrize("share", [0.003, 0.1, 0.6, 0.99])
@pytest.mark.parametrize("together", [1, 8])
def test_intervals_of_a_share_hold_it(share, together):
    """800 seeds of 60 trials of 8 rows, dependent or not; at 95% fewer than 740 have a probability
    of 0.0003.
    """
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
    assert effective_draws(share, error, Limits(0, 1)) == pytest.approx(
        events / (1 - share), rel=1e-9
    )
    assert effective_draws(1 - share, error, Limits(0, 1)) == pytest.approx(
        events / (1 - share), rel=1e-9
    )


def test_effective_draws_of_a_heavy_mean_are_near_those_of_kish():
    x = np.exp(3 * np.random.default_rng(2).standard_normal(400))
    kish = x.sum() ** 2 / (x**2).sum()
    assert effective_draws(x.mean(), x.std() / 20, Limits(0)) == pytest.approx(
        kish / (1 - kish / 400), rel=1e-9
    )
