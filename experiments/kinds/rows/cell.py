"""The weights of a few attention rows to look at, each number in a row of the table.

Every score is kept, so tables have scalings x trials x n_queries x n_keys rows; sweeps of this
experiment are small. There are no metrics, and so no errors, exact values or verdicts: a few rows
illustrate, and saturation sweeps measure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from experiments.measuring.cells import Row
from experiments.measuring.columns import Column
from experiments.measuring.experiment import MEASURED, Experiment
from experiments.measuring.sampling import SampledCell
from sdpa import softmax
from sdpa._arrays import FloatArray


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid."""

    @property
    def chunk_trials(self) -> int:
        """As `BaseCell.chunk_trials`: one batch."""
        return self.batch_trials

    @property
    def seconds_per_trial(self) -> float:
        """As `BaseCell.seconds_per_trial`: the rows of the table take most of it."""
        return 1e-8 * self.numbers + 1e-5 * len(self.scaling) * self.n_scores

    @property
    def memory(self) -> int:
        """As `BaseCell.memory`: entries and scores of a batch, and their copies."""
        return 16 * self.batch_trials * (self.entries + self.n_queries * self.n_keys)

    def table_rows(self, trials: int) -> int:
        """As `BaseCell.table_rows`: one for each rule and score."""
        return len(self.scaling) * trials * self.n_scores


@dataclass(frozen=True)
class RowsMeasurement:
    """The scores q.k of every draw, before any divisor."""

    scores: FloatArray  # (draws, n_queries, n_keys)

    def merge(self, following: Self) -> Self:
        """The draws of both chunks, in order."""
        return type(self)(np.concatenate([self.scores, following.scores]))


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> RowsMeasurement:
    """The scores of that many independent draws of (Q, K), (trials, n_queries, n_keys)."""
    keys, queries = cell.draw(trials, rng)
    scores = [queries(rows) @ keys.swapaxes(-1, -2) for rows in cell.query_batches()]
    return RowsMeasurement(np.concatenate(scores, axis=1))


def tabulate(cell: Cell, measurement: RowsMeasurement) -> dict[str, Iterator[Row]]:
    """One row per scaling, draw, query and visible key, made on demand; the key varies fastest.

    The weights softmax(q.k / divisor) of the keys of one query sum to 1.
    """
    return {MEASURED: _rows(cell, measurement.scores)}


def _rows(cell: Cell, scores: FloatArray) -> Iterator[Row]:
    if (visible := cell.visible(slice(0, cell.n_queries))) is not None:
        scores = np.where(visible, scores, -np.inf)
    for rule_cell in cell.by_rule():
        head, scaled = rule_cell.row_head(), scores / rule_cell.divisor
        weights = softmax(scaled)
        for trial, query, key in np.argwhere(np.isfinite(scaled)).tolist():
            place = {"trial": trial, "query": query, "key": key}
            score, weight = float(scaled[trial, query, key]), float(weights[trial, query, key])
            yield {**head, **place, "scaled_score": score, "weight": weight}


EXPERIMENT = Experiment(
    name="rows",
    cell=Cell,
    columns=(
        Column("trial", "int", "number of the draw of (Q, K), from 0"),
        Column("query", "int", "number of the query, from 0"),
        Column("key", "int", "number of the key, from 0"),
        Column(
            "scaled_score",
            "float",
            "score of the query and the key, divided by the divisor",
            "q.k / divisor",
        ),
        Column(
            "weight",
            "float",
            "softmax weight of the key in the query's row",
            "softmax(q.k / divisor)",
        ),
    ),
    measure=measure,
    tabulate=tabulate,
)
