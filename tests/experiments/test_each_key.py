"""Each key of a cell against a simulation that shares no code with the suite: its own draws, loops,
explicit J.

The two estimates of a metric come from different draws. They agree within 5 standard errors of
their difference: one comparison in 1.7 million fails by chance, or about one run of this file in
3,000 if the seeds changed. With few effective draws the tails are heavier, so the cells here have
small weights.
"""

import math

import numpy as np
import pytest

from experiments.kinds.saturation import STATISTICS, Cell
from experiments.measuring.experiment import MEASURED
from experiments.measuring.row_metrics import METRICS
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
HEAVY = {"student_t", "lognormal"}  # no reliable errors of the fourth powers of their scores


def drawn(rng, change):
    """Queries and keys of one draw, from the definition of each key."""
    sample = STANDARD[change.get("inputs", "gaussian")]
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
    {},
    *({"inputs": name} for name in STANDARD if name != "gaussian"),
    {"query_mean": 0.7},
    {"key_mean": -1.3},
    {"query_mean": 0.7, "key_mean": -1.3, "inputs": "lognormal", "key_std": 0.5},
    {"query_std": 0.4},
    {"key_std": 1.5},
    {"correlation": 0.6},
    {"correlation": -0.9, "key_std": 0.5},
    {"spectrum": 1.2},
    {"correlation": 0.5, "spectrum": 0.7, "key_mean": 0.5},
    {"normalize": "l2"},
    {"normalize": "rms"},
    {"normalize": "rms", "query_mean": 0.5, "inputs": "laplace"},
    {"mask": "causal"},
    {"mask": "causal", "correlation": 0.6},
]


@pytest.mark.parametrize("change", CASES, ids=str)
def test_every_metric_agrees_with_a_plain_simulation(change):
    rng = np.random.default_rng(99)
    means, pooled = [], []
    for _ in range(DRAWS):
        q, k = drawn(rng, change)
        of_draw, scores = metrics_of_draw(q, k, DIVISOR, causal=change.get("mask") == "causal")
        means.append(of_draw)
        pooled.append(scores)
    given = change | ({"inputs": LAWS[change["inputs"]]} if "inputs" in change else {})
    cell = Cell(d_k=D_K, n_keys=N_KEYS, n_queries=N_QUERIES, scaling=(Scaling.parse("4"),), **given)
    (row,) = STATISTICS.tabulate(cell, STATISTICS.measure(cell, TRIALS, np.random.default_rng(5)))[
        MEASURED
    ]
    for metric in METRICS:
        if metric.name not in means[0]:
            continue
        value, error = row[metric.name], row[f"{metric.name}_se"]
        if metric.kind == "root":
            value, error = value**2, 2 * value * error
        found = np.array([of_draw[metric.name] for of_draw in means])
        assert_alike(metric.name, found.mean(), found.std() / math.sqrt(DRAWS), value, error)
    centred = np.array(pooled) - np.mean(pooled)
    for name, of_draws in (
        ("score_mean", np.mean(pooled, axis=1)),
        ("score_variance", (centred**2).mean(axis=1)),
    ):
        error = of_draws.std() / math.sqrt(DRAWS)
        assert_alike(name, of_draws.mean(), error, row[name], row[f"{name}_se"])
    if change.get("inputs") not in HEAVY:
        variance = (centred**2).mean()
        # The influence of a draw on the kurtosis: of the fourth moment, and of the variance below
        # it.
        fourth, third = (centred**4).mean(), (centred**3).mean()
        of_draws = (centred**4).mean(axis=1) / variance**2 - 2 * fourth / variance**3 * (
            centred**2
        ).mean(axis=1)
        of_draws -= 4 * third / variance**2 * centred.mean(axis=1)
        error = of_draws.std() / math.sqrt(DRAWS)
        assert_alike(
            "kurtosis",
            fourth / variance**2 - 3,
            error,
            row["score_kurtosis"],
            row["score_kurtosis_se"],
        )


def assert_alike(name, one, one_error, other, other_error):
    assert abs(one - other) <= 5 * math.hypot(one_error, other_error) + 1e-12, (
        name,
        one,
        one_error,
        other,
    )


def test_every_metric_is_simulated():
    """Quantiles have a simulation of their own (test_coverage)."""
    of_rows, _ = metrics_of_draw(*drawn(np.random.default_rng(0), {}), DIVISOR)
    of_scores = {"score_mean", "score_variance", "score_kurtosis"}
    means = {metric.name for metric in METRICS if metric.kind != "quantile"}
    assert {*of_rows} | of_scores == means, "add the metric to tests/plain_rows.py"


def test_every_law_and_every_key_has_a_case():
    assert set(STANDARD) == set(LAWS)
    keys = set(Cell.__dataclass_fields__) - {"d_k", "n_keys", "n_queries", "scaling"}
    assert {key for change in CASES for key in change} == keys
