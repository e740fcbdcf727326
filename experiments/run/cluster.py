"""The workers of a Dask cluster that the user has started; needs the packages of `requirements-cluster.lock`.

Dask hands out the chunks, and gives those of a lost worker to others. It gives a chunk up when it has lost more workers
with it than its setting `allowed-failures`. The client refuses wrong workers before the first chunk. A worker refuses
its chunks itself if it joins later; then the client retires it. A plugin of Dask cannot do this: while a plugin refuses
a worker that has just joined, that worker waits for its nanny, and the nanny for the worker.
"""

import asyncio
import json
import logging
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed import Client, KilledWorker, Security
from distributed.core import rpc
from distributed.versions import VersionMismatchWarning
from threadpoolctl import threadpool_limits

from experiments.errors import MeasurementError
from experiments.kinds import experiment_names
from experiments.measuring.chunk import Chunk
from experiments.measuring.experiment import load_experiment
from experiments.measuring.processor import require_fixed
from experiments.run.fingerprint import versions, worker_fingerprint
from experiments.run.store import Stamp, measure_record
from experiments.run.work import Task
from experiments.run.workers import measured

_ANSWER_SECONDS = 10  # that the scheduler may take to answer, and to write its file
_LOOK_SECONDS = 5  # without a record, after which the client looks at the scheduler and its workers
_NO_WORKERS_SECONDS = 300  # unless Dask's configuration of the client names its own time limit
_IN_FLIGHT = 1000  # chunks that Dask knows at a time
_READING = Lock()  # Python 3.11 cannot parse source in several threads at a time
for _name in ("distributed.client", "tornado.application"):  # this module reports in its own words
    logging.getLogger(_name).setLevel(logging.CRITICAL)
warnings.simplefilter("ignore", VersionMismatchWarning)
Copy = Mapping[str, str]


class ClusterError(MeasurementError):
    """The cluster is out of reach or cannot measure the chunks; the message names its address or a worker."""


class WrongWorkerError(Exception):
    """A worker that cannot take part got a chunk."""


def this_copy() -> Copy:
    """The source of the suite, NumPy and SciPy in this process.

    The first call imports all experiments, so that the source is the one that this process runs, even if the files
    change later. From then on BLAS uses one thread: a limit that ends would end for other threads of a worker, too.

    Raises:
        RuntimeError: this process does not use the instructions of `experiments.measuring.processor`.
    """
    with _READING:
        return _read_copy()


@cache
def _read_copy() -> Copy:
    for name in experiment_names():
        load_experiment(name)
    require_fixed()
    threadpool_limits(limits=1)
    return {"source of the suite": worker_fingerprint(*experiment_names())[:12], **versions()}


def measure_here(expected: Copy, chunk: Chunk, seed: int, stamp: Stamp) -> bytes:
    """Measure a chunk and make its record, as `measure_record`; runs in a worker.

    Raises:
        WrongWorkerError: this worker has another copy of the suite, or uses other instructions.
    """
    try:
        found = this_copy()
    except RuntimeError as error:
        raise WrongWorkerError(str(error)) from None
    if found != expected:
        raise WrongWorkerError
    return measure_record(chunk, seed, stamp)


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    """A client of the scheduler; the scheduler forgets its tasks when it closes."""
    client = Client(address, timeout=_ANSWER_SECONDS, set_as_default=False)
    try:
        yield client
    finally:
        client.close(timeout=_ANSWER_SECONDS / 2)


class DaskCluster:
    """The workers of a Dask cluster; see `experiments.run.work.Workers`."""

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
        """Records in the order of completion, as `experiments.run.work.Workers.measure`.

        Raises:
            ClusterError: the scheduler is lost, no worker stays, or a worker has another copy of the suite.
            MeasurementError: a chunk failed, or its workers died.
        """
        address = _address(self.scheduler)
        self._threads(address)  # Dask's own time limit does not end the wait for a server of another protocol
        with _connected(address) as client:
            if not self._has_measured and (wrong := self._wrong_workers(client)):
                raise ClusterError("\n".join(wrong.values()))
            self._retire_wrong(client)  # those that joined between pilots and chunks
            client.subscribe_topic("all", self._notice_loss)
            self._look(address)
            try:
                for task, record in measured(
                    partial(client.get_executor(pure=False).submit, measure_here, this_copy()),
                    tasks,
                    _IN_FLIGHT,
                    deaths=KilledWorker,
                    seconds=_LOOK_SECONDS,
                    look=partial(self._look, address),
                    is_astray=partial(self._is_astray, client),
                ):
                    self._has_measured = True
                    yield task, record
            except CancelledError:
                raise ClusterError(f"lost the scheduler at {self.scheduler}") from None

    def _wrong_workers(self, client: Client) -> dict[str, str]:
        """The connected workers that cannot take part, by address, with a sentence about each."""
        wrong, mine = {}, this_copy()
        for address, found in client.run(this_copy, on_error="return").items():
            if found != mine:
                why = str(found)  # an error
                if isinstance(found, dict):
                    apart = (name for name in mine if found.get(name) != mine[name])
                    why = "; ".join(f"{name}: expected {mine[name]}, got {found.get(name)}" for name in apart)
                wrong[address] = f"worker {address} cannot take part: {why}"
        return wrong

    def _retire_wrong(self, client: Client) -> bool:
        """End workers that cannot take part, and say why; true if there are any."""
        wrong = self._wrong_workers(client)
        for line in wrong.values():
            self._say(line)
        if wrong:
            client.retire_workers([*wrong])
        return bool(wrong)

    def _is_astray(self, client: Client, error: BaseException | None) -> bool:
        """True if a wrong worker got a chunk, which then can go to another."""
        is_wrong = isinstance(error, WrongWorkerError)
        return isinstance(error, WrongWorkerError | ImportError) and (self._retire_wrong(client) or is_wrong)

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
    for _ in range(10 * _ANSWER_SECONDS):
        if not isinstance(where, Path):
            return where
        with suppress(OSError, ValueError, LookupError, TypeError):
            return str(json.loads(where.read_text(encoding="utf-8"))["address"])
        time.sleep(0.1)
    raise ClusterError(f"{where}: expected the file of `dask scheduler --scheduler-file`, got none with an address")
