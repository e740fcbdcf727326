"""Calibration of the check: false alarms of honest runs, coverage of intervals, and planted faults
that it misses.

`python -m benchmarks.calibration` runs the configs of calibration.yaml under 300 root seeds each, and
writes results/benchmarks/calibration*.csv; with `pair flat` it runs these two and writes nothing. The
truth behind an interval is the exact value or, if that is unknown or of a median, and so good to 0.1%
only, the value of the pooled draws of all runs.
"""

import importlib
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, product, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from experiments.analysis.agreement import ALARM, SURE, Agreement, agreement
from experiments.analysis.analyse import analyse
from experiments.analysis.derived import VERDICTS
from experiments.analysis.results import Results
from experiments.analysis.verdicts import BOUND, NONE, T_TEST
from experiments.analysis.written import DIGITS
from experiments.config.loader import load_config
from experiments.config.sweep import Sweep
from experiments.kinds.saturation import Cell
from experiments.measuring.batch import RowMetric
from experiments.measuring.chunk import bit_generator, chunks, measure_chunk
from experiments.measuring.columns import defaults
from experiments.measuring.experiment import MEASURED, AnyCell, Experiment
from experiments.measuring.metric import FEW_DRAWS
from experiments.measuring.row_metrics import METRICS
from experiments.measuring.row_statistics import RowMeasurement, RowStatistics
from experiments.measuring.rules import Floats
from experiments.paths import BENCHMARKS, SHIPPED_RESULTS
from experiments.running.work import tabulated
from experiments.running.workers import default_jobs, worker_pool
from sdpa import Scaling, softmax

CONFIG = Path(__file__).with_name("calibration.yaml")
TABLES = ("calibration", "calibration-coverage", "calibration-faults")
MIN_COVERAGE = 0.93  # of unflagged 95% intervals, in any config with at least 100 of them
_FAULTY = 10  # runs with planted factors, and seeds of one task of a worker
_SEEDS = 300
_MISTAKEN_SEEDS = 50
_FAULTED = ("usual_20", "usual_99", "usual_500", "many_trials")  # get FACTORS: four sizes of runs
_MISTAKEN = ("usual_20", "small")  # get MISTAKES: few trials, and many
_PROMISED = "small"  # has enough trials that the check must find every mistake
_SIZES = ("d_k", "n_keys", "n_queries", "scaling")
_COUNTED = ("intervals", "covering", "flagged")
_JUDGED = {"by_t": T_TEST, "by_bound": BOUND, "not_tested": NONE}

Tables = dict[str, pd.DataFrame]
Row = dict[str, object]


class Planted(NamedTuple):
    """A run with a fault."""

    fault: str
    config: str
    trials: int
    metric: str  # of a factor; else empty, as is the scaling
    scaling: str
    errors_off: float  # the largest shift of a value that t judges
    sure: bool  # the check promises an alarm
    alarm: bool


_FAULT = [*Planted._fields[:5]]  # what identifies one


def statistics_of(sweep: Sweep) -> RowStatistics:
    """The statistics of rows of the experiment of a sweep; its module binds STATISTICS."""
    return importlib.import_module(f"experiments.kinds.{sweep.experiment.name}").STATISTICS  # type: ignore[no-any-return]


def cells_of(sweep: Sweep) -> list[AnyCell]:
    """The cells of a sweep, for functions that use what cells of rows have."""
    return [*sweep.cells]


def measure_cells(
    experiment: Experiment, cells: Iterable[Any], trials: int, seed: int
) -> list[Any]:
    """The measurement of every cell, merged from the chunks that a run of the suite with that root
    seed has.
    """
    found = []
    for cell in cells:
        parts = [measure_chunk(chunk, seed) for chunk in chunks(experiment, cell, trials)]
        found.append(reduce(_merged, parts))
    return found


def _merged(one: Any, other: Any) -> Any:
    return one.merge(other)


def measure_sweep(
    sweep: Sweep, seed: int, change: Callable[[Any], Any] = lambda cell: cell
) -> Tables:
    """The tables of a sweep before analysis; `change` gives the cell to measure in place of each,
    to plant a fault.
    """
    cells = [change(cell) for cell in sweep.cells]
    measured = measure_cells(sweep.experiment, cells, sweep.trials, seed)
    return tabulated(sweep.experiment, cells, measured)


@dataclass(frozen=True)
class Factor:
    """A fault: a metric that comes out multiplied by `factor`, with its errors, under one scaling
    or under `all`.
    """

    metric: str  # no quantile, which has no standard error
    scaling: str
    factor: float

    def plant(self, table: pd.DataFrame) -> pd.DataFrame:
        """The measured table with the fault; intervals stay: only crossings read them, and faulty
        configs have none.
        """
        rows = table["scaling"].isin([self.scaling]) | (self.scaling == "all")
        both = [self.metric, f"{self.metric}_se"]
        return table.assign(**table[both].where(~rows, table[both] * self.factor))


_AVERAGED = [metric.name for metric in METRICS if metric.kind != "quantile"]
_ERRORS = [f"{name}_se" for name in _AVERAGED]
# its exact value is 0, and a factor leaves it there
_SCALABLE = [name for name in _AVERAGED if name != "score_mean"]
FACTORS = [
    Factor(*each)
    for each in product(_SCALABLE, ("all", "unscaled", "d_k^1/2"), (1.01, 1.03, 1.1, 1.3))
]


class _DivisorOff(Scaling):
    """A rule that divides by 1% more than it should."""

    def divisor(self, d_k: float, n_keys: float, n_visible: float | None = None) -> float:
        """1.01 times the rule's divisor."""
        return 1.01 * super().divisor(d_k, n_keys, n_visible)

    @classmethod
    def of(cls, cell: Cell) -> Cell:
        """The cell under such rules."""
        return replace(
            cell, scaling=tuple(cls(rule.constant, rule.powers) for rule in cell.scaling)
        )


def _with_pairs(sweep: Sweep, seed: int) -> Tables:
    """Draws whose i-th query and key have the correlation 0.05, in tables of cells without it."""
    drawn = [replace(cell, correlation=0.05) for cell in cells_of(sweep)]
    measured = measure_cells(sweep.experiment, drawn, sweep.trials, seed)
    return tabulated(sweep.experiment, sweep.cells, measured)


def _edited(edit: Callable[[pd.DataFrame], pd.DataFrame], sweep: Sweep, seed: int) -> Tables:
    measured = measure_sweep(sweep, seed)
    return {**measured, MEASURED: edit(measured[MEASURED])}


def _largest_over_queries(sweep: Sweep, seed: int) -> Tables:
    """The largest weight over queries instead of keys, from other draws under the same seed."""
    measured = measure_sweep(sweep, seed)
    rng = bit_generator(seed)
    rows = []
    for cell in cells_of(sweep):
        keys, queries = cell.draw(sweep.trials, rng)
        batches = [queries(batch) @ keys.swapaxes(-1, -2) for batch in cell.query_batches()]
        scores = np.concatenate(batches, axis=1)
        for divisor in cell.divisors():
            of_trials = softmax(scores / divisor).max(axis=-2).mean(axis=-1)
            rows.append((of_trials.mean(), of_trials.std(ddof=1) / math.sqrt(sweep.trials)))
    found = pd.DataFrame(rows, columns=["max_weight", "max_weight_se"])
    return {**measured, MEASURED: measured[MEASURED].assign(**found)}


# Functions by mistake that measure a sweep under a root seed with that mistake.
MISTAKES: dict[str, Callable[[Sweep, int], Tables]] = {
    "divisor off by 1%": partial(measure_sweep, change=_DivisorOff.of),
    "error bars halved": partial(_edited, lambda table: table.assign(**table[_ERRORS] * 0.5)),
    "error bars doubled": partial(_edited, lambda table: table.assign(**table[_ERRORS] * 2.0)),
    "paired q and k correlated by 0.05": _with_pairs,
    "entropy in bits": partial(_edited, Factor("entropy", "all", 1 / math.log(2)).plant),
    "largest weight over the wrong axis": _largest_over_queries,
}
# The check looks for values too far from the exact ones; error bars that are too wide move no value
# too far.
HARMLESS = ("error bars doubled",)


def run_seeds(
    sweep: Sweep, seeds: range, factors: Sequence[Factor] = (), pool: Executor | None = None
) -> tuple[Row, pd.DataFrame, list[Planted]]:
    """Runs of a sweep under many root seeds: its row of alarms, its rows of coverage, and each
    planted fault.

    Factors are planted in the tables of the first ten runs.
    """
    run_all = partial(pool.map, chunksize=_FAULTY) if pool else map
    planted = chain(repeat(factors, _FAULTY), repeat(()))
    checks = []
    values = []
    faults: list[Planted] = []
    pooled: list[RowMeasurement] = []
    for check, value, measured, found in run_all(_run, repeat(sweep), seeds, planted):
        checks.append(check)
        values.append(value)
        pooled = [*map(_merged, pooled, measured)] if pooled else measured
        faults += found
    alarms = alarms_of(sweep, pd.DataFrame(checks))
    return alarms, coverage_of(sweep, np.array(values), pooled), faults


def _run(
    sweep: Sweep, seed: int, factors: Sequence[Factor]
) -> tuple[Row, Floats, list[RowMeasurement], list[Planted]]:
    """A run: what the check says, `low, high, flag, exact` as (4, rows, metrics), all draws, and
    its planted faults.
    """
    measurements = measure_cells(sweep.experiment, sweep.cells, sweep.trials, seed)
    measured = tabulated(sweep.experiment, sweep.cells, measurements)
    tables, found = checked(sweep, measured)
    judged = {name: (tables[VERDICTS]["test"] == test).sum() for name, test in _JUDGED.items()}
    main = tables[MEASURED]
    low, high, exact = (_values(sweep, main, suffix) for suffix in ("_low", "_high", "_exact"))
    names = [metric.name for metric in sweep.experiment.metrics]
    flags = [[name in few.split() for name in names] for few in main[FEW_DRAWS]]
    check = {"alarm": found.disagrees, "p_cells": found.p_cells, **judged}
    planted = [_plant(sweep, measured, each) for each in factors]
    return check, np.array([low, high, flags, exact]), measurements, planted


def _values(sweep: Sweep, table: pd.DataFrame, suffix: str = "") -> Floats:
    """The columns METRIC + suffix of all metrics of a sweep, (rows, metrics); NaN without such a
    column.
    """
    names = [f"{metric.name}{suffix}" for metric in sweep.experiment.metrics]
    return np.asarray(table.reindex(columns=names), dtype=float)


def checked(sweep: Sweep, measured: Tables) -> tuple[Results, Agreement]:
    """The analysed tables of a run, and their agreement with theory."""
    tables = analyse(sweep, measured)
    return tables, agreement([tables])


def _plant(sweep: Sweep, measured: Tables, fault: Factor) -> Planted:
    """A run with a factor: its alarm, and the largest shift of a value that t judges, in errors."""
    tables, found = checked(sweep, {**measured, MEASURED: fault.plant(measured[MEASURED])})
    mine = tables[VERDICTS].query("metric == @fault.metric and test == @T_TEST")
    if fault.scaling != "all":
        mine = mine[mine["scaling"] == fault.scaling]
    off = np.nan_to_num(mine["z"].abs().max())
    return Planted(
        fault=f"{fault.factor - 1:.0%}",
        config=sweep.name,
        trials=sweep.trials,
        metric=fault.metric,
        scaling=fault.scaling,
        errors_off=off,
        sure=off >= SURE,
        alarm=found.disagrees,
    )


def with_mistake(sweep: Sweep, seed: int, mistake: str) -> Planted:
    """A run with a mistake: its alarm, and `sure` where the check promises one."""
    _, found = checked(sweep, MISTAKES[mistake](sweep, seed))
    return Planted(
        fault=mistake,
        config=sweep.name,
        trials=sweep.trials,
        metric="",
        scaling="",
        errors_off=np.nan,
        sure=sweep.name == _PROMISED and mistake not in HARMLESS,
        alarm=found.disagrees,
    )


def alarms_of(sweep: Sweep, checks: pd.DataFrame) -> Row:
    """The row of a config: keys, alarms, and a test for uniform p-values of its cells (Kolmogorov
    and Smirnov).
    """
    told = {name: "/".join(map(str, values)) for name, values in sweep.values.items()}
    usual = defaults(sweep.experiment.cell)
    unusual = [name for name, text in told.items() if text != str(usual.get(name))]
    row: Row = {
        "config": sweep.name,
        **{name: told.get(name, "") for name in _SIZES},
        "other": ", ".join(f"{name}={told[name]}" for name in unusual if name not in _SIZES),
        "trials": sweep.trials,
        "runs": len(checks),
        "alarms": int(checks["alarm"].sum()),
        "uniform_p": math.nan,
    }
    if (checks["p_cells"] < 1).any():  # without a tested cell, all are 1
        row["uniform_p"] = float(f"{stats.kstest(checks['p_cells'], 'uniform').pvalue:.3g}")
    return row | dict(checks[[*_JUDGED]].mean().round(1))


def coverage_of(sweep: Sweep, values: Floats, pooled: Sequence[RowMeasurement]) -> pd.DataFrame:
    """One row per metric and one for `all`: unflagged `intervals`, those `covering` the truth, and
    `flagged` ones.

    `values` are those of `_run` by seed, and `pooled` are all draws of each cell, whose quantiles
    lie within a bin.
    """
    cells = cells_of(sweep)
    statistics = statistics_of(sweep)
    lows, highs, flags, (exact, *_) = np.moveaxis(values, 1, 0)
    of_all_draws = _values(sweep, tabulated(sweep.experiment, cells, pooled)[MEASURED])
    low = np.where(np.isnan(exact), of_all_draws, exact)
    high = low.copy()
    row = 0
    for cell, drawn in zip(cells, pooled, strict=True):
        for rule in cell.scaling:
            for place, metric in enumerate(statistics.metrics):
                if not isinstance(metric, RowMetric) or metric.kind != "quantile":
                    continue
                series = statistics.series(cell, rule.name, metric)
                ends = drawn.norms.known_within(series, metric.share)
                low[row, place], high[row, place] = ends
            row += 1
    # Exact values are good to 1e-9, and those that are 0 to the precision of a double are ends of
    # intervals.
    slack = 1e-9 * np.abs(high) + 1e-300
    covering = (lows <= high + slack) & (highs >= low - slack) & (flags == 0)
    each = np.array([flags == 0, covering, flags == 1]).sum(axis=(1, 2)).T
    found = pd.DataFrame([*each, each.sum(axis=0)], columns=_COUNTED)
    found.insert(0, "metric", [*(metric.name for metric in statistics.metrics), "all"])
    found.insert(0, "config", sweep.name)
    return found


def faults_of(planted: Sequence[Planted]) -> pd.DataFrame:
    """One row per fault and config: its runs and alarms, and how many of those `sure` to raise one
    are `missed`.
    """
    table = pd.DataFrame(planted, columns=Planted._fields)
    table["missed"] = table["sure"] & ~table["alarm"].astype(bool)
    found = table.groupby(_FAULT, sort=False, as_index=False).agg(
        runs=("alarm", "size"),
        errors_off=("errors_off", "median"),
        alarms=("alarm", "sum"),
        sure=("sure", "sum"),
        missed=("missed", "sum"),
    )
    found["errors_off"] = found["errors_off"].map("{:.3g}".format).astype(float)
    return found.assign(sure=found["sure"].where(found["metric"] != ""))


def with_totals(alarms: pd.DataFrame, coverage: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with rows for all configs together, the chance of as many alarms, and the share
    of covering ones.
    """
    whole = {"config": "all", "runs": alarms["runs"].sum(), "alarms": alarms["alarms"].sum()}
    alarms = pd.concat([alarms, pd.DataFrame([whole])], ignore_index=True)
    alarms["p_value"] = stats.binom.sf(alarms["alarms"] - 1, alarms["runs"], ALARM)
    sums = coverage.groupby("metric", sort=False, as_index=False)[[*_COUNTED]].sum()
    coverage = pd.concat([coverage, sums.assign(config="all")], ignore_index=True)
    intervals = coverage["intervals"].where(coverage["intervals"] > 0)
    coverage["coverage"] = coverage.pop("covering") / intervals
    return alarms, coverage


def calibrate(results: Path, names: Sequence[str] = ()) -> None:
    """Print the tables of all configs, and write them; of those of some names, only print them."""
    config = load_config(CONFIG)
    if unknown := {*names} - {sweep.name for sweep in config.sweeps}:
        sys.exit(f"expected names of configs in {CONFIG.name}, got {', '.join(sorted(unknown))}")
    chosen = {sweep.name: sweep for sweep in config.sweeps if not names or sweep.name in names}
    seeds = range(config.seed, config.seed + _SEEDS)
    alarms: list[Row] = []
    coverage: list[pd.DataFrame] = []
    planted: list[Planted] = []
    with worker_pool(default_jobs()) as pool:
        for number, sweep in enumerate(chosen.values(), 1):
            print(f"{number} of {len(chosen)}: {sweep.name}", flush=True)
            factors = FACTORS if sweep.name in _FAULTED else ()
            of_alarms, of_coverage, faults = run_seeds(sweep, seeds, factors, pool)
            alarms.append(of_alarms)
            coverage.append(of_coverage)
            planted += faults
        mistaken = [chosen[name] for name in _MISTAKEN if name in chosen]
        for mistake, sweep in product(MISTAKES, mistaken):
            few = seeds[:_MISTAKEN_SEEDS]
            planted += pool.map(with_mistake, repeat(sweep), few, repeat(mistake))
    tables = [*with_totals(pd.DataFrame(alarms), pd.concat(coverage)), faults_of(planted)]
    for name, table in zip(TABLES, tables, strict=True):
        print(table.to_string(index=False))
        if not names:
            table.to_csv(results / BENCHMARKS / f"{name}.csv", index=False, float_format=DIGITS)


if __name__ == "__main__":
    calibrate(SHIPPED_RESULTS, sys.argv[1:])
