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
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed import Client, Future, KilledWorker, wait
from distributed.client import FutureCancelledError, FuturesCancelledError

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
_MAX_FETCHED = 8  # groups whose records are on their way to the client
_LOOK_AGAIN_SECONDS = 0.02  # after which the run may have caught up with writing
_WATCH_SECONDS = 5  # at most, between two questions to the scheduler


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


@dataclass(eq=False)
class _Asked:
    """A request to a worker to describe itself."""

    since: float


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
        self._asked: dict[str, _Asked] = {}  # workers that have not described themselves yet
        self._refused: set[str] = set()
        self._deaths: dict[Cell, _Deaths] = {}
        self._died_with: Counter[Task] = Counter()  # workers, with this chunk alone
        self._receivers: set[asyncio.Task[None]] = set()  # the event loop itself keeps no task alive
        self._fetching = asyncio.Semaphore(_MAX_FETCHED)
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
        self._compare(await statuses_of_workers(self._client, self._scheduler))
        deadline = time.monotonic() + _FIRST_SECONDS
        while self._asked and time.monotonic() < deadline:
            await self._handle_events()

    async def _handle_events(self) -> None:
        """Wait for an event, but not for long, and handle all of them."""
        problems = []
        with suppress(TimeoutError):
            # Not `wait_for`, which in Python 3.11 can swallow a cancellation.
            async with asyncio.timeout(_LOOK_AGAIN_SECONDS if self._is_full else 1):
                handle = await self._events.get()
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
            await asyncio.sleep(min(2 + len(self._workers) / 100, _WATCH_SECONDS))
            try:
                statuses = await statuses_of_workers(self._client, self._scheduler)
            except Exception as error:  # whatever it is, the scheduler is no longer watched
                self._events.put_nowait(partial(self._raise, error))
                return
            self._events.put_nowait(partial(self._compare, statuses))

    def _check_cancelled(self, address: str, future: Future) -> None:
        """Find out why a future was cancelled: its worker is lost, or the client has met a restarted scheduler."""
        if self._group(address, future):
            self._raise_loss()

    def _raise_loss(self) -> None:
        raise ClusterError(f"lost the scheduler at {self._scheduler}")

    def _raise(self, error: BaseException) -> None:
        if isinstance(error, ClusterError):
            raise error
        raise ClusterError(f"the client at {self._scheduler} failed: {type(error).__name__}: {error}") from error

    def _compare(self, statuses: dict[str, str]) -> None:
        """Ask new workers, and take the chunks of those that are gone or paused."""
        for address in [*self._workers, *self._asked]:
            if address not in statuses:
                self._lose(address, died=False)
        for address, asked in list(self._asked.items()):
            if time.monotonic() - asked.since > _PAUSED_SECONDS:
                del self._asked[address]  # and ask again
        for address, status in statuses.items():
            worker = self._workers.get(address)
            if status == "running":
                self._ask(address)
            elif worker and time.monotonic() - worker.heard > _PAUSED_SECONDS:
                self._lose(address, died=False)

    def _ask(self, address: str) -> None:
        """Let a new worker describe itself."""
        if not (address in self._workers or address in self._asked or address in self._refused):
            self._asked[address] = _Asked(time.monotonic())
            self._start(self._receive_description(address))

    async def _receive_description(self, address: str) -> None:
        token = self._asked[address]
        # Modules stay where they are; their names come back.
        suite = self._client.submit(import_module, describe_worker.__module__, workers=[address], pure=False)
        try:
            # First alone: a worker that lacks the suite would not survive a message that names a function of it.
            await self._client.submit(str, suite, workers=[address], pure=False)
            described = await self._client.submit(describe_worker, workers=[address], pure=False)
            worker = WorkerDescription.rebuilt(described)
        except FutureCancelledError:
            self._events.put_nowait(self._raise_loss)  # the client has lost the scheduler, if only for a moment
        except Exception as error:  # whatever the worker lacks
            self._events.put_nowait(partial(self._refuse, address, token, [f"{type(error).__name__}: {error}"]))
        else:
            self._events.put_nowait(partial(self._admit, address, token, worker))

    def _admit(self, address: str, token: _Asked, described: WorkerDescription) -> None:
        """Use a worker if it has the same copy of the suite as this process, and enough memory."""
        if self._asked.get(address) is not token:
            return  # lost before its answer came
        problems = this_copy().differences(described.copy)
        needed = _WORKER_BASE + described.threads * self._largest.memory
        if needed > described.memory:
            problems.append(
                f"{self._largest.describe()} needs about {needed / 2**20:.0f} MiB "
                f"with {counted(described.threads, 'thread')}, "
                f"and Dask pauses the worker at {described.memory / 2**20:.0f} MiB"
            )
        if problems:
            self._refuse(address, token, problems)
            return
        del self._asked[address]
        if described.copy.arithmetic != this_copy().arithmetic:
            self._messages.put(
                f"worker {address}: last digits may differ, because it computes with {described.copy.arithmetic}, "
                f"this machine with {this_copy().arithmetic}"
            )
        self._workers[address] = _Worker(described.threads, time.monotonic())
        self._with_room[address] = None

    def _refuse(self, address: str, token: _Asked, problems: Sequence[str]) -> None:
        """Refuse a worker: before the first chunk with an error, later with a line, so that a long run goes on."""
        if self._asked.get(address) is not token:
            return  # lost before its answer came
        del self._asked[address]
        text = f"worker {address} cannot take part: {'; '.join(problems)}"
        self._refused.add(address)
        if not self._submitted:
            raise ClusterError(text)
        self._messages.put(text)

    def _lose(self, address: str, *, died: bool) -> None:
        """Forget a worker that is gone, and put its chunks first in line again."""
        self._refused.discard(address)
        self._asked.pop(address, None)  # not cancelled: Dask fetches the results of several workers together
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
        self._died_with[task] += 1
        deaths = self._deaths.setdefault(task.chunk.cell, _Deaths())
        if group.sent > deaths.last:
            deaths.count, deaths.last = deaths.count + 1, time.monotonic()
        if max(deaths.count, self._died_with[task]) >= _MAX_DEATHS:
            raise task.failure(f"{_MAX_DEATHS} workers in a row died while they measured it (killed, or out of memory)")

    def _limit_the_wait(self) -> None:
        """End a run that has been without workers for long."""
        if self._workers:
            self._alone_since = None
            return
        limit = parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout") or _NO_WORKERS_SECONDS)
        if self._alone_since is None:
            self._alone_since = time.monotonic()
            self._messages.put(f"no workers at {self._scheduler} have answered; waiting for up to {limit:g} s")
        if time.monotonic() - self._alone_since >= limit:
            cells = dict.fromkeys(describe(task.chunk.cell) for task in self._suspects)
            last = f"; the last ones died with chunks of {'; '.join(cells)}" if cells else ""
            raise ClusterError(f"no workers at {self._scheduler} for {limit:g} s{last}")

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
        self._start(self._receive(address, future))
        worker.groups.append(_Group(tasks, alone, future, time.monotonic()))

    def _start(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that puts an event; an error in it ends the run."""
        task = asyncio.create_task(waiting)
        self._receivers.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._receivers.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error:
            self._events.put_nowait(partial(self._raise, error))

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
            self._events.put_nowait(partial(self._check_cancelled, address, future))
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
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await self._client.cancel([group.future for group in groups], force=True)


async def statuses_of_workers(client: Client, scheduler: str) -> dict[str, str]:
    """The status of each connected worker, by address.

    Raises:
        ClusterError: the scheduler does not answer.
    """
    try:
        async with asyncio.timeout(_SILENT_SECONDS):
            answer = await client.scheduler.identity(n_workers=-1)
    except (OSError, TimeoutError):
        raise ClusterError(f"the scheduler at {scheduler} does not answer") from None
    return {address: worker["status"] for address, worker in answer["workers"].items()}
