"""Standard errors and quantiles against the jackknife over trials, which knows none of their formulas."""

import numpy as np
import pytest
from scipy import stats

from experiments.harness.experiment import MEASURED
from experiments.metrics import METRICS
from experiments.row_statistics import RowMeasurement
from experiments.saturation import STATISTICS, Cell
from experiments.statistics.intervals import share_interval
from experiments.statistics.moments import Estimate, Estimates, Moments, Shape
from experiments.statistics.quantiles import MAX_BINS, Histograms
from sdpa import Scaling

SCALINGS = (Scaling.parse("unscaled"), Scaling.parse("d_k^1/2"))


@pytest.fixture
def samples():
    return np.random.default_rng(1).standard_normal((3, 41)) * [[1.0], [10.0], [0.1]] + 5


def test_merging_chunks_gives_the_moments_of_all_trials(samples):
    merged = Moments.of(samples[:, :7]).merge(Moments.of(samples[:, 7:8])).merge(Moments.of(samples[:, 8:]))
    whole = Moments.of(samples)
    assert merged.trials == 41
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(merged.comoment, whole.comoment, rtol=1e-12)


def test_errors_and_correlations_of_sums_are_those_of_their_samples(samples):
    gradients = np.array([[2.0, -1.0, 3.0], [0.0, 1.0, 0.5], [0.0, 0.0, 0.0]])
    estimates = Estimates.of(Moments.of(samples), {i: Estimate(1.0, gradient) for i, gradient in enumerate(gradients)})
    sums = gradients @ samples
    np.testing.assert_allclose(estimates.errors, sums.std(axis=1, ddof=1) / np.sqrt(41), rtol=1e-12)
    assert estimates.correlation[:2, :2] == pytest.approx(np.corrcoef(sums[:2]), rel=1e-12)
    assert not estimates.correlation[2].any()


@pytest.mark.parametrize(("trials", "rows"), [(301, 1), (200, 7), (51, 64)])
def test_the_median_of_few_values_is_exact(trials, rows):
    values = np.exp(np.random.default_rng(2).normal(size=(2, trials, rows)) * [[[0.3]], [[9.0]]])
    histograms = Histograms.of(values[:, :20]).merge(Histograms.of(values[:, 20:]))
    for series in (0, 1):
        assert histograms.quantile(series, 0.5).value == pytest.approx(np.median(values[series]), rel=1e-14)


@pytest.mark.parametrize("spread", [1e-7, 1e-3, 0.1, 1.0, 30.0])
def test_the_median_of_many_values_is_found_well_within_its_error(spread):
    """However narrow or wide the values spread; the plain error of a median is sqrt(pi / 2) spread / sqrt(values)."""
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
    for edge, count, squares in zip(edges, bins.counts.cumsum(), bins.rank_sums.cumsum(), strict=True):
        below = (values[0] < edge).sum(axis=1)
        assert (count, squares) == (below.sum(), (below**2).sum())


def test_the_error_of_a_median_sees_that_rows_of_a_trial_hang_together():
    """Rows that repeat their trial's value bring nothing: the error must be that of the trials alone."""
    one = np.random.default_rng(6).lognormal(sigma=0.2, size=(1, 401, 1))
    alone = Histograms.of(one).quantile(0, 0.5)
    repeated = Histograms.of(np.repeat(one, 16, axis=2)).quantile(0, 0.5)
    assert [repeated.value, repeated.low, repeated.high] == pytest.approx(
        [alone.value, alone.low, alone.high], rel=0.02
    )
    assert (alone.high - alone.low) / (2 * 1.96) == pytest.approx(np.sqrt(np.pi / 2) * 0.2 / 20, rel=0.25)


def test_a_peak_of_the_density_within_a_bin_is_inside_the_interval():
    """1 - x^8 of uniform x crowds at 1, as |J|_F of two keys does at 1/2; the rest spans decades, so bins are wide."""
    x = np.random.default_rng(8).random((1, 5000, 1))
    values = np.where(x < 0.6, 1 - x**8, 10.0 ** -(40 * x))
    found = Histograms.of(values).quantile(0, 0.9)
    exact = 1 - 0.1**8  # x below 0.1: a tenth of all values
    assert found.low <= exact <= found.high
    assert (found.high - found.low) < 0.02


def test_a_quantile_among_zeros_is_zero():
    """Norms that underflow; the bin of 0 reaches to the smallest doubles, which no interpolation may show."""
    values = np.zeros((1, 30, 8))
    values[0, :, 7] = 1.0
    found = Histograms.of(values).quantile(0, 0.5)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert Histograms.of(values).quantile(0, 0.95).value == pytest.approx(1.0, rel=1e-3)


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
    """Estimates with every draw left out once: their spread times sqrt(draws - 1) is the standard error."""

    def estimates(kept):
        merged = kept[0]
        for draw in kept[1:]:
            merged = merged.merge(draw)
        return [
            {metric.name: row[metric.name] for metric in METRICS} for row in STATISTICS.tabulate(cell, merged)[MEASURED]
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
            spread = np.std([estimates[i][name] for estimates in left_out]) * np.sqrt(len(draws) - 1)
            assert row[f"{name}_se"] == pytest.approx(spread, rel=0.08, abs=1e-12), name


@pytest.mark.parametrize("trials", [20, 100, 300])
def test_the_variance_of_scores_of_one_size_is_rarely_far_off(trials):
    """Each trial has one score of +-1, of variance 1. All numbers of positive ones, with their binomial probability:
    Student's t of the error finds a difference with p < 1e-3 in fewer than 1 of 1,000 cases."""
    found = 0.0
    for positive in range(1, trials):
        signs = np.where(np.arange(trials) < positive, 1.0, -1.0)
        moments = Moments.of(np.stack([signs**power for power in (1, 2, 3, 4)]))
        value, error = Estimates.of(moments, {"": Shape.of(moments).variance}).pair("")
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


def test_few_separate_rows_flag_what_the_draws_may_not():
    quantiles = {metric.name: metric.share for metric in METRICS if metric.kind == "quantile"}

    def flagged(trials, n_queries, n_keys):
        cell = Cell(d_k=4, n_keys=n_keys, n_queries=n_queries, scaling=SCALINGS[:1])
        measurement = STATISTICS.measure(cell, trials, np.random.default_rng(1))
        (row,) = STATISTICS.tabulate(cell, measurement)[MEASURED]
        return set(row["few_draws"].split())

    everything = {metric.name for metric in METRICS}
    assert flagged(49, 1, 64) == flagged(49, 500, 2) == flagged(24, 500, 3) == everything
    tails = {name for name, share in quantiles.items() if share != 0.5}
    assert flagged(199, 1, 64) & set(quantiles) == flagged(99, 500, 3) & set(quantiles) == tails
    assert not flagged(200, 1, 64) & set(quantiles)


@pytest.mark.parametrize(("share", "value"), [(0.1, 5), (0.5, 23), (0.9, 41)])
def test_the_interval_of_a_quantile_is_that_of_the_trials_shares_below_it(share, value):
    """From the counts of each trial, of which there are few, so that n - 1 is not n."""
    values = np.random.default_rng(7).lognormal(size=(1, 5, 9))
    histograms = Histograms.of(values)
    edges = np.sort(values.ravel())[value - 1], np.nextafter(np.sort(values.ravel())[value - 1], np.inf)
    # A share of 45 values that lies midway through one: between the shares below that value and up to it.
    shares = [(values[0] < edge).mean(axis=1) for edge in edges]
    error = np.sqrt(np.mean([below.var(ddof=1) for below in shares]) / 5)
    ends = share_interval(share, error, 5, 9)
    found = histograms.quantile(0, share)
    expected = [histograms.series[0].quantile(45 * p) for p in ends]
    assert [found.low, found.high] == pytest.approx(expected, rel=1e-9)
    assert found.inside == (ends[0] * 45 >= 1 and ends[1] * 45 <= 44)
