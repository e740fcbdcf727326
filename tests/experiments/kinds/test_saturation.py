"""The core experiment against a plain recomputation of the same draws."""

import dataclasses
import itertools
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from scipy import stats

from experiments.kinds.saturation.cell import EXPERIMENT, KERNEL, Cell
from experiments.measuring import sampling
from experiments.measuring.chunk import Chunk
from experiments.measuring.columns import cell_fields
from experiments.measuring.experiment import MEASURED
from experiments.measuring.row_metrics import METRICS
from sdpa import LAWS, Scaling
from tests.plain_rows import rows_of_draw, score_variance

SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3")))
CELL = Cell(d_k=5, n_keys=7, n_queries=3, scaling=SCALINGS)
CASES = [
    {"inputs": "gaussian", "query_std": 0.4, "key_std": 1.5},
    {"inputs": "uniform", "mask": "causal"},
    {"inputs": "rademacher", "query_mean": 0.7},
    {"inputs": "laplace", "normalize": "rms", "query_mean": 0.5},
    {"inputs": "student_t", "spectrum": 1.2},
    {"inputs": "lognormal", "query_mean": 0.7, "key_mean": -1.3, "key_std": 0.5},
    {"inputs": "gaussian", "correlation": -0.9, "key_std": 0.5, "mask": "causal"},
    {"inputs": "gaussian", "correlation": 0.5, "spectrum": 0.7, "key_mean": 0.5},
    {"inputs": "gaussian", "normalize": "l2"},
    {"inputs": "sparse", "key_std": 0.5},
]


def test_a_kernel_without_means_or_without_quantiles_is_refused():
    means = tuple(metric for metric in KERNEL.metrics if metric.kind == "mean")
    with pytest.raises(ValueError, match="one mean of rows and one quantile, got ") as error:
        dataclasses.replace(KERNEL, metrics=means)
    assert str(error.value).endswith(", ".join(metric.name for metric in means))


def plain_metrics(draws, divisor, *, causal=False):
    """Every metric of draws (keys, queries, ...) from its definition, and all scores."""
    plain_draws = [
        rows_of_draw(queries, keys, divisor, causal=causal) for keys, queries, _ in draws
    ]
    of_draws, scores = zip(*plain_draws, strict=True)
    means = pd.concat(map(pd.DataFrame, of_draws)).mean()
    roots = {metric.name for metric in METRICS if metric.kind == "root"}
    rows = {name: sqrt(value) if name in roots else value for name, value in means.items()}
    plain_draws = rows | {
        "score_mean": np.mean(scores),
        "score_kurtosis": stats.kurtosis(np.ravel(scores)),
    }
    known = {metric.name for metric in METRICS if metric.kind != "quantile"}
    assert plain_draws.keys() == known - {"score_variance"}
    return plain_draws, scores


def replay(cell, trials, seed):
    """The draws that `measure` makes of one batch, in its order, from the definition of each key."""
    rng = default_rng(seed)
    (of_gradients,) = rng.spawn(1)
    of_keys, of_queries = (
        cell.inputs.sample(rng, (trials, count, cell.d_k))
        for count in (cell.n_keys, cell.n_queries)
    )
    rho = cell.correlation
    of_queries = rho * of_keys[:, -cell.n_queries :] + sqrt(1 - rho**2) * of_queries
    powers = [m**-cell.spectrum for m in range(1, cell.d_k + 1)]
    roots = np.sqrt([cell.d_k * power / sum(powers) for power in powers])
    keys = cell.key_mean + cell.key_std * roots * of_keys
    queries = cell.query_mean + cell.query_std * roots * of_queries
    if cell.normalize != "none":
        length = 1 if cell.normalize == "l2" else sqrt(cell.d_k)
        keys, queries = (
            length * x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (keys, queries)
        )
    gradients = of_gradients.standard_normal((trials, cell.n_queries, cell.n_keys))
    return list(zip(keys, queries, gradients, strict=True))


def rows_of(cell, measurement):
    return KERNEL.tabulate(cell, measurement)[MEASURED]


@pytest.mark.parametrize("change", CASES, ids=str)
def test_metrics_are_those_of_the_definitions(change):
    cell = dataclasses.replace(CELL, **change | {"inputs": LAWS[change["inputs"]]})
    trials = 20
    rows = rows_of(cell, KERNEL.measure(cell, trials, default_rng(6)))
    for row, divisor in zip(rows, cell.divisors(), strict=True):
        expected, scores = plain_metrics(replay(cell, trials, 6), divisor, causal=cell.has_mask)
        assert {name: row[name] for name in expected} == pytest.approx(
            expected, rel=1e-9, abs=1e-12
        )
        assert row["trials"] == trials
        assert row["score_variance"] == pytest.approx(score_variance(scores), rel=1e-9)


def test_every_law_and_every_key_has_a_case():
    assert set(LAWS) == {change["inputs"] for change in CASES}
    keys = {*cell_fields(Cell)} - {"d_k", "n_keys", "n_queries", "scaling"}
    assert {key for change in CASES for key in change} == keys


def test_quantiles_are_those_of_the_rows():
    """To the width of a bin of their histogram, below 2%; a median of few is exact."""
    rows = rows_of(CELL, KERNEL.measure(CELL, 60, default_rng(6)))
    behind = {
        "jacobian_norm": "jacobian_norm",
        "weight_jacobian_norm": "query_gradient_norm",  # without drawn gradients
        "query_gradient_norm": "drawn",
    }
    for row, divisor in zip(rows, CELL.divisors(), strict=True):
        draws = [rows_of_draw(q, k, divisor, g)[0] for k, q, g in replay(CELL, 60, 6)]
        for norm, rank in itertools.product(behind, ("p10", "median", "p90")):
            values = np.sqrt([row_values[behind[norm]] for row_values in draws])
            expected = np.quantile(values, {"p10": 0.1, "median": 0.5, "p90": 0.9}[rank])
            error = 1e-9 if rank == "median" else 0.02
            assert row[f"{norm}_{rank}"] == pytest.approx(expected, rel=error), (norm, rank)


class OfOneDraw(Cell):
    """However it is asked for."""

    def draw(self, trials, rng):
        keys, queries = rng.standard_normal((2, trials, self.n_keys, self.d_k))
        return keys, lambda query_slice: queries[:, query_slice]


def test_batches_of_queries_change_no_metric(monkeypatch):
    cell = OfOneDraw(**vars(CELL) | {"n_queries": 5, "mask": "causal"})

    def measured():
        measurement = KERNEL.measure(cell, 1, default_rng(8))
        return [*measurement.moments.mean, measurement.norms.series[0].quantile(2.5)]

    whole = measured()
    monkeypatch.setattr(sampling, "_BATCH_BYTES", 8 * 14)
    monkeypatch.setattr(sampling, "_PRODUCT_QUERIES", 1)
    assert [*cell.query_batches()] == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert measured() == pytest.approx(whole, rel=1e-12)


def test_a_chunk_is_the_one_it_has_always_been():
    """The key, the generator and the sizes of batches and chunks: a change of any of them changes
    every table.
    """
    cell = Cell(d_k=64, n_keys=64, scaling=SCALINGS)
    assert (cell.chunk_trials, cell.batch_trials, cell.batch_queries) == (1024, 16, 64)
    first = Chunk(EXPERIMENT, cell, 0, 1024, seed=0)
    assert first.generator().standard_normal() == -0.8852897518185662
