"""Hand out chunks to the workers of a Dask cluster, and receive their records.

The client assigns each group of chunks to one worker, and submits it again itself if the worker is lost. So it knows
which chunks a worker had, and no chunk waits for a worker that is gone. A worker that leaves costs its current chunks.
"""

import asyncio
import queue
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from distributed import Future, KilledWorker, wait
from distributed.client import FutureCancelledError, FuturesCancelledError

from experiments.harness.cluster.events import Events
from experiments.harness.cluster.members import Members
from experiments.harness.cluster.remote import MeasureGroup, this_copy
from experiments.harness.cluster.scheduler import Scheduler
from experiments.harness.cluster.waiting import Group, WaitingChunks
from experiments.harness.wording import counted
from experiments.harness.work import Task

Message = tuple[Task, bytes] | str  # a record, or a line for the user

_CANCEL_SECONDS = 5
_MAX_UNREAD = 256  # records that wait for the run to write them
_MAX_FETCHED = 8  # groups whose records are on their way to the client
_LOOK_AGAIN_SECONDS = 0.02  # after which the run may have caught up with writing
_HAND_OUT_SECONDS = 0.05  # without a pause: the event loop also serves the connection to the scheduler


@dataclass(eq=False)
class _Sent:
    """A group sent to a worker, whose records have not come yet."""

    group: Group
    future: Future
    since: float


@dataclass
class _Worker:
    """A worker in use, with its groups in the order in which it takes them."""

    threads: int
    sent: list[_Sent] = field(default_factory=list)

    @property
    def has_room(self) -> bool:
        """True if it has less than one group for each thread and one more, so that no thread waits for the client."""
        return len(self.sent) <= self.threads and not any(sent.group.alone for sent in self.sent)


class Dispatch:
    """The chunks of a run on the cluster, or its pilots.

    Args:
        scheduler: the scheduler of the cluster.
        tasks: the chunks to measure, at least one.
        messages: receives each record, and lines for the user.
        measure: measures a group of chunks in a worker.
        refusal_is_error: as for `Members`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        tasks: Sequence[Task],
        messages: "queue.SimpleQueue[Any]",
        measure: MeasureGroup,
        refusal_is_error: bool,
    ) -> None:
        self._scheduler = scheduler
        self._client = scheduler.client
        self._messages = messages
        self._measure = measure
        self._waiting = WaitingChunks(tasks)
        self._missing = len(tasks)  # records
        self._events = Events(scheduler.name)
        one_per_cell = {(task.chunk.experiment, task.chunk.cell): task for task in tasks}
        self._members = Members(
            scheduler,
            self._events,
            max(one_per_cell.values(), key=lambda task: task.memory),
            say=messages.put,
            on_join=self._join,
            on_loss=self._lose,
            refusal_is_error=refusal_is_error,
        )
        self._workers: dict[str, _Worker] = {}
        self._with_room: dict[str, None] = {}  # workers that may take a group, in order; some have left or are full
        self._fetching = asyncio.Semaphore(_MAX_FETCHED)
        self._submitted = 0  # groups

    async def run(self) -> None:
        """Hand out all chunks and receive their records.

        Raises:
            ClusterError: the scheduler is lost, no worker comes, or a worker has another copy of the suite.
            MeasurementError: a chunk failed, or its cell killed several workers in a row.
        """
        try:
            with self._members.followed():
                await self._members.meet()
                while self._missing:
                    self._members.limit_the_wait(self._waiting.suspected_cells)
                    is_done = self._hand_out()
                    await self._events.handle(1 if is_done and not self._is_full else _LOOK_AGAIN_SECONDS)
                    self._scheduler.check()
        finally:
            await self._cancel()

    @property
    def _is_full(self) -> bool:
        return self._messages.qsize() >= _MAX_UNREAD

    def _join(self, address: str, threads: int) -> None:
        self._workers[address] = _Worker(threads)
        self._with_room[address] = None

    def _lose(self, address: str, died: bool) -> None:
        """Let the chunks of a worker that is gone wait again."""
        worker = self._workers.pop(address)
        if not worker.sent:
            return
        for sent in worker.sent:
            sent.future.release()
        begun = sum(len(sent.group.tasks) for sent in worker.sent[: worker.threads])
        self._messages.put(f"lost worker {address}; measuring {counted(begun, 'chunk')} again")
        for sent in worker.sent:
            if died:
                self._waiting.put_back_suspects(sent.group, sent.since, time.monotonic())
            else:
                self._waiting.put_back(sent.group)

    def _hand_out(self) -> bool:
        """Give groups to the workers with room, one at a time each in turn; False if the time runs out first."""
        end = time.monotonic() + _HAND_OUT_SECONDS
        threads = sum(worker.threads for worker in self._workers.values())
        passed = 0  # workers in a row that could take none
        while passed < len(self._with_room) and not self._is_full:
            if time.monotonic() >= end:
                return False
            address = next(iter(self._with_room))
            del self._with_room[address]
            worker = self._workers.get(address)
            if worker is None or not worker.has_room:
                continue  # it comes back with its next records
            self._with_room[address] = None
            group = self._waiting.take(threads, idle=not worker.sent)
            if group:
                self._send(address, worker, group)
            passed = 0 if group else passed + 1
        return True

    def _send(self, address: str, worker: _Worker, group: Group) -> None:
        self._submitted += 1
        self._members.refusal_is_error = False
        future = self._client.submit(
            self._measure,
            [task.arguments for task in group.tasks],
            this_copy().source,
            key=f"sdpa-{self._client.id}-{self._submitted}",
            workers=[address],
            pure=False,
        )
        self._events.start(self._receive(address, future))
        worker.sent.append(_Sent(group, future, time.monotonic()))

    async def _receive(self, address: str, future: Future) -> None:
        """Wait for the records of a group."""
        try:
            with self._client.as_current():  # `wait` takes no client
                waiting = wait(future)
            await waiting
            async with self._fetching:
                while self._is_full:
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                outcome = await future
        except KilledWorker:
            pass  # its worker is lost, and `_lose` follows
        except (FutureCancelledError, FuturesCancelledError):  # by `_lose`, or because the connection broke
            self._events.put(self._check_cancelled, address, future)
        else:
            self._events.put(self._finish, address, future, *outcome)

    def _finish(self, address: str, future: Future, records: Sequence[bytes], problem: str | None) -> None:
        """Pass records on; an error if one of the chunks failed."""
        sent = self._find(address, future)
        if sent is None:
            return  # lost while its records were on their way
        self._workers[address].sent.remove(sent)
        self._with_room[address] = None
        self._members.hear(address)
        future.release()
        for task, record in zip(sent.group.tasks, records, strict=False):
            self._waiting.acquit(task)
            self._missing -= 1
            self._messages.put((task, record))
        if problem is not None:
            raise sent.group.tasks[len(records)].failure(problem)

    def _check_cancelled(self, address: str, future: Future) -> None:
        """Find out why a future was cancelled: its worker is lost, or the client has met a restarted scheduler."""
        if self._find(address, future):
            raise self._scheduler.loss()

    def _find(self, address: str, future: Future) -> _Sent | None:
        """The group of this future; None if its worker is lost, and the group waits again."""
        worker = self._workers.get(address)
        return next((sent for sent in worker.sent if sent.future is future), None) if worker else None

    async def _cancel(self) -> None:
        """Take all groups back from the cluster."""
        futures = [sent.future for worker in self._workers.values() for sent in worker.sent]
        if futures and self._scheduler.is_connected:
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await self._client.cancel(futures, force=True)
