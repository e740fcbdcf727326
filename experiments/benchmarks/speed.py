"""The benchmark: every part as rows of one table, benchmarks.csv."""

import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.benchmarks.floor import floor_tasks
from experiments.benchmarks.memory import peak_of
from experiments.benchmarks.profile import Step, profile
from experiments.benchmarks.sizes import CELLS, GROWTH, LARGEST, USUAL, cell_of
from experiments.benchmarks.timing import Task, filling, interleaved, seconds
from experiments.benchmarks.ways import Way, compare, suite, ways
from experiments.benchmarks.workers import measure_all
from experiments.draws import Cell, block_trials
from experiments.harness.config import Config
from experiments.harness.memory import keep_freed_memory

Rows = Iterator[dict[str, Any]]

ROUNDS = 7
_ROUND_SECONDS = 0.06  # of each way in a round, or one block of its trials if that takes longer
_MOST_TRIALS = 4096
GENERATORS = ("SFC64", "PCG64", "PCG64DXSM", "Philox", "MT19937")


def benchmark(config: Config, later: Mapping[str, Step], say: Callable[[str], None]) -> pd.DataFrame:
    """Time everything, on one core but for the workers, and say what is at hand.

    Args:
        config: what is measured as a whole, with one worker and with two.
        later: by name the steps that come after measuring, each from and into a folder.
        say: takes a line about each part.
    """
    rows: list[dict[str, Any]] = []
    keep_freed_memory()  # as workers do, for the good of all ways
    with threadpool_limits(limits=1):
        say("comparing what the ways give for the same draws")
        for size in CELLS:
            compare(cell_of(*size))
        for size in CELLS:
            say(f"timing d_k = {size[0]}, {size[1]} keys, {size[2]} queries")
            rows += _cell_rows(size)
        say("timing normal numbers, and growth")
        rows += [*_generator_rows(), *_growth_rows()]
        say("measuring the peak of memory, each in a process of its own")
        rows += _memory_rows()
        with tempfile.TemporaryDirectory() as folder:
            for jobs in (1, 2):
                what = f"{jobs} worker{'s' * (jobs > 1)}"
                say(f"measuring the whole config with {what}")
                took = seconds(partial(measure_all, config, Path(folder, str(jobs)), jobs))
                rows.append({"part": "workers", "what": what, "seconds": took})
            say("finding where the time goes")
            known = {row["what"]: row["seconds"] for row in rows if row["part"] in ("workers", "normals")}
            costs = {"measuring": known["1 worker"], "per_normal": known["SFC64"]}
            rows += profile(config, Path(folder, "1"), later, **costs)
    return pd.DataFrame(rows)


def _cell_rows(size: tuple[int, int, int]) -> Rows:
    """Seconds per trial of every way and of the parts of the floor, with gradients and without."""
    cell = cell_of(*size)
    for gradients in (False, True):
        tasks: dict[str, Task] = {}
        per_trial: dict[str, float] = {}
        for name, way in ways().items():
            trials = _trials(cell, name, way, gradients)
            tasks[name], per_trial[name] = partial(way, cell, trials, gradients), 1 / trials
        for name, (task, count) in floor_tasks(cell, gradients).items():
            tasks[name], times = filling(task, _ROUND_SECONDS / 3)
            per_trial[name] = count / times
        for name, found in interleaved(tasks, ROUNDS).items():
            yield {
                **_sizes(size),
                "part": "cell",
                "gradients": gradients,
                "what": name,
                "seconds": found * per_trial[name],
            }


def _trials(cell: Cell, name: str, way: Way, gradients: bool) -> int:
    """Trials that fill a round: whole blocks of the ways that draw in blocks."""
    unit = 1 if name.startswith("article") else block_trials(cell)
    way(cell, unit, gradients)
    took = seconds(partial(way, cell, unit, gradients))
    return unit * max(1, min(round(_ROUND_SECONDS / took), _MOST_TRIALS // unit))


def _generator_rows() -> Rows:
    """Seconds per normal number of NumPy's bit generators, and of the transformation of Box and Muller."""
    drawn = np.empty(2**15)
    made = {name: np.random.Generator(getattr(np.random, name)(0)) for name in GENERATORS}
    tasks: dict[str, Task] = {name: partial(made[name].standard_normal, out=drawn) for name in GENERATORS}
    tasks["Box and Muller"] = partial(_box_muller, made["SFC64"], drawn)
    for name, found in interleaved(tasks, 10 * ROUNDS).items():
        yield {"part": "normals", "what": name, "seconds": found / drawn.size}


def _box_muller(rng: np.random.Generator, out: npt.NDArray[np.float64]) -> None:
    """Pairs of normal numbers sqrt(-2 ln u) (cos, sin)(2 pi v), of uniform u and v."""
    radius, angle = rng.random((2, out.size // 2))
    radius = np.sqrt(-2 * np.log1p(-radius))
    angle *= 2 * np.pi
    np.multiply(radius, np.cos(angle), out=out[: out.size // 2])
    np.multiply(radius, np.sin(angle), out=out[out.size // 2 :])


def _growth_rows() -> Rows:
    """Seconds (per trial, but where trials grow) and bytes at the peak as one size grows and the others stay."""
    for swept, sizes in GROWTH.items():
        points = [{**USUAL, swept: size} for size in sizes]
        cells = [cell_of(point["d_k"], point["n_keys"], 64) for point in points]
        tasks: dict[str, Task] = {
            str(point[swept]): partial(suite, cell, point["trials"], True)
            for point, cell in zip(points, cells, strict=True)
        }
        found = interleaved(tasks, ROUNDS)
        for point, cell in zip(points, cells, strict=True):
            task = tasks[str(point[swept])]
            took = found[str(point[swept])] / (1 if swept == "trials" else point["trials"])
            sizes_of = _sizes((cell.d_k, cell.n_keys, cell.n_queries))
            grown = {"trials": point["trials"], "seconds": took, "peak_bytes": _peak(task)}
            yield {**sizes_of, "part": "growth", "what": swept, **grown}


def _peak(task: Task) -> int:
    tracemalloc.start()
    task()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _memory_rows() -> Rows:
    """Bytes that a process takes above its imports, for a chunk of the suite and for a batch of the others."""
    for size in (*CELLS, LARGEST):
        for name in ways() if size != LARGEST else ["suite"]:
            yield {**_sizes(size), "part": "memory", "gradients": True, "what": name, "peak_bytes": peak_of(size, name)}


def _sizes(size: tuple[int, int, int]) -> dict[str, Any]:
    return dict(zip(("d_k", "n_keys", "n_queries"), size, strict=True))
