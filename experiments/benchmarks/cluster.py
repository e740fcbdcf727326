"""The speed of runs on a Dask cluster beside local processes, and the limit of one client: the rows of cluster.csv.

The column `part` names the kind of a row:

    sweep    seconds for a sweep with chunks of about 0.2 s, on local processes and on as many workers of a cluster
    writing  seconds in which a run writes and counts records whose measurement takes no time
    scale    seconds for chunks on workers that only wait for `chunk_seconds`; with `ideal`, the seconds of the waiting
"""

import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from distributed import LocalCluster

from experiments.benchmarks.timing import interleaved, seconds
from experiments.harness.cluster.dask_cluster import DaskCluster
from experiments.harness.cluster.remote import Arguments
from experiments.harness.columns import defaults
from experiments.harness.grid import Chunk, Sweep
from experiments.harness.local import LocalWorkers
from experiments.harness.run import Workers, measure_missing
from experiments.harness.store import Store
from experiments.harness.work import Task, Work, find_chunks
from experiments.row_statistics import seconds_per_trial
from experiments.sampling import Cell, chunk_trials
from sdpa import Scaling

_RECORD_BYTES = 60_000  # about those of a chunk of the shipped config
_ROUNDS = 3
_VALUES: dict[str, Any] = {name: (value,) for name, value in defaults(Cell).items()} | {
    "d_k": (64,),
    "n_keys": (64,),
    "scaling": tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3"))),
}


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark.

    Attributes:
        jobs: local processes, and workers of the cluster beside them.
        chunks: number of chunks of the sweep.
        records: number of records to write.
        workers: numbers of workers that only wait.
        chunk_seconds: for how long they wait.
        waiting_seconds: seconds that each of these runs takes at least, unless it reaches twice the number of records.
    """

    jobs: int = 2
    chunks: int = 100
    records: int = 2000
    workers: tuple[int, ...] = (64,)
    chunk_seconds: tuple[float, ...] = (0.2, 1.0, 5.0)
    waiting_seconds: float = 10


def cluster_rows(say: Callable[[str], None], sizes: Sizes | None = None) -> pd.DataFrame:
    """Measure everything on this machine.

    Args:
        say: receives a line about each part before it starts.
        sizes: the sizes; by default those of `make bench`.

    Returns:
        The rows of cluster.csv, see the module.
    """
    sizes = sizes or Sizes()
    say(f"measuring a sweep on {sizes.jobs} local processes, and on a cluster of as many workers")
    rows = list(_sweep_rows(sizes))
    say("writing records")
    rows.append(_writing_row(sizes.records))
    for workers in sizes.workers:
        say(f"handing out chunks to {workers} workers that only wait")
        rows += _scale_rows(workers, sizes)
    return pd.DataFrame(rows)


def _sweep_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Seconds of a whole run; both kinds of processes start before, or at its beginning and import the suite."""
    sweep = Sweep("bench", "saturation", _VALUES, sizes.chunks * chunk_trials(_cell()), ())

    def measure(workers: Workers) -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder), seed=0)
            for _ in measure_missing(store, [sweep], find_chunks(store, [sweep]), workers, lambda *_: None):
                pass  # the sweep is whole

    with LocalCluster(n_workers=sizes.jobs, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        ways: dict[str, Workers] = {
            "local": LocalWorkers(sizes.jobs),
            "cluster": DaskCluster(cluster.scheduler_address, print),
        }
        found = interleaved({name: partial(measure, workers) for name, workers in ways.items()}, _ROUNDS)
    for name, took in found.items():
        yield {"part": "sweep", "what": name, "workers": sizes.jobs, "chunks": sizes.chunks, "seconds": took}


def _writing_row(records: int) -> dict[str, Any]:
    """Seconds of a run whose records exist already."""
    with tempfile.TemporaryDirectory() as folder:
        took = seconds(partial(_write_all, _work(Path(folder), records, 1.0), _Ready()))
    return {"part": "writing", "what": "client", "chunks": records, "seconds": took}


def _scale_rows(workers: int, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Seconds of runs on workers that share this process; without the time in which they describe themselves."""
    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        dashboard_address=":0",
        memory_limit=0,
    ) as cluster:
        for chunk_seconds in sizes.chunk_seconds:
            waves = max(2, round(sizes.waiting_seconds / chunk_seconds))
            chunks = min(waves * workers, 2 * sizes.records)
            one = DaskCluster(cluster.scheduler_address, print, partial(_wait, chunk_seconds))
            timed = _Timed(one)
            with tempfile.TemporaryDirectory() as folder:
                _write_all(_work(Path(folder), chunks, chunk_seconds), timed)
            yield {
                "part": "scale",
                "what": "cluster",
                "workers": workers,
                "chunk_seconds": chunk_seconds,
                "chunks": chunks,
                "seconds": chunk_seconds + timed.last - timed.first,
                "ideal": chunk_seconds * chunks / workers,
            }


def _cell() -> Cell:
    return Cell(**{name: values if name == "scaling" else values[0] for name, values in _VALUES.items()})


def _work(folder: Path, count: int, chunk_seconds: float) -> Work:
    """Chunks of a sweep `bench` whose estimated time is that many seconds."""
    trials = max(1, round(chunk_seconds / seconds_per_trial(_cell())))
    store = Store(folder, seed=0)
    return Work(todo=[Task(Chunk("saturation", _cell(), index, trials), store, ["bench"]) for index in range(count)])


def _write_all(work: Work, workers: Workers) -> None:
    store = work.todo[0].store
    for _ in measure_missing(store, [], work, workers, lambda *_: None):
        pass


def _wait(chunk_seconds: float, tasks: Sequence[Arguments], _source: str) -> tuple[list[bytes], None]:
    """Wait for the chunks in a worker, and return random bytes as their records."""
    time.sleep(chunk_seconds * len(tasks))
    return [os.urandom(_RECORD_BYTES) for _ in tasks], None


class _Ready:
    """Workers whose records exist already."""

    slots = 1

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        record = os.urandom(_RECORD_BYTES)
        yield from ((task, record) for task in tasks)


class _Timed:
    """Workers, with the times of their first and their last record."""

    def __init__(self, workers: Workers) -> None:
        self.slots = 1
        self._workers = workers
        self.first = self.last = 0.0

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        for found in self._workers.measure(tasks):
            self.last = time.perf_counter()
            self.first = self.first or self.last
            yield found
