"""Time and memory of attention (`cost`), and time of the suite beside its floor and its rivals
(`speed`), on one core.

The floor is the least work that a plain implementation needs in double precision: as many normal
numbers from the same generator, one matrix product, and one exponential per score and rule, each
alone, in arrays that stay in cache. The rivals are the same measurement, gradients included, as a
person writes it in NumPy and PyTorch (`benchmarks.by_hand`), for as many draws at a time as the suite
takes.
"""

import sys
import timeit
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial, reduce
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.by_hand import by_hand
from experiments.config.paths import BENCHMARKS, SHIPPED_RESULTS
from experiments.kinds.saturation.cell import KERNEL, Cell
from experiments.measuring.chunk import Chunk
from experiments.measuring.columns import DIGITS
from experiments.measuring.experiment import load_experiment
from experiments.measuring.kernel import Kernel, RowMeasurement
from experiments.measuring.row_metrics import METRICS
from sdpa import RowDiagnostics, Scaling, row_diagnostics, scaled_dot_product_attention
from sdpa._arrays import FloatArray

Task = Callable[[], object]
Rival = Callable[[Cell, int], Any]  # measures trials of a cell

# of this machine: git ignores it; the shipped tables are beside it
HERE = SHIPPED_RESULTS / BENCHMARKS / "here"
SIZE = ["d_k", "n_keys", "n_queries"]
# Small and large square cells, many keys, wide keys, rows so short that function calls dominate,
# and a large K.
CELLS = (
    (64, 64, 64),
    (512, 512, 512),
    (16, 4096, 64),
    (512, 64, 64),
    (64, 512, 64),
    (4, 16, 16),
    (4096, 16384, 64),
)
SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3")))
_ROUNDS = 7
_CACHED = 2**15
_LARGEST = 4096  # tokens of a call of attention


def interleaved(tasks: Mapping[Any, Task]) -> dict[Any, float]:
    """The median seconds of each task over rounds in which all take turns: a slow moment then
    affects all equally.
    """
    timers = {name: timeit.Timer(task) for name, task in tasks.items()}
    # about 0.2 s, so that caches are warm
    calls = {name: timer.autorange()[0] for name, timer in timers.items()}
    rounds = [
        {name: timer.timeit(calls[name]) / calls[name] for name, timer in timers.items()}
        for _ in range(_ROUNDS)
    ]
    return {name: median(times[name] for times in rounds) for name in tasks}


def peak_bytes(task: Task) -> int:
    """Bytes that Python and NumPy allocate during the task at its peak."""
    tracemalloc.start()
    task()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


class _WithoutGradients(Kernel[Cell]):
    """The kernel without |dL/dq| of drawn gradients."""

    def softmax(
        self,
        cell: Cell,
        scores: FloatArray,
        keys: FloatArray,
        gradients: FloatArray,  # noqa: ARG002
    ) -> RowDiagnostics:
        return row_diagnostics(scores, cell.divisors(), keys)


_GRADIENT = "query_gradient_norm"
WITHOUT_GRADIENTS = _WithoutGradients(
    tuple(metric for metric in METRICS if _GRADIENT not in (metric.name, metric.compute))
)


def measure(cell: Cell, trials: int, gradients: bool) -> object:
    """The measurement of a sweep: chunk after chunk, merged."""
    rng = np.random.Generator(np.random.SFC64(0))
    kernel = KERNEL if gradients else WITHOUT_GRADIENTS
    experiment = load_experiment("saturation")
    counts = (chunk.trials for chunk in Chunk.of_cell(experiment, cell, trials, 0))
    return reduce(RowMeasurement.merge, (kernel.measure(cell, count, rng) for count in counts))


@cache
def rivals() -> dict[str, Rival]:
    """Each rival that is installed."""
    rng = np.random.default_rng(0)
    in_numpy = partial(by_hand, np, lambda *shape: rng.standard_normal(shape))
    installed: dict[str, Rival] = {"NumPy": in_numpy}
    try:
        import torch
    except ModuleNotFoundError:
        print("PyTorch is not installed, so that the suite is not compared with it.")
        return installed
    torch.set_num_threads(1)
    normal = partial(torch.randn, dtype=torch.float64)
    return installed | {"PyTorch": partial(by_hand, torch, normal)}


def floor_tasks(cell: Cell) -> dict[str, tuple[Task, float]]:
    """Each part of the floor as a task, and how many times a trial runs it, which may be a
    fraction.
    """
    rng = np.random.Generator(np.random.SFC64(0))
    trials = cell.batch_trials
    queries = cell.batch_queries
    drawn = np.empty(_CACHED)
    exponents = -np.abs(rng.standard_normal(_CACHED))
    powers = np.empty(_CACHED)
    q, k = (rng.standard_normal((trials, n, cell.d_k)) for n in (queries, cell.n_keys))
    product: Task = partial(
        np.matmul, q, k.swapaxes(-1, -2), out=np.empty((trials, queries, cell.n_keys))
    )
    return {
        "floor: normals": (partial(rng.standard_normal, out=drawn), cell.numbers / _CACHED),
        "floor: product": (product, cell.n_queries / queries / trials),
        "floor: exponentials": (
            partial(np.exp, exponents, out=powers),
            len(cell.scaling) * cell.n_scores / _CACHED,
        ),
    }


def cell_rows(size: tuple[int, ...]) -> Iterator[dict[str, object]]:
    """Seconds per trial of the suite, of each part of the floor, and, with gradients, of each rival."""
    sized = dict(zip(SIZE, size, strict=True))
    d_k, n_keys, n_queries = size
    cell = Cell(d_k=d_k, n_keys=n_keys, n_queries=n_queries, scaling=SCALINGS)
    for gradients in (False, True):
        tasks = floor_tasks(cell)
        suite = partial(measure, cell, cell.batch_trials, gradients)
        tasks["suite"] = suite, 1 / cell.batch_trials
        if gradients:
            for name, rival in rivals().items():
                tasks[name] = partial(rival, cell, cell.batch_trials), 1 / cell.batch_trials
        took = interleaved({name: task for name, (task, _) in tasks.items()})
        for name, (_, per_trial) in tasks.items():
            seconds = took[name] * per_trial
            yield {**sized, "gradients": gradients, "what": name, "seconds": seconds}


def cost_of_attention() -> pd.DataFrame:
    """Seconds and peak bytes of a call of `scaled_dot_product_attention`, without its inputs, as
    one size grows.

    The arithmetic of Q K^T and of W V grows as n^2 d_k, and the memory of the scores as n^2.
    """
    sizes = [("n", _LARGEST >> i, 64) for i in (4, 3, 2, 1, 0)]
    sizes += [("d_k", _LARGEST >> 2, 64 << i) for i in range(5)]
    rng = np.random.default_rng(0)
    tasks = {
        size: partial(scaled_dot_product_attention, *rng.standard_normal((3, *size[1:])))
        for size in sizes
    }
    took = interleaved(tasks)
    rows = [(*size, took[size], peak_bytes(task)) for size, task in tasks.items()]
    return pd.DataFrame(rows, columns=["swept", "n", "d_k", "seconds", "peak_bytes"])


def ratios(bench: pd.DataFrame) -> pd.DataFrame:
    """Seconds of the suite over the sum of those of the floor, and over those of each rival: a row
    per cell, without gradients and then with them.
    """
    case = [*SIZE, "gradients"]
    took = bench.pivot_table("seconds", case, "what", sort=False)
    floor = took.filter(like="floor").sum(axis=1)
    others = took[took.columns.intersection(rivals())]
    quotients = others.assign(floor=floor).rdiv(took["suite"], axis=0).add_prefix("suite / ")
    return quotients.reset_index().sort_values("gradients", kind="stable")


def exponents(cost: pd.DataFrame) -> pd.DataFrame:
    """Slopes of ln seconds and ln bytes over the three largest values of each growing size.

    Small sizes are left out, because the fixed cost of a call flattens the slope there.

    >>> cost = pd.DataFrame({"swept": "n", "n": [1, 2, 4], "seconds": [1, 4, 16], "peak_bytes": [1, 2, 4]})
    >>> exponents(cost).to_dict("records")
    [{'grows with': 'n', 'time as': 'n^2.00', 'memory as': 'n^1.00'}]
    """
    rows = []
    for name, group in cost.groupby("swept", sort=False):
        largest = group.nlargest(3, str(name))
        upper = np.log(largest[[str(name), "seconds", "peak_bytes"]].to_numpy(dtype=float))
        slopes = np.polyfit(upper[:, 0], upper[:, 1:], 1)[0]
        rows.append((name, *(f"{name}^{slope:z.2f}" for slope in slopes)))
    return pd.DataFrame(rows, columns=["grows with", "time as", "memory as"])


def main(name: str, folder: Path = HERE) -> None:
    """Measure `cost` or `speed`, write its table into a folder and print a summary."""
    threadpool_limits(limits=1)
    if name == "cost":
        bench = cost_of_attention()
        summary = exponents(bench)
    else:
        bench = pd.DataFrame(row for size in CELLS for row in cell_rows(size))
        summary = ratios(bench)
    folder.mkdir(parents=True, exist_ok=True)
    bench.to_csv(folder / f"{name}.csv", index=False, float_format=DIGITS)
    print(summary.to_string(index=False, na_rep=""))


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
