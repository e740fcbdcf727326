"""The chunks that a run has to measure: those that the sweeps need and the store lacks.

Sweeps and a store come in; a `Work` with one `Task` per missing chunk comes out. Nothing here measures or writes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from experiments.harness.experiment import Cell
from experiments.harness.grid import Chunk, Sweep, describe
from experiments.harness.pilot import cell_chunks, pilot_chunks
from experiments.harness.problems import MeasurementError
from experiments.harness.store import Stamp, Store


@dataclass(frozen=True, eq=False)
class Task:
    """A chunk to measure, with everything that a worker and an error message need.

    Attributes:
        chunk: the trials of one cell.
        store: the store that lacks its record.
        sweeps: names of the sweeps that need the chunk, at least one.
    """

    chunk: Chunk
    store: Store
    sweeps: list[str]

    @property
    def arguments(self) -> tuple[Chunk, int, Stamp]:
        """The arguments of `measure_record`."""
        return self.chunk, self.store.seed, self.store.stamp(self.chunk)

    @property
    def seconds(self) -> float:
        """Estimated seconds that one worker needs."""
        return self.chunk.experiment.seconds_per_trial(self.chunk.cell) * self.chunk.trials

    @property
    def memory(self) -> int:
        """Estimated bytes that a worker needs, without the interpreter and its libraries."""
        return self.chunk.experiment.memory(self.chunk.cell)

    def describe(self) -> str:
        """The name of the chunk in messages: `sweep wide, cell d_k=8, ..., chunk 3`."""
        return f"sweep {self.sweeps[0]}, cell {describe(self.chunk.cell)}, chunk {self.chunk.index}"

    def failure(self, problem: str) -> MeasurementError:
        """The error of a chunk that failed for this reason."""
        return MeasurementError(f"{self.describe()}: {problem}")


@dataclass
class Work:
    """The chunks of sweeps: their number, those still to measure, and the states of their records.

    Attributes:
        chunks: number of chunks of each sweep; sweeps may share chunks, which count in each.
        todo: one task for each chunk still to measure, in the order of the sweeps.
        states: number of records in each state, by sweep.
        damaged: the chunks in todo whose records are damaged.
    """

    chunks: Counter[str] = field(default_factory=Counter)
    todo: list[Task] = field(default_factory=list)
    states: dict[str, Counter[str]] = field(default_factory=dict)
    damaged: list[Chunk] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Rough time in seconds that one worker needs for the chunks still to measure."""
        return sum(task.seconds for task in self.todo)

    def missing(self) -> Counter[str]:
        """Number of chunks still to measure, by sweep; a chunk that several sweeps need counts in each."""
        return Counter(name for task in self.todo for name in task.sweeps)


def find_pilots(store: Store, sweeps: Sequence[Sweep]) -> Work:
    """The pilots in the store and those still to measure; `find_chunks` needs all of them.

    Sweeps that name their number of trials have none.
    """
    return _find(store, sweeps, pilot_chunks)


def find_chunks(store: Store, sweeps: Sequence[Sweep]) -> Work:
    """The chunks of sweeps in the store and those still to measure, the largest cells of a sweep first.

    Raises:
        RecordError: a sweep with a precision lacks a pilot.
    """
    return _find(store, sweeps, lambda sweep, cell: cell_chunks(store, sweep, cell))


def _find(store: Store, sweeps: Sequence[Sweep], chunks_of: Callable[[Sweep, Cell], list[Chunk]]) -> Work:
    """A survey of the chunks that `chunks_of` names for each cell; the sweeps keep their order."""
    work = Work()
    asked: dict[str, Task] = {}
    for sweep in sweeps:
        work.states[sweep.name] = Counter()
        for cell in sorted(sweep.cells(), key=sweep.experiment.seconds_per_trial, reverse=True):
            for chunk in chunks_of(sweep, cell):
                work.chunks[sweep.name] += 1
                state = store.state(chunk)
                work.states[sweep.name][state] += 1
                if state == "sound":
                    continue
                name = str(store.path(chunk))
                if name in asked:
                    asked[name].sweeps.append(sweep.name)
                    continue
                asked[name] = Task(chunk, store, [sweep.name])
                work.todo.append(asked[name])
                work.damaged += [chunk] * (state == "damaged")
    return work
