"""The workers of a Dask cluster that the user has started; needs the packages of
`requirements-cluster.lock`.

Dask hands out the chunks, and gives those of a lost worker to others. It gives a chunk up when it
has lost more workers with it than its setting `allowed-failures`. Workers compare their copy of the
suite with that of the client before the first chunk, and again with each chunk, because a worker
may join at any time.
"""

import logging
import os
import platform
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from functools import cache, partial
from threading import Lock
from typing import Any

import dask.config
from distributed import Client, KilledWorker
from threadpoolctl import threadpool_limits

from experiments.config.errors import MeasurementError
from experiments.kinds import experiment_names
from experiments.measuring.chunk import Chunk
from experiments.measuring.experiment import load_experiment
from experiments.measuring.processor import require_fixed
from experiments.running.fingerprint import measuring_source, versions
from experiments.running.work import Task
from experiments.running.workers import receive

_ANSWER_SECONDS = 10  # that the scheduler may take to answer
_IN_FLIGHT = 1000  # chunks that Dask knows at a time
_READING = Lock()  # Python 3.11 cannot parse source in several threads at a time

for _name in ("distributed.client", "tornado.application"):  # this module reports in its own words
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class ClusterError(MeasurementError):
    """The cluster is out of reach or cannot measure; the message names its address or a worker."""


@cache
def this_copy() -> str:
    """The source of the suite, NumPy and SciPy in this process.

    The first call imports all experiments: the source is the one that runs, even if files change
    later. From then on BLAS uses one thread, also in other threads of a worker.

    Raises:
        RuntimeError: this process does not use the instructions of
            `experiments.measuring.processor`.
    """
    experiments = [load_experiment(name) for name in experiment_names()]
    require_fixed()
    threadpool_limits(limits=1)
    source = measuring_source(*experiments)[:12]
    libraries = [f"{name} {version}" for name, version in versions().items()]
    return ", ".join([f"source {source}", *libraries])


def require_copy(expected: str) -> None:
    """`ClusterError` if this worker has another copy of the suite, or uses other instructions."""
    try:
        with _READING:
            got = this_copy()
    except RuntimeError as error:
        got = str(error)
    if got != expected:
        worker = f"worker {os.getpid()} on {platform.node()}"
        raise ClusterError(f"{worker} cannot take part: expected {expected}, got {got}")


def measure_here(expected: str, chunk: Chunk) -> bytes:
    """The packed measurement of a chunk; runs in a worker."""
    require_copy(expected)
    return chunk.packed()


class DaskCluster:
    """The workers of a Dask cluster; see `experiments.running.work.Workers`."""

    def __init__(self, scheduler: str, say: Callable[[str], object]) -> None:
        self.scheduler = scheduler
        self._say = say
        this_copy()  # the source as this process imports it now, not after an edit during the run

    def __str__(self) -> str:
        return f"the cluster at {self.scheduler}"

    @property
    def slots(self) -> int:
        """Number of chunks that the workers measure at a time; `ClusterError` without workers."""
        with self._connected() as client:
            threads = sum(map(int, client.nthreads().values()))
        if not threads:
            raise ClusterError(f"expected workers at {self.scheduler}, got none")
        return threads

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        """Packed measurements in the order of completion, as `experiments.running.work.Workers.measure`.

        Raises:
            ClusterError: no scheduler, no worker, or a worker with another copy of the suite.
            MeasurementError: a chunk failed, or its workers died.
        """
        limit = dask.config.get("distributed.scheduler.no-workers-timeout") or "300 s"
        with self._connected() as client:
            client.subscribe_topic("all", self._notice_loss)
            try:
                if not client.nthreads():
                    self._say(f"no workers at {self.scheduler}; waiting for up to {limit}")
                client.wait_for_workers(1, timeout=limit)
                client.run(require_copy, this_copy())
                submit = partial(client.get_executor(pure=False).submit, measure_here, this_copy())
                yield from receive(submit, tasks, _IN_FLIGHT, deaths=KilledWorker)
            except TimeoutError:
                raise ClusterError(f"no workers at {self.scheduler} for {limit}") from None
            except (CancelledError, OSError):
                raise ClusterError(f"lost the scheduler at {self.scheduler}") from None
            except ImportError as error:
                raise ClusterError(f"a worker has another copy of the suite: {error}") from None

    def _connected(self) -> Client:
        """A client; when it leaves, however it leaves, the scheduler forgets its tasks."""
        is_file = ":" not in self.scheduler  # an address always has a port
        where = {"scheduler_file" if is_file else "address": self.scheduler}
        try:
            return Client(**where, timeout=_ANSWER_SECONDS, set_as_default=False)
        except Exception as error:  # no answer, no address, no certificate
            raise ClusterError(f"no scheduler answers at {self.scheduler}: {error}") from None

    def _notice_loss(self, event: tuple[float, dict[str, Any]]) -> None:
        """Say that a worker is gone, from an entry of the scheduler's log."""
        _, entry = event
        if entry.get("action") == "remove-worker":
            self._say(f"lost worker {entry['worker']}; others measure its chunks")
