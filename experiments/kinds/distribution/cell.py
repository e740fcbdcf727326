"""The law of one score q.k: its histogram, its distance from the exact law, and its moments.

Every trial draws its own standard normal query and key, so that scores are independent and a test
of their law holds. Bins are uniform in asinh(s / sqrt(d_k)): nearly equal near 0, ever wider in the
tails, the same for every d_k. `experiments.kinds.distribution.tables` turns their counts into densities and
Kolmogorov-Smirnov distances.
"""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from experiments.measuring.cells import BaseCell, Row
from experiments.measuring.columns import Column, Meaning
from experiments.measuring.experiment import MEASURED, Experiment
from experiments.measuring.intervals import MIN_TRIALS
from experiments.measuring.metric import metric_columns, metric_row
from experiments.measuring.moments import Moments, ScoreMoments, power_sums
from experiments.measuring.score_metrics import SCORE_METRICS as METRICS
from sdpa import PairLaw
from sdpa._arrays import FloatArray

# Bins on either side of 0, up to sinh(4.8) = 60 standard deviations. Scores beyond count in the
# last bin.
BINS, BIN_WIDTH = 3072, 4.8 / 3072
COUNTS = "counts"  # the table of the number of scores in each bin, by cell

_BATCH_NUMBERS, _CHUNK_BATCHES = 2**20, 16


@dataclass(frozen=True)
class Cell(BaseCell):
    """One point of the grid: a width."""

    d_k: Annotated[int, Ge(1), Le(2**31), Meaning("width of queries and keys")]

    # As the score metrics require: standard normal entries, one score per trial, no divisor.
    divisor = 1.0
    mean_length = 1

    @property
    def law(self) -> PairLaw:
        """The law of q and k: independent standard normal entries."""
        return PairLaw()

    @property
    def numbers(self) -> int:
        """Entries of one query and one key."""
        return 2 * self.d_k

    @property
    def batch_trials(self) -> int:
        """Trials drawn at once: at most 2^20 random numbers, and at least one trial."""
        return max(1, _BATCH_NUMBERS // self.numbers)

    @property
    def chunk_trials(self) -> int:
        """As `BaseCell.chunk_trials`: 16 batches."""
        return _CHUNK_BATCHES * self.batch_trials

    @property
    def seconds_per_trial(self) -> float:
        """As `BaseCell.seconds_per_trial`."""
        return 1e-8 * (self.numbers + 6)

    @property
    def memory(self) -> int:
        """As `BaseCell.memory`: a batch, its powers, and the bins."""
        return 8 * (self.batch_trials * (self.numbers + 18) + 16 * BINS)


@dataclass(frozen=True)
class Scores:
    """The law of the scores of some trials, reduced to a size that does not grow with their
    number.
    """

    moments: Moments  # of the vector (s, s^2, s^3, s^4) of a score s
    counts: npt.NDArray[np.int64]  # scores in each bin, (2 BINS,)

    def merge(self, following: Self) -> Self:
        """Both chunks together: merged moments, and added counts."""
        return type(self)(self.moments.merge(following.moments), self.counts + following.counts)


def bin_edges() -> FloatArray:
    """The edges of the bins, as scores over sqrt(d_k), (2 BINS + 1,): sinh(BIN_WIDTH i) for i from
    -BINS to BINS.

    >>> bin_edges()[[0, BINS, -1]].round(2)
    array([-60.75,   0.  ,  60.75])
    """
    return np.asarray(np.sinh(BIN_WIDTH * np.arange(-BINS, BINS + 1)))


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> Scores:
    """Scores of that many independent pairs, a batch at a time: queries, then keys, of each
    batch.
    """
    size = cell.batch_trials
    counts = (min(size, trials - first) for first in range(0, trials, size))
    return reduce(Scores.merge, (_measure_batch(cell, count, rng) for count in counts))


def _measure_batch(cell: Cell, trials: int, rng: np.random.Generator) -> Scores:
    """The moments and counts of a batch of trials, whose queries and keys are in memory at once."""
    queries, keys = rng.standard_normal((2, trials, cell.d_k))
    scores = np.vecdot(queries, keys)
    place = np.floor(np.arcsinh(scores / math.sqrt(cell.d_k)) / BIN_WIDTH).astype(np.int64)
    counts = np.bincount(np.clip(place + BINS, 0, 2 * BINS - 1), minlength=2 * BINS)
    return Scores(Moments.of(power_sums(scores[:, None])), counts)


def tabulate(cell: Cell, measured: Scores) -> dict[str, list[Row]]:
    """One row with the moments of 20 trials or more and their intervals; and the counts of the
    bins.
    """
    moments = measured.moments
    shape, trials = ScoreMoments.of(moments), moments.trials
    estimates = {metric.name: metric.compute(shape, 1.0).with_error(moments) for metric in METRICS}
    counts = cell.row_head() | {"trials": trials, "counts": measured.counts}
    return {MEASURED: [metric_row(METRICS, cell, trials, estimates)], COUNTS: [counts]}


EXPERIMENT = Experiment(
    name="distribution",
    cell=Cell,
    columns=(
        Column("trials", "int", "independent pairs of a query and a key"),
        *metric_columns(METRICS),
    ),
    metrics=METRICS,
    measure=measure,
    tabulate=tabulate,
    min_trials=MIN_TRIALS,
)
