"""Fill the store; the result does not depend on who measures a chunk or on which chunk finishes first.

The missing chunks of a store go to workers, local processes or a cluster, and their records into the store. Workers
measure and compress; only this process writes.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Protocol

from experiments.harness.grid import Sweep
from experiments.harness.store import Store
from experiments.harness.work import Task, Work


class Workers(Protocol):
    """Processes that measure chunks. Their text names them for the user, such as `2 workers`."""

    @property
    def slots(self) -> int:
        """Number of chunks that they measure at a time."""
        ...

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        """Records of tasks in the order of completion; larger tasks come first, and few are in flight at a time.

        If the caller closes the generator early, all work on the tasks ends.

        Args:
            tasks: the chunks to measure.

        Raises:
            MeasurementError: a chunk failed; the message names it.
        """
        ...


def measure_missing(
    store: Store, sweeps: Sequence[Sweep], work: Work, workers: Workers, on_progress: Callable[[str, float], None]
) -> Generator[Sweep, None, None]:
    """Measure the missing chunks, and yield each sweep, in order, as soon as its records are complete.

    If the caller stops early or an error occurs, the workers end at once; all written records stay.

    Args:
        store: receives each record as soon as it is measured.
        sweeps: the surveyed sweeps.
        work: the result of `find_pilots` or `find_chunks`.
        workers: measure the chunks; a complete store does not start them.
        on_progress: called with the sweep's name and the estimated seconds of work of each finished chunk.

    Raises:
        MeasurementError: a worker failed or died, or a number is not finite; the message names the cell.
        OSError: writing a record failed.
    """
    left = work.missing()
    waiting = deque(sweeps)
    while waiting and not left[waiting[0].name]:
        yield waiting.popleft()
    if not work.todo:
        return
    with closing(workers.measure(work.todo)) as records:
        for task, record in records:
            store.write(task.chunk, record)
            left.subtract(task.sweeps)
            on_progress(task.sweeps[0], task.seconds)
            while waiting and not left[waiting[0].name]:
                yield waiting.popleft()
