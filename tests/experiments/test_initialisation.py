"""The experiment at initialisation, against loops over the same random numbers."""

import dataclasses
import math

import numpy as np
import pytest

from experiments.harness.experiment import MEASURED
from experiments.initialisation import EXPERIMENT, Cell
from sdpa import Scaling
from sdpa.initialisation import Scheme
from tests.plain_rows import metrics_of_draw

RULES = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2")))
CELL = Cell(d_model=12, n_heads=3, n_keys=7, n_queries=5, scheme=Scheme.parse("t5"), scaling=RULES)
TRIALS = 11


def rows_of(cell: Cell, seed: int = 2):
    return EXPERIMENT.tabulate(cell, EXPERIMENT.measure(cell, TRIALS, np.random.default_rng(seed)))[MEASURED]


def replay(query_std: float, key_std: float, seed: int = 2):
    """Queries and keys of each trial, as the experiment draws them: all tokens, W_Q, W_K."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((TRIALS, 7, 12))
    to_queries, to_keys = (std * rng.standard_normal((TRIALS, 12, 4)) for std in (query_std, key_std))
    for trial in range(TRIALS):
        tokens = np.array([(row - row.mean()) / row.std() for row in z[trial]])
        yield tokens[2:] @ to_queries[trial], tokens @ to_keys[trial]


@pytest.mark.parametrize(("scheme", "stds"), [("t5", (48**-0.5, 12**-0.5)), ("gpt2", (0.02, 0.02))])
def test_every_metric_is_that_of_the_drawn_layer(scheme, stds):
    rows = rows_of(dataclasses.replace(CELL, scheme=Scheme.parse(scheme)))
    roots = {metric.name for metric in EXPERIMENT.metrics if metric.kind == "root"}
    for row, divisor in zip(rows, (1.0, 2.0), strict=True):
        trials = list(replay(*stds))
        of_draws, scores = zip(*(metrics_of_draw(queries, keys, divisor) for queries, keys in trials), strict=True)
        assert row["score_mean"] == pytest.approx(np.mean(scores), rel=1e-9)
        for i, name in enumerate(("query_variance", "key_variance")):
            assert row[name] == pytest.approx(np.mean([trial[i] ** 2 for trial in trials]), rel=1e-9)
        for name in of_draws[0]:
            mean = np.mean([of_draw[name] for of_draw in of_draws])
            assert row[name] == pytest.approx(math.sqrt(mean) if name in roots else mean, rel=1e-9), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_heads": 5}, "n_heads: expected a divisor of d_model, got 5 and 12"),
        ({"n_queries": 8}, "n_queries: expected at most n_keys, got 8 and 7"),
        ({}, None),
    ],
)
def test_impossible_sizes_are_named(change, message):
    assert dataclasses.replace(CELL, **change).problem() == message
