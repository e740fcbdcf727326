"""The experiments distribution, rows and initialisation, against loops over the same random
numbers.
"""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from experiments.kinds.distribution import cell as distribution
from experiments.kinds.distribution.cell import bin_edges
from experiments.kinds.distribution.tables import distances, histograms
from experiments.kinds.initialisation import cell as initialisation
from experiments.kinds.rows import cell as rows
from experiments.measuring.experiment import MEASURED, load_experiment
from sdpa.initialisation import Scheme
from tests.plain_attention import attention
from tests.plain_rows import RULES

SCORES = 100_000


@pytest.fixture(scope="module")
def scores():
    """Of the same draws as `measured`."""
    queries, keys = np.random.default_rng(3).standard_normal((2, SCORES, 2))
    return np.einsum("td,td->t", queries, keys)


@pytest.fixture(scope="module")
def measured():
    return distribution.measure(distribution.Cell(2), SCORES, np.random.default_rng(3))


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


ROWS_CELL = rows.Cell(
    d_k=5,
    n_keys=3,
    n_queries=2,
    key_std=1.5,
    query_std=1.5,
    scaling=RULES,
)


@pytest.mark.parametrize(("mask", "seen"), [("none", (3, 3)), ("causal", (2, 3))])
def test_scores_and_weights_are_those_of_the_draws(mask, seen):
    cell, experiment = dataclasses.replace(ROWS_CELL, mask=mask), load_experiment("rows")
    rng = np.random.default_rng(1)
    keys, queries = (1.5 * rng.standard_normal((4, count, 5)) for count in (3, 2))
    measured = experiment.measure(cell, 4, np.random.default_rng(1))
    assert np.isfinite(measured.scores).all()  # as a record requires
    table = list(experiment.tabulate(cell, measured)[MEASURED])
    assert len(table) == cell.table_rows(4) == 2 * 4 * sum(seen)
    for row in table:
        trial, query, key = row["trial"], row["query"], row["key"]
        divisor = {"unscaled": 1.0, "d_k^1/2": math.sqrt(5)}[row["scaling"]]
        visible = keys[trial, : seen[query]].tolist()
        plain = attention([queries[trial, query].tolist()], visible, divisor=divisor)
        for name, column in (("scaled_scores", "scaled_score"), ("weights", "weight")):
            assert row[column] == pytest.approx(plain[name][0][key], rel=1e-12), name


CELL = initialisation.Cell(
    d_model=12, n_heads=3, n_keys=7, n_queries=5, scheme=Scheme.parse("t5"), scaling=RULES
)
TRIALS = 11


def replay(query_std, key_std):
    """Queries and keys of each trial, as the experiment draws them: all tokens, W_Q, W_K."""
    rng = np.random.default_rng(2)
    z = rng.standard_normal((TRIALS, 7, 12))
    to_queries, to_keys = (
        std * rng.standard_normal((TRIALS, 12, 4)) for std in (query_std, key_std)
    )
    for trial in range(TRIALS):
        tokens = np.array([(row - row.mean()) / row.std() for row in z[trial]])
        yield tokens[2:] @ to_queries[trial], tokens @ to_keys[trial]


@pytest.mark.parametrize(("scheme", "stds"), [("t5", (48**-0.5, 12**-0.5)), ("gpt2", (0.02, 0.02))])
def test_a_layer_is_that_of_its_definition(scheme, stds):
    cell = dataclasses.replace(CELL, scheme=Scheme.parse(scheme))
    queries, keys = map(np.array, zip(*replay(*stds), strict=True))
    drawn_keys, queries_of = cell.draw(TRIALS, np.random.default_rng(2))
    assert_allclose(drawn_keys, keys, rtol=1e-9)
    assert_allclose(queries_of(slice(1, 5)), queries[:, 1:], rtol=1e-9)
    measured = initialisation.EXPERIMENT.measure(cell, TRIALS, np.random.default_rng(2))
    for row in initialisation.EXPERIMENT.tabulate(cell, measured)[MEASURED]:
        assert row["d_k"] == 4
        assert row["query_variance"] == pytest.approx((queries**2).mean(), rel=1e-9)
        assert row["key_variance"] == pytest.approx((keys**2).mean(), rel=1e-9)
