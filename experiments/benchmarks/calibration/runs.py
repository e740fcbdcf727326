"""Runs of a sweep under many root seeds: alarms, intervals, and the faults that the check finds.

An alarm of an honest run is a false alarm; the check promises at most one in a thousand runs. The truth behind an
interval is the exact value or, for quantiles, the value of the pooled draws of all runs.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import reduce
from itertools import repeat
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.analysis import analyse
from experiments.analysis.agreement import Agreement, agreement
from experiments.analysis.derived import VERDICTS
from experiments.analysis.verdicts import BOUND, NONE, T_TEST
from experiments.benchmarks.calibration.faults import MISTAKES, Factor
from experiments.benchmarks.calibration.measured import (
    Tables,
    measure_cells,
    metric_values,
    quantile_bounds,
    statistics_of,
)
from experiments.harness.experiment import MEASURED
from experiments.harness.grid import Sweep
from experiments.harness.metric import FEW_DRAWS
from experiments.harness.tabulate import tabulated
from experiments.row_statistics import RowMeasurement

Floats = npt.NDArray[np.floating]

_BATCH = 10  # seeds of one task of a worker


@dataclass(frozen=True)
class Runs:
    """The runs of a sweep under some root seeds.

    Attributes:
        sweep: the sweep.
        alarms: (seeds,), True where the check raised its alarm.
        p_cells: (seeds,), the joint p-value of the cells.
        judged: (seeds, 3), numbers of values judged by t, by a bound, and not at all.
        lows, highs: (seeds, rows, metrics), the ends of the 95% intervals.
        flagged: (seeds, rows, metrics), True where a metric rests on too few draws.
        exact: (rows, metrics), the exact values, NaN where unknown.
        pooled: all draws of each cell.
        faults: one row for each planted factor and seed.
    """

    sweep: Sweep
    alarms: npt.NDArray[np.bool_]
    p_cells: Floats
    judged: npt.NDArray[np.int64]
    lows: Floats
    highs: Floats
    flagged: npt.NDArray[np.bool_]
    exact: Floats
    pooled: tuple[RowMeasurement, ...]
    faults: pd.DataFrame

    def merge(self, other: Self) -> Self:
        """These runs, then those of the same sweep under other seeds."""
        by_seed = ("alarms", "p_cells", "judged", "lows", "highs", "flagged")
        joined: Any = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in by_seed}
        return replace(
            self,
            **joined,
            pooled=tuple(one.merge(more) for one, more in zip(self.pooled, other.pooled, strict=True)),
            faults=pd.concat([self.faults, other.faults], ignore_index=True),
        )

    def truth(self) -> tuple[Floats, Floats]:
        """The smallest and the largest possible true value, each (rows, metrics).

        Both equal the exact value or, where it is unknown, the value of all draws. Quantiles of all draws are known
        to within a bin. With many runs, the error of a pooled value is small beside that of a single run.
        """
        cells = self.sweep.cells()
        table = tabulated(self.sweep.experiment, cells, self.pooled)[MEASURED]
        low, high = (
            np.where(np.isnan(self.exact), metric_values(self.sweep, table.assign(**bounds)), self.exact)
            for bounds in quantile_bounds(self.sweep, self.pooled)
        )
        return low, high


def simulate(pool: Executor, sweep: Sweep, seeds: range, factors: Sequence[Factor], faulty: int) -> Runs:
    """The runs of a sweep, over the workers of a pool.

    Args:
        pool: its workers run batches of ten seeds.
        sweep: a sweep of attention rows with a number of trials.
        seeds: one run for each root seed.
        factors: faults to plant under some of the seeds.
        faulty: plants them under the seeds of each batch that begins before this many seeds, so in whole batches.

    Returns:
        All runs together, in the order of the seeds.
    """
    firsts = range(0, len(seeds), _BATCH)
    batches = [seeds[first : first + _BATCH] for first in firsts]
    planted = [factors if first < faulty else () for first in firsts]
    return reduce(Runs.merge, pool.map(run_seeds, repeat(sweep), batches, planted))


def run_seeds(sweep: Sweep, seeds: range, factors: Sequence[Factor] = ()) -> Runs:
    """The runs of a sweep under these root seeds, each with and without the factors planted in its tables.

    One measurement serves all factors. Arguments as in `simulate`.
    """
    checked, planted, pooled = [], [], []
    cells = sweep.cells()
    for seed in seeds:
        measurements = measure_cells(sweep.experiment, cells, sweep.trials, seed)
        measured = tabulated(sweep.experiment, cells, measurements)
        checked.append(_check(sweep, measured))
        planted += [_plant(sweep, measured, factor) for factor in factors]
        pooled.append(measurements)
    tables, verdicts = zip(*((tables[MEASURED], tables[VERDICTS]) for tables, _ in checked), strict=True)
    return Runs(
        sweep,
        np.array([found.disagrees for _, found in checked]),
        np.array([found.p_cells for _, found in checked]),
        np.array([[(judged["test"] == test).sum() for test in (T_TEST, BOUND, NONE)] for judged in verdicts]),
        np.array([metric_values(sweep, table, "_low") for table in tables]),
        np.array([metric_values(sweep, table, "_high") for table in tables]),
        np.array([_flags(sweep, table) for table in tables]),
        tables[0].reindex(columns=[f"{metric.name}_exact" for metric in statistics_of(sweep).metrics]).to_numpy(),
        tuple(reduce(RowMeasurement.merge, of_cell) for of_cell in zip(*pooled, strict=True)),
        pd.DataFrame(planted),
    )


def raises_alarm(sweep: Sweep, seed: int, mistake: str) -> bool:
    """True if the check raises its alarm on a run with that mistake in the code.

    Args:
        sweep: a sweep of attention rows with a number of trials.
        seed: the root seed of the run.
        mistake: a key of `MISTAKES`.
    """
    _, found = _check(sweep, MISTAKES[mistake](sweep, seed))
    return found.disagrees


def _check(sweep: Sweep, measured: Tables) -> tuple[Tables, Agreement]:
    """The analysed tables of a run, and their agreement with theory."""
    tables = analyse(sweep, measured)
    return tables, agreement([sweep], {sweep.name: tables})


def _flags(sweep: Sweep, table: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """True where a metric has too few draws for its error bars, (rows, metrics)."""
    metrics = statistics_of(sweep).metrics
    return np.array([[metric.name in few.split() for metric in metrics] for few in table[FEW_DRAWS]])


def _plant(sweep: Sweep, measured: Tables, fault: Factor) -> dict[str, Any]:
    """A row about a fault: its alarm, and the largest shift of a value that t judges, in errors."""
    tables, found = _check(sweep, {**measured, MEASURED: fault.plant(measured[MEASURED])})
    verdicts = tables[VERDICTS]
    mine = verdicts[(verdicts["metric"] == fault.metric) & (verdicts["test"] == T_TEST)]
    if fault.scaling:
        mine = mine[mine["scaling"] == fault.scaling]
    return {
        "sweep": sweep.name,
        "trials": sweep.trials,
        "metric": fault.metric,
        "scaling": fault.scaling or "all",
        "size": f"{fault.factor - 1:.0%}",
        "errors_off": float(mine["z"].abs().max()) if len(mine) else 0.0,
        "alarm": found.disagrees,
    }
