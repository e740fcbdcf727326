"""The experiment `rows` against plain attention of the same random numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from experiments.kinds.rows.cell import EXPERIMENT, Cell
from experiments.measuring.experiment import MEASURED
from tests.plain_attention import attention
from tests.plain_rows import RULES

CELL = Cell(d_k=5, n_keys=3, n_queries=2, key_std=1.5, query_std=1.5, scaling=RULES)


@pytest.mark.parametrize("mask, seen", [("none", (3, 3)), ("causal", (2, 3))])
def test_scores_and_weights_are_those_of_the_draws(mask, seen):
    cell = replace(CELL, mask=mask)
    rng = default_rng(1)
    keys, queries = (1.5 * rng.standard_normal((4, count, 5)) for count in (3, 2))
    measured = EXPERIMENT.measure(cell, 4, default_rng(1))
    assert np.isfinite(measured.scores).all()  # as a record requires
    table = list(EXPERIMENT.tabulate(cell, measured)[MEASURED])
    assert len(table) == cell.table_rows(4) == 2 * 4 * sum(seen)
    for row in table:
        trial, query, key = row["trial"], row["query"], row["key"]
        divisor = {"unscaled": 1.0, "d_k^1/2": math.sqrt(5)}[row["scaling"]]
        visible = keys[trial, : seen[query]].tolist()
        plain = attention([queries[trial, query].tolist()], visible, divisor=divisor)
        for name, column in (("scaled_scores", "scaled_score"), ("weights", "weight")):
            assert row[column] == pytest.approx(plain[name][0][key], rel=1e-12), name
