"""The chunks of a sweep, and those that a run has to measure.

Workers, a thread or processes here or on a cluster, measure and compress; only this process writes. The result
does not depend on who measures a chunk or on which chunk finishes first.

A sweep names the number of trials of its cells, or a pilot finds it for the precision that the
sweep requests. With e the largest relative standard error among the precise metrics in a pilot of
200 trials, a precision p needs

    trials = 1.4 * 200 (e / p)^2,   at least 20 and at most max_trials

The suite discards the draws of the pilot and estimates from other draws. If the same draws also
determined the number of trials, it would be smaller where they happen to lie close together, and
the estimates would be biased.
"""

import math
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Protocol

from experiments.config.errors import MeasurementError
from experiments.config.sweep import Sweep
from experiments.measuring.cells import BaseCell
from experiments.measuring.chunk import Chunk
from experiments.measuring.columns import describe
from experiments.measuring.experiment import MEASURED, Measurement
from experiments.measuring.intervals import MIN_TRIALS
from experiments.measuring.metric import relative_error
from experiments.running.store import Store

PILOT_TRIALS = 200
# Far above the number of any chunk that is kept.
_FIRST_PILOT_CHUNK = 2**31
# Squared relative errors of pilots of 200 trials spread by 13 to 15% around their mean (measured
# over 200 seeds at d_k = 4 and 64), and in 1 of 100 pilots lie so far below it.
_MARGIN = 1.4


@dataclass(frozen=True, eq=False)
class Task:
    """A chunk to measure, and the sweeps that need it."""

    chunk: Chunk
    sweeps: list[str]  # at least one

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
        """Packed measurements of tasks in the order of completion.

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
    needs_pilot: set[str] = field(default_factory=set)
    todo: list[Task] = field(default_factory=list)
    damaged: list[Path] = field(default_factory=list)  # records

    @property
    def seconds(self) -> float:
        """Estimated seconds that one worker needs for all of `todo`."""
        return sum(task.seconds for task in self.todo)

    def is_complete(self, sweep: Sweep) -> bool:
        """True if no chunk of a sweep is to be measured."""
        return not self.left[sweep.name] and sweep.name not in self.needs_pilot


def find_work(store: Store, sweeps: Sequence[Sweep]) -> Work:
    """The chunks of sweeps in the store and those still to measure, the largest cells of a sweep
    first.
    """
    work = Work()
    tasks: dict[Path, Task] = {}
    for sweep in sweeps:
        cells = sorted(sweep.cells, key=lambda cell: cell.seconds_per_trial, reverse=True)
        chunks = [chunk for cell in cells for chunk in pilot_chunks(sweep, cell)]
        if any(store.state(chunk) != "sound" for chunk in chunks):
            work.needs_pilot.add(sweep.name)
        else:
            chunks = [chunk for cell in cells for chunk in cell_chunks(store, sweep, cell)]
        work.total[sweep.name] = len(chunks)
        for chunk in chunks:
            state = store.state(chunk)
            path = store.path(chunk)
            if state == "sound":
                continue
            work.left[sweep.name] += 1
            if state == "damaged" and path not in tasks:
                work.damaged.append(path)
            tasks.setdefault(path, Task(chunk, [])).sweeps.append(sweep.name)
    work.todo = [*tasks.values()]
    return work


def pilot_chunks(sweep: Sweep, cell: BaseCell) -> list[Chunk]:
    """The chunks of a cell's pilot, of 200 trials together; none for a sweep that names its number
    of trials.
    """
    if sweep.precision is None:
        return []
    first = _FIRST_PILOT_CHUNK
    return list(Chunk.of_cell(sweep.experiment, cell, PILOT_TRIALS, sweep.seed, first))


def cell_chunks(store: Store, sweep: Sweep, cell: BaseCell) -> list[Chunk]:
    """The chunks of a cell, in merge order; in a sweep with a precision, its trials follow from
    the pilot, which must be in the store.

    Of T trials the standard error is that of the pilot times sqrt(PILOT_TRIALS / T). No number
    suffices if a value or an error of the pilot is 0.

    Raises:
        RecordError: a record of the pilot is not sound.
    """
    experiment, trials = sweep.experiment, sweep.trials
    if sweep.precision is not None:
        pilot = merged(map(store.read, pilot_chunks(sweep, cell)))
        error = relative_error(experiment.metrics, experiment.tabulate(cell, pilot)[MEASURED])
        if math.isfinite(error):
            wanted = math.ceil(_MARGIN * PILOT_TRIALS * (error / sweep.precision) ** 2)
            trials = min(max(wanted, MIN_TRIALS), trials)
    return list(Chunk.of_cell(experiment, cell, trials, sweep.seed))


def merged(measurements: Iterable[Measurement]) -> Measurement:
    """The measurement of chunks, merged in order, on which sums of floats depend."""
    return reduce(lambda whole, following: whole.merge(following), measurements)
