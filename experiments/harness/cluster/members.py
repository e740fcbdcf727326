"""The workers that take part in a run: those that join, are asked for their copy of the suite, and stay connected.

The scheduler's log tells at once which workers join, leave and die. The run also asks the scheduler for its workers
every few seconds: an entry of the log may get lost, and the scheduler may hang. An answer may overtake an entry, so a
worker counts as gone without one only if two answers in a row lack it: the entry says if it died.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed.client import FutureCancelledError

from experiments.harness.cluster.events import Events
from experiments.harness.cluster.remote import WorkerDescription, describe_worker, this_copy
from experiments.harness.cluster.scheduler import ClusterError, Scheduler
from experiments.harness.wording import counted
from experiments.harness.work import Task

_FIRST_SECONDS = 30  # that the connected workers have to describe themselves before the first chunk
_PAUSED_SECONDS = 60
_NO_WORKERS_SECONDS = 300  # unless Dask's configuration names its own time limit
_WORKER_BASE = 150 * 2**20  # bytes of a worker of Dask with the suite
_WATCH_SECONDS = 5  # at most, between two questions to the scheduler


@dataclass(eq=False)
class _Asked:
    """A request to a worker to describe itself."""

    since: float


class Members:
    """The workers of one run, by address.

    Attributes:
        refusal_is_error: True until the first chunk of the run goes out; then it goes on without refused workers.

    Args:
        scheduler: knows all connected workers.
        events: receives the changes.
        largest: the chunk that needs the most memory.
        say: prints a line for the user.
        on_join: called with the address and the number of threads of a worker that may get chunks.
        on_loss: called with the address of such a worker that is gone, and with True if it died, False if it left.
        refusal_is_error: the initial value.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        events: Events,
        largest: Task,
        *,
        say: Callable[[str], None],
        on_join: Callable[[str, int], None],
        on_loss: Callable[[str, bool], None],
        refusal_is_error: bool = True,
    ) -> None:
        self.refusal_is_error = refusal_is_error
        self._scheduler = scheduler
        self._events = events
        self._largest = largest
        self._say = say
        self._on_join = on_join
        self._on_loss = on_loss
        self._heard: dict[str, float] = {}  # of the workers that take part: when they joined or last returned records
        self._asked: dict[str, _Asked] = {}  # workers that have not described themselves yet
        self._refused: set[str] = set()
        self._lacking: set[str] = set()  # workers that the scheduler's last answer lacks
        self._empty_since: float | None = None

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow the workers that join and leave, until the end of the block."""
        self._scheduler.client.subscribe_topic("all", self._on_entry)
        watching = self._events.start(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            self._scheduler.client.unsubscribe_topic("all")

    async def meet(self) -> None:
        """Check all workers that are connected now.

        Raises:
            ClusterError: the scheduler does not answer, or a worker cannot take part.
        """
        self._compare(await self._scheduler.statuses_of_workers())
        deadline = time.monotonic() + _FIRST_SECONDS
        while self._asked and time.monotonic() < deadline:
            await self._events.handle(1)
            self._scheduler.check()

    def hear(self, address: str) -> None:
        """Note that a worker has returned records now."""
        self._heard[address] = time.monotonic()

    def limit_the_wait(self, suspected_cells: Callable[[], Sequence[str]]) -> None:
        """End a run that has been without workers for long.

        Args:
            suspected_cells: gives the names of the cells whose chunks were with workers that died.

        Raises:
            ClusterError: the time limit has passed.
        """
        if self._heard:
            self._empty_since = None
            return
        limit = parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout") or _NO_WORKERS_SECONDS)
        if self._empty_since is None:
            self._empty_since = time.monotonic()
            self._say(f"no workers at {self._scheduler.name} have answered; waiting for up to {limit:g} s")
        if time.monotonic() - self._empty_since >= limit:
            cells = suspected_cells()
            last = f"; the last ones died with chunks of {'; '.join(cells)}" if cells else ""
            raise ClusterError(f"no workers at {self._scheduler.name} for {limit:g} s{last}")

    # Workers come and go.

    def _on_entry(self, event: tuple[float, Any]) -> None:
        """Follow the scheduler's log of workers that join and leave."""
        _, entry = event
        if entry.get("action") == "add-worker":
            self._events.put(self._ask, entry["worker"])
        elif entry.get("action") == "remove-worker":
            self._events.put(self._lose, entry["worker"], died=not entry["expected"])

    async def _watch(self) -> None:
        """Ask the scheduler for its workers every few seconds."""
        while True:
            await asyncio.sleep(min(2 + len(self._heard) / 100, _WATCH_SECONDS))
            self._events.put(self._compare, await self._scheduler.statuses_of_workers())

    def _compare(self, statuses: dict[str, str]) -> None:
        """Ask new workers, and give up those that are gone or paused."""
        lacking = {*self._heard, *self._asked, *self._refused} - statuses.keys()
        for address in sorted(lacking & self._lacking):
            self._lose(address, died=False)
        self._lacking = lacking
        for address, asked in list(self._asked.items()):
            if time.monotonic() - asked.since > _PAUSED_SECONDS:
                del self._asked[address]  # and ask again
        for address, status in statuses.items():
            heard = self._heard.get(address)
            if status == "running":
                self._ask(address)
            elif heard is not None and time.monotonic() - heard > _PAUSED_SECONDS:
                self._lose(address, died=False)

    def _lose(self, address: str, *, died: bool) -> None:
        """Forget a worker that is gone."""
        self._refused.discard(address)
        self._lacking.discard(address)
        self._asked.pop(address, None)  # not cancelled: Dask fetches the results of several workers together
        if self._heard.pop(address, None) is not None:
            self._on_loss(address, died)

    # A new worker describes itself; then it takes part or is refused.

    def _ask(self, address: str) -> None:
        """Let a new worker describe itself."""
        if not (address in self._heard or address in self._asked or address in self._refused):
            self._asked[address] = asked = _Asked(time.monotonic())
            self._events.start(self._receive_description(address, asked))

    async def _receive_description(self, address: str, asked: _Asked) -> None:
        submit = self._scheduler.client.submit
        # Modules stay where they are; their names come back.
        suite = submit(import_module, describe_worker.__module__, workers=[address], pure=False)
        try:
            # First alone: a worker that lacks the suite would not survive a message that names a function of it.
            await submit(str, suite, workers=[address], pure=False)
            described = await submit(describe_worker, workers=[address], pure=False)
            worker = WorkerDescription.rebuilt(described)
        except FutureCancelledError:
            raise self._scheduler.loss() from None
        except Exception as error:  # whatever the worker lacks
            self._events.put(self._refuse, address, asked, [f"{type(error).__name__}: {error}"])
        else:
            self._events.put(self._admit, address, asked, worker)

    def _admit(self, address: str, asked: _Asked, described: WorkerDescription) -> None:
        """Use a worker if it has the same copy of the suite as this process, and enough memory."""
        if self._asked.get(address) is not asked:
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
            self._refuse(address, asked, problems)
            return
        del self._asked[address]
        if described.copy.arithmetic != this_copy().arithmetic:
            self._say(
                f"worker {address}: last digits may differ, because it computes with {described.copy.arithmetic}, "
                f"this machine with {this_copy().arithmetic}"
            )
        self.hear(address)
        self._on_join(address, described.threads)

    def _refuse(self, address: str, asked: _Asked, problems: Sequence[str]) -> None:
        """Do not use a worker: an error before the first chunk, later a line, so that a long run goes on."""
        if self._asked.get(address) is not asked:
            return  # lost before its answer came
        del self._asked[address]
        self._refused.add(address)
        text = f"worker {address} cannot take part: {'; '.join(problems)}"
        if self.refusal_is_error:
            raise ClusterError(text)
        self._say(text)
