"""The weights of a few rows against the draws that they come from."""

import math

import numpy as np
import pytest

from experiments.harness.experiment import MEASURED, load_experiment
from experiments.rows import measure, tabulate
from experiments.sampling import Cell
from sdpa import Scaling

CELL = Cell(
    d_k=5,
    n_keys=3,
    n_queries=2,
    key_std=1.5,
    query_std=1.5,
    scaling=(Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")),
)


def test_scores_and_weights_are_those_of_the_draws():
    rng = np.random.default_rng(1)
    keys, queries = (1.5 * rng.standard_normal((4, count, 5)) for count in (3, 2))
    rows = list(tabulate(CELL, measure(CELL, 4, np.random.default_rng(1)))[MEASURED])
    assert len(rows) == load_experiment("rows").table_rows(CELL, 4) == 2 * 4 * 2 * 3
    for row in rows:
        trial, query, key = row["trial"], row["query"], row["key"]
        divisor = {"unscaled": 1.0, "d_k^1/2": math.sqrt(5)}[row["scaling"]]
        scaled = [sum(queries[trial, query] * keys[trial, j]) / divisor for j in range(3)]
        assert row["scaled_score"] == pytest.approx(scaled[key], rel=1e-12)
        assert row["weight"] == pytest.approx(math.exp(scaled[key]) / sum(map(math.exp, scaled)), rel=1e-12)
