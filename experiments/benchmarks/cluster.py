"""The speed of runs on a Dask cluster beside local processes, and the limit of one client: the rows of cluster.csv.

The column `part` names the kind of a row:

    sweep    seconds for a sweep with chunks of about 0.2 s, on local processes and on as many workers of a cluster
    writing  seconds in which a run writes and counts records whose measurement takes no time
    scale    chunks that a run receives from workers that only wait, in a time after its start
"""

import math
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from distributed import LocalCluster

from experiments.benchmarks.timing import interleaved
from experiments.benchmarks.waiting_cluster import RECORD_BYTES, WaitingCluster, wait_for_chunks, waiting_cluster
from experiments.harness.cluster.dask_cluster import DaskCluster
from experiments.harness.cluster.waiting import GROUPS_PER_SECOND
from experiments.harness.columns import defaults
from experiments.harness.grid import Chunk, Sweep
from experiments.harness.local import LocalWorkers
from experiments.harness.run import Workers, measure_missing
from experiments.harness.store import Store
from experiments.harness.work import Task, Work, find_chunks
from experiments.row_statistics import seconds_per_trial
from experiments.sampling import chunk_trials
from experiments.saturation import Cell
from sdpa import Scaling

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
        waiting_seconds: for how long their records count; longer if a worker gets so many chunks at once.
    """

    jobs: int = 2
    chunks: int = 100
    records: int = 2000
    workers: tuple[int, ...] = (64, 256, 1024)
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
        with waiting_cluster(workers) as cluster:
            rows += [_scale_row(cluster, workers, chunk_seconds, sizes) for chunk_seconds in sizes.chunk_seconds]
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
        clock = _Clock()
        _write_all(_work(Path(folder), records, 1.0), _Ready())
        return {"part": "writing", "what": "client", "chunks": records, **clock.columns()}


def _scale_row(cluster: WaitingCluster, workers: int, chunk_seconds: float, sizes: Sizes) -> dict[str, Any]:
    """Chunks that one client receives in some time, after the start, when each worker has had about two groups."""
    # The client makes groups of whole chunks. A window of less than two groups would count a wave of them or none.
    group_seconds = chunk_seconds * math.ceil(max(1.0, workers / GROUPS_PER_SECOND / chunk_seconds))
    counted_seconds = max(sizes.waiting_seconds, 2 * group_seconds)
    chunks = math.ceil((4 * group_seconds + counted_seconds) * workers / chunk_seconds)
    measure: Any = partial(wait_for_chunks, chunk_seconds)  # Dask waits for the coroutine
    client = DaskCluster(cluster.address, print, measure)
    window = _Window(cluster, client, 2 * group_seconds, counted_seconds)
    with tempfile.TemporaryDirectory() as folder:
        _write_all(_work(Path(folder), chunks, chunk_seconds), window)
    return {"part": "scale", "what": "cluster", "workers": workers, "chunk_seconds": chunk_seconds, **window.row}


def _cell() -> Cell:
    return Cell(**{name: values if name == "scaling" else values[0] for name, values in _VALUES.items()})


def _work(folder: Path, count: int, chunk_seconds: float) -> Work:
    """Chunks of a sweep `bench` whose estimated time is that many seconds."""
    cell, store = _cell(), Store(folder, seed=0)
    trials = max(1, round(chunk_seconds / seconds_per_trial(cell)))
    return Work(todo=[Task(Chunk("saturation", cell, index, trials), store, ["bench"]) for index in range(count)])


def _write_all(work: Work, workers: Workers) -> None:
    store = work.todo[0].store
    for _ in measure_missing(store, [], work, workers, lambda *_: None):
        pass


class _Clock:
    """Wall-clock time since its creation, and the processor time of this process and of a scheduler in that time."""

    def __init__(self, cluster: WaitingCluster | None = None) -> None:
        self._cluster = cluster
        self._start = self._now()

    @property
    def seconds(self) -> float:
        """Wall-clock time."""
        return time.perf_counter() - self._start["seconds"]

    def columns(self) -> dict[str, float]:
        """All times, by column of cluster.csv."""
        return {name: value - self._start[name] for name, value in self._now().items()}

    def _now(self) -> dict[str, float]:
        now = {"seconds": time.perf_counter(), "client_cpu": time.process_time()}
        return now | ({"scheduler_cpu": self._cluster.scheduler_seconds()} if self._cluster else {})


class _Ready:
    """Workers whose records exist already."""

    slots = 1

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        record = os.urandom(RECORD_BYTES)
        yield from ((task, record) for task in tasks)


class _Window:
    """Workers of a cluster, until their records have been counted for some time.

    Args:
        cluster: the cluster.
        client: hands out its chunks.
        skipped: seconds after the first record in which records do not count.
        counted: the seconds after those.

    Attributes:
        row: the number of chunks, and the columns of a `_Clock`.
    """

    slots = 1

    def __init__(self, cluster: WaitingCluster, client: Workers, skipped: float, counted: float) -> None:
        self._cluster = cluster
        self._client = client
        self._skipped = skipped
        self._counted = counted
        self.row: dict[str, float] = {}

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        with closing(self._client.measure(tasks)) as records:
            yield next(records)
            clock, chunks, counts = _Clock(self._cluster), 0, False
            for found in records:
                yield found  # the run has written it when it asks for the next one
                chunks += 1
                if not counts and clock.seconds >= self._skipped:
                    clock, chunks, counts = _Clock(self._cluster), 0, True
                elif counts and clock.seconds >= self._counted:
                    break
            self.row = {"chunks": chunks, **clock.columns()}
