"""The suite's speed and memory beside other ways to measure, and as sizes grow: the rows of speed.csv.

The column `part` names the kind of a row, and `what` the way, generator, step or growing size:

    cell           seconds per trial of each way and of each part of the floor, by cell, with gradients and without
    instructions   seconds per trial by cell, with the instructions of the suite and with those of the libraries
    normals        seconds per normal number of each bit generator in double precision, and of other ways to draw
    growth         seconds per trial (of all trials where these grow) and peak bytes, while one size grows
    memory         peak bytes of a process above its imports, by cell and way
    workers        seconds for the whole config with one worker and with two
    profile        seconds of each part of `make all` on one core
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.benchmarks.floor import floor_tasks
from experiments.benchmarks.instructions import Size, instruction_rows
from experiments.benchmarks.memory import peak_of_process, peak_of_task
from experiments.benchmarks.summary import SIZE
from experiments.benchmarks.timing import Task, interleaved, repeated, seconds
from experiments.benchmarks.ways import SUITES, Way, compare, measure_by_suite, ways
from experiments.benchmarks.whole_run import Step, whole_run_rows
from experiments.harness.config import Config
from experiments.harness.processor import is_supported
from experiments.sampling import block_trials
from experiments.saturation import Cell
from sdpa import Scaling
from sdpa.box_muller import single_normals

Rows = Iterator[dict[str, Any]]

GENERATORS = ("SFC64", "PCG64", "PCG64DXSM", "Philox", "MT19937")
_SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3")))
_MAX_TRIALS = 4096
_GROWTH_QUERIES = 64
_NORMALS_SECONDS = 0.02  # duration of each way to draw in a round


@dataclass(frozen=True)
class Workload:
    """The cells to time, each as d_k, n_keys and n_queries.

    Attributes:
        cells: small and large square cells, many keys, wide keys, and rows so short that function calls dominate.
        largest: a cell for which only the memory of the suite is measured, in both precisions.
        growth: the sizes that grow, one at a time, to show how time and memory grow with them.
        round_seconds: duration of each way in a round; one block of its trials if that takes longer.
    """

    cells: tuple[Size, ...] = ((64, 64, 64), (512, 512, 512), (16, 4096, 64), (512, 64, 64), (64, 512, 64), (4, 16, 16))
    largest: Size = (4096, 16384, 64)
    growth: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {
            "d_k": (128, 256, 512, 1024, 2048, 4096),
            "n_keys": (128, 512, 1024, 4096, 8192, 16384),
            "trials": (256, 512, 1024, 2048, 4096),
        }
    )
    round_seconds: float = 0.06


def benchmark(
    config: Config, steps: Mapping[str, Step], say: Callable[[str], None], workload: Workload | None = None
) -> pd.DataFrame:
    """Time everything on one core, except the run with two workers.

    Args:
        config: the config to measure as a whole, with one worker and with two.
        steps: by name the steps of `make all` that come after measuring, each from and into a folder.
        say: receives a line about each part before it starts.
        workload: the cells to time.

    Returns:
        The rows of speed.csv, see the module.

    Raises:
        DifferentOutputError: two ways give different numbers for the same draws, so their times do not compare.
    """
    workload = workload or Workload()
    rows: list[dict[str, Any]] = []
    with threadpool_limits(limits=1):
        say("comparing the results of all ways on the same draws")
        for size in workload.cells:
            compare(cell_of(size))
        for size in workload.cells:
            say(f"timing d_k = {size[0]}, {size[1]} keys, {size[2]} queries")
            rows += _cell_rows(size, workload.round_seconds)
        if is_supported():
            say("timing the instructions of the suite and those that the libraries choose")
            rows += instruction_rows(workload.cells)
        say("timing normal numbers")
        normals = _seconds_per_normal()
        rows += [{"part": "normals", "what": name, "seconds": took} for name, took in normals.items()]
        say("timing growth")
        rows += _growth_rows(workload.growth)
        say("measuring peak memory, each in a separate process")
        rows += _memory_rows(workload)
        say("timing the whole config with one worker and with two, and its parts")
        per_normal = {"float64": normals["SFC64"], "float32": normals["Box-Muller in float32"]}
        rows += whole_run_rows(config, steps, per_normal)
    return pd.DataFrame(rows)


def cell_of(size: Size) -> Cell:
    """The cell of a size in double precision, under four usual scalings."""
    d_k, n_keys, n_queries = size
    return Cell(d_k=d_k, n_keys=n_keys, n_queries=n_queries, scaling=_SCALINGS)


def time_sizes(sizes: Sequence[Size]) -> list[float]:
    """Seconds per trial of the suite with gradients, on one thread of this process, for each size."""
    with threadpool_limits(limits=1):
        cells = {size: cell_of(size) for size in sizes}
        tasks = {size: partial(measure_by_suite, cell, block_trials(cell), True) for size, cell in cells.items()}
        return [took / block_trials(cells[size]) for size, took in interleaved(tasks).items()]


def _cell_rows(size: Size, round_seconds: float) -> Rows:
    """Seconds per trial of every way, with gradients and without, each beside the same floor in double precision."""
    cell = cell_of(size)
    for gradients in (False, True):
        tasks: dict[str, Task] = {}
        per_trial: dict[str, float] = {}
        for name, way in ways().items():
            trials = _trials(cell, way, gradients, round_seconds)
            tasks[name], per_trial[name] = partial(way.measure, cell, trials, gradients), 1 / trials
        for name, (task, count) in floor_tasks(cell).items():
            tasks[name], times = repeated(task, round_seconds / 3)
            per_trial[name] = count / times
        for name, took in interleaved(tasks).items():
            of_trial = {"gradients": gradients, "what": name, "seconds": took * per_trial[name]}
            yield {**dict(zip(SIZE, size, strict=True)), "part": "cell", **of_trial}


def _trials(cell: Cell, way: Way, gradients: bool, round_seconds: float) -> int:
    """Trials that fill a round, in whole blocks."""
    block = way.block(cell)
    way.measure(cell, block, gradients)
    took = seconds(partial(way.measure, cell, block, gradients))
    return block * max(1, min(round(round_seconds / took), _MAX_TRIALS // block))


def _seconds_per_normal() -> dict[str, float]:
    """Seconds per normal number of NumPy's bit generators in double precision, and of other ways with the suite's.

    The others are NumPy's numbers in single precision, and the Box-Muller transformation in both precisions.
    """
    drawn, single = np.empty(2**15), np.empty(2**15, np.float32)
    made = {name: np.random.Generator(getattr(np.random, name)(0)) for name in GENERATORS}
    tasks: dict[str, Task] = {name: partial(made[name].standard_normal, out=drawn) for name in GENERATORS}
    rng = made["SFC64"]
    tasks["SFC64 in float32"] = partial(rng.standard_normal, dtype=np.float32, out=single)
    tasks["Box-Muller"] = partial(_box_muller, rng, drawn)
    tasks["Box-Muller in float32"] = partial(single_normals, rng, single.shape)
    rounds = {name: repeated(task, _NORMALS_SECONDS) for name, task in tasks.items()}
    found = interleaved({name: task for name, (task, _) in rounds.items()})
    return {name: found[name] / times / drawn.size for name, (_, times) in rounds.items()}


def _box_muller(rng: np.random.Generator, out: npt.NDArray[np.float64]) -> None:
    """Pairs of normal numbers sqrt(-2 ln u) (cos, sin)(2 pi v), of uniform u and v (Box and Muller 1958), into `out`.

    The length of `out` is even.
    """
    radius, angle = rng.random((2, out.size // 2))
    radius = np.sqrt(-2 * np.log1p(-radius))
    angle *= 2 * np.pi
    np.multiply(radius, np.cos(angle), out=out[: out.size // 2])
    np.multiply(radius, np.sin(angle), out=out[out.size // 2 :])


def _growth_rows(growth: Mapping[str, tuple[int, ...]]) -> Rows:
    """Seconds per trial, or of all trials where these grow, and bytes at the peak, while one size grows."""
    for swept, sizes in growth.items():
        points = {size: {"d_k": 64, "n_keys": 64, "trials": 16, swept: size} for size in sizes}
        tasks: dict[int, Task] = {}
        for size, point in points.items():
            cell = cell_of((point["d_k"], point["n_keys"], _GROWTH_QUERIES))
            tasks[size] = partial(measure_by_suite, cell, point["trials"], True)
        found = interleaved(tasks)
        for size, point in points.items():
            yield {
                **point,
                "n_queries": _GROWTH_QUERIES,
                "part": "growth",
                "what": swept,
                "seconds": found[size] / (1 if swept == "trials" else point["trials"]),
                "peak_bytes": peak_of_task(tasks[size]),
            }


def _memory_rows(workload: Workload) -> Rows:
    """Bytes above its imports that a process needs for a chunk, in every way; for the largest cell in the suite."""
    for size in (*workload.cells, workload.largest):
        for name in ways() if size != workload.largest else SUITES:
            peak = {"gradients": True, "what": name, "peak_bytes": peak_of_process(cell_of(size), name)}
            yield {**dict(zip(SIZE, size, strict=True)), "part": "memory", **peak}
