"""The workers of a Dask cluster that the user has started; needs the packages of `requirements-cluster.lock`.

Dask hands out the chunks, and gives those of a lost worker to others. It gives a chunk up when it has lost more workers
with it than its setting `allowed-failures`. The client refuses wrong workers before the first chunk. A worker refuses
its chunks itself if it joins later; then the client retires it. A plugin of Dask cannot do this: while a plugin refuses
a worker that has just joined, that worker waits for its nanny, and the nanny for the worker.
"""

import asyncio
import json
import logging
import math
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import dask.config
from dask.utils import parse_timedelta
from distributed import Client, KilledWorker, Security, Worker, get_worker
from distributed.core import rpc
from distributed.versions import VersionMismatchWarning
from threadpoolctl import threadpool_limits

from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.fingerprint import source_fingerprint, versions
from experiments.harness.grid import Chunk
from experiments.harness.local import measured
from experiments.harness.problems import MeasurementError, counted
from experiments.harness.processor import arithmetic, require_fixed
from experiments.harness.run import Task
from experiments.harness.store import Stamp, measure_record

_ANSWER_SECONDS = 10  # that the scheduler may take to answer, and to write its file
_LOOK_SECONDS = 5  # without a record, after which the client looks at the scheduler and its workers
_NO_WORKERS_SECONDS = 300  # unless Dask's configuration of the client names its own time limit
_IN_FLIGHT = 1000  # chunks that Dask knows at a time
_WORKER_BASE = 150 * 2**20  # bytes of a worker of Dask with the suite
_READING = threading.Lock()  # Python 3.11 cannot parse source in several threads at a time
_TOPIC = "sdpa"  # of Dask's log, for lines that workers write to the client


class ClusterError(MeasurementError):
    """The cluster is out of reach or cannot measure the chunks; the message names its address or a worker."""


class WrongWorkerError(Exception):
    """A worker that cannot take part got a chunk."""


def this_copy() -> Mapping[str, str]:
    """The source of the suite, NumPy and SciPy in this process.

    The first call imports all experiments, so that the source is the one that this process runs, even if the files
    change later.

    Raises:
        RuntimeError: this process does not use the instructions of `experiments.harness.processor`.
    """
    with _READING:
        return _read_copy()


@cache
def _read_copy() -> Mapping[str, str]:
    for name in experiment_names():
        load_experiment(name)
    require_fixed()
    modules = (f"experiments.{name}" for name in experiment_names())
    return {"source of the suite": source_fingerprint(__name__, *modules)[:12], **versions()}


@dataclass(frozen=True)
class Needs:
    """What a worker needs to measure the chunks of a run.

    Attributes:
        copy: the copy of the suite in the client.
        arithmetic: the C library, NumPy's SIMD level and the BLAS kernel of the client; they can change last digits.
        chunk: the name of the chunk that needs the most memory.
        memory: the bytes of that chunk.
    """

    copy: Mapping[str, str]
    arithmetic: str
    chunk: str
    memory: int

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Self:
        """The needs of chunks, in the client."""
        largest = max(tasks, key=lambda task: task.memory)
        return cls(this_copy(), _arithmetic(), largest.describe(), largest.memory)

    def lacking(self, dask_worker: Worker) -> str:
        """The reasons why the worker in which this runs cannot take part; empty if it can."""
        mine = this_copy()
        found = [f"{name}: expected {was}, got {mine[name]}" for name, was in self.copy.items() if was != mine[name]]
        manager, threads = dask_worker.memory_manager, dask_worker.state.nthreads
        limit = manager.memory_limit * (manager.memory_pause_fraction or 1) if manager.memory_limit else math.inf
        needed = _WORKER_BASE + threads * self.memory
        if needed > limit:
            found.append(
                f"{self.chunk} needs about {needed / 2**20:.0f} MiB with {counted(threads, 'thread')}, and Dask pauses"
                f" the worker at {limit / 2**20:.0f} MiB"
            )
        return "; ".join(found)


def _arithmetic() -> str:
    return ", ".join(arithmetic()[name] for name in ("libc", "simd", "blas"))


def measure_here(needs: Needs, chunk: Chunk, seed: int, stamp: Stamp) -> bytes:
    """Measure a chunk and make its record, as `measure_record`; runs in a worker.

    Raises:
        WrongWorkerError: this worker cannot take part.
    """
    try:
        lacking = needs.lacking(get_worker())
    except RuntimeError as error:  # other instructions
        lacking = str(error)
    if lacking:
        raise WrongWorkerError(lacking)
    _prepare(needs.arithmetic)
    return measure_record(chunk, seed, stamp)


@cache
def _prepare(of_client: str) -> None:
    """Let BLAS use one thread in this process, for good: a limit that ends would end for other threads too."""
    threadpool_limits(limits=1)
    if _arithmetic() != of_client:
        here = f"because it computes with {_arithmetic()}, the client with {of_client}"
        get_worker().log_event(_TOPIC, f"worker {get_worker().address}: last digits may differ, {here}")


class DaskCluster:
    """The workers of a Dask cluster; see `experiments.harness.run.Workers`."""

    def __init__(self, scheduler: str | Path, say: Callable[[str], object]) -> None:
        self.scheduler, self._say = scheduler, say
        self._slots = 0
        self._has_measured = False
        self._empty_since: float | None = None
        this_copy()  # the source as this process imports it now, not after an edit during the run

    def __str__(self) -> str:
        slots = f" ({self._slots} at a time)" if self._slots else ""
        return f"the cluster at {self.scheduler}{slots}"

    @property
    def slots(self) -> int:
        """Number of chunks that the connected workers measure at a time; `ClusterError` if there are none."""
        self._slots = self._slots or self._threads(_address(self.scheduler))
        if not self._slots:
            raise ClusterError(f"expected workers at {self.scheduler}, got none")
        return self._slots

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        """Records in the order of completion, as `experiments.harness.run.Workers.measure`.

        Raises:
            ClusterError: the scheduler is lost, no worker stays, or a worker has another copy of the suite.
            MeasurementError: a chunk failed, or its workers died.
        """
        address = _address(self.scheduler)
        self._threads(address)  # Dask's own time limit does not end the wait for a server of another protocol
        with self._connected(address) as client:
            needs = Needs.of(tasks)
            wrong = self._wrong_workers(client, needs)
            if wrong and not self._has_measured:
                raise ClusterError("\n".join(wrong.values()))
            self._retire(client, wrong)  # those that joined between pilots and chunks
            client.subscribe_topic(_TOPIC, lambda event: self._say(event[1]))
            client.subscribe_topic("all", self._notice_loss)
            self._look(address)
            try:
                for task, record in measured(
                    partial(client.get_executor(pure=False).submit, measure_here, needs),
                    tasks,
                    _IN_FLIGHT,
                    deaths=KilledWorker,
                    seconds=_LOOK_SECONDS,
                    look=partial(self._look, address),
                    is_astray=partial(self._is_astray, client, needs),
                ):
                    self._has_measured = True
                    yield task, record
            except CancelledError:
                raise ClusterError(f"lost the scheduler at {self.scheduler}") from None

    def _wrong_workers(self, client: Client, needs: Needs) -> dict[str, str]:
        """The connected workers that cannot take part, by address, with a sentence about each."""
        found = client.run(needs.lacking, on_error="return")
        return {address: f"worker {address} cannot take part: {why}" for address, why in found.items() if why}

    def _is_astray(self, client: Client, needs: Needs, error: Exception) -> bool:
        """Retire workers that cannot take part after one of them got a chunk; true if the chunk can go to another."""
        wrong = self._wrong_workers(client, needs) if isinstance(error, WrongWorkerError | ImportError) else {}
        self._retire(client, wrong)
        return bool(wrong) or isinstance(error, WrongWorkerError)

    def _retire(self, client: Client, wrong: Mapping[str, str]) -> None:
        """End workers that cannot take part, and say why."""
        for line in wrong.values():
            self._say(line)
        if wrong:
            client.retire_workers([*wrong])

    @contextmanager
    def _connected(self, address: str) -> Iterator[Client]:
        """A client of the scheduler; the scheduler forgets its tasks when it closes."""
        for name in ("distributed.client", "tornado.application"):  # this module reports in its own words
            logging.getLogger(name).setLevel(logging.CRITICAL)
        warnings.simplefilter("ignore", VersionMismatchWarning)
        client = Client(address, timeout=_ANSWER_SECONDS, set_as_default=False)
        try:
            yield client
        finally:
            client.close(timeout=_ANSWER_SECONDS / 2)

    def _notice_loss(self, event: tuple[float, dict[str, Any]]) -> None:
        """Say that a worker is gone, from an entry of the scheduler's log."""
        _, entry = event
        if entry.get("action") == "remove-worker":
            self._say(f"lost worker {entry['worker']}; others measure its chunks")

    def _look(self, address: str) -> None:
        """Look whether the scheduler answers and has workers; `ClusterError` if it has had none for long."""
        if self._threads(address):
            self._empty_since = None
            return
        limit = parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout") or _NO_WORKERS_SECONDS)
        if self._empty_since is None:
            self._empty_since = time.monotonic()
            self._say(f"no workers at {self.scheduler}; waiting for up to {limit:g} s")
        if time.monotonic() - self._empty_since >= limit:
            raise ClusterError(f"no workers at {self.scheduler} for {limit:g} s")

    def _threads(self, address: str) -> int:
        """Threads of all connected workers together; `ClusterError` if the scheduler does not answer."""

        async def ask() -> int:
            async with asyncio.timeout(_ANSWER_SECONDS):
                async with rpc(address, connection_args=Security().get_connection_args("client")) as scheduler:
                    return int((await scheduler.identity(n_workers=0))["total_threads"])

        try:
            return asyncio.run(ask())
        except Exception as error:  # no answer, no address, no certificate
            reason = str(error) or f"expected an answer of Dask within {_ANSWER_SECONDS} s, got none"
            raise ClusterError(f"no scheduler answers at {self.scheduler}: {reason}") from None


def _address(where: str | Path) -> str:
    """The address of a scheduler, or that in its file, which a scheduler that has just started may still write."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    while isinstance(where, Path):
        try:
            return str(json.loads(where.read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, LookupError, TypeError):
            if time.monotonic() > deadline:
                found = "a file without an address" if where.exists() else "nothing"
                expected = "expected the file that `dask scheduler --scheduler-file` writes"
                raise ClusterError(f"{where}: {expected}, got {found}") from None
        time.sleep(0.1)
    return where
