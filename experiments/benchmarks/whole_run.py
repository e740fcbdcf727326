"""The time of a whole run: measuring a config with one worker and with two, and the parts of `make all` on one core.

Parts of the measurement that can be timed alone are timed alone and scaled to the trials of the config; the rest of its
time appears as `sums and gradients`.
"""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from experiments.benchmarks.floor import floor_tasks
from experiments.benchmarks.timing import Task, interleaved, repeated, seconds
from experiments.harness.config import Config
from experiments.harness.local import LocalWorkers
from experiments.harness.paths import STORE
from experiments.harness.pilot import PILOT_TRIALS, cell_trials
from experiments.harness.run import Workers, measure_missing
from experiments.harness.seeds import bit_generator
from experiments.harness.store import Store
from experiments.harness.work import find_chunks, find_pilots
from experiments.metrics import METRICS
from experiments.sampling import AttentionCell, Cell, chunk_trials
from experiments.statistics.quantiles import Histograms

Step = Callable[[Path], object]

_ROUNDS, _ROUND_SECONDS = 3, 0.01


def whole_run_rows(
    config: Config, steps: Mapping[str, Step], per_normal: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    """Seconds that one and two workers need to measure the config, and seconds of each part of `make all`.

    Args:
        config: the config to measure.
        steps: the steps after measuring by name, each from and into a folder.
        per_normal: seconds per normal number, for `float64` and `float32`.

    Returns:
        Rows of speed.csv with `part`, `what` and `seconds`; everything is written into a temporary folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        measuring = {}
        for jobs in (1, 2):
            measuring[jobs] = seconds(partial(_measure_all, config, Path(folder, str(jobs)), LocalWorkers(jobs)))
            yield {"part": "workers", "what": f"{jobs} worker{'s' * (jobs > 1)}", "seconds": measuring[jobs]}
        measured = Path(folder, "1")
        parts = _parts_of_measuring(config, measured, per_normal)
        parts["sums and gradients"] = measuring[1] - sum(parts.values())
        parts |= {name: _quiet_seconds(partial(step, measured)) for name, step in steps.items()}
        for part, took in parts.items():
            yield {"part": "profile", "what": part, "seconds": took}


def _measure_all(config: Config, folder: Path, workers: Workers) -> None:
    """Measure every chunk of every sweep into a store in the folder."""
    store = Store(folder / STORE, config.seed)
    for find in (find_pilots, find_chunks):
        for _ in measure_missing(store, config.sweeps, find(store, config.sweeps), workers, lambda *_: None):
            pass  # the sweep is whole


def _parts_of_measuring(config: Config, folder: Path, per_normal: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each part that can be timed alone, for all trials whose chunks are in the folder's store."""
    store = Store(folder / STORE, config.seed)
    parts = dict.fromkeys(("normals", "products", "exponentials", "counting"), 0.0)
    for sweep in config.sweeps:
        for cell in sweep.cells():
            trials = cell_trials(store, sweep, cell) + (PILOT_TRIALS if sweep.precision else 0)
            precision = cell.dtype.name if isinstance(cell, AttentionCell) else "float64"
            if not hasattr(cell, "numbers"):
                continue  # a run of training draws few normal numbers; it counts as sums and gradients
            found = {"normals": per_normal[precision] * cell.numbers}
            if sweep.experiment == "saturation":
                found |= _seconds_per_trial(cell)
            for part, took in found.items():
                parts[part] += took * trials
    return parts


def _seconds_per_trial(cell: Cell) -> dict[str, float]:
    """Seconds per trial of the product, the exponentials, and the counting of norms in histograms."""
    floor, trials = floor_tasks(cell), chunk_trials(cell)
    ranked = {metric.of for metric in METRICS if metric.kind == "quantile"}
    norms = bit_generator(0).random((len(cell.scaling) * len(ranked), trials, cell.n_queries))
    parts: dict[str, tuple[Task, float]] = {
        "products": floor["floor: product"],
        "exponentials": floor["floor: exponentials"],
        "counting": (partial(Histograms.of, norms), 1 / trials),
    }
    tasks = {name: repeated(task, _ROUND_SECONDS) for name, (task, _) in parts.items()}
    found = interleaved({name: task for name, (task, _) in tasks.items()}, _ROUNDS)
    return {name: found[name] / tasks[name][1] * per_trial for name, (_, per_trial) in parts.items()}


def _quiet_seconds(step: Task) -> float:
    """The seconds of a step, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return seconds(step)
