"""Attention rows in the number formats of accelerators, beside the same draws in double precision.

A draw of Q, K and standard normal gradients to the weights goes through attention twice: exactly, as in
`experiments.saturation`, and rounded to a format after every step (`sdpa.arithmetic`). A table has

- the probabilities that exact weights and scores are out of the format's range, with their exact values;
- the shares of weights, gradients and rows that are 0, 1 or lost in the format, which rounding before the last step
  moves away from these probabilities;
- the errors of metrics: rounded minus exact in the same draw, so that small errors are measurable.

All shares are over visible keys. A row is lost if the format has no number for one of its results: a score beyond the
largest number, positive, makes the weights of its row NaN, although the maximum is subtracted. Such a row counts as one
of zero weights and zero gradients. Overflow without subtracting the maximum is that of a number stored in the format;
an accumulator that keeps e^s overflows like float32.

No value of rounded rows has an exact one, and the check judges none.
"""

from dataclasses import astuple, dataclass, field
from typing import Annotated, Any

import numpy as np

from experiments.harness.columns import Meaning
from experiments.other_words import OTHER_WORDS
from experiments.rounding_comparison import compared_rows, exact_rows
from experiments.rounding_metrics import ROUNDING_METRICS
from experiments.row_statistics import RowStatistics
from experiments.row_statistics import seconds_per_trial as seconds_of_rows
from experiments.sampling import NAMED, Floats, block_queries, block_trials
from experiments.sampling import Cell as SampledCell
from sdpa.arithmetic import Arithmetic, rounded_rows

# Nanoseconds for rounding, per score and scaling and per entry of q and k, on a server core of 2025.
_PER_SCORE, _PER_ENTRY = 60.0, 10.0
_SCORE_ARRAYS = 14  # arrays of a block's scores in memory at once; a test compares them with a measured peak


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid, with the format of its rounded rows.

    Attributes:
        arithmetic: the format; the others are those of `experiments.sampling.Cell`.
    """

    # Without a default: in float64, a sweep that forgets it would measure last digits alone.
    arithmetic: Annotated[Arithmetic, Meaning("number format of the rounded rows")] = field(kw_only=True)

    def stamp(self) -> dict[str, Any]:
        """The values and code behind the names in a cell."""
        code = [Arithmetic, rounded_rows, *astuple(self.arithmetic)]
        return {"arithmetic": code, **super().stamp()}


def compared_draws(
    cell: Cell, rows: slice, queries: Floats, keys: Floats, scores: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """As `RowStatistics.further`: the numbers behind the metrics, from rounded and exact rows of the same draws.

    Args:
        cell: a point of the grid.
        rows: of the queries of a draw.
        queries, keys, scores: of a block of draws, without a divisor or mask.
        rng: draws the gradients to the weights.
    """
    gradient, visible = rng.standard_normal(scores.shape), cell.visible(rows)
    arithmetic = cell.arithmetic
    rounded_keys, rounded_gradient = arithmetic.round(keys), arithmetic.round(gradient)
    products = arithmetic.product(arithmetic.round(queries), rounded_keys.swapaxes(-1, -2))
    exact_scores = scores if visible is None else np.where(visible, scores, -np.inf)
    found: dict[str, list[Floats]] = {}
    for divisor in cell.divisors():
        exact = exact_rows(exact_scores / divisor, keys, gradient, divisor)
        rounded = rounded_rows(products, rounded_keys, rounded_gradient, divisor, arithmetic, visible)
        for name, values in compared_rows(arithmetic, exact, rounded, visible, cell.own_keys(rows)).items():
            found.setdefault(name, []).append(values)
    return {name: np.stack(values) for name, values in found.items()}


STATISTICS = RowStatistics(ROUNDING_METRICS, compared_draws)


def seconds_per_trial(cell: Cell) -> float:
    """As in `row_statistics`, with the time of rounding."""
    scores, vectors = cell.n_queries * cell.n_keys, (cell.n_queries + cell.n_keys) * cell.d_k
    return seconds_of_rows(cell) + 1e-9 * (_PER_SCORE * len(cell.scaling) * scores + _PER_ENTRY * vectors)


def memory(cell: Cell) -> int:
    """As `RowStatistics.memory`, with the arrays of rounded and of exact rows."""
    scores = block_trials(cell) * block_queries(cell) * cell.n_keys
    return STATISTICS.memory(cell) + 8 * _SCORE_ARRAYS * scores + 8 * block_trials(cell) * cell.entries


EXPERIMENT = STATISTICS.experiment(
    "rounding",
    Cell,
    named=(*NAMED, Arithmetic),
    other_words=OTHER_WORDS,
    seconds_per_trial=seconds_per_trial,
    memory=memory,
)
