"""The chunks that wait for a worker, and the deaths of workers that count against a cell.

Nobody knows which of its chunks killed a worker, so each of them goes to a worker alone. If several workers in a row
die with chunks of one cell, the run ends and names the cell.

Nothing here needs Dask or reads a clock.
"""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.harness.experiment import Cell
from experiments.harness.grid import describe
from experiments.harness.work import Task

_MAX_DEATHS = 3  # of workers in a row with one cell alone
# A client handles a few hundred tasks of Dask per second; with many workers, a task of Dask consists of several chunks.
GROUPS_PER_SECOND = 100
_MAX_GROUP = 64


@dataclass(frozen=True, eq=False)
class Group:
    """Chunks that go to one worker together.

    Attributes:
        tasks: the chunks, at least one.
        alone: True for a chunk of a worker that died; its next worker gets nothing else at the same time.
    """

    tasks: tuple[Task, ...]
    alone: bool = False


@dataclass
class _Deaths:
    """Deaths of workers with a cell alone since a chunk of it last succeeded; each began after the one before."""

    count: int = 0
    last: float = -math.inf


class WaitingChunks:
    """The chunks that no worker has; those of lost workers go out first, suspects to idle workers only.

    Args:
        tasks: all chunks of the run, in the order in which they go out.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._fresh = deque(tasks)
        self._again: deque[Group] = deque()  # of workers that left
        self._suspects: deque[Task] = deque()  # of workers that died; each goes out alone
        self._deaths: dict[Cell, _Deaths] = {}
        self._died_with: Counter[Task] = Counter()  # workers, with this chunk alone

    def take(self, threads: int, *, idle: bool) -> Group | None:
        """The next group for a worker, which no longer waits; None if no chunk waits that the worker may take.

        Args:
            threads: number of chunks that all workers together measure at a time; it determines the size of a group.
            idle: True if the worker has no group; only then it may take a chunk alone.
        """
        if idle and self._suspects:
            return Group((self._suspects.popleft(),), alone=True)
        if self._again:
            return self._again.popleft()
        return self._next_group(threads) if self._fresh else None

    def _next_group(self, threads: int) -> Group:
        """The next chunks, as many as the number of threads requires."""
        tasks = [self._fresh.popleft()]
        seconds = tasks[0].seconds
        while self._fresh and len(tasks) < _MAX_GROUP and seconds < threads / GROUPS_PER_SECOND:
            tasks.append(self._fresh.popleft())
            seconds += tasks[-1].seconds
        return Group(tuple(tasks))

    def put_back(self, group: Group) -> None:
        """Let the chunks of a worker that left wait again; a chunk that was alone remains a suspect."""
        if group.alone:
            self._suspects.extend(group.tasks)
        else:
            self._again.append(group)

    def put_back_suspects(self, group: Group, sent: float, now: float) -> None:
        """Let the chunks of a worker that died wait again, for a worker alone each.

        If the group was alone, the death counts against its cell. Deaths of workers that had begun before the last
        counted one are the same incident: machines that leave together take all workers with them, and blame no cell.

        Args:
            group: a group that the worker had.
            sent: time at which the worker got it, on any clock.
            now: time of the death, on the same clock.

        Raises:
            MeasurementError: several workers in a row died with the cell of this chunk alone.
        """
        self._suspects.extend(group.tasks)
        if not group.alone:
            return
        (task,) = group.tasks
        self._died_with[task] += 1
        deaths = self._deaths.setdefault(task.chunk.cell, _Deaths())
        if sent > deaths.last:
            deaths.count, deaths.last = deaths.count + 1, now
        if max(deaths.count, self._died_with[task]) >= _MAX_DEATHS:
            raise task.failure(f"{_MAX_DEATHS} workers in a row died while they measured it (killed, or out of memory)")

    def acquit(self, task: Task) -> None:
        """Forget the deaths that count against the cell of a chunk, because the chunk succeeded."""
        self._deaths.pop(task.chunk.cell, None)

    def suspected_cells(self) -> list[str]:
        """Names of the cells whose chunks were with workers that died, and wait again."""
        return list(dict.fromkeys(describe(task.chunk.cell) for task in self._suspects))
