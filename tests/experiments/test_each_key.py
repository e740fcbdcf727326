"""Each key of a cell against a simulation that shares no code with the suite: its own draws, loops,
explicit J.

The two estimates of a metric come from different draws. They agree within 5 standard errors of
their difference: one comparison in 1.7 million fails by chance, or about one run of this file in
10,000 if the seeds changed. With few effective draws the tails are heavier, so the cells here have
small weights.
"""

import math

import numpy as np
import pandas as pd
import pytest

from experiments.kinds.saturation.cell import STATISTICS, Cell
from experiments.measuring.experiment import MEASURED
from experiments.measuring.rows.metrics import METRICS
from sdpa import LAWS, Scaling
from tests.plain_rows import metrics_of_draw

D_K, N_KEYS, N_QUERIES, DIVISOR = 5, 7, 3, 4.0
DRAWS, TRIALS = 800, 4000
STANDARD = {
    "gaussian": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: math.sqrt(12) * (rng.random(shape) - 0.5),
    "rademacher": lambda rng, shape: np.where(rng.random(shape) < 0.5, -1.0, 1.0),
    "laplace": lambda rng, shape: (
        (rng.exponential(size=shape) - rng.exponential(size=shape)) / math.sqrt(2)
    ),
    "student_t": lambda rng, shape: (
        rng.normal(size=shape) / np.sqrt(rng.chisquare(5, size=shape) / 5) * math.sqrt(3 / 5)
    ),
    "lognormal": lambda rng, shape: (
        (np.exp(rng.normal(size=shape)) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)
    ),
}


def drawn(rng, change):
    """Queries and keys of one draw, from the definition of each key."""
    sample = STANDARD[change["inputs"]]
    a, b = sample(rng, (N_QUERIES, D_K)), sample(rng, (N_KEYS, D_K))
    rho = change.get("correlation", 0)
    for i in range(N_QUERIES):
        own = N_KEYS - N_QUERIES + i
        b[own] = rho * a[i] + math.sqrt(1 - rho**2) * b[own]
    alpha = change.get("spectrum", 0)
    powers = [m**-alpha for m in range(1, D_K + 1)]
    roots = np.sqrt([D_K * power / sum(powers) for power in powers])
    q = change.get("query_mean", 0) + change.get("query_std", 1) * roots * a
    k = change.get("key_mean", 0) + change.get("key_std", 1) * roots * b
    if change.get("normalize", "none") != "none":
        length = 1 if change["normalize"] == "l2" else math.sqrt(D_K)
        q, k = (
            [length * row / math.sqrt(sum(x * x for x in row)) for row in rows] for rows in (q, k)
        )
    return q, k


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
]


@pytest.mark.parametrize("change", CASES, ids=str)
def test_every_metric_agrees_with_a_plain_simulation(change):
    rng = np.random.default_rng(99)
    is_causal = change.get("mask") == "causal"
    found = [metrics_of_draw(*drawn(rng, change), DIVISOR, causal=is_causal) for _ in range(DRAWS)]
    draws = pd.DataFrame([of_draw for of_draw, _ in found])
    scores = np.array([of_draw for _, of_draw in found])
    draws["score_mean"] = scores.mean(axis=1)
    draws["score_variance"] = ((scores - scores.mean()) ** 2).mean(axis=1)
    law = LAWS[change["inputs"]]
    cell = Cell(
        d_k=D_K,
        n_keys=N_KEYS,
        n_queries=N_QUERIES,
        scaling=(Scaling.parse("4"),),
        **change | {"inputs": law},
    )
    measured = STATISTICS.measure(cell, TRIALS, np.random.default_rng(5))
    (row,) = STATISTICS.tabulate(cell, measured)[MEASURED]
    for metric in METRICS:
        if metric.kind == "quantile" or metric.name == "score_kurtosis":
            continue  # simulated in test_coverage, and replayed in test_saturation
        value, error = row[metric.name], row[f"{metric.name}_se"]
        if metric.kind == "root":
            value, error = value**2, 2 * value * error
        plain = draws[metric.name]
        both = math.hypot(plain.std() / math.sqrt(DRAWS), error)
        assert abs(plain.mean() - value) <= 5 * both + 1e-12, metric.name


def test_every_law_and_every_key_has_a_case():
    assert set(STANDARD) == set(LAWS) == {change["inputs"] for change in CASES}
    keys = set(Cell.__dataclass_fields__) - {"d_k", "n_keys", "n_queries", "scaling"}
    assert {key for change in CASES for key in change} == keys
