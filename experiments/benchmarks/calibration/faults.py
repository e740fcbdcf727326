"""Faults to plant: a metric off by a factor, and mistakes in the code that measures."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from experiments import saturation
from experiments.draws import Cell, draw
from experiments.statistics.moments import Estimates
from sdpa import RowDiagnostics, row_diagnostics, softmax


@dataclass(frozen=True)
class Factor:
    """A metric that comes out multiplied, with its errors, under one scaling or under all (an empty name)."""

    metric: str
    scaling: str
    factor: float

    def planted(self, table: pd.DataFrame) -> pd.DataFrame:
        """The measured table with the fault."""
        rows = table["scaling"] == self.scaling if self.scaling else pd.Series(True, index=table.index)
        columns = [self.metric, *(f"{self.metric}_{part}" for part in ("se", "low", "high"))]
        return table.assign(**{name: table[name].where(~rows, table[name] * self.factor) for name in columns})


_METRICS = [metric.name for metric in saturation.METRICS if metric.kind != "quantile" and metric.name != "score_mean"]
FACTORS = [
    Factor(metric, scaling, 1 + size)
    for metric in _METRICS
    for scaling in ("", "unscaled", "d_k^1/2")
    for size in (0.01, 0.03, 0.1, 0.3)
]


def _divisors_off_by_a_percent(true: Callable[[Cell], list[float]]) -> Callable[[Cell], list[float]]:
    return lambda cell: [1.01 * divisor for divisor in true(cell)]


def _errors_times(factor: float) -> Callable[[Callable[..., Estimates]], Callable[..., Estimates]]:
    def mistake(true: Callable[..., Estimates]) -> Callable[..., Estimates]:
        def scaled(*given: Any) -> Estimates:
            estimates = true(*given)
            return replace(estimates, errors=factor * estimates.errors)

        return scaled

    return mistake


def _correlated_pairs(_: object, correlation: float = 0.05) -> Callable[..., Any]:
    """The i-th query and the i-th key of a draw share a part, as they do where both are projections of one token."""

    def drawn(cell: Cell, trials: int, rng: np.random.Generator) -> Any:
        keys, blocks = draw(cell, trials, rng)
        kept = list(blocks)
        queries = np.concatenate([block for _, block in kept], axis=1)
        pairs = min(cell.n_queries, cell.n_keys)
        keys[:, :pairs] *= math.sqrt(1 - correlation**2)
        keys[:, :pairs] += correlation * queries[:, :pairs]
        return keys, iter(kept)

    return drawn


def _entropy_in_bits(_: object) -> Callable[..., RowDiagnostics]:
    def diagnosed(*given: Any) -> RowDiagnostics:
        rows = row_diagnostics(*given)
        return replace(rows, entropy=rows.entropy / math.log(2))

    return diagnosed


def _largest_weight_of_each_key(_: object) -> Callable[..., RowDiagnostics]:
    """The largest weight over queries instead of keys."""

    def diagnosed(scores: Any, divisors: Any, *others: Any) -> RowDiagnostics:
        rows = row_diagnostics(scores, divisors, *others)
        means = [softmax(scores / divisor).max(axis=-2).mean() for divisor in divisors]
        return replace(rows, max_weight=np.broadcast_to(np.reshape(means, (-1, 1, 1)), rows.max_weight.shape))

    return diagnosed


# What is replaced, and by what, given the true one.
_MISTAKES: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "divisor off by 1%": (Cell, "divisors", _divisors_off_by_a_percent),
    "error bars halved": (Estimates, "of", _errors_times(0.5)),
    "error bars doubled": (Estimates, "of", _errors_times(2.0)),
    "paired q and k correlated by 0.05": (saturation, "draw", _correlated_pairs),
    "entropy in bits": (saturation, "row_diagnostics", _entropy_in_bits),
    "largest weight over the wrong axis": (saturation, "row_diagnostics", _largest_weight_of_each_key),
}
MISTAKES = tuple(_MISTAKES)
# The check asks if values are too far from the exact ones; error bars that are too wide put none too far.
HARMLESS = ("error bars doubled",)


@contextmanager
def mistaken(name: str) -> Iterator[None]:
    """The code with that mistake."""
    owner, attribute, mistake = _MISTAKES[name]
    with patch.object(owner, attribute, mistake(getattr(owner, attribute))):
        yield
