"""Workers of a Dask cluster that the user has started.

A thread of this process talks with the scheduler (`experiments.harness.cluster.dispatch`); the thread of the run only
takes records from a queue.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.harness.cluster.dispatch import Dispatch, Message
from experiments.harness.cluster.remote import MeasureGroup, measure_records, this_copy
from experiments.harness.cluster.scheduler import ClusterError, connected
from experiments.harness.work import Task

_STOP_SECONDS = 15


class DaskCluster:
    """The workers of a Dask cluster; see `experiments.harness.run.Workers`.

    Args:
        scheduler: the address of its scheduler, such as `tcp://host:8786`, or the scheduler file that it wrote.
        say: prints a line for the user.
        measure: measures a group of chunks in a worker; benchmarks give a function that only waits.
    """

    def __init__(
        self, scheduler: str | Path, say: Callable[[str], object], measure: MeasureGroup = measure_records
    ) -> None:
        self.scheduler = scheduler
        self._say = say
        self._measure = measure
        self._slots = 0
        self._has_measured = False
        this_copy()  # the source as this process imports it now, not after an edit during the run

    def __str__(self) -> str:
        slots = f" ({self._slots} at a time)" if self._slots else ""
        return f"the cluster at {self.scheduler}{slots}"

    @property
    def slots(self) -> int:
        """Number of chunks that the connected workers measure at a time.

        Raises:
            ClusterError: the scheduler does not answer, or no worker is connected.
        """
        self._slots = self._slots or asyncio.run(_threads(self.scheduler))
        return self._slots

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        """Records in the order of completion.

        A run may call this more than once, for pilots and for chunks. After the first record it refuses a worker with
        a line, not with an error.

        Raises:
            ClusterError: the scheduler is lost, no worker stays, or a worker has another copy of the suite.
            MeasurementError: a chunk failed, or its cell killed several workers in a row.
        """
        run = _Run(self.scheduler, tasks, self._measure, not self._has_measured)
        try:
            for message in run.messages():
                if isinstance(message, str):
                    self._say(message)
                else:
                    self._has_measured = True
                    yield message
        finally:
            run.stop()


class _Run:
    """A thread with an event loop that hands out the chunks, and the queue of its messages."""

    def __init__(
        self, scheduler: str | Path, tasks: Sequence[Task], measure: MeasureGroup, refusal_is_error: bool
    ) -> None:
        self._messages: queue.SimpleQueue[Message | BaseException | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._stopped = False
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(
            target=self._serve, args=(scheduler, tasks, measure, refusal_is_error), name="cluster", daemon=True
        )
        self._thread.start()

    def messages(self) -> Iterator[Message]:
        """Records with their tasks, and lines for the user, until all records have come; raises the run's error."""
        while (message := self._messages.get()) is not None:
            if isinstance(message, BaseException):
                raise message
            yield message

    def stop(self) -> None:
        """End the run: cancel its tasks on the cluster, and disconnect."""
        self._stopped = True
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_STOP_SECONDS)

    def _cancel(self) -> None:
        if self._main:
            self._main.cancel()

    def _serve(self, *run: Any) -> None:
        """Hand out all chunks."""
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._dispatch(*run))
        self._messages.put(None)

    async def _dispatch(
        self, scheduler: str | Path, tasks: Sequence[Task], measure: MeasureGroup, refusal_is_error: bool
    ) -> None:
        """Hand out all chunks, and pass an error on at once: the end of the event loop may wait for the network."""
        self._main = asyncio.current_task()
        try:
            if not self._stopped:
                async with connected(scheduler) as connection:
                    await Dispatch(connection, tasks, self._messages, measure, refusal_is_error).run()
        except Exception as error:
            self._messages.put(error)


async def _threads(scheduler: str | Path) -> int:
    """Threads of all connected workers together."""
    async with connected(scheduler) as connection:
        if not await connection.statuses_of_workers():
            raise ClusterError(f"expected workers at {scheduler}, got none")
        return sum((await connection.client.nthreads()).values())
