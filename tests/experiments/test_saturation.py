"""The core experiment against a plain recomputation of the same draws."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.analysis.derived import add_exact
from experiments.kinds.saturation import EXPERIMENT, STATISTICS, Cell
from experiments.measuring import sampling
from experiments.measuring.chunk import Chunk, generator
from experiments.measuring.columns import axis_values
from experiments.measuring.experiment import MEASURED
from experiments.measuring.row_metrics import METRICS
from experiments.measuring.row_statistics import RowMeasurement
from experiments.measuring.sampling import SampledCell
from sdpa import LAWS, Scaling, attention_weights, theory
from tests.plain_rows import metrics_of_draw

SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3")))
FIRST_NORMALS = [-0.8852897518185662, -0.6054444485597826, -0.2589453625725119]
CELL = Cell(d_k=5, n_keys=7, n_queries=3, scaling=SCALINGS)


def plain_metrics(draws, divisor: float):
    """Every metric of draws (keys, queries) from its definition, and all scores."""
    of_draws, scores = zip(
        *(metrics_of_draw(queries, keys, divisor) for keys, queries in draws), strict=True
    )
    means = {name: np.mean([of_draw[name] for of_draw in of_draws]) for name in of_draws[0]}
    roots = {metric.name for metric in METRICS if metric.kind == "root"}
    rows = {name: math.sqrt(value) if name in roots else value for name, value in means.items()}
    return rows | {
        "score_mean": np.mean(scores),
        "score_kurtosis": stats.kurtosis(np.ravel(scores)),
    }, scores


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
        # About the mean and unbiased: between the two divisions of a pooled sample that takes rows
        # as independent.
        assert np.var(scores) < row["score_variance"] < np.var(scores) * (1 + 1.5 / trials)


def test_rules_of_any_kind_are_measured_with_their_divisor():
    """The unscaled metrics of scores, over the divisor; and exact values beside them that follow
    from it.
    """
    rules = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2/ln(n_keys)", "8", "n_keys^1/2")))
    cell = dataclasses.replace(CELL, scaling=rules)
    unscaled, *others = rows = rows_of(cell, STATISTICS.measure(cell, 30, np.random.default_rng(4)))
    for row, divisor in zip(others, (math.sqrt(5) / math.log(7), 8, math.sqrt(7)), strict=True):
        assert row["divisor"] == pytest.approx(divisor, rel=1e-15)
        assert math.isnan(row["exponent"])
        assert row["score_variance"] == pytest.approx(
            unscaled["score_variance"] / divisor**2, rel=1e-12
        )
    # whatever the table says
    table = pd.DataFrame([{**axis_values(cell), **row} for row in rows]).assign(divisor=3.0)
    exact = add_exact(EXPERIMENT, table, [cell])
    assert exact["score_variance_exact"].tolist() == pytest.approx(
        [5, math.log(7) ** 2, 5 / 64, 5 / 7], rel=1e-12
    )
    assert exact["max_weight_exact"].notna().all()


def test_a_cell_drawn_in_blocks_of_queries_has_the_metrics_of_its_draws(monkeypatch):
    monkeypatch.setattr(sampling, "_BLOCK_BYTES", 8 * 14)  # two queries at a time
    monkeypatch.setattr(sampling, "_PRODUCT_QUERIES", 1)
    cell = dataclasses.replace(CELL, n_queries=5)
    measurement = STATISTICS.measure(cell, 4, np.random.default_rng(8))
    rng = np.random.default_rng(8)
    drawn = []
    for _ in range(4):
        keys = rng.standard_normal((7, 5))
        drawn.append(
            (keys, np.concatenate([rng.standard_normal((count, 5)) for count in (2, 2, 1)]))
        )
    for row, divisor in zip(rows_of(cell, measurement), cell.divisors(), strict=True):
        expected, _ = plain_metrics(drawn, divisor)
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=0)


def test_a_chunk_is_the_one_it_has_always_been():
    """The key, the generator and the sizes of blocks and chunks: a change of any of them changes
    every table.
    """
    cell = Cell(d_k=64, n_keys=64, scaling=SCALINGS)
    assert (cell.chunk_trials, cell.block_trials, cell.block_queries) == (1024, 16, 64)
    first = Chunk(EXPERIMENT, cell, 0, 1024)
    assert generator(0, first).standard_normal(3).tolist() == FIRST_NORMALS
    used = dataclasses.replace(cell, key_std=2.0)
    assert generator(0, Chunk(EXPERIMENT, used, 0, 1024)).standard_normal() != FIRST_NORMALS[0]


def test_rules_with_visible_keys_divide_each_row_by_its_own_divisor():
    """Means over rows by plain loops over the draws of a chunk; the exact value is the mean over
    lengths.
    """
    rules = ("d_k^1/2", "d_k^1/2/ln(n_visible)", "(1+0.5*ln(n_visible/3))")
    cell = Cell(
        d_k=5, n_keys=9, n_queries=6, mask="causal", scaling=tuple(map(Scaling.parse, rules))
    )
    measured = STATISTICS.measure(cell, 40, np.random.default_rng(0))
    rows = {row["scaling"]: row for row in STATISTICS.tabulate(cell, measured)[MEASURED]}
    found = {rule: [] for rule in rows}
    for k, q in replay(cell, 40, 0):
        for i in range(6):
            n = 4 + i
            for rule, divisor in zip(
                rows, (5**0.5, 5**0.5 / math.log(n), 1 + 0.5 * math.log(n / 3)), strict=True
            ):
                w = np.exp(k[:n] @ q[i] / divisor)
                w /= w.sum()
                jacobian = np.diag(w) - np.outer(w, w)
                gradient = np.linalg.norm(k[:n].T @ jacobian) / divisor
                found[rule].append(
                    (
                        w.max(),
                        gradient**2,
                        (np.linalg.norm(jacobian) * np.linalg.norm(q[i]) / divisor) ** 2,
                    )
                )
    for rule, values in found.items():
        largest, to_query, to_key = np.mean(values, axis=0)
        assert rows[rule]["max_weight"] == pytest.approx(largest, rel=1e-12)
        assert rows[rule]["query_gradient_norm"] == pytest.approx(math.sqrt(to_query), rel=1e-12)
        assert rows[rule]["key_gradient_norm"] == pytest.approx(
            math.sqrt(to_key * 6 / 9), rel=1e-12
        )
        of_rule = Scaling.parse(rule)
        each = [theory.attention_expectations(5, n, of_rule.divisor(5, 9, n)) for n in range(4, 10)]
        exact = theory.attention_expectations(5, 9, rule, shortest=4)
        for name in ("max_weight", "entropy", "row_variance"):
            assert getattr(exact, name) == pytest.approx(
                np.mean([getattr(one, name) for one in each]), rel=1e-12
            )


def test_rules_with_visible_keys_are_refused_where_they_have_no_meaning():
    causal = {"d_k": 4, "n_keys": 4, "n_queries": 4, "mask": "causal"}
    rule = (Scaling.parse("d_k^1/2/ln(n_visible)"),)
    assert "got inf for d_k=4, n_keys=4, n_visible=1" in Cell(**causal, scaling=rule).problem()
    assert "expected no n_visible beside a mask" in SampledCell(**causal, scaling=rule).problem()
    assert Cell(d_k=4, n_keys=4, scaling=rule).problem() is None
    with pytest.raises(
        ValueError, match="expected no n_visible beside a mask; divide q by the divisor of each row"
    ):
        attention_weights(np.ones((2, 3)), np.ones((2, 3)), scaling="ln(n_visible)", mask="causal")
