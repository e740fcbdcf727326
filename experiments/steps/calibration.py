"""The calibration of the check: its tables, and the cases that break its promised rates.

Configs under many root seeds come in; the rates of false alarms, of missed faults and of intervals that contain the
truth come out. It compares the check with its promises, not the suite with theory.
"""

from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.folders import benchmark_path
from experiments.harness.config import load_config
from experiments.harness.files import locked, write_atomically
from experiments.harness.local import default_jobs, worker_pool
from experiments.harness.problems import Problem
from experiments.harness.tables import csv_bytes

if TYPE_CHECKING:
    from experiments.benchmarks.calibration.tables import Calibration

CONFIG = Path(__file__).parents[1] / "benchmarks" / "calibration" / "config.yaml"
TABLES = ("calibration", "calibration-coverage", "calibration-faults")
# Configs whose runs take about a second; the others take up to twenty minutes more.
_SUBSET = (
    "pair_spread_3",
    "pair",
    "four_keys_wide",
    "usual_20",
    "usual_99",
    "flat",
    "uniform_20",
    "narrowest_query_20",
    "correlated_20",
    "causal_20",
    "unit_vectors",
    "initial",
    "small",
)
_FAULTED = ("usual_20", "usual_99", "usual_500", "many_trials")  # four sizes of runs
_MISTAKEN = ("usual_20", "small")  # few trials, and many
_FAULTY = 10  # runs with planted faults
_PROMISED = "small"  # has enough trials that the check must find every mistake


class CalibrationError(Problem):
    """The check breaks a promise of its documentation; the message names the configs."""


def calibrate(results: Path, *, full: bool, again: Sequence[str] = ()) -> None:
    """Run the check under many root seeds, with and without planted faults, on all processors.

    Args:
        results: the folder for the tables of a full calibration.
        full: run all configs under 300 root seeds each; otherwise a few under 60, and write no tables.
        again: configs to run under 300 root seeds each; the tables keep their rows of the others.

    Raises:
        CalibrationError: no config has one of the names, or chance does not explain the alarms, the misses or the
            coverage.
    """
    from experiments.benchmarks.calibration.faults import FACTORS, MISTAKES
    from experiments.benchmarks.calibration.runs import raises_alarm, simulate
    from experiments.benchmarks.calibration.tables import merged, summarise

    config = load_config(CONFIG)
    names = [sweep.name for sweep in config.sweeps]
    if unknown := [name for name in again if name not in names]:
        raise CalibrationError(f"expected names of configs in {CONFIG.name}, got {', '.join(unknown)}")
    chosen = again or (names if full else _SUBSET)
    sweeps = {sweep.name: sweep for sweep in config.sweeps if sweep.name in chosen}
    has_tables = full or bool(again)
    seeds = range(config.seed, config.seed + (300 if has_tables else 60))
    runs, mistakes = [], {}
    with worker_pool(default_jobs()) as pool:
        for number, (name, sweep) in enumerate(sweeps.items(), 1):
            print(f"{number} of {len(sweeps)}: {name} under {len(seeds)} seeds", flush=True)
            runs.append(simulate(pool, sweep, seeds, FACTORS if name in _FAULTED else (), _FAULTY))
        for mistake in MISTAKES:
            for name in _MISTAKEN:
                if name not in sweeps:
                    continue
                found = pool.map(raises_alarm, repeat(sweeps[name]), seeds[: 50 if has_tables else 10], repeat(mistake))
                mistakes[mistake, name] = list(found)
    tables = summarise(runs, mistakes, _PROMISED)
    if again:
        tables = merged(_shipped(results), tables, names)
    for table in (tables.alarms, tables.coverage[tables.coverage["metric"] == "all"]):
        print(table.to_string(index=False))
    if has_tables:
        with locked(results):
            for name, table in zip(TABLES, (tables.alarms, tables.coverage, tables.faults), strict=True):
                write_atomically(benchmark_path(results, name), csv_bytes(table))
    if failures := tables.failures():
        raise CalibrationError("\n".join(failures))
    print("The check keeps its promises: false alarms, coverage and detected faults match docs/methods.md.")


def _shipped(results: Path) -> "Calibration":
    """The tables of the last full calibration."""
    import pandas as pd

    from experiments.benchmarks.calibration.tables import Calibration

    alarms, coverage, faults = (pd.read_csv(benchmark_path(results, name)) for name in TABLES)
    return Calibration(alarms[alarms["config"] != "all"], coverage[coverage["config"] != "all"], faults)
