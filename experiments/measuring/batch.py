"""Rows of attention with all that metrics need of them, and metrics that say how to compute them.

A tuple of these metrics, with a class of cells that draw Q and K, is an experiment on rows
(`experiments.measuring.row_statistics`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from experiments.measuring.metric import Metric
from experiments.measuring.rules import Floats
from experiments.measuring.score_metrics import ScoreMetric
from sdpa import RowDiagnostics, softmax


@dataclass(frozen=True)
class Batch:
    """Rows of some draws under all divisors, and the vectors behind them."""

    queries: Floats  # (n_draws, n_queries, d_k)
    # q.k before any divisor, (n_draws, n_queries, n_keys); -inf where a key is masked
    scores: Floats
    divisors: Floats  # of each query under each rule, (n_divisors, 1, n_queries)
    rows: RowDiagnostics  # of the scores
    rows_per_key: float  # the number of queries of a whole draw over its number of keys
    # numbers per row, (n_divisors, n_draws, n_queries), from `AttentionCell.extra_values`
    extra_values: Mapping[str, Floats]

    def values(self, of: "PerRow") -> Floats:
        """A number per row, (n_divisors, n_draws, n_queries)."""
        if callable(of):
            return of(self)
        if of in self.extra_values:
            return self.extra_values[of]
        if not hasattr(self.rows, of):
            raise LookupError(
                f"expected a metric with `compute`, or with the name of a diagnostic, got {of}"
            )
        return np.asarray(getattr(self.rows, of))

    def of_weights(self, function: Callable[[Floats], Floats]) -> Floats:
        """A function of weights (n_draws, n_queries, n_keys), from one softmax of all scores for
        each divisor.
        """
        return np.stack(
            [function(softmax(self.scores / divisor[..., None])) for divisor in self.divisors]
        )


PerRow = str | Callable[[Batch], Floats]


@dataclass(frozen=True)
class RowMetric(Metric):
    """A metric with one value per row.

    Attributes:
        compute: a name of `RowDiagnostics` or of `Batch.extra_values`, or a function of a `Batch`
            that returns (n_divisors, n_draws, n_queries); None for the number of its own name.
    """

    compute: PerRow | None = None

    @property
    def source(self) -> PerRow:
        """The number per row behind the metric."""
        return self.name if self.compute is None else self.compute


@dataclass(frozen=True)
class VectorMetric(Metric):
    """A mean with one value per query or key, a function from vectors (..., d_k) to (...)."""

    kind: Literal["mean"] = "mean"
    per: Literal["query", "key"] = field(kw_only=True)
    compute: Callable[[Floats], Floats] = field(kw_only=True)


RowsMetric = RowMetric | VectorMetric | ScoreMetric
