"""The law of scores: counts, moments and distances against other routes, where q.k of width 2 follows Laplace's law."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments import distribution
from experiments.analysis.laws import distances, histograms
from experiments.distribution import Cell, Scores, bin_edges, measure, tabulate
from experiments.harness.experiment import MEASURED
from experiments.statistics.moments import Moments, power_sums

TRIALS = 100_000


def of_scores(scores: np.ndarray, d_k: int) -> Scores:
    """A measurement of given scores."""
    counts, _ = np.histogram(scores / np.sqrt(d_k), bin_edges())
    return Scores(Moments.of(power_sums(scores[:, None])), counts)


def table_of(d_k: int, trials: int = TRIALS) -> pd.DataFrame:
    return pd.DataFrame({"d_k": [d_k], "trials": [trials]})


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    """Of the same draws as `measured`."""
    queries, keys = np.random.default_rng(3).standard_normal((2, TRIALS, 2))
    return np.einsum("td,td->t", queries, keys)


@pytest.fixture(scope="module")
def measured() -> Scores:
    return measure(Cell(2), TRIALS, np.random.default_rng(3))


def test_counts_and_moments_are_those_of_the_scores(measured, scores):
    np.testing.assert_array_equal(measured.counts, np.histogram(scores / np.sqrt(2), bin_edges())[0])
    expected = [scores.mean(), scores.var(), stats.kurtosis(scores)]
    (row,) = tabulate(Cell(2), measured)[MEASURED]
    np.testing.assert_allclose([row[metric.name] for metric in distribution.METRICS], expected, rtol=1e-4)
    np.testing.assert_allclose(row["score_mean_se"], scores.std() / np.sqrt(TRIALS), rtol=1e-4)


def test_blocks_and_merging_lose_nothing(monkeypatch):
    monkeypatch.setattr(distribution, "_BLOCK_NUMBERS", 60)
    rng = np.random.default_rng(4)
    merged = measure(Cell(3), 47, rng).merge(measure(Cell(3), 5, rng))
    rng = np.random.default_rng(4)
    blocks = [rng.standard_normal((2, size, 3)) for size in (10, 10, 10, 10, 7, 5)]
    whole = of_scores(np.concatenate([np.vecdot(q, k) for q, k in blocks]), 3)
    np.testing.assert_array_equal(merged.counts, whole.counts)
    np.testing.assert_allclose(merged.moments.mean, whole.moments.mean, rtol=1e-12)
    np.testing.assert_allclose(merged.moments.comoment, whole.moments.comoment, rtol=1e-12)


def test_the_distance_is_scipy_s_to_what_a_bin_holds(measured, scores):
    (row,) = distances(table_of(2), [measured.counts]).to_dict("records")
    exact = stats.kstest(scores, stats.laplace.cdf)
    assert 0.97 * exact.statistic < row["statistic"] <= exact.statistic * (1 + 1e-9)
    assert exact.pvalue <= row["p_value"] < exact.pvalue + 0.05


def test_scores_of_another_law_are_found():
    rng = np.random.default_rng(5)
    queries, keys = rng.standard_normal((2, TRIALS, 4))
    related = of_scores(np.vecdot(queries, 0.02 * queries + np.sqrt(1 - 0.02**2) * keys), 4)
    assert distances(table_of(4), [related.counts])["p_value"].iloc[0] < 1e-6
    assert distances(table_of(4), [of_scores(np.vecdot(queries, keys), 4).counts])["p_value"].iloc[0] > 1e-3


def test_histograms_have_the_mean_density_of_each_bin(measured):
    bins = histograms(table_of(2), [measured.counts])
    width = bins["high"] - bins["low"]
    mass = stats.laplace.cdf(bins["high"] * np.sqrt(2)) - stats.laplace.cdf(bins["low"] * np.sqrt(2))
    np.testing.assert_allclose(bins["density_exact"], mass / width, rtol=1e-8)
    assert bins["count"].sum() == TRIALS
    assert (bins["density"] * width).sum() == pytest.approx(1)
    assert bins["count"].iloc[[0, -1]].min() > 0
    many = bins[bins["count"] > 100]
    z = (many["density"] - many["density_exact"]) / many["density_se"]
    assert z.abs().max() < 5  # of some 60 bins: chance does so once in 30,000 seeds
