"""Where the time of `make all` goes, on one core: the parts of measuring, then every later step."""

import contextlib
import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from experiments import saturation
from experiments.bench.floor import floor_tasks
from experiments.bench.timing import filling, interleaved, seconds
from experiments.draws import Cell, block_trials
from experiments.harness.config import Config
from experiments.harness.experiment import load_experiment
from experiments.harness.grid import Sweep
from experiments.harness.moments import Moments
from experiments.harness.paths import STORE
from experiments.harness.pilot import cell_trials
from experiments.harness.quantiles import Histograms
from experiments.harness.seeds import bit_generator
from experiments.harness.store import Store

Step = Callable[[Path], None]

_SECONDS_PER_CELL = 0.1
_ROUNDS = 3
_IMPORTS = "experiments.analysis, experiments.record.build, experiments.figures.style, experiments.figures.variance"


def profile(config: Config, folder: Path, later: Mapping[str, Step]) -> Iterator[dict[str, Any]]:
    """Seconds of each part; the folder's store has every record of the config."""
    store = Store(folder / STORE, config.seed)
    parts = {"normals": 0.0, "products": 0.0, "exponentials": 0.0, "counting": 0.0, "measuring": 0.0}
    for sweep in config.sweeps:
        for cell in sweep.cells():
            trials = cell_trials(store, sweep, cell)
            found = _of_cell(cell) if sweep.experiment == "saturation" else {"measuring": _per_trial(sweep, cell)}
            for part, took in found.items():
                parts[part] += took * trials
    parts["sums and gradients"] = parts.pop("measuring") - sum(parts.values())
    for part, took in {**parts, **_later_steps(folder, later)}.items():
        yield {"part": "profile", "what": part, "seconds": took}


def _of_cell(cell: Cell) -> dict[str, float]:
    """Seconds per trial: all of measuring, what is the floor of it, and what counts rows and averages trials."""
    floor = floor_tasks(cell, gradients=True)
    tasks = {name: filling(task, _SECONDS_PER_CELL / 10) for name, (task, _) in floor.items()}
    found = interleaved({name: task for name, (task, _) in tasks.items()}, _ROUNDS)
    names = {"floor: normals": "normals", "floor: product": "products", "floor: exponentials": "exponentials"}
    per_trial = {names[name]: took / tasks[name][1] * floor[name][1] for name, took in found.items()}
    trials = block_trials(cell) * max(
        1, round(_SECONDS_PER_CELL / saturation.seconds_per_trial(cell) / block_trials(cell))
    )
    with _timed(Moments, "of") as averaging, _timed(Histograms, "of") as counting:
        took = seconds(lambda: saturation.measure(cell, trials, bit_generator(0)))
    return {**per_trial, "counting": (sum(averaging) + sum(counting)) / trials, "measuring": took / trials}


def _per_trial(sweep: Sweep, cell: Any) -> float:
    """Seconds per trial of a chunk of another experiment."""
    experiment = load_experiment(sweep.experiment)
    trials = min(experiment.chunk_trials(cell), sweep.trials)
    return seconds(lambda: experiment.measure(cell, trials, bit_generator(0))) / trials


@contextlib.contextmanager
def _timed(kind: type, method: str) -> Iterator[list[float]]:
    """While open, the seconds of each call of a class method."""
    took: list[float] = []
    original = getattr(kind, method)

    def timed(*arguments: Any) -> Any:
        started = time.perf_counter()
        try:
            return original(*arguments)
        finally:
            took.append(time.perf_counter() - started)

    with patch.object(kind, method, timed):
        yield took


def _later_steps(folder: Path, later: Mapping[str, Step]) -> dict[str, float]:
    """Seconds of what the later steps import, and of each of them, for the first time in the folder."""

    def quietly(step: Step) -> float:
        with contextlib.redirect_stdout(io.StringIO()):
            return seconds(partial(step, folder))

    imports = seconds(lambda: subprocess.run([sys.executable, "-c", f"import {_IMPORTS}"], check=True))
    return {"imports": imports, **{name: quietly(step) for name, step in later.items()}}
