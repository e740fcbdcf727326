"""`arithmetic: float32` of the experiment saturation: means of the same draws, refusals, memory, and its verdicts."""

import dataclasses

import numpy as np
import pytest

from experiments.harness.experiment import MEASURED
from experiments.saturation import DOUBLE, SINGLE, STATISTICS, Cell
from experiments.statistics.moments import power_sums
from sdpa import LAWS, Scaling

SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^1")))


class InDouble(Cell):
    """The draws of single precision, with everything after them in double precision."""

    def draw(self, trials, rng):
        keys, blocks = super().draw(trials, rng)
        return keys.astype(float), ((rows, queries.astype(float)) for rows, queries in blocks)


@pytest.mark.parametrize(
    ("d_k", "n_keys", "n_queries", "trials", "more"),
    [
        (64, 64, 64, 32, {}),
        (512, 512, 512, 2, {}),
        (16, 4096, 64, 3, {}),
        (4, 16, 16, 500, {}),
        (1, 2, 1, 5000, {}),
        (4096, 2, 4, 200, {}),
        (4096, 1024, 32, 2, {}),
        (2, 65536, 4, 2, {}),
        (64, 64, 64, 32, {"mask": "causal"}),
        (64, 64, 16, 100, {"query_mean": 1.0, "key_mean": -1.0}),
        (1024, 64, 16, 40, {"query_mean": 5.0, "key_mean": 5.0, "scaling": SCALINGS[3:]}),
        (64, 64, 16, 100, {"normalize": "rms", "query_mean": 3.0}),
        (64, 64, 16, 100, {"correlation": 0.5}),
        (64, 64, 16, 100, {"inputs": LAWS["lognormal"]}),
        (64, 64, 16, 100, {"normalize": "l2"}),
        (64, 64, 16, 100, {"query_std": 3.0, "spectrum": 1.0}),
    ],
)
def test_means_agree_with_double_precision_on_the_same_draws(d_k, n_keys, n_queries, trials, more):
    """Within 1e-5 of their size, and of 1 for the kurtosis, where more than a few rows carry them; error bars alike."""
    sizes = {"d_k": d_k, "n_keys": n_keys, "n_queries": n_queries, "scaling": SCALINGS, "arithmetic": SINGLE, **more}
    assert Cell(**sizes).problem() is None
    found, expected = (
        STATISTICS.tabulate(cell, STATISTICS.measure(cell, trials, np.random.default_rng(1)))[MEASURED]
        for cell in (Cell(**sizes), InDouble(**sizes))
    )
    for row, same in zip(found, expected, strict=True):
        for metric in STATISTICS.metrics:
            if metric.kind == "quantile":
                continue  # a histogram's bin may end between two roundings of a value
            scale = {"score_mean": same["score_variance"] ** 0.5, "score_kurtosis": 1.0}.get(metric.name, 0.0)
            scale = max(scale, abs(same[metric.name]))
            # The floor is for weights near 0: that of 1e-25 has a score of -57, whose last digit counts for 6e-5.
            assert abs(row[metric.name] - same[metric.name]) <= 1e-5 * scale + 1e-20, metric.name
            error = same[f"{metric.name}_se"]
            assert abs(row[f"{metric.name}_se"] - error) <= 1e-3 * error + 1e-6 * scale + 1e-20, metric.name


def test_sums_of_powers_lose_no_small_terms():
    """Over 2^20 numbers, a sum in single precision of x^4 is 1.3e-5 too small."""
    values = np.random.default_rng(5).standard_normal((2, 2**20)).astype(np.float32)
    found, expected = power_sums(values), power_sums(values.astype(float))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[[1, 3]], expected[[1, 3]], rtol=2e-7)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"n_keys": 65537}, "more than 65536 keys, got float32 and n_keys = 65537"),
        ({"key_mean": -11.0}, "a |key_mean| beyond 10 key_std, got float32 and key_mean = -11"),
        ({"query_std": 1e6}, "a score deviation outside 1e-06 to 1e+06, got float32 and score deviation = 2e+06"),
        ({"key_std": 1e-6, "query_std": 0.1}, "a score deviation outside 1e-06 to 1e+06, got float32"),
        ({"query_std": 60.0}, "scaled scores of an r.m.s. beyond 100, got float32 and their r.m.s. = 120"),
        ({"query_mean": 5.0, "key_mean": 8.0}, "scaled scores of an r.m.s. beyond 100, got float32 and their r.m.s. ="),
        ({"d_k": 4096, "spectrum": 2.0}, "scaled scores of an r.m.s. beyond 100, got float32 and their r.m.s. ="),
        ({"normalize": "rms", "query_mean": 1.0, "key_mean": 1.0}, "normalize rms with two means, got float32 and"),
        ({"scaling": (Scaling.parse("1e7"),)}, "a divisor outside 1e-06 to 1e+06, got float32 and divisor = 1e+07"),
        ({"n_queries": 9, "correlation": 0.5}, None),
    ],
)
def test_sizes_beyond_single_precision_are_refused(more, words):
    cell = Cell(**{"d_k": 4, "n_keys": 8, "n_queries": 8, "scaling": SCALINGS, "arithmetic": SINGLE, **more})
    if words is None:
        assert cell.problem().startswith("correlation: expected")
    else:
        assert cell.problem().startswith(f"arithmetic: expected float64 beside {words}")
        assert dataclasses.replace(cell, arithmetic=DOUBLE).problem() is None


@pytest.mark.parametrize(
    "more",
    [
        {"query_mean": 0.5, "key_mean": -2.0, "query_std": 0.3},
        {"spectrum": 1.5},
        {"normalize": "l2"},
        {"normalize": "rms", "query_mean": 2.0},
    ],
)
def test_the_predicted_size_of_scores_is_that_of_draws(more):
    """Within 5%, of 400 draws; for normalized vectors, at least that."""
    cell = Cell(d_k=16, n_keys=8, n_queries=8, scaling=(), **more)
    keys, blocks = cell.draw(400, np.random.default_rng(6))
    scores = np.concatenate([queries @ keys.swapaxes(-1, -2) for _, queries in blocks])
    mean, deviation = cell._score_moments()
    assert mean == pytest.approx(scores.mean(), abs=0.1 * scores.std())
    assert 0.95 * scores.std() < deviation < (1.05 if cell.normalize == "none" else 3) * scores.std()
