"""Runs of a sweep under many root seeds: was there an alarm, which intervals hold the truth, which faults are found."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import reduce
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments import saturation
from experiments.analysis import analyse
from experiments.analysis.suite import agreement
from experiments.analysis.verdicts import BOUND, NONE, T_TEST
from experiments.benchmarks.calibration.faults import Factor, mistaken
from experiments.harness.experiment import Measured
from experiments.harness.grid import Sweep, axis_values, chunks
from experiments.harness.measuring import measure_chunk
from experiments.harness.paths import VERDICTS

Floats = npt.NDArray[np.floating]

METRICS = saturation.METRICS
_BATCH = 10  # seeds of one task of a worker


@dataclass(frozen=True)
class Batch:
    """The runs of a sweep under some root seeds.

    Attributes:
        sweep: the sweep's name.
        alarms: (seeds,), if the check raised its alarm.
        p_cells: (seeds,), the p-value of the cells together.
        judged: (seeds, 3), values judged by t, by a bound, and not at all.
        lows, highs: (seeds, rows, metrics), the ends of the 95% intervals.
        flagged: (seeds, rows, metrics), if a metric rests on too few draws.
        exact: (rows, metrics), NaN where it is not known.
        pooled: of each cell, all its draws.
        faults: one row for each planted factor and seed.
    """

    sweep: str
    alarms: npt.NDArray[np.bool_]
    p_cells: Floats
    judged: npt.NDArray[np.int64]
    lows: Floats
    highs: Floats
    flagged: npt.NDArray[np.bool_]
    exact: Floats
    pooled: tuple[saturation.SaturationMeasurement, ...]
    faults: pd.DataFrame

    def truth(self, sweep: Sweep) -> tuple[Floats, Floats]:
        """Between which values the truth lies, each (rows, metrics): exact values, and else those of all draws.

        Both are the same but for quantiles, which all draws together give to within a bin.
        """
        table, _ = _tabulated(sweep, self.pooled)
        ends = []
        for end in (0, 1):
            values = table.assign(**_quantiles(sweep, self.pooled, end))[[metric.name for metric in METRICS]].to_numpy()
            ends.append(np.where(np.isnan(self.exact), values, self.exact))
        return ends[0], ends[1]


def simulate(sweeps: Sequence[Sweep], seeds: range, factors: Sequence[Factor], faulty: int) -> Iterator[Batch]:
    """The batches of every sweep, over all processors; `factors` are planted under the first `faulty` seeds."""
    tasks = [
        (sweep, seeds[first : first + _BATCH], factors if first < faulty else ())
        for sweep in sweeps
        for first in range(0, len(seeds), _BATCH)
    ]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_batch, *zip(*tasks, strict=True))


def run_batch(sweep: Sweep, seeds: range, factors: Sequence[Factor]) -> Batch:
    """The runs of a sweep under these root seeds."""
    tables, planted, pooled = [], [], []
    for seed in seeds:
        cells = measure(sweep, seed)
        pooled.append(cells)
        measured = Measured(*_tabulated(sweep, cells))
        tables.append(_analysed(sweep, measured))
        planted += [_plant(sweep, measured, factor) for factor in factors]
    suites = [agreement([sweep], {sweep.name: found}) for found in tables]
    names = [metric.name for metric in METRICS]
    exact = tables[0]["measured"].reindex(columns=[f"{name}_exact" for name in names]).to_numpy()
    return Batch(
        sweep.name,
        np.array([suite.disagrees for suite in suites]),
        np.array([suite.p_cells for suite in suites]),
        np.array([_judged(found) for found in tables]),
        _ends(tables, "low"),
        _ends(tables, "high"),
        np.array([[[name in text.split() for name in names] for text in t["measured"]["few_draws"]] for t in tables]),
        exact,
        tuple(reduce(lambda one, other: one.merge(other), of_cell) for of_cell in zip(*pooled, strict=True)),
        pd.DataFrame(planted),
    )


def alarm(sweep: Sweep, seed: int, mistake: str) -> bool:
    """If the check raises its alarm on a run of code with that mistake."""
    with mistaken(mistake):
        measured = Measured(*_tabulated(sweep, measure(sweep, seed)))
        return agreement([sweep], {sweep.name: _analysed(sweep, measured)}).disagrees


def measure(sweep: Sweep, seed: int) -> list[Any]:
    """The measurement of every cell under a root seed."""
    with threadpool_limits(limits=1):
        return [
            reduce(
                lambda one, other: one.merge(other),
                (measure_chunk(chunk, seed) for chunk in chunks("saturation", cell, sweep.trials)),
            )
            for cell in sweep.cells()
        ]


def _tabulated(sweep: Sweep, cells: Sequence[Any]) -> tuple[pd.DataFrame, list[Any]]:
    rows, details = [], []
    for cell, found in zip(sweep.cells(), cells, strict=True):
        rows += [{**axis_values(cell), **row} for row in saturation.tabulate(cell, found)]
        details.append(saturation.estimates(cell, found))
    return pd.DataFrame(rows), details


def _quantiles(sweep: Sweep, cells: Sequence[saturation.SaturationMeasurement], end: int) -> dict[str, list[float]]:
    """The lower (0) or upper (1) ends between which the quantiles of the rows of the table lie."""
    found: dict[str, list[float]] = {}
    for cell, measurement in zip(sweep.cells(), cells, strict=True):
        for i in range(len(cell.scaling)):
            for j, norm in enumerate(saturation.NORMS):
                for name, share in saturation.QUANTILES.items():
                    within = measurement.norms.known_within(len(saturation.NORMS) * i + j, share)
                    found.setdefault(f"{norm}_{name}", []).append(within[end])
    return found


def _analysed(sweep: Sweep, measured: Measured) -> dict[str, pd.DataFrame]:
    with threadpool_limits(limits=1):
        return analyse(sweep, measured)


def _plant(sweep: Sweep, measured: Measured, fault: Factor) -> dict[str, Any]:
    """If a fault raises the alarm, and how many errors off it puts a value that t judges, at most."""
    tables = _analysed(sweep, Measured(fault.planted(measured.table), measured.details))
    found = agreement([sweep], {sweep.name: tables})
    verdicts = tables[VERDICTS]
    mine = verdicts[(verdicts["metric"] == fault.metric) & (verdicts["test"] == T_TEST)]
    if fault.scaling:
        mine = mine[mine["scaling"] == fault.scaling]
    size = f"{fault.factor - 1:.0%}"
    furthest = float(mine["z"].abs().max()) if len(mine) else 0.0
    return {
        "sweep": sweep.name,
        "trials": sweep.trials,
        "metric": fault.metric,
        "scaling": fault.scaling or "all",
        "size": size,
        "errors_off": furthest,
        "alarm": found.disagrees,
    }


def _judged(tables: dict[str, pd.DataFrame]) -> list[int]:
    tests = tables[VERDICTS]["test"]
    return [int((tests == name).sum()) for name in (T_TEST, BOUND, NONE)]


def _ends(tables: Sequence[dict[str, pd.DataFrame]], end: str) -> Floats:
    return np.array([table["measured"][[f"{metric.name}_{end}" for metric in METRICS]].to_numpy() for table in tables])
