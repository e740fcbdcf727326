"""The experiment `distribution` against the scores of the same random numbers."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from experiments.kinds.distribution import cell as distribution
from experiments.kinds.distribution.cell import bin_edges
from experiments.kinds.distribution.tables import distances, histograms
from experiments.measuring.experiment import MEASURED

SCORES = 100_000


@pytest.fixture(scope="module")
def scores():
    """Of the same draws as `measured`."""
    queries, keys = default_rng(3).standard_normal((2, SCORES, 2))
    return np.einsum("td,td->t", queries, keys)


@pytest.fixture(scope="module")
def measured():
    return distribution.measure(distribution.Cell(2), SCORES, default_rng(3))


def test_counts_and_moments_are_those_of_the_scores(measured, scores):
    assert_array_equal(measured.counts, np.histogram(scores / np.sqrt(2), bin_edges())[0])
    expected = [scores.mean(), scores.var(), stats.kurtosis(scores)]
    (row,) = distribution.tabulate(distribution.Cell(2), measured)[MEASURED]
    assert_allclose([row[metric.name] for metric in distribution.METRICS], expected, rtol=1e-4)
    assert_allclose(row["score_mean_se"], scores.std() / np.sqrt(SCORES), rtol=1e-4)


def table_of(measured):
    return pd.DataFrame({"d_k": [2], "trials": [SCORES], "counts": [measured.counts]})


def test_the_distance_is_scipy_s_to_what_a_bin_holds(measured, scores):
    (row,) = distances(table_of(measured)).to_dict("records")
    exact = stats.kstest(scores, stats.laplace.cdf)
    assert 0.97 * exact.statistic < row["statistic"] <= exact.statistic * (1 + 1e-9)
    assert exact.pvalue <= row["p_value"] < exact.pvalue + 0.05


def test_histograms_have_the_mean_density_of_each_bin(measured):
    bins = histograms(table_of(measured))
    width = bins["high"] - bins["low"]
    below, up_to = (stats.laplace.cdf(bins[end] * np.sqrt(2)) for end in ("low", "high"))
    mass = up_to - below
    assert_allclose(bins["density_exact"], mass / width, rtol=1e-8)
    many = bins[bins["count"] > 100]
    z = (many["density"] - many["density_exact"]) / many["density_se"]
    assert z.abs().max() < 5  # of some 60 bins: chance does so once in 30,000 seeds
