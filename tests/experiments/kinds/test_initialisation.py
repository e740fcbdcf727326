"""The experiment `initialisation` against a loop over the same random numbers."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from experiments.kinds.initialisation.cell import EXPERIMENT, Cell
from experiments.measuring import cells
from experiments.measuring.experiment import MEASURED
from experiments.measuring.sampling import MaskName
from sdpa.initialisation import Scheme
from tests.plain_rows import RULES, rows_of_draw, score_variance

CELL = Cell(d_model=12, n_heads=3, n_keys=7, n_queries=5, scheme=Scheme.parse("t5"), scaling=RULES)
TRIALS = 11


def replay(query_std, key_std):
    """Queries and keys of each trial, as the experiment draws them: all tokens, W_Q, W_K."""
    rng = default_rng(2)
    z = rng.standard_normal((TRIALS, 7, 12))
    to_queries, to_keys = (
        std * rng.standard_normal((TRIALS, 12, 4)) for std in (query_std, key_std)
    )
    for trial in range(TRIALS):
        tokens = np.array([(row - row.mean()) / row.std() for row in z[trial]])
        yield tokens[2:] @ to_queries[trial], tokens @ to_keys[trial]


@pytest.mark.parametrize("scheme, stds", [("t5", (48**-0.5, 12**-0.5)), ("gpt2", (0.02, 0.02))])
def test_a_layer_is_that_of_its_definition(scheme, stds):
    cell = replace(CELL, scheme=Scheme.parse(scheme))
    queries, keys = map(np.array, zip(*replay(*stds), strict=True))
    drawn_keys, queries_of = cell.draw(TRIALS, default_rng(2))
    assert_allclose(drawn_keys, keys, rtol=1e-9)
    assert_allclose(queries_of(slice(1, 5)), queries[:, 1:], rtol=1e-9)
    measured = EXPERIMENT.measure(cell, TRIALS, default_rng(2))
    for row in EXPERIMENT.tabulate(cell, measured)[MEASURED]:
        assert row["d_k"] == 4
        assert row["query_variance"] == pytest.approx((queries**2).mean(), rel=1e-9)
        assert row["key_variance"] == pytest.approx((keys**2).mean(), rel=1e-9)


@pytest.mark.parametrize("mask, window", [("causal", None), ("window-3", 3)])
def test_masked_rows_are_those_of_their_definitions(mask, window):
    cell = replace(CELL, mask=MaskName(mask))
    measured = EXPERIMENT.measure(cell, TRIALS, default_rng(2))
    layers = [*replay(48**-0.5, 12**-0.5)]
    roots = {metric.name for metric in EXPERIMENT.metrics if metric.kind == "root"}
    for row, divisor in zip(
        EXPERIMENT.tabulate(cell, measured)[MEASURED], cell.divisors(), strict=True
    ):
        draws = [rows_of_draw(q, k, divisor, causal=True, window=window) for q, k in layers]
        of_rows, scores = zip(*draws, strict=True)
        assert row["score_mean"] == pytest.approx(np.mean(scores), rel=1e-9)
        assert row["score_variance"] == pytest.approx(score_variance(scores), rel=1e-9)
        for name in of_rows[0]:
            mean = np.mean([row_values[name] for row_values in of_rows])
            expected = mean**0.5 if name in roots else mean
            assert row[name] == pytest.approx(expected, rel=1e-9), name


@pytest.mark.parametrize("mask", ["causal", "window-2", "local-1"])
def test_a_mask_changes_no_exact_variance(mask):
    """Within five standard errors, in rows that mostly have tokens with themselves and neighbours."""
    cell = replace(CELL, mask=MaskName(mask), n_queries=7)
    measured = EXPERIMENT.measure(cell, 4000, default_rng(3))
    for row in EXPERIMENT.tabulate(cell, measured)[MEASURED]:
        for metric in EXPERIMENT.metrics:
            if metric.exact:
                exact = metric.exact.value(row[cells.CELL])
                assert abs(row[metric.name] - exact) < 5 * row[f"{metric.name}_se"]


def test_rows_count_as_independent_if_a_head_is_wide_enough():
    assert CELL.separate_rows == 5
    assert replace(CELL, n_heads=12).separate_rows == 1
