"""Fill the store with worker processes; the result does not depend on their number or on which finishes first.

A run surveys the store (`find_pilots`, `find_chunks`), measures what it lacks (`measure_missing`), and makes the tables
from the store alone (`tabulate_sweep`). Workers measure and compress; only the parent process writes.
"""

import itertools
import math
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from experiments.harness.columns import axis_names
from experiments.harness.experiment import MEASURED, Cell, Measurement, Row, load_experiment
from experiments.harness.grid import Chunk, Sweep, axis_values, describe
from experiments.harness.pilot import cell_chunks, pilot_chunks
from experiments.harness.problems import Problem
from experiments.harness.store import Store, measure_record

if TYPE_CHECKING:
    import pandas as pd

_QUEUED_PER_WORKER = 3


class MeasurementError(Problem):
    """The measurement of a cell failed or gave a value that is not a finite number."""


@dataclass
class Work:
    """The chunks of sweeps: their number, those still to measure, and the states of their records.

    Attributes:
        chunks: number of chunks of each sweep; sweeps may share chunks, which count in each.
        todo: the chunks still to measure, each once, with the names of the sweeps that need it.
        states: number of records in each state, by sweep.
        damaged: the chunks in todo whose records are damaged.
    """

    chunks: Counter[str] = field(default_factory=Counter)
    todo: list[tuple[Chunk, list[str]]] = field(default_factory=list)  # each once, with the sweeps that need it
    states: dict[str, Counter[str]] = field(default_factory=dict)
    damaged: list[Chunk] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Rough time in seconds that one worker needs for the chunks still to measure."""
        return sum(_seconds(chunk) for chunk, _ in self.todo)

    def missing(self) -> Counter[str]:
        """Number of chunks still to measure, by sweep; a chunk that several sweeps need counts in each."""
        return Counter(name for _, names in self.todo for name in names)


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
    asked: dict[str, list[str]] = {}
    for sweep in sweeps:
        work.states[sweep.name] = Counter()
        for cell in sorted(sweep.cells(), key=load_experiment(sweep.experiment).seconds_per_trial, reverse=True):
            for chunk in chunks_of(sweep, cell):
                work.chunks[sweep.name] += 1
                state = store.state(chunk)
                work.states[sweep.name][state] += 1
                if state == "sound":
                    continue
                name = str(store.path(chunk))
                if name in asked:
                    asked[name].append(sweep.name)
                    continue
                asked[name] = [sweep.name]
                work.todo.append((chunk, asked[name]))
                work.damaged += [chunk] * (state == "damaged")
    return work


def measure_missing(
    store: Store, sweeps: Sequence[Sweep], work: Work, jobs: int, on_progress: Callable[[str, float], None]
) -> Iterator[Sweep]:
    """Measure the missing chunks, and yield each sweep, in order, as soon as its records are complete.

    At most three chunks per worker wait or run at a time.
    If the caller stops early or an error occurs, the workers end at once; all written records stay.

    Args:
        store: receives each record as soon as it is measured.
        sweeps: the surveyed sweeps.
        work: the result of `find_pilots` or `find_chunks`.
        jobs: worker processes.
        on_progress: called with the sweep's name and the estimated seconds of work of each finished chunk.

    Raises:
        MeasurementError: a worker failed or died, or a number is not finite; the message names the cell.
        OSError: writing a record failed.
    """
    left = work.missing()
    waiting = deque(sweeps)
    with worker_pool(jobs) as pool:
        while waiting and not left[waiting[0].name]:
            yield waiting.popleft()
        for chunk, names, record in _measured(pool, store, work, jobs):
            store.write(chunk, record)
            left.subtract(names)
            on_progress(names[0], _seconds(chunk))
            while waiting and not left[waiting[0].name]:
                yield waiting.popleft()


def tabulate_sweep(store: Store, sweep: Sweep) -> "dict[str, pd.DataFrame]":
    """The tables of a measured sweep, from its records: the main one as `measured`, and those that only analysis reads.

    Raises:
        MeasurementError: a value of the main table is not finite.
        RecordError: a record is missing, damaged or stale.
    """
    cells = sweep.cells()
    try:
        return tabulated(
            sweep.experiment, cells, (store.merged(iter(cell_chunks(store, sweep, cell))) for cell in cells)
        )
    except MeasurementError as error:
        raise MeasurementError(f"sweep {sweep.name}, {error}") from None


def tabulated(
    experiment_name: str, cells: Iterable[Cell], measurements: Iterable[Measurement]
) -> "dict[str, pd.DataFrame]":
    """The tables of cells of an experiment from the measurement of each, in order.

    Args:
        experiment_name: name of the experiment.
        cells: points of the grid.
        measurements: the merged measurement of each cell; may be a generator, which the function reads one at a time.

    Returns:
        Each table by its kind; rows begin with the axes of their cell.

    Raises:
        MeasurementError: a value of the main table is not finite.
    """
    import pandas as pd  # not at the top: workers load this module and need no tables

    experiment = load_experiment(experiment_name)
    full = [column.name for column in experiment.table_columns if not column.may_be_empty]
    tables: dict[str, list[Row]] = {}
    for cell, measurement in zip(cells, measurements, strict=True):
        for kind, rows in experiment.tabulate(cell, measurement).items():
            tables.setdefault(kind, []).extend({**axis_values(cell), **row} for row in rows)
    for row in tables[MEASURED]:
        for name in full:
            if isinstance(row[name], float) and not math.isfinite(row[name]):
                cell = ", ".join(f"{axis}={row[axis]}" for axis in axis_names(experiment.cell))
                raise MeasurementError(f"cell {cell}: expected a finite {name}, got {row[name]} in {row}")
    return {kind: pd.DataFrame(rows) for kind, rows in tables.items()}


def default_jobs() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that compute on one thread each; an error or Ctrl-C in the block ends them.

    Args:
        jobs: number of processes; the pool starts them when it gets work.
    """
    # Spawned, not forked: this works the same on every system and copies no thread's lock into a worker.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker) as pool:
        try:
            yield pool
        except BaseException:
            _stop(pool)
            raise


def _start_worker() -> None:
    """Prepare a worker: it ignores Ctrl-C, ends with its parent, and computes on one thread."""
    # Ctrl-C reaches every process of the terminal; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # With more threads, BLAS would split its sums by their number, and results would depend on the machine's load.
    threadpool_limits(limits=1)


@contextmanager
def _held_back(*signals: signal.Signals) -> Iterator[None]:
    """Hold these signals back until the end of the block; processes that start in it inherit this."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """End this worker when its parent is gone, for any reason."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the workers at once; the next run measures their unfinished chunks again."""
    with _held_back(signal.SIGINT, signal.SIGTERM):
        for worker in multiprocessing.active_children():
            worker.kill()
        # A killed worker may have sent half a record. The pool's thread would wait forever for the rest, because this
        # process also holds the sending end of the pipe. Once that is closed, the thread reads the end of the file.
        if pool._result_queue is not None:
            pool._result_queue._writer.close()  # type: ignore[attr-defined]
        pool.shutdown(cancel_futures=True)


def _seconds(chunk: Chunk) -> float:
    """Estimated seconds that one worker needs for a chunk."""
    return load_experiment(chunk.experiment).seconds_per_trial(chunk.cell) * chunk.trials


def _measured(
    pool: ProcessPoolExecutor, store: Store, work: Work, jobs: int
) -> Iterator[tuple[Chunk, list[str], bytes]]:
    """Records in the order of completion; only a few chunks are in flight at a time, so that memory stays bounded."""
    todo = iter(work.todo)
    pending: dict[Future[bytes], tuple[Chunk, list[str]]] = {}
    while True:
        for chunk, names in itertools.islice(todo, _QUEUED_PER_WORKER * jobs - len(pending)):
            # Workers started here inherit this setting, so that Ctrl-C does not interrupt their imports.
            with _held_back(signal.SIGINT), _naming(chunk, names[0]):
                pending[pool.submit(measure_record, chunk, store.seed, store.stamp(chunk))] = chunk, names
        if not pending:
            return
        finished, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in finished:
            chunk, names = pending.pop(future)
            with _naming(chunk, names[0]):
                record = future.result()
            yield chunk, names, record


@contextmanager
def _naming(chunk: Chunk, sweep: str) -> Iterator[None]:
    """Turn a failure of a chunk, or of the pool when it takes the chunk, into an error that names the chunk.

    Arithmetic, memory and value errors come from measuring. Others, such as an import error, are bugs and pass through.
    """
    try:
        yield
    except BrokenProcessPool:
        raise _failure(chunk, sweep, "a worker process died (killed, or out of memory) at or near this cell") from None
    except (ArithmeticError, ValueError, MemoryError) as error:
        raise _failure(chunk, sweep, f"{type(error).__name__}: {error}") from None


def _failure(chunk: Chunk, sweep: str, problem: str) -> MeasurementError:
    return MeasurementError(f"sweep {sweep}, cell {describe(chunk.cell)}, chunk {chunk.index}: {problem}")
