"""Faults to plant: a metric off by a factor, and mistakes in the measuring code.

A `Factor` changes a finished table, so one run serves many factors. A mistake of `MISTAKES` needs its own run, because
it changes the measurement.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.benchmarks.calibration.measured import Tables, measure_sweep
from experiments.harness.experiment import MEASURED
from experiments.harness.grid import Sweep
from experiments.harness.seeds import bit_generator
from experiments.metrics import METRICS
from experiments.sampling import Cell
from experiments.statistics.intervals import Limits, mean_interval
from sdpa import InputLaw, Scaling, softmax


@dataclass(frozen=True)
class Factor:
    """A metric that comes out multiplied, with its errors, under one scaling or under all.

    Attributes:
        metric: its name; not a quantile, because `plant` multiplies a standard error too.
        scaling: the name of the scaling; empty for all.
        factor: 1.01 for a metric that comes out 1% too large.
    """

    metric: str
    scaling: str
    factor: float

    def plant(self, table: pd.DataFrame) -> pd.DataFrame:
        """The measured table with the fault.

        Value, standard error and both ends of the interval are multiplied, so the relative error stays.

        >>> columns = {"scaling": ["unscaled", "d_k^1/2"], "h": 1.0, "h_se": 0.1, "h_low": 0.8, "h_high": 1.2}
        >>> Factor("h", "unscaled", 2.0).plant(pd.DataFrame(columns))["h_se"].tolist()
        [0.2, 0.1]
        """
        rows = table["scaling"] == self.scaling if self.scaling else pd.Series(True, index=table.index)
        columns = [self.metric, *(f"{self.metric}_{part}" for part in ("se", "low", "high"))]
        return table.assign(**{name: table[name].where(~rows, table[name] * self.factor) for name in columns})


_AVERAGED = [metric.name for metric in METRICS if metric.kind != "quantile"]
FACTORS = [
    Factor(metric, scaling, 1 + size)
    for metric in _AVERAGED
    if metric != "score_mean"  # its exact value is 0, so a factor does not change its distance in errors
    for scaling in ("", "unscaled", "d_k^1/2")
    for size in (0.01, 0.03, 0.1, 0.3)
]


class _DivisorOff(Scaling):
    """A rule that divides by 1% more than it should."""

    def divisor(self, d_k: int, n_keys: int) -> float:
        """1.01 times the rule's divisor."""
        return 1.01 * super().divisor(d_k, n_keys)


def _with_divisors_off(cell: Cell) -> Cell:
    """The cell with every rule replaced by one of the same name whose divisor is 1% larger."""
    return replace(cell, scaling=tuple(_DivisorOff(scaling.constant, scaling.powers) for scaling in cell.scaling))


class _PairedSampler:
    """Sample keys, then queries, in the order of `Cell.draw`; the i-th query and key of a draw share a part.

    They share one, for example, if both are projections of one token. The paired entries of a query are
    sqrt(1 - rho^2) x + rho k, of unit variance, with k the entry of its key and rho the correlation.
    """

    def __init__(self, law: InputLaw, n_queries: int, correlation: float) -> None:
        self._law, self._n_queries, self._correlation = law, n_queries, correlation
        self._keys: npt.NDArray[np.floating] = np.empty(0)
        self._queries_left = 0

    def __call__(self, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.floating]:
        drawn = self._law.sample(rng, shape)
        if self._queries_left == 0:
            self._keys, self._queries_left = drawn.copy(), self._n_queries
            return drawn
        first = self._n_queries - self._queries_left
        self._queries_left -= shape[1]
        keys = self._keys[:, first : first + shape[1]]
        paired = drawn[:, : keys.shape[1]]
        paired *= math.sqrt(1 - self._correlation**2)
        paired += self._correlation * keys
        return drawn


def with_pairs(cell: Cell, correlation: float = 0.05) -> Cell:
    """The cell under a law that correlates the i-th query and the i-th key of a draw.

    Args:
        cell: any cell; the sampler keeps state between calls, so a cell serves one measurement at a time.
        correlation: between an entry of the query and the same entry of the key.

    Returns:
        The cell, whose law has the name and moments of the original, so that theory expects independence.
    """
    sampler = _PairedSampler(cell.inputs, cell.n_queries, correlation)
    return replace(cell, inputs=replace(cell.inputs, sample=sampler))


def _errors_times(factor: float) -> Callable[[Sweep, int], Tables]:
    """All standard errors multiplied, and intervals wider by the same factor."""

    def measure(sweep: Sweep, seed: int) -> Tables:
        measured = measure_sweep(sweep, seed)
        table = measured[MEASURED]
        columns = {f"{metric}_se": factor * table[f"{metric}_se"] for metric in _AVERAGED}
        for metric in _AVERAGED:
            for end in (f"{metric}_low", f"{metric}_high"):
                columns[end] = table[metric] + factor * (table[end] - table[metric])
        # The correlations stay: they do not depend on the size of errors.
        return {**measured, MEASURED: table.assign(**columns)}

    return measure


def _entropy_in_bits(sweep: Sweep, seed: int) -> Tables:
    """The entropy and its errors over ln 2: the mistake of a logarithm to base 2."""
    measured = measure_sweep(sweep, seed)
    return {**measured, MEASURED: Factor("entropy", "", 1 / math.log(2)).plant(measured[MEASURED])}


def _largest_weight_of_each_key(sweep: Sweep, seed: int) -> Tables:
    """The largest weight over queries instead of keys, from other draws under the same seed."""
    measured, rng = measure_sweep(sweep, seed), bit_generator(seed)
    rows = [row for cell in sweep.cells() for row in _largest_over_queries(cell, sweep.trials, rng)]
    found = pd.DataFrame(rows, columns=["max_weight", "max_weight_se", "max_weight_low", "max_weight_high"])
    return {**measured, MEASURED: measured[MEASURED].assign(**found)}


def _largest_over_queries(cell: Cell, trials: int, rng: np.random.Generator) -> Sequence[tuple[float, ...]]:
    """For each scaling the mean of the largest weight over queries, its standard error and its interval."""
    keys, blocks = cell.draw(trials, rng)
    scores = np.concatenate([queries @ keys.swapaxes(-1, -2) for _, queries in blocks], axis=1)
    found = []
    for divisor in cell.divisors():
        of_trials = softmax(scores / divisor).max(axis=-2).mean(axis=-1)
        mean, error = float(of_trials.mean()), float(of_trials.std(ddof=1)) / math.sqrt(trials)
        found.append((mean, error, *mean_interval(mean, error, trials, Limits(0, 1))))
    return found


# Functions by mistake that measure a sweep under a root seed with that mistake.
MISTAKES: dict[str, Callable[[Sweep, int], Tables]] = {
    "divisor off by 1%": partial(measure_sweep, change=_with_divisors_off),
    "error bars halved": _errors_times(0.5),
    "error bars doubled": _errors_times(2.0),
    "paired q and k correlated by 0.05": partial(measure_sweep, change=with_pairs),
    "entropy in bits": _entropy_in_bits,
    "largest weight over the wrong axis": _largest_weight_of_each_key,
}
# The check looks for values too far from the exact ones; error bars that are too wide move no value too far.
HARMLESS = ("error bars doubled",)
