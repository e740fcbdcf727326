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
from experiments.harness.paths import STORE
from experiments.harness.pilot import PILOT_TRIALS, cell_trials
from experiments.harness.seeds import bit_generator
from experiments.harness.store import Store
from experiments.statistics.moments import Moments
from experiments.statistics.quantiles import Histograms

Step = Callable[[Path], object]

_SECONDS_PER_CELL = 0.1
_ROUNDS = 3
_IMPORTS = (
    "experiments.analysis, experiments.record.build, experiments.figures.rendering, experiments.figures.metric_lines"
)


def profile(
    config: Config, folder: Path, later: Mapping[str, Step], *, measuring: float, per_normal: float
) -> Iterator[dict[str, Any]]:
    """Seconds of each part.

    Args:
        config: what was measured.
        folder: its store has every record of the config.
        later: by name the steps that come after measuring.
        measuring: seconds that one worker took for all of it.
        per_normal: seconds for a normal number.
    """
    store = Store(folder / STORE, config.seed)
    parts = dict.fromkeys(("normals", "products", "exponentials", "counting"), 0.0)
    for sweep in config.sweeps:
        for cell in sweep.cells():
            trials = cell_trials(store, sweep, cell) + (PILOT_TRIALS if sweep.precision else 0)
            found = {"normals": per_normal * cell.numbers}
            if sweep.experiment == "saturation":
                found |= _of_cell(cell)
            for part, took in found.items():
                parts[part] += took * trials
    parts["sums and gradients"] = measuring - sum(parts.values())
    for part, took in {**parts, **_later_steps(folder, later)}.items():
        yield {"part": "profile", "what": part, "seconds": took}


def _of_cell(cell: Cell) -> dict[str, float]:
    """Seconds per trial of the product and the exponentials, and of counting rows and averaging trials."""
    floor = floor_tasks(cell, gradients=True)
    names = {"floor: product": "products", "floor: exponentials": "exponentials"}
    tasks = {name: filling(floor[name][0], _SECONDS_PER_CELL / 10) for name in names}
    found = interleaved({name: task for name, (task, _) in tasks.items()}, _ROUNDS)
    per_trial = {names[name]: took / tasks[name][1] * floor[name][1] for name, took in found.items()}
    block_seconds = block_trials(cell) * saturation.seconds_per_trial(cell)
    trials = block_trials(cell) * max(1, round(_SECONDS_PER_CELL / block_seconds))
    with _timed(Moments, "of") as averaging, _timed(Histograms, "of") as counting:
        saturation.measure(cell, trials, bit_generator(0))
    return {**per_trial, "counting": (sum(averaging) + sum(counting)) / trials}


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
