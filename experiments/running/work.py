"""The chunks that a run has to measure.

Workers, local processes or a cluster, measure and compress; only this process writes. The result
does not depend on who measures a chunk or on which chunk finishes first.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from experiments.config.errors import MeasurementError, counted
from experiments.config.sweep import Sweep
from experiments.measuring.chunk import Chunk
from experiments.measuring.columns import axis_values, describe
from experiments.measuring.metric import relative_error
from experiments.running.store import Stamp, Store, pilot_chunks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Task:
    """A chunk to measure, with everything that a worker and an error message need."""

    chunk: Chunk
    store: Store
    sweeps: list[str]  # that need the chunk, at least one

    @property
    def arguments(self) -> tuple[Chunk, int, Stamp]:
        """The arguments of `measure_record`."""
        return self.chunk, self.store.seed, self.store.stamp(self.chunk)

    @property
    def seconds(self) -> float:
        """Estimated seconds that one worker needs."""
        return self.chunk.cell.seconds_per_trial * self.chunk.trials

    @property
    def place(self) -> str:
        """The sweep, the cell and the chunk in words."""
        return f"sweep {self.sweeps[0]}, cell {describe(self.chunk.cell)}, chunk {self.chunk.index}"

    def failure(self, problem: str) -> MeasurementError:
        """The error of a chunk that failed for this reason."""
        return MeasurementError(f"{self.place}: {problem}")


class Workers(Protocol):
    """Processes that measure chunks. Their text names them for the user, such as `2 workers`."""

    @property
    def slots(self) -> int:
        """Number of chunks that they measure at a time."""
        ...

    def measure(self, tasks: Sequence[Task]) -> Generator[tuple[Task, bytes], None, None]:
        """Records of tasks in the order of completion.

        If the caller closes the generator early, all work on the tasks ends.

        Raises:
            MeasurementError: a chunk failed; the message names it.
        """
        ...


@dataclass
class Work:
    """The chunks known so far; a sweep without its pilots has only these.

    A chunk that several sweeps need counts in each.
    """

    total: Counter[str] = field(default_factory=Counter)  # number of chunks, by sweep
    left: Counter[str] = field(default_factory=Counter)  # of them still to measure
    # sweeps whose trials follow from pilots that are still to measure
    waiting: set[str] = field(default_factory=set)
    todo: list[Task] = field(default_factory=list)
    damaged: list[Path] = field(default_factory=list)  # records

    @property
    def seconds(self) -> float:
        """Estimated seconds that one worker needs for all of `todo`."""
        return sum(task.seconds for task in self.todo)

    def is_complete(self, sweep: Sweep) -> bool:
        """True if no chunk of a sweep is to be measured."""
        return not self.left[sweep.name] and sweep.name not in self.waiting


def find_work(store: Store, sweeps: Sequence[Sweep]) -> Work:
    """The chunks of sweeps in the store and those still to measure, the largest cells of a sweep
    first.
    """
    work = Work()
    asked: dict[Path, Task] = {}
    for sweep in sweeps:
        cells = sorted(sweep.cells, key=lambda cell: cell.seconds_per_trial, reverse=True)
        found = [chunk for cell in cells for chunk in pilot_chunks(sweep, cell)]
        if any(store.state(chunk) != "sound" for chunk in found):
            work.waiting.add(sweep.name)
        else:
            found = [chunk for cell in cells for chunk in store.chunks(sweep, cell)]
        work.total[sweep.name] = len(found)
        for chunk in found:
            state = store.state(chunk)
            path = store.path(chunk)
            if state == "sound":
                continue
            work.left[sweep.name] += 1
            if state == "damaged" and path not in asked:
                work.damaged.append(path)
            asked.setdefault(path, Task(chunk, store, [])).sweeps.append(sweep.name)
    work.todo = [*asked.values()]
    return work


def unreached(sweep: Sweep, table: "pd.DataFrame") -> str:
    """The number of cells that need more trials for the precision of a sweep, in words; empty if none
    does.
    """
    if sweep.precision is None:
        return ""
    axes = list(axis_values(sweep.cells[0]))
    groups = table.groupby(axes, sort=False)
    errors = [
        relative_error(sweep.experiment.metrics, rows.to_dict("records")) for _, rows in groups
    ]
    missed = sum(error > sweep.precision for error in errors)
    few = f"{missed} of {counted(len(errors), 'cell')} missed the precision {sweep.precision:g}"
    return f"{sweep.name}: {few} and need more than max_trials {sweep.trials}" if missed else ""
