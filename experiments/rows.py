"""The weights of a few rows to look at, as in a tutorial, from our own draw.

Every score is kept, so tables have scalings x trials x n_queries x n_keys rows; sweeps of this experiment are small.
There are no metrics, and so no errors, exact values or verdicts: a few rows illustrate, and saturation sweeps measure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from experiments.harness.columns import Column
from experiments.harness.experiment import MEASURED, Experiment, Row
from experiments.sampling import TREATMENT, Cell, Floats, block_trials, query_blocks
from sdpa import softmax


@dataclass(frozen=True)
class RowsMeasurement:
    """The scores q.k of every draw, before any divisor.

    Attributes:
        scores: (draws, n_queries, n_keys); -inf where a key is masked.
    """

    scores: Floats

    def merge(self, following: Self) -> Self:
        """The draws of both chunks, in order."""
        return type(self)(np.concatenate([self.scores, following.scores]))


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> RowsMeasurement:
    """The scores of that many independent draws of (Q, K), (trials, n_queries, n_keys)."""
    keys, queries_of = cell.draw(trials, rng)
    blocks = [(queries_of(rows) @ keys.swapaxes(-1, -2), cell.visible(rows)) for rows in query_blocks(cell)]
    masked = [scores if visible is None else np.where(visible, scores, -np.inf) for scores, visible in blocks]
    return RowsMeasurement(np.concatenate(masked, axis=1))


def tabulate(cell: Cell, measurement: RowsMeasurement) -> dict[str, Iterator[Row]]:
    """One row per scaling, draw, query and key, made on demand.

    Returns:
        The rows of the main table without the axes. `trial`, `query` and `key` count from 0; `weight` is
        softmax(q.k / divisor), so that the weights of the keys of one query sum to 1.
    """
    return {MEASURED: _rows(cell, measurement)}


def _rows(cell: Cell, measurement: RowsMeasurement) -> Iterator[Row]:
    """The rows of `tabulate`: scalings in the order of the config, and within each the last index, the key, fastest.

    Masked keys have no row.
    """
    for treatment in cell.treatments():
        scaled = measurement.scores / treatment["divisor"]
        weights = softmax(scaled)
        for trial, query, key in np.argwhere(np.isfinite(scaled)).tolist():
            yield {
                **treatment,
                "trial": trial,
                "query": query,
                "key": key,
                "scaled_score": float(scaled[trial, query, key]),
                "weight": float(weights[trial, query, key]),
            }


EXPERIMENT = Experiment(
    name="rows",
    cell=Cell,
    columns=(
        *TREATMENT,
        Column("trial", "int", "number of the draw of (Q, K), from 0"),
        Column("query", "int", "number of the query, from 0"),
        Column("key", "int", "number of the key, from 0"),
        Column("scaled_score", "float", "score of the query and the key, divided by the divisor", "q.k / divisor"),
        Column("weight", "float", "softmax weight of the key in the query's row", "softmax(q.k / divisor)"),
    ),
    chunk_trials=block_trials,
    measure=measure,
    tabulate=tabulate,
    seconds_per_trial=lambda cell: 1e-8 * cell.numbers + 1e-5 * len(cell.scaling) * cell.scores,
    memory=lambda cell: 16 * block_trials(cell) * (cell.entries + cell.n_queries * cell.n_keys),
    table_rows=lambda cell, trials: len(cell.scaling) * trials * cell.scores,
    stamp=Cell.stamp,
    problem=Cell.problem,
)
