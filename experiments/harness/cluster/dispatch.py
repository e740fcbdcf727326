"""Hand out chunks to the workers of a Dask cluster.

The client assigns each chunk to one worker, and submits it again itself if the worker is lost. So it knows which chunks
a worker had, and no chunk waits for a worker that is gone. A worker that leaves costs its current chunks.

Nobody knows which of its chunks killed a worker, so each of them goes to a worker alone. If several workers in a row
die with chunks of one cell, the run ends and names the cell.
"""

import asyncio
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError

from experiments.harness.cluster.remote import MeasureGroup, WorkerDescription, describe_worker, this_copy
from experiments.harness.experiment import Cell
from experiments.harness.grid import describe
from experiments.harness.problems import Problem
from experiments.harness.wording import counted
from experiments.harness.work import Task

Message = tuple[Task, bytes] | str  # a record, or a line for the user

_SILENT_SECONDS = 15  # that the scheduler may take to answer
_FIRST_SECONDS = 30  # that the connected workers have to describe themselves before the first chunk
_PAUSED_SECONDS = 60
_NO_WORKERS_SECONDS = 300  # unless Dask's configuration names its own time limit
_CANCEL_SECONDS = 5
_WORKER_BASE = 150 * 2**20  # bytes of a worker of Dask with the suite
_MAX_DEATHS = 3  # of workers in a row with one cell alone
# A client handles a few hundred tasks of Dask per second; with many workers, a task of Dask consists of several chunks.
_GROUPS_PER_SECOND = 100
_MAX_GROUP = 64
_MAX_UNREAD = 256  # records that wait for the run to write them


class ClusterError(Problem):
    """The cluster is out of reach or cannot measure the chunks; the message names its address or a worker."""


@dataclass(eq=False)
class _Group:
    """Tasks sent to a worker together, whose records have not come yet."""

    tasks: tuple[Task, ...]
    alone: bool
    future: Future
    sent: float


@dataclass
class _Worker:
    """A worker in use, with its groups in the order in which it takes them."""

    threads: int
    heard: float  # when it joined or last returned records
    groups: list[_Group] = field(default_factory=list)

    @property
    def has_room(self) -> bool:
        """True if it has less than one group for each thread and one more, so that no thread waits for the client."""
        return len(self.groups) <= self.threads and not any(group.alone for group in self.groups)


@dataclass
class _Deaths:
    """Deaths of workers with a cell alone since a chunk of it last succeeded; each began after the one before."""

    count: int = 0
    last: float = -math.inf


class Dispatch:
    """One run on the cluster. Events of the cluster and of its tasks enter a queue; `run` handles them in turn.

    Args:
        client: connected to the scheduler, asynchronous.
        scheduler: its address for messages.
        tasks: the chunks to measure, at least one.
        messages: receives each record, and lines for the user.
        measure: measures a group of chunks in a worker.
    """

    def __init__(
        self,
        client: Client,
        scheduler: str,
        tasks: Sequence[Task],
        messages: "queue.SimpleQueue[Any]",
        measure: MeasureGroup,
    ) -> None:
        self._client = client
        self._scheduler = scheduler
        self._messages = messages
        self._measure = measure
        self._fresh = deque(tasks)
        self._again: deque[tuple[Task, ...]] = deque()  # of workers that left
        self._suspects: deque[Task] = deque()  # of workers that died
        self._missing = len(tasks)  # records
        self._largest = max(tasks, key=lambda task: task.memory)
        self._workers: dict[str, _Worker] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}  # workers that have not described themselves yet
        self._refused: set[str] = set()
        self._deaths: dict[Cell, _Deaths] = {}
        self._receivers: set[asyncio.Task[None]] = set()  # the event loop itself keeps no task alive
        self._submitted = 0  # groups
        self._with_room: dict[str, None] = {}  # workers that may take a group, in order; some have left or are full
        self._alone_since: float | None = None  # without workers
        self._events: asyncio.Queue[Callable[[], object] | None] = asyncio.Queue()

    async def run(self) -> None:
        """Hand out all chunks and receive their records.

        Raises:
            ClusterError: the scheduler is lost, no worker comes, or a worker has another copy of the suite.
            MeasurementError: a chunk failed, or its cell killed several workers in a row.
        """
        self._client.subscribe_topic("all", self._on_event)
        watching = asyncio.create_task(self._watch())
        try:
            await self._meet()
            while self._missing:
                self._limit_the_wait()
                self._hand_out()
                await self._handle_events()
        finally:
            watching.cancel()
            self._client.unsubscribe_topic("all")
            await self._cancel([group for worker in self._workers.values() for group in worker.groups])

    async def _meet(self) -> None:
        """Check all workers that are connected now, before the first chunk."""
        self._compare(await self._statuses())
        if self._asked:
            await asyncio.wait(self._asked.values(), timeout=_FIRST_SECONDS)
            await self._handle_events()

    async def _handle_events(self) -> None:
        """Wait for an event, but not for long, and handle all of them."""
        problems = []
        with suppress(TimeoutError):
            # If the run lags behind with writing, look again soon whether it has caught up.
            handle = await asyncio.wait_for(self._events.get(), 0.02 if self._is_full else 1)
            while handle:
                try:
                    handle()
                except ClusterError as error:
                    problems.append(str(error))
                handle = None if self._events.empty() else self._events.get_nowait()
        if problems:
            raise ClusterError("\n".join(problems))
        if self._client.status != "running":
            self._raise_loss()

    @property
    def _is_full(self) -> bool:
        return self._messages.qsize() >= _MAX_UNREAD

    # Workers come and go.

    def _on_event(self, event: tuple[float, Any]) -> None:
        """Follow the scheduler's log of workers that join and leave."""
        _, entry = event
        if entry.get("action") == "add-worker":
            self._events.put_nowait(partial(self._ask, entry["worker"]))
        elif entry.get("action") == "remove-worker":
            self._events.put_nowait(partial(self._lose, entry["worker"], died=not entry["expected"]))

    async def _watch(self) -> None:
        """Ask the scheduler for its workers every few seconds: an event may get lost, and the scheduler may hang."""
        while True:
            await asyncio.sleep(2 + len(self._workers) / 100)
            try:
                statuses = await self._statuses()
            except (OSError, TimeoutError):
                self._events.put_nowait(self._raise_silence)
            else:
                self._events.put_nowait(partial(self._compare, statuses))

    def _raise_silence(self) -> None:
        raise ClusterError(f"the scheduler at {self._scheduler} does not answer")

    def _check_cancelled(self, address: str, future: Future) -> None:
        """Find out why a future was cancelled: its worker is lost, or the client has met a restarted scheduler."""
        if self._group(address, future):
            self._raise_loss()

    def _raise_loss(self) -> None:
        raise ClusterError(f"lost the scheduler at {self._scheduler}")

    def _raise(self, address: str, error: Exception) -> None:
        raise ClusterError(f"worker {address}: {type(error).__name__}: {error}") from error

    async def _statuses(self) -> dict[str, str]:
        """The status of each connected worker, by address."""
        answer = await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), _SILENT_SECONDS)
        return {address: worker["status"] for address, worker in answer["workers"].items()}

    def _compare(self, statuses: dict[str, str]) -> None:
        """Ask new workers, and take the chunks of those that are gone or paused."""
        for address in [*self._workers, *self._asked]:
            if address not in statuses:
                self._lose(address, died=False)
        for address, status in statuses.items():
            worker = self._workers.get(address)
            if status == "running":
                self._ask(address)
            elif worker and time.monotonic() - worker.heard > _PAUSED_SECONDS:
                self._lose(address, died=False)

    def _ask(self, address: str) -> None:
        """Let a new worker describe itself."""
        if not (address in self._workers or address in self._asked or address in self._refused):
            self._asked[address] = asyncio.create_task(self._receive_description(address))

    async def _receive_description(self, address: str) -> None:
        # Modules stay where they are; their names come back.
        suite = self._client.submit(import_module, describe_worker.__module__, workers=[address], pure=False)
        try:
            # First alone: a worker that lacks the suite would not survive a message that names a function of it.
            await self._client.submit(str, suite, workers=[address], pure=False)
            described = await self._client.submit(describe_worker, workers=[address], pure=False)
        except Exception as error:  # whatever the worker lacks
            self._events.put_nowait(partial(self._refuse, address, [f"{type(error).__name__}: {error}"]))
        else:
            self._events.put_nowait(partial(self._admit, address, described))

    def _admit(self, address: str, described: WorkerDescription) -> None:
        """Use a worker if it has the same copy of the suite as this process, and enough memory."""
        if address not in self._asked:
            return  # lost before its answer came
        problems = this_copy().differences(described.copy)
        needed = _WORKER_BASE + described.threads * self._largest.memory
        if needed > described.memory:
            problems.append(
                f"{self._largest.describe()} needs about {needed / 2**20:.0f} MiB with {described.threads} threads, "
                f"and Dask pauses the worker at {described.memory / 2**20:.0f} MiB"
            )
        if problems:
            self._refuse(address, problems)
            return
        del self._asked[address]
        if described.copy.arithmetic != this_copy().arithmetic:
            self._messages.put(
                f"worker {address}: last digits may differ, because it computes with {described.copy.arithmetic}, "
                f"this machine with {this_copy().arithmetic}"
            )
        self._workers[address] = _Worker(described.threads, time.monotonic())
        self._with_room[address] = None

    def _refuse(self, address: str, problems: Sequence[str]) -> None:
        """Refuse a worker: before the first chunk with an error, later with a line, so that a long run goes on."""
        if self._asked.pop(address, None) is None:
            return  # lost before its answer came
        text = f"worker {address} cannot take part: {'; '.join(problems)}"
        self._refused.add(address)
        if not self._submitted:
            raise ClusterError(text)
        self._messages.put(text)

    def _lose(self, address: str, *, died: bool) -> None:
        """Forget a worker that is gone, and put its chunks first in line again."""
        self._refused.discard(address)
        if asked := self._asked.pop(address, None):
            asked.cancel()
        worker = self._workers.pop(address, None)
        if worker is None or not worker.groups:
            return
        for group in worker.groups:
            group.future.release()
        begun = sum(len(group.tasks) for group in worker.groups[: worker.threads])
        self._messages.put(f"lost worker {address}; measuring {counted(begun, 'chunk')} again")
        for group in worker.groups:
            if not died:
                self._again.append(group.tasks)
                continue
            self._suspects.extend(group.tasks)
            if group.alone:
                self._blame(group)

    def _blame(self, group: _Group) -> None:
        """Count a death against the cell of a chunk that was alone with its worker.

        Deaths of workers that had begun before the last counted one are the same incident: machines that leave
        together take all workers with them, and blame no cell.
        """
        (task,) = group.tasks
        deaths = self._deaths.setdefault(task.chunk.cell, _Deaths())
        if group.sent > deaths.last:
            deaths.count, deaths.last = deaths.count + 1, time.monotonic()
        if deaths.count >= _MAX_DEATHS:
            raise task.failure(
                f"{deaths.count} workers in a row died while they measured it (killed, or out of memory)"
            )

    def _limit_the_wait(self) -> None:
        """End a run that has been without workers for long."""
        if self._workers or self._asked:
            self._alone_since = None
            return
        limit = parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout") or _NO_WORKERS_SECONDS)
        if self._alone_since is None:
            self._alone_since = time.monotonic()
            self._messages.put(f"no workers at {self._scheduler}; waiting for up to {limit:g} s")
        if time.monotonic() - self._alone_since >= limit:
            blamed = [f"; {deaths.count} died at cell {describe(cell)}" for cell, deaths in self._deaths.items()]
            raise ClusterError(f"no workers at {self._scheduler} for {limit:g} s{''.join(blamed)}")

    # Chunks go out, records come back.

    def _hand_out(self) -> None:
        """Give groups to the workers with room, one at a time each in turn."""
        passed = 0  # workers in a row that could take none
        while passed < len(self._with_room) and not self._is_full:
            address = next(iter(self._with_room))
            del self._with_room[address]
            worker = self._workers.get(address)
            if worker is None or not worker.has_room:
                continue  # it comes back with its next records
            self._with_room[address] = None
            if not worker.groups and self._suspects:
                self._send(address, worker, (self._suspects.popleft(),), alone=True)
            elif self._again:
                self._send(address, worker, self._again.popleft())
            elif self._fresh:
                self._send(address, worker, self._next_group())
            else:
                passed += 1
                continue
            passed = 0

    def _next_group(self) -> tuple[Task, ...]:
        """The next chunks, as many as the number of workers requires."""
        threads = sum(worker.threads for worker in self._workers.values())
        group = [self._fresh.popleft()]
        seconds = group[0].seconds
        while self._fresh and len(group) < _MAX_GROUP and seconds < threads / _GROUPS_PER_SECOND:
            group.append(self._fresh.popleft())
            seconds += group[-1].seconds
        return tuple(group)

    def _send(self, address: str, worker: _Worker, tasks: tuple[Task, ...], *, alone: bool = False) -> None:
        self._submitted += 1
        future = self._client.submit(
            self._measure,
            [task.arguments for task in tasks],
            this_copy().source,
            key=f"sdpa-{self._client.id}-{self._submitted}",
            workers=[address],
            pure=False,
        )
        receiver = asyncio.create_task(self._receive(address, future))
        self._receivers.add(receiver)
        receiver.add_done_callback(self._receivers.discard)
        worker.groups.append(_Group(tasks, alone, future, time.monotonic()))

    async def _receive(self, address: str, future: Future) -> None:
        """Wait for the records of a group."""
        try:
            outcome = await future
        except KilledWorker:
            return  # its worker is lost, and `_lose` follows
        except FutureCancelledError:  # by `_lose`, or because the connection broke
            self._events.put_nowait(partial(self._check_cancelled, address, future))
        except Exception as error:  # not from a chunk: its errors come as text
            self._events.put_nowait(partial(self._raise, address, error))
        else:
            self._events.put_nowait(partial(self._finish, address, future, *outcome))

    def _finish(self, address: str, future: Future, records: Sequence[bytes], problem: str | None) -> None:
        """Pass records on; an error if one of the chunks failed."""
        group = self._group(address, future)
        if group is None:
            return  # lost while its records were on their way
        worker = self._workers[address]
        worker.groups.remove(group)
        worker.heard = time.monotonic()
        self._with_room[address] = None
        group.future.release()
        for task, record in zip(group.tasks, records, strict=False):
            self._deaths.pop(task.chunk.cell, None)
            self._missing -= 1
            self._messages.put((task, record))
        if problem is not None:
            raise group.tasks[len(records)].failure(problem)

    def _group(self, address: str, future: Future) -> _Group | None:
        """The group of this future; none if its worker is lost, and the group is in line again."""
        worker = self._workers.get(address)
        return next((group for group in worker.groups if group.future is future), None) if worker else None

    async def _cancel(self, groups: Sequence[_Group]) -> None:
        """Take these groups back from the cluster."""
        if groups and self._client.status == "running":
            with suppress(TimeoutError, OSError):
                await asyncio.wait_for(
                    self._client.cancel([group.future for group in groups], force=True), _CANCEL_SECONDS
                )
