"""The core experiment against a plain recomputation of the same draws."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments import sampling
from experiments.analysis.derived import add_exact
from experiments.harness.experiment import MEASURED
from experiments.harness.grid import Chunk, axis_values
from experiments.harness.measuring import measure_chunk
from experiments.harness.metric import Metric
from experiments.harness.seeds import generator
from experiments.metrics import METRICS
from experiments.row_statistics import RowMeasurement, RowStatistics
from experiments.sampling import chunk_trials
from experiments.saturation import EXPERIMENT, STATISTICS, Cell
from sdpa import LAWS, Scaling, softmax
from tests.plain_rows import metrics_of_draw

SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3")))
FIRST_NORMALS = [-0.8852897518185662, -0.6054444485597826, -0.2589453625725119]
CELL = Cell(d_k=5, n_keys=7, n_queries=3, scaling=SCALINGS)


def plain_metrics(draws, divisor: float):
    """Every metric of draws (keys, queries) from its definition, and all scores."""
    of_draws, scores = zip(*(metrics_of_draw(queries, keys, divisor) for keys, queries in draws), strict=True)
    means = {name: np.mean([of_draw[name] for of_draw in of_draws]) for name in of_draws[0]}
    roots = {metric.name for metric in METRICS if metric.kind == "root"}
    rows = {name: math.sqrt(value) if name in roots else value for name, value in means.items()}
    return rows | {"score_mean": np.mean(scores), "score_kurtosis": stats.kurtosis(np.ravel(scores))}, scores


def replay(cell: Cell, trials: int, seed: int):
    """The draws that `measure` makes of one block, in its order."""
    rng = np.random.default_rng(seed)
    keys = cell.inputs.sample(rng, (trials, cell.n_keys, cell.d_k)) * cell.key_std
    queries = cell.inputs.sample(rng, (trials, cell.n_queries, cell.d_k)) * cell.query_std
    return list(zip(keys, queries, strict=True))


def rows_of(cell: Cell, measurement: RowMeasurement):
    return STATISTICS.tabulate(cell, measurement)[MEASURED]


@pytest.mark.parametrize("law", LAWS)
def test_metrics_are_those_of_the_definitions(law):
    cell = dataclasses.replace(CELL, inputs=LAWS[law], query_std=1.3, key_std=0.7)
    trials = 20
    rows = rows_of(cell, STATISTICS.measure(cell, trials, np.random.default_rng(6)))
    for row, divisor in zip(rows, cell.divisors(), strict=True):
        expected, scores = plain_metrics(replay(cell, trials, 6), divisor)
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=0)
        assert row["trials"] == trials
        # About the mean and unbiased: between the two divisions of a pooled sample that takes rows as independent.
        assert np.var(scores) < row["score_variance"] < np.var(scores) * (1 + 1.5 / trials)


def test_a_metric_may_be_computed_from_the_weights():
    """1 / sum w^2 of each row from its weights, from the kernel's trace 1 - sum w^2, and by hand."""
    declared = {
        "of_weights": lambda block: block.of_weights(lambda weights: 1 / np.vecdot(weights, weights)),
        "of_rows": lambda block: 1 / (1 - block.rows.jacobian_trace),
    }
    more = RowStatistics((*METRICS, *(Metric(name, "", "", "", of=of) for name, of in declared.items())))
    rows = more.tabulate(CELL, more.measure(CELL, 9, np.random.default_rng(6)))[MEASURED]
    for row, divisor in zip(rows, CELL.divisors(), strict=True):
        weights = [
            softmax(keys @ q / divisor) for keys, queries in replay(dataclasses.replace(CELL), 9, 6) for q in queries
        ]
        expected = np.mean([1 / np.sum(w**2) for w in weights])
        assert [row["of_weights"], row["of_rows"]] == pytest.approx([expected] * 2, rel=1e-12)


def test_rules_of_any_kind_are_measured_with_their_divisor():
    """The unscaled metrics of scores, over the divisor; and exact values beside them that follow from it."""
    rules = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2/ln(n_keys)", "8", "n_keys^1/2")))
    cell = dataclasses.replace(CELL, scaling=rules)
    unscaled, *others = rows = rows_of(cell, STATISTICS.measure(cell, 30, np.random.default_rng(4)))
    for row, divisor in zip(others, (math.sqrt(5) / math.log(7), 8, math.sqrt(7)), strict=True):
        assert row["divisor"] == pytest.approx(divisor, rel=1e-15)
        assert math.isnan(row["exponent"])
        assert row["score_variance"] == pytest.approx(unscaled["score_variance"] / divisor**2, rel=1e-12)
    table = pd.DataFrame([{**axis_values(cell), **row} for row in rows]).assign(divisor=3.0)  # whatever the table says
    exact = add_exact(EXPERIMENT, table, [cell])
    assert exact["score_variance_exact"].tolist() == pytest.approx([5, math.log(7) ** 2, 5 / 64, 5 / 7], rel=1e-12)
    assert exact["max_weight_exact"].notna().all()


def test_the_variance_is_unbiased_where_every_draw_is_one_score():
    """One query and one relevant key per draw: then it is the textbook estimate with n - 1."""
    cell = Cell(d_k=3, n_keys=2, n_queries=1, scaling=SCALINGS[:1])
    draws = replay(cell, 9, 7)
    means = [float(np.mean(keys @ queries[0])) for keys, queries in draws]
    squares = [float(np.mean((keys @ queries[0]) ** 2)) for keys, queries in draws]
    expected = np.mean(squares) - np.mean(means) ** 2 + np.var(means, ddof=1) / 9
    row = rows_of(cell, STATISTICS.measure(cell, 9, np.random.default_rng(7)))[0]
    assert row["score_variance"] == pytest.approx(expected, rel=1e-12, abs=0)


def test_a_cell_drawn_in_blocks_of_queries_has_the_metrics_of_its_draws(monkeypatch):
    monkeypatch.setattr(sampling, "_BLOCK_BYTES", 8 * 14)  # two queries at a time
    monkeypatch.setattr(sampling, "_PRODUCT_QUERIES", 1)
    cell = dataclasses.replace(CELL, n_queries=5)
    measurement = STATISTICS.measure(cell, 4, np.random.default_rng(8))
    rng = np.random.default_rng(8)
    drawn = []
    for _ in range(4):
        keys = rng.standard_normal((7, 5))
        drawn.append((keys, np.concatenate([rng.standard_normal((count, 5)) for count in (2, 2, 1)])))
    for row, divisor in zip(rows_of(cell, measurement), cell.divisors(), strict=True):
        expected, _ = plain_metrics(drawn, divisor)
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("seed", range(5))
def test_a_scaling_is_measured_alike_whatever_the_others_are(seed):
    alone = dataclasses.replace(CELL, scaling=(SCALINGS[2],))
    among = dataclasses.replace(CELL, scaling=SCALINGS[::-1])
    rows = [
        {row["scaling"]: row for row in rows_of(cell, measure_chunk(Chunk(EXPERIMENT, cell, 0, 50), seed))}
        for cell in (alone, among)
    ]
    assert rows[0]["d_k^1/2"] == rows[1]["d_k^1/2"]


def test_a_chunk_is_the_one_it_has_always_been():
    """The key, the generator and the sizes of blocks and chunks: a change of any of them changes every table."""
    cell = Cell(d_k=64, n_keys=64, scaling=SCALINGS)
    assert (chunk_trials(cell), sampling.block_trials(cell), sampling.block_queries(cell)) == (1024, 16, 64)
    first = Chunk(EXPERIMENT, cell, 0, 1024)
    assert generator(0, first).standard_normal(3).tolist() == FIRST_NORMALS
    used = dataclasses.replace(cell, key_std=2.0)
    assert generator(0, Chunk(EXPERIMENT, used, 0, 1024)).standard_normal() != FIRST_NORMALS[0]


def test_metrics_of_weights_see_no_masked_key():
    """The largest weight from the weights is that of the kernel, under a causal mask too."""
    metric = next(metric for metric in METRICS if metric.name == "max_weight")
    of_weights = dataclasses.replace(metric, name="again", of=lambda block: block.of_weights(lambda w: w.max(axis=-1)))
    cell = Cell(d_k=4, n_keys=8, n_queries=8, mask="causal", scaling=(Scaling.parse("d_k^1/2"),))
    statistics = RowStatistics((*METRICS, of_weights))
    (row,) = statistics.tabulate(cell, statistics.measure(cell, 20, np.random.default_rng(3)))[MEASURED]
    assert row["again"] == pytest.approx(row["max_weight"], rel=1e-12)
