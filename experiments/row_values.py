"""The quantities behind metrics of rows: a number per row, per query or per key of a block of draws."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from sdpa import RowDiagnostics, softmax

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Block:
    """Rows of some draws under all divisors, and the vectors behind them.

    Attributes:
        queries: (n_draws, n_queries, d_k).
        scores: q.k before any divisor, (n_draws, n_queries, n_keys); -inf where a key is masked.
        divisors: numbers above 0.
        rows: the diagnostics of the scores.
        rows_per_key: number of queries of a whole draw over its number of keys.
        further: numbers per row by name, (n_divisors, n_draws, n_queries), from `RowStatistics.further`.
    """

    queries: Floats
    scores: Floats
    divisors: Sequence[float]
    rows: RowDiagnostics
    rows_per_key: float
    further: Mapping[str, Floats] = field(default_factory=dict)


Needs = Literal["gradient", "variance", "own key"]


@dataclass(frozen=True)
class OfRows:
    """A number per row, from the kernel.

    Attributes:
        function: from diagnostics to an array of shape (n_divisors, n_draws, n_queries).
        needs: what the kernel computes on request only: the norm of the gradient to the query, the variance of the
            scores, or the weight of the row's own key.
    """

    function: Callable[[RowDiagnostics], Floats]
    needs: Needs | None = None

    def values(self, block: Block) -> Floats:
        """The number of each row, (n_divisors, n_draws, n_queries)."""
        return self.function(block.rows)


@dataclass(frozen=True)
class OfWeights:
    """A number per row, from its weights.

    Attributes:
        function: from weights (n_draws, n_queries, n_keys) to an array (n_draws, n_queries).
    """

    function: Callable[[Floats], Floats]
    needs = None

    def values(self, block: Block) -> Floats:
        """The number of each row, (n_divisors, n_draws, n_queries), from one softmax of all scores for each divisor."""
        return np.stack([self.function(softmax(block.scores / divisor)) for divisor in block.divisors])


@dataclass(frozen=True)
class OfBlock:
    """A number per row, from everything that a block has.

    Attributes:
        function: from a block to an array of shape (n_divisors, n_draws, n_queries).
    """

    function: Callable[[Block], Floats]
    needs = None

    def values(self, block: Block) -> Floats:
        """The number of each row, (n_divisors, n_draws, n_queries)."""
        return self.function(block)


PerRow = OfRows | OfWeights | OfBlock


@dataclass(frozen=True)
class OfVectors:
    """A number per query or per key, the same under every scaling.

    Attributes:
        vectors: which of them.
        function: from vectors (..., d_k) to an array (...).
    """

    vectors: Literal["queries", "keys"]
    function: Callable[[Floats], Floats]
