"""The core experiment: all metrics of attention rows, for queries and keys of a given joint law."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from experiments.harness.columns import Meaning
from experiments.harness.experiment import ACCURACY
from experiments.metrics import METRICS
from experiments.row_statistics import RowStatistics
from experiments.row_statistics import seconds_per_trial as seconds_in_double
from experiments.sampling import NAMED, OTHER_WORDS
from experiments.sampling import Cell as SampledCell
from sdpa.arithmetic import FORMATS, Arithmetic
from sdpa.box_muller import single_normals

DOUBLE, SINGLE = FORMATS["float64"], FORMATS["float32"]
_SHARE_OF_TIME = 0.5  # of a trial in single precision, over that in double precision
# Relative, of means in single precision: beyond the largest difference from double precision that was measured with so
# many draws that it is no longer random, and ten times that for tests that add up values.
_SINGLE_ROUNDING, _SINGLE_ACCURACY = 5e-7, 5e-6
# Single precision keeps means to 1e-5 up to these sizes: of a scaled score, whose rounding error moves its weight; of
# the scores and divisors, whose fourth powers have to be in range; of means, beside which differences lose digits; and
# of sums over keys.
_LARGEST_SCORE, _LARGEST, _LONGEST_MEAN, _MOST_KEYS = 100.0, 1e6, 10.0, 2**16


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid, with the precision of its draws and sums.

    Attributes:
        arithmetic: precision of queries, keys, scores, weights and their sums over keys; means over rows and draws are
            in double precision. The other fields are those of `experiments.sampling.Cell`.
    """

    arithmetic: Annotated[
        Arithmetic, Meaning("float64 or float32: precision of draws, scores and sums over keys; float32 is faster")
    ] = DOUBLE

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """As `AttentionCell.dtype`."""
        return np.dtype(self.arithmetic.name)

    @property
    def rounding(self) -> float:
        """As `AttentionCell.rounding`."""
        return 0.0 if self.arithmetic == DOUBLE else _SINGLE_ROUNDING

    @property
    def entries(self) -> int:
        """As `AttentionCell.entries`; only Gaussian entries are drawn in single precision, the others rounded to it."""
        rounded = self.arithmetic == SINGLE and self.inputs.name != "gaussian"
        return 3 * self.numbers if rounded else self.numbers

    def problem(self) -> str | None:
        """As `AttentionCell.problem`; single precision excludes sizes that it cannot represent or resolve.

        >>> Cell(d_k=4, n_keys=3, n_queries=2, query_mean=50.0, arithmetic=SINGLE, scaling=()).problem()
        'arithmetic: expected float64 beside a |query_mean| beyond 10 query_std, got float32 and query_mean = 50'
        """
        if (found := super().problem()) or self.arithmetic == DOUBLE:
            return found
        if self.arithmetic != SINGLE:
            wanted = "expected float64 or float32 (the experiment rounding takes all formats)"
            return f"arithmetic: {wanted}, got {self.arithmetic}"
        beside = next(self._beyond_single(), None)
        return beside and "arithmetic: expected float64 beside {}, got float32 and {} = {:g}".format(*beside)

    def _beyond_single(self) -> Iterator[tuple[str, str, float]]:
        """Each size that single precision excludes: the limit, its name and its value."""
        if self.n_keys > _MOST_KEYS:
            yield f"more than {_MOST_KEYS} keys", "n_keys", self.n_keys
        for vector in ("query", "key"):
            mean = getattr(self, f"{vector}_mean")
            if abs(mean) > _LONGEST_MEAN * getattr(self, f"{vector}_std"):
                yield f"a |{vector}_mean| beyond {_LONGEST_MEAN:g} {vector}_std", f"{vector}_mean", mean
        of_entries = {"none": self.query_std * self.key_std, "rms": 1.0, "l2": 1 / self.d_k}[self.normalize]
        deviation, divisors = of_entries * math.sqrt(self.d_k), self.divisors()
        for name, size in (("score deviation", deviation), *(("divisor", divisor) for divisor in divisors)):
            if not 1 / _LARGEST <= size <= _LARGEST:
                yield f"a {name} outside {1 / _LARGEST:g} to {_LARGEST:g}", name, size
        if divisors and deviation / min(divisors) > _LARGEST_SCORE:
            scaled = deviation / min(divisors)
            yield f"scaled scores of a deviation beyond {_LARGEST_SCORE:g}", "their deviation", scaled

    def stamp(self) -> dict[str, Any]:
        """As `AttentionCell.stamp`, with the code of draws in single precision."""
        return super().stamp() if self.arithmetic == DOUBLE else {"arithmetic": [single_normals], **super().stamp()}


def seconds_per_trial(cell: Cell) -> float:
    """As in `row_statistics`; single precision takes half the time."""
    return seconds_in_double(cell) * (1.0 if cell.arithmetic == DOUBLE else _SHARE_OF_TIME)


def accuracy(cell: Cell) -> float:
    """As `Experiment.accuracy`."""
    return ACCURACY if cell.arithmetic == DOUBLE else _SINGLE_ACCURACY


STATISTICS = RowStatistics(METRICS)
EXPERIMENT = STATISTICS.experiment(
    Cell, named=(*NAMED, Arithmetic), other_words=OTHER_WORDS, seconds_per_trial=seconds_per_trial, accuracy=accuracy
)
