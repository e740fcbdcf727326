"""The experiment `initialisation` against a loop over the same random numbers."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from experiments.kinds.initialisation.cell import EXPERIMENT, Cell
from experiments.measuring.experiment import MEASURED
from sdpa.initialisation import Scheme
from tests.plain_rows import RULES

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


def test_rows_count_as_independent_if_a_head_is_wide_enough():
    assert CELL.separate_rows == 5
    assert replace(CELL, n_heads=12).separate_rows == 1
