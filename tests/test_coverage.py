"""Slow: over 200 seeds, how often the 95% intervals hold the truth.

With 200 intervals that hold it with probability 0.95 the share lies outside 0.91-0.98 in 1.6% of reseedings
(binomial law); seeds are fixed, so the tests give the same answer at every run.
"""

import pytest

from experiments.harness.grid import chunks
from experiments.harness.run import measure_chunk
from experiments.saturation import METRICS, Cell, tabulate
from sdpa import Scaling

SEEDS = range(200)
TRIALS = 100
LONG_RUN = 40_000
pytestmark = pytest.mark.slow


def row(cell: Cell, trials: int, seed: int) -> dict[str, float]:
    """The table's row of a cell with one scaling."""
    first, *others = (measure_chunk(chunk, seed) for chunk in chunks("saturation", cell, trials))
    for other in others:
        first = first.merge(other)
    return next(iter(tabulate(cell, first)))


def share_held(rows: list[dict[str, float]], metric: str, truth: float) -> float:
    return sum(abs(row[metric] - truth) < 1.96 * row[f"{metric}_se"] for row in rows) / len(rows)


def test_intervals_of_the_score_variance_hold_the_true_one():
    """Few dimensions and many rows that share them: errors from rows counted as independent would fail here."""
    cell = Cell(d_k=4, n_keys=128, n_queries=128, scaling=(Scaling.parse("unscaled"),))
    rows = [row(cell, TRIALS, seed) for seed in SEEDS]
    assert 0.91 <= share_held(rows, "score_variance", 4.0) <= 0.98
    assert 0.91 <= share_held(rows, "score_mean", 0.0) <= 0.98


@pytest.mark.parametrize("scaling", ["unscaled", "d_k^1/2"])
def test_intervals_hold_the_long_run_value_of_every_metric(scaling):
    """The largest weight within 0.91-0.98; the others, being many, within 0.90-0.985 (0.1% of reseedings each)."""
    cell = Cell(d_k=64, n_keys=64, n_queries=64, scaling=(Scaling.parse(scaling),))
    truth = row(cell, LONG_RUN, seed=10**6)
    rows = [row(cell, TRIALS, seed) for seed in SEEDS]
    assert 0.91 <= share_held(rows, "max_weight", truth["max_weight"]) <= 0.98
    for metric in METRICS:
        if metric == "saturated_rows" and truth[metric] * TRIALS * cell.n_queries < 100:
            continue  # hardly ever a saturated row: no interval from so few events
        assert truth[f"{metric}_se"] < 0.1 * rows[0][f"{metric}_se"], metric
        assert 0.90 <= share_held(rows, metric, truth[metric]) <= 0.985, metric
