"""The calibration of the check: its tables, and what does not meet the numbers that it promises."""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from experiments.harness.config import load_config
from experiments.harness.files import held, write_whole
from experiments.harness.grid import Sweep
from experiments.harness.problems import Problem
from experiments.harness.tables import csv_bytes

CONFIG = Path(__file__).parents[1] / "benchmarks" / "calibration" / "config.yaml"
TABLES = ("calibration", "calibration-coverage", "calibration-faults")
# Of runs of about a second; the others take up to twenty minutes more.
_SUBSET = ("pair_spread_3", "pair", "four_keys_wide", "usual_20", "usual_99", "flat", "uniform_20", "small")
_FAULTED = ("usual_20", "usual_99", "usual_500", "many_trials")  # four sizes of runs
_MISTAKEN = ("small", "usual_20")  # many trials, which show every mistake, and few


class CalibrationError(Problem):
    """The check does not do what it promises; the message names the configs."""


def calibrate(results: Path, *, full: bool) -> None:
    """Run the check under many root seeds, with faults and without.

    Args:
        results: the folder that gets the tables of a full calibration.
        full: all configs under 300 root seeds each; else a few under 60, without writing tables.

    Raises:
        CalibrationError: alarms, misses or coverage that chance does not explain.
    """
    from experiments.benchmarks.calibration.faults import FACTORS, MISTAKES
    from experiments.benchmarks.calibration.runs import Batch, simulate
    from experiments.benchmarks.calibration.tables import summarise

    config = load_config(CONFIG)
    sweeps = [sweep for sweep in config.sweeps if full or sweep.name in _SUBSET]
    seeds = range(config.seed, config.seed + (300 if full else 60))
    batches: list[Batch] = []
    for number, sweep in enumerate(sweeps, 1):
        print(f"{number} of {len(sweeps)}: {sweep.name} under {len(seeds)} seeds", flush=True)
        batches += simulate([sweep], seeds, FACTORS if sweep.name in _FAULTED else (), 20 if full else 10)
    mistakes = {
        (name, sweep.name): _alarms(sweep, seeds[: 50 if full else 10], name)
        for name in MISTAKES
        for sweep in sweeps
        if sweep.name in _MISTAKEN
    }
    found = summarise(sweeps, batches, mistakes, _MISTAKEN[0])
    for table in (found.alarms, found.coverage[found.coverage["metric"] == "all"]):
        print(table.to_string(index=False))
    if full:
        with held(results):
            for name, table in zip(TABLES, (found.alarms, found.coverage, found.faults), strict=True):
                write_whole(results / f"{name}.csv", csv_bytes(table))
    if failures := found.failures():
        raise CalibrationError("\n".join(failures))
    print("The check keeps its promises: alarms, coverage and faults are as docs/methods.md says.")


def _alarms(sweep: Sweep, seeds: Sequence[int], mistake: str) -> list[bool]:
    from experiments.benchmarks.calibration.runs import alarm

    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return list(pool.map(alarm, [sweep] * len(seeds), seeds, [mistake] * len(seeds)))
