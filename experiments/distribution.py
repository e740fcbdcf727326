"""The law of one score q.k: its histogram, its distance from the exact law, and its moments.

Every trial is one pair of a query and a key of its own, so that scores are independent and a test of their law holds.
Scores are counted in bins of asinh(s / sqrt(d_k)): even near 0, ever wider in the tails, the same for every d_k.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from experiments.harness.experiment import Column, Experiment, Row
from experiments.harness.metric import Metric, few_draws_column, fields
from experiments.statistics.intervals import MIN_DRAWS_OF_FOURTH_POWERS, MIN_TRIALS, Limits
from experiments.statistics.moments import Estimates, Moments, power_sums, shape

# Bins on either side of 0, to sinh(4.8) = 60 standard deviations. What lies beyond counts in the last bin.
BINS, BIN_WIDTH = 3072, 4.8 / 3072

_BLOCK_NUMBERS = 2**20
_CHUNK_NUMBERS = 2**24
_PER_NORMAL, _PER_PAIR = 8.0, 60.0  # nanoseconds, for `plan`
_PAIR_ARRAYS = 12  # arrays of a block's scores that are alive at once, at most


@dataclass(frozen=True)
class Cell:
    """One point of the grid."""

    d_k: Annotated[int, Ge(1), Le(2**31)]

    @property
    def numbers(self) -> int:
        """Entries of one query and one key."""
        return 2 * self.d_k


@dataclass(frozen=True)
class Scores:
    """Moments of the scores' first four powers, and how many scores lie in each bin."""

    moments: Moments
    counts: npt.NDArray[np.int64]

    def merge(self, later: Self) -> Self:
        """Both chunks together."""
        return type(self)(self.moments.merge(later.moments), self.counts + later.counts)


def bin_edges() -> npt.NDArray[np.floating]:
    """Where the bins begin and end, as scores over sqrt(d_k), (2 BINS + 1,)."""
    return np.asarray(np.sinh(BIN_WIDTH * np.arange(-BINS, BINS + 1)))


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> Scores:
    """Scores of that many independent pairs, a block of them at a time."""
    size = _block_trials(cell)
    measured = _measure_block(cell, min(size, trials), rng)
    for first in range(size, trials, size):
        measured = measured.merge(_measure_block(cell, min(size, trials - first), rng))
    return measured


def _measure_block(cell: Cell, trials: int, rng: np.random.Generator) -> Scores:
    queries, keys = rng.standard_normal((2, trials, cell.d_k))
    scores = np.vecdot(queries, keys)
    place = np.floor(np.arcsinh(scores / math.sqrt(cell.d_k)) / BIN_WIDTH).astype(np.int64)
    counts = np.bincount(np.clip(place + BINS, 0, 2 * BINS - 1), minlength=2 * BINS)
    return Scores(Moments.of(power_sums(scores[:, None])), counts)


def estimates(measured: Scores) -> Estimates:
    """Mean, variance and excess kurtosis of the scores."""
    names = [metric.name for metric in METRICS]
    return Estimates.of(measured.moments, dict(zip(names, shape(measured.moments), strict=True)))


def relative_error(_: Cell, measured: Scores) -> float:
    """The relative standard error of the variance."""
    value, error = estimates(measured).pair("score_variance")
    return error / value


def tabulate(cell: Cell, measured: Scores) -> Iterator[Row]:
    """One row: the moments, their standard errors and their intervals."""
    found, trials = estimates(measured), measured.moments.trials
    values = {metric.name: found.pair(metric.name) for metric in METRICS}
    yield {"trials": trials, **fields(METRICS, cell, trials, values)}


def _block_trials(cell: Cell) -> int:
    return max(1, _BLOCK_NUMBERS // cell.numbers)


def _chunk_trials(cell: Cell) -> int:
    return max(1, _CHUNK_NUMBERS // _BLOCK_NUMBERS) * _block_trials(cell)


METRICS = (
    Metric("score_mean", "", "mean of the scores", "E[q.k]", draws_like="score_variance", scale_free=True),
    Metric("score_variance", "", "variance of the scores", "Var[q.k]", limits=lambda _: Limits(0), scale_free=True),
    Metric(
        "score_kurtosis",
        "",
        "excess kurtosis of the scores",
        "E[(s - E s)^4] / Var[s]^2 - 3",
        limits=lambda _: Limits(-3),
        min_draws=MIN_DRAWS_OF_FOURTH_POWERS,
        scale_free=True,
    ),
)

EXPERIMENT = Experiment(
    cell=Cell,
    columns=(
        Column("d_k", "int", "", "width of queries and keys"),
        Column("trials", "int", "", "independent pairs of a query and a key"),
        *(column for metric in METRICS for column in metric.columns()),
        few_draws_column(),
    ),
    metrics=METRICS,
    chunk_trials=_chunk_trials,
    measure=measure,
    tabulate=tabulate,
    seconds_per_trial=lambda cell: 1e-9 * (_PER_NORMAL * cell.numbers + _PER_PAIR),
    memory=lambda cell: 8 * (_block_trials(cell) * (cell.numbers + _PAIR_ARRAYS) + 16 * BINS),
    table_rows=lambda _cell, _trials: 1,
    min_trials=MIN_TRIALS,
    relative_error=relative_error,
    detail=lambda _, measured: measured.counts,
)
