"""The events of a run on a cluster: functions to call, in the order in which they came.

Coroutines that wait for the cluster put events; the run handles them in turn. So its state changes only between two
waits of the run, never while a coroutine works on it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from experiments.harness.cluster.scheduler import ClusterError


class Events:
    """A queue of events, and the coroutines that put them.

    Args:
        scheduler: names the cluster in messages.
    """

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler
        self._queue: asyncio.Queue[Callable[[], object]] = asyncio.Queue()
        self._waiting: set[asyncio.Task[None]] = set()  # the event loop itself keeps no task alive

    def put(self, function: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Have a function called by the run."""
        self._queue.put_nowait(partial(function, *arguments, **options))

    def start(self, waiting: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine that puts events; an error in it ends the run."""
        task = asyncio.create_task(waiting)
        self._waiting.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._waiting.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error:
            self.put(self._raise, error)

    def _raise(self, error: BaseException) -> None:
        if isinstance(error, ClusterError):
            raise error
        raise ClusterError(f"the client at {self._scheduler} failed: {type(error).__name__}: {error}") from error

    async def handle(self, seconds: float) -> None:
        """Wait for an event, at most for this time, and handle all events that have come.

        Raises:
            ClusterError: an event raised one; if several did, the message has all of them.
        """
        try:
            # Not `wait_for`, which in Python 3.11 can swallow a cancellation.
            async with asyncio.timeout(seconds):
                come = [await self._queue.get()]
        except TimeoutError:
            return
        while not self._queue.empty():
            come.append(self._queue.get_nowait())
        problems = []
        for event in come:
            try:
                event()
            except ClusterError as error:
                problems.append(str(error))
        if problems:
            raise ClusterError("\n".join(problems))
