"""Standard errors and medians against the jackknife over trials, which knows none of their formulas."""

import numpy as np
import pytest

from experiments.harness.moments import Moments
from experiments.harness.quantiles import BINS_PER_OCTAVE, LogHistogram
from experiments.saturation import METRICS, Cell, SaturationMeasurement, measure, tabulate
from sdpa import Scaling

SCALINGS = (Scaling.parse("unscaled"), Scaling.parse("d_k^1/2"))


@pytest.fixture
def samples():
    return np.random.default_rng(1).standard_normal((3, 41)) * [[1.0], [10.0], [0.1]] + 5


def test_moments_are_the_mean_and_the_covariance(samples):
    moments = Moments.of(samples)
    np.testing.assert_allclose(moments.mean, samples.mean(axis=1))
    np.testing.assert_allclose(moments.covariance, np.cov(samples))


def test_merging_chunks_gives_the_moments_of_all_trials(samples):
    merged = Moments.of(samples[:, :7]).merge(Moments.of(samples[:, 7:8])).merge(Moments.of(samples[:, 8:]))
    whole = Moments.of(samples)
    assert merged.trials == 41
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(merged.comoment, whole.comoment, rtol=1e-12)


def test_an_entry_does_not_depend_on_the_other_quantities(samples):
    np.testing.assert_array_equal(Moments.of(samples[1:]).comoment, Moments.of(samples).comoment[1:, 1:])


def test_the_error_of_a_sum_is_that_of_its_samples(samples):
    error = Moments.of(samples).standard_error(np.array([2.0, -1.0, 3.0]))
    assert error == pytest.approx(np.std([2.0, -1.0, 3.0] @ samples, ddof=1) / np.sqrt(41))


@pytest.mark.parametrize(("trials", "rows"), [(300, 1), (200, 7), (50, 64)])
def test_the_median_is_found_to_a_bin_and_interpolated(trials, rows):
    values = np.exp(np.random.default_rng(2).normal(size=(2, trials, rows)) * [[[0.3]], [[9.0]]])
    histogram = LogHistogram.of(values[:, :20]).merge(LogHistogram.of(values[:, 20:]))
    for series in (0, 1):
        got, _ = histogram.median(series)
        assert abs(np.log2(got / np.median(values[series]))) < 1 / BINS_PER_OCTAVE


def test_rank_sums_are_second_moments_between_trials():
    """Summed up to an edge they give sum_t c_t^2, counted here trial by trial."""
    values = np.random.default_rng(3).lognormal(size=(1, 30, 11))
    histogram = LogHistogram.of(values)
    first_key = int(histogram.keys[0])
    edges = 2.0 ** ((histogram.keys + 1 - first_key) / BINS_PER_OCTAVE) * 2.0 ** (
        np.floor(np.log2(values.min()) * BINS_PER_OCTAVE) / BINS_PER_OCTAVE
    )
    for edge, running in zip(edges, histogram.rank_sums.cumsum(), strict=True):
        assert running == ((values[0] < edge).sum(axis=1) ** 2).sum()


def test_the_error_of_a_median_sees_that_rows_of_a_trial_hang_together():
    """Rows that repeat their trial's value bring nothing: the error must be that of the trials alone."""
    one = np.random.default_rng(4).lognormal(sigma=0.2, size=(1, 400, 1))
    alone = LogHistogram.of(one).median(0)
    repeated = LogHistogram.of(np.repeat(one, 16, axis=2)).median(0)
    assert repeated == pytest.approx(alone, rel=1e-9)
    # The normal law's median error at this density, sqrt(pi / 2) sigma / sqrt(trials), to the noise of one sample.
    assert alone[1] == pytest.approx(np.sqrt(np.pi / 2) * 0.2 / 20, rel=0.25)


def test_zero_has_its_own_bin_and_can_be_the_median():
    assert LogHistogram.of(np.array([[[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]]])).median(0)[0] == 0.0


def jackknife(cell: Cell, draws: list[SaturationMeasurement]):
    """Estimates with every draw left out once: their spread times sqrt(draws - 1) is the standard error."""

    def estimates(kept):
        merged = kept[0]
        for draw in kept[1:]:
            merged = merged.merge(draw)
        return [{name: row[name] for name in METRICS} for row in tabulate(cell, merged)]

    return [estimates(draws[:i] + draws[i + 1 :]) for i in range(len(draws))]


def test_standard_errors_are_the_jackknife_over_draws():
    cell = Cell(d_k=4, n_keys=8, n_queries=6, scaling=SCALINGS)
    rng = np.random.default_rng(5)
    draws = [measure(cell, 1, rng) for _ in range(60)]
    merged = draws[0]
    for draw in draws[1:]:
        merged = merged.merge(draw)
    left_out = jackknife(cell, draws)
    for i, row in enumerate(tabulate(cell, merged)):
        for name in METRICS:
            if name.endswith("_median"):  # the jackknife is not consistent for medians
                continue
            spread = np.std([estimates[i][name] for estimates in left_out]) * np.sqrt(len(draws) - 1)
            assert row[f"{name}_se"] == pytest.approx(spread, rel=0.08, abs=1e-12), name
