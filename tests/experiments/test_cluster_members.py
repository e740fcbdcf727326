"""The workers that take part in a run, with a scheduler that answers as the test says."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from experiments.distribution import EXPERIMENT, Cell
from experiments.harness.grid import Chunk
from experiments.harness.store import Store
from experiments.harness.work import Task

pytestmark = pytest.mark.cluster

WORKER = "tcp://worker:1"
LARGEST = Task(Chunk(EXPERIMENT, Cell(d_k=64), 0, 100), Store(Path("nowhere"), 0), ["wide"])


class Connection:
    """A scheduler and its client; each worker describes itself as this process."""

    name = "tcp://scheduler:8786"

    def __init__(self) -> None:
        self.client = self
        self.workers: set[str] = set()
        self.memory = math.inf  # of each worker

    async def statuses_of_workers(self) -> dict[str, str]:
        return dict.fromkeys(self.workers, "running")

    def check(self) -> None:
        pass

    def subscribe_topic(self, _: str, handler: Callable[[Any], None]) -> None:
        self.log = handler

    def unsubscribe_topic(self, _: str) -> None:
        pass

    def submit(self, *_: Any, **__: Any) -> "asyncio.Future[dict[str, Any]]":
        from experiments.harness.cluster.remote import WorkerDescription, this_copy

        answered = asyncio.get_running_loop().create_future()
        answered.set_result(asdict(WorkerDescription(this_copy(), 1, self.memory)))
        return answered


class Run:
    """The members of a run, and what they report: lines, and workers that join, leave and die."""

    def __init__(self) -> None:
        from experiments.harness.cluster.events import Events
        from experiments.harness.cluster.members import Members

        self.scheduler = Connection()
        self.events = Events(self.scheduler.name)
        self.reported: list[str] = []
        self.members = Members(
            self.scheduler,
            self.events,
            LARGEST,
            say=self.reported.append,
            on_join=lambda address, threads: self.reported.append(f"{address} joined with {threads}"),
            on_loss=lambda address, died: self.reported.append(f"{address} {'died' if died else 'left'}"),
        )

    async def answer(self, *workers: str) -> list[str]:
        """What is reported after the scheduler's next answer, which has these workers."""
        self.reported.clear()
        self.scheduler.workers = set(workers)
        await self.members.meet()
        return list(self.reported)

    async def entry(self, **entry: Any) -> list[str]:
        """What is reported after an entry of the scheduler's log."""
        self.reported.clear()
        self.scheduler.log((0.0, {"worker": WORKER, **entry}))
        while not self.reported:
            await self.events.handle(10)
        return list(self.reported)

    async def refuse(self) -> None:
        """A worker with too little memory joins after the first chunk."""
        self.members.refusal_is_error = False
        self.scheduler.memory = 0
        (line,) = await self.entry(action="add-worker")
        assert line.startswith(f"worker {WORKER} cannot take part: ")
        self.scheduler.memory = math.inf


def on_a_run(story: Callable[[Run], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        run = Run()
        with run.members.followed():
            assert await run.answer(WORKER) == [f"{WORKER} joined with 1"]
            await story(run)

    asyncio.run(asyncio.wait_for(told(), 30))


def test_an_answer_that_overtakes_the_log_does_not_hide_a_death():
    async def story(run: Run) -> None:
        assert await run.answer() == []
        assert await run.entry(action="remove-worker", expected=False) == [f"{WORKER} died"]

    on_a_run(story)


def test_two_answers_in_a_row_without_a_worker_replace_a_lost_entry():
    async def story(run: Run) -> None:
        assert await run.answer() == []
        assert await run.answer(WORKER) == []
        assert await run.answer() == []
        assert await run.answer() == [f"{WORKER} left"]
        assert await run.answer() == []

    on_a_run(story)


def test_a_worker_that_joins_again_starts_over():
    """Its address may be the same."""

    async def story(run: Run) -> None:
        assert await run.answer() == []
        assert await run.entry(action="remove-worker", expected=True) == [f"{WORKER} left"]
        assert await run.entry(action="add-worker") == [f"{WORKER} joined with 1"]
        assert await run.answer() == []

    on_a_run(story)


@pytest.mark.parametrize("logged", [True, False])
def test_a_worker_at_the_address_of_a_refused_one_takes_part(logged):
    """The entry of the refused worker's end may get lost."""

    async def story(run: Run) -> None:
        await run.entry(action="remove-worker", expected=True)
        await run.refuse()
        assert await run.answer(WORKER) == []
        if logged:
            run.scheduler.log((0.0, {"worker": WORKER, "action": "remove-worker", "expected": True}))
        else:
            await run.answer()
            await run.answer()
        assert await run.entry(action="add-worker") == [f"{WORKER} joined with 1"]

    on_a_run(story)
