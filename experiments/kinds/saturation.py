"""The core experiment: all metrics of attention rows, for queries and keys of a given joint law."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from experiments.measuring.columns import Meaning
from experiments.measuring.row_metrics import METRICS
from experiments.measuring.row_statistics import RowStatistics
from experiments.measuring.sampling import Cell as SampledCell
from sdpa.arithmetic import FORMATS, Arithmetic
from sdpa.inputs import draws_single
from sdpa.pairs import spectrum_of

DOUBLE, SINGLE = FORMATS["float64"], FORMATS["float32"]
# Relative, of means in single precision: beyond the largest difference from double precision in very many draws.
_SINGLE_ROUNDING = 5e-7
# What single precision excludes, so that means agree with double precision.
_LARGEST_SCORE = 100.0  # r.m.s. of scaled scores: a rounding error of 2^-24 of a score moves its weight by as much
_LARGEST = 1e6  # of the deviation of scores and of divisors, or its inverse: their fourth powers have to be in range
_LONGEST_MEAN = 10.0  # of entries, over their deviation: differences of scores lose digits beside a long mean
_MOST_KEYS = 2**16  # longer sums lose small terms


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid, with the precision of its draws and sums over keys; means are in double precision."""

    arithmetic: Annotated[
        Arithmetic, Meaning("float64 or float32: precision of draws, scores and sums over keys; float32 is faster")
    ] = DOUBLE

    can_divide_by_row = True

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """As `AttentionCell.dtype`."""
        return np.dtype(self.arithmetic.name)

    @property
    def rounding_error(self) -> float:
        """As `AttentionCell.rounding_error`."""
        return 0.0 if self.arithmetic == DOUBLE else _SINGLE_ROUNDING

    @property
    def entries(self) -> int:
        """As `AttentionCell.entries`; entries that are rounded to single precision are in memory in double too."""
        rounded = self.arithmetic == SINGLE and not draws_single(self.inputs)
        return 3 * self.numbers if rounded else self.numbers

    def problem(self) -> str | None:
        """As `sampling.Cell.problem`; single precision excludes sizes that it cannot represent or resolve.

        >>> Cell(d_k=4, n_keys=3, n_queries=2, query_mean=50.0, arithmetic=SINGLE, scaling=()).problem()
        'arithmetic: expected float64 beside a |query_mean| beyond 10 query_std, got float32 and query_mean = 50'
        """
        if (found := super().problem()) or self.arithmetic == DOUBLE:
            return found
        if self.arithmetic != SINGLE:
            wanted = "expected float64 or float32 (the experiment rounding takes all formats)"
            return f"arithmetic: {wanted}, got {self.arithmetic}"
        for is_beyond, limit, name, size in self._limits():
            if is_beyond:
                return f"arithmetic: expected float64 beside {limit}, got float32 and {name} = {size:g}"
        return None

    def _limits(self) -> Iterator[tuple[bool, str, str, float]]:
        """Each limit of single precision: True beyond it, the limit, and the name and the value of what it limits."""
        yield self.n_keys > _MOST_KEYS, f"more than {_MOST_KEYS} keys", "n_keys", self.n_keys
        for name, mean, std in (("query", self.query_mean, self.query_std), ("key", self.key_mean, self.key_std)):
            limit = f"a |{name}_mean| beyond {_LONGEST_MEAN:g} {name}_std"
            yield abs(mean) > _LONGEST_MEAN * std, limit, f"{name}_mean", mean
        has_means = self.normalize != "none" and 0 not in (self.query_mean, self.key_mean)
        yield has_means, f"normalize {self.normalize} with two means", "query_mean", self.query_mean
        (mean, deviation), divisors = self._score_moments(), self.divisors()
        for name, size in (("score deviation", deviation), *(("divisor", divisor) for divisor in divisors)):
            yield not 1 / _LARGEST <= size <= _LARGEST, f"a {name} outside {1 / _LARGEST:g} to {_LARGEST:g}", name, size
        scaled = math.hypot(mean, deviation) / min(divisors, default=math.inf)
        limit = f"scaled scores of an r.m.s. beyond {_LARGEST_SCORE:g}"
        yield scaled > _LARGEST_SCORE, limit, "their r.m.s.", scaled

    def _score_moments(self) -> tuple[float, float]:
        """Mean and standard deviation of q.k; for normalized vectors an upper limit of the deviation.

        For independent q and k: var(q.k) = sum_m lambda_m^2 (query_std key_std)^2 + lambda_m ((query_mean key_std)^2 +
        (key_mean query_std)^2), with the spectrum lambda of mean 1.
        """
        means, stds = (self.query_mean, self.key_mean), (self.query_std, self.key_std)
        if self.normalize != "none":
            length = math.sqrt(self.d_k) if self.normalize == "l2" else 1.0
            sizes = [length * math.hypot(mean, std) for mean, std in zip(means, stds, strict=True)]
            means, stds = ((pair[0] / sizes[0], pair[1] / sizes[1]) for pair in (means, stds))
        squares = float(np.mean(spectrum_of(self.d_k, self.spectrum) ** 2)) * (stds[0] * stds[1]) ** 2
        squares += (means[0] * stds[1]) ** 2 + (means[1] * stds[0]) ** 2
        return self.d_k * means[0] * means[1], math.sqrt(self.d_k * squares)


STATISTICS = RowStatistics(METRICS)
EXPERIMENT = STATISTICS.experiment("saturation", Cell)
