"""Fill the store over worker processes; the result does not depend on how many there are or who finishes first."""

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
from experiments.harness.memory import keep_freed_memory
from experiments.harness.pilot import cell_chunks, pilot_chunks
from experiments.harness.problems import Problem
from experiments.harness.store import Store, measure_record

if TYPE_CHECKING:
    import pandas as pd

_QUEUED_PER_WORKER = 3


class MeasurementError(Problem):
    """A cell that could not be measured, or came out as something that is no number."""


@dataclass
class Work:
    """The chunks of sweeps: how many there are, which are to be measured, and what is wrong with records of them."""

    chunks: Counter[str] = field(default_factory=Counter)
    todo: list[tuple[Chunk, list[str]]] = field(default_factory=list)  # each once, with the sweeps that ask for it
    states: dict[str, Counter[str]] = field(default_factory=dict)
    damaged: list[Chunk] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Rough time that the chunks to be measured take on one worker."""
        return sum(_seconds(chunk) for chunk, _ in self.todo)

    def left(self) -> Counter[str]:
        """Chunks that are to be measured, by sweep."""
        return Counter(name for _, names in self.todo for name in names)


def survey_pilots(store: Store, sweeps: Sequence[Sweep]) -> Work:
    """Which pilots are in the store and which are to be measured, before `survey` can tell what else is."""
    return _survey(store, sweeps, pilot_chunks)


def survey(store: Store, sweeps: Sequence[Sweep]) -> Work:
    """The chunks of sweeps that are in the store and those to be measured, the largest cells of a sweep first."""
    return _survey(store, sweeps, lambda sweep, cell: cell_chunks(store, sweep, cell))


def _survey(store: Store, sweeps: Sequence[Sweep], chunks_of: Callable[[Sweep, Cell], list[Chunk]]) -> Work:
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


def fill(
    store: Store, sweeps: Sequence[Sweep], work: Work, jobs: int, on_progress: Callable[[str, float], None]
) -> Iterator[Sweep]:
    """Measure what is missing, and give each sweep, in order, as soon as all its records are there.

    Args:
        store: where records go, each as soon as it is measured.
        sweeps: those that were surveyed.
        work: what `survey` found.
        jobs: worker processes.
        on_progress: called with the sweep's name and the estimated seconds of work of each finished chunk.

    Raises:
        MeasurementError: a worker failed or died, or a number is not finite; the message names the cell.
        OSError: a record cannot be written.
    """
    left = work.left()
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


def gather(store: Store, sweep: Sweep) -> "dict[str, pd.DataFrame]":
    """The tables of a measured sweep, from its records.

    Raises:
        MeasurementError: a value of the main table is not finite.
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

    Raises:
        MeasurementError: a value of the main table is not finite.
    """
    import pandas as pd  # here, as workers load this module and need no tables

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
    """Processes that each compute on one thread and keep freed memory; an error or Ctrl-C in the block ends them."""
    # Spawned, not forked: the same on every system, and no thread's lock is copied into a worker.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker) as pool:
        try:
            yield pool
        except BaseException:
            _stop(pool)
            raise


def _start_worker() -> None:
    # Ctrl-C reaches every process of the terminal; the parent decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    # With more threads, BLAS would split its sums by their number, and results would depend on the machine's load.
    threadpool_limits(limits=1)


@contextmanager
def _held_back(*signals: signal.Signals) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """A worker whose parent is gone, whatever ended it, has nobody to answer to."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the workers at once: what they are at is measured again, so there is nothing to wait for."""
    with _held_back(signal.SIGINT, signal.SIGTERM):
        for worker in multiprocessing.active_children():
            worker.kill()
        # The pool's thread would wait forever for the rest of a record that a killed worker was sending, as this
        # process holds the sending end of the pipe too. Once that is closed, the thread reads the end of the file.
        if pool._result_queue is not None:
            pool._result_queue._writer.close()  # type: ignore[attr-defined]
        pool.shutdown(cancel_futures=True)


def _seconds(chunk: Chunk) -> float:
    return load_experiment(chunk.experiment).seconds_per_trial(chunk.cell) * chunk.trials


def _measured(
    pool: ProcessPoolExecutor, store: Store, work: Work, jobs: int
) -> Iterator[tuple[Chunk, list[str], bytes]]:
    """Records as they are made, with only a few chunks handed out at a time, so that memory stays bounded."""
    todo = iter(work.todo)
    pending: dict[Future[bytes], tuple[Chunk, list[str]]] = {}
    while True:
        for chunk, names in itertools.islice(todo, _QUEUED_PER_WORKER * jobs - len(pending)):
            # A worker that is started here inherits that, and is not interrupted while it imports.
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
    """Turn what goes wrong with a chunk, or with the pool when the chunk is handed out, into an error with its name."""
    try:
        yield
    except BrokenProcessPool:
        raise _failure(chunk, sweep, "a worker process died (killed, or out of memory) at or near this cell") from None
    except (ArithmeticError, ValueError, MemoryError) as error:
        raise _failure(chunk, sweep, f"{type(error).__name__}: {error}") from None


def _failure(chunk: Chunk, sweep: str, problem: str) -> MeasurementError:
    return MeasurementError(f"sweep {sweep}, cell {describe(chunk.cell)}, chunk {chunk.index}: {problem}")
