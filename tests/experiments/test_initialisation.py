"""The experiment at initialisation, against loops over the same random numbers."""

import dataclasses
import math

import numpy as np
import pytest

from experiments.harness.experiment import MEASURED
from experiments.harness.grid import Chunk
from experiments.harness.measuring import measure_chunk
from experiments.initialisation import EXPERIMENT, Cell
from sdpa import Scaling, softmax, softmax_jacobian
from sdpa.initialisation import Scheme, layer_normed_tokens

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
    for row, divisor in zip(rows, (1.0, 2.0), strict=True):
        found = {name: [] for name in ("query", "key", "score", "largest", "square", "gradient")}
        for queries, keys in replay(*stds):
            found["query"] += (queries**2).ravel().tolist()
            found["key"] += (keys**2).ravel().tolist()
            for q in queries:
                scores = keys @ q / divisor
                weights = softmax(scores)
                jacobian = softmax_jacobian(weights)
                found["score"] += scores.tolist()
                found["largest"].append(weights.max())
                found["square"].append((jacobian**2).sum())
                found["gradient"].append(((keys.T @ jacobian) ** 2).sum() / divisor**2)
        assert row["query_variance"] == pytest.approx(np.mean(found["query"]), rel=1e-9)
        assert row["key_variance"] == pytest.approx(np.mean(found["key"]), rel=1e-9)
        assert row["score_mean"] == pytest.approx(np.mean(found["score"]), rel=1e-9)
        assert row["max_weight"] == pytest.approx(np.mean(found["largest"]), rel=1e-9)
        assert row["jacobian_norm"] == pytest.approx(math.sqrt(np.mean(found["square"])), rel=1e-9)
        assert row["query_gradient_norm"] == pytest.approx(math.sqrt(np.mean(found["gradient"])), rel=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"d_model": 24},
        {"n_heads": 4},
        {"n_keys": 8},
        {"n_queries": 4},
        {"scheme": Scheme.parse("kaiming")},
        {"scaling": (Scaling.parse("d_k^1"), RULES[1])},
    ],
)
def test_every_parameter_of_a_cell_changes_its_row(change):
    changed = dataclasses.replace(CELL, **change)
    one, other = (
        EXPERIMENT.tabulate(cell, measure_chunk(Chunk(EXPERIMENT, cell, 0, TRIALS), seed=0))[MEASURED][0]
        for cell in (CELL, changed)
    )
    assert one["max_weight"] != other["max_weight"]


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


def test_the_stamp_has_the_code_that_draws_tokens_and_weights():
    """An edit of either makes stored results stale; another scheme in the list does not."""
    assert EXPERIMENT.stamp(CELL)["scheme"][:2] == [Scheme, layer_normed_tokens]
