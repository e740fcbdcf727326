"""Measure sweeps over worker processes; the result does not depend on how many there are or who finishes first."""

import itertools
import math
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.harness.experiment import Cell, Measured, Measurement, Row, load_experiment
from experiments.harness.grid import Chunk, Sweep, axis_values, chunks, describe
from experiments.harness.seeds import generator

_QUEUED_PER_WORKER = 3


class MeasurementError(Exception):
    """A cell that could not be measured, or came out as something that is no number."""


@dataclass
class _CellRun:
    """A cell while its chunks come in, in any order; they are merged in theirs."""

    sweep: Sweep
    cell: Cell
    chunks: int
    merged: Measurement | None = None
    merged_chunks: int = 0
    early: dict[int, Measurement] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.merged_chunks == self.chunks

    def add(self, index: int, measurement: Measurement) -> None:
        self.early[index] = measurement
        while (following := self.early.pop(self.merged_chunks, None)) is not None:
            self.merged = following if self.merged is None else self.merged.merge(following)
            self.merged_chunks += 1


def measure_sweeps(
    sweeps: Sequence[Sweep], seed: int, jobs: int, on_progress: Callable[[str, float], None]
) -> Iterator[tuple[Sweep, Measured]]:
    """Each sweep with what was measured, in order, as soon as it is complete.

    Args:
        sweeps: what to measure.
        seed: the root seed.
        jobs: worker processes.
        on_progress: called with the sweep's name and the estimated seconds of work of each finished chunk.

    Raises:
        MeasurementError: a worker failed or died, or a metric is not finite; the message names the cell.
    """
    runs = {sweep.name: [_cell_run(sweep, cell) for cell in sweep.cells()] for sweep in sweeps}
    # Largest cells first, so that the last chunks to finish are small ones.
    order = [sorted(cell_runs, key=_seconds_per_trial, reverse=True) for cell_runs in runs.values()]
    todo = ((run, chunk) for run in itertools.chain(*order) for chunk in _chunks(run))
    waiting = deque(sweeps)
    # Spawned, not forked: the same on every system, and no thread's lock is copied into a worker.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start_worker) as pool:
        try:
            for run, chunk, measurement in _measured(pool, todo, seed, jobs):
                run.add(chunk.index, measurement)
                seconds = load_experiment(chunk.experiment).seconds_per_trial(chunk.cell) * chunk.trials
                on_progress(run.sweep.name, seconds)
                while waiting and all(cell_run.done for cell_run in runs[waiting[0].name]):
                    sweep = waiting.popleft()
                    yield sweep, _finished(sweep, runs.pop(sweep.name))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def estimated_seconds(sweep: Sweep) -> float:
    """Rough time that a sweep takes on one worker."""
    seconds_per_trial = load_experiment(sweep.experiment).seconds_per_trial
    return sum(seconds_per_trial(cell) for cell in sweep.cells()) * sweep.trials


def measure_chunk(chunk: Chunk, seed: int) -> Measurement:
    """Measure a chunk with its own generator; an overflow or an invalid operation is an error, not a value."""
    experiment = load_experiment(chunk.experiment)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return experiment.measure(chunk.cell, chunk.trials, generator(seed, chunk))


def default_jobs() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start_worker() -> None:
    # Ctrl-C reaches every process of the terminal; the parent decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # With more threads, BLAS would split its sums by their number, and results would depend on the machine's load.
    threadpool_limits(limits=1)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold SIGINT back: a worker that is started here inherits that, and is not interrupted while it imports."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """A worker whose parent is gone, whatever ended it, has nobody to answer to."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _cell_run(sweep: Sweep, cell: Cell) -> _CellRun:
    size = load_experiment(sweep.experiment).chunk_trials(cell)
    return _CellRun(sweep, cell, chunks=math.ceil(sweep.trials / size))


def _seconds_per_trial(run: _CellRun) -> float:
    return load_experiment(run.sweep.experiment).seconds_per_trial(run.cell)


def _chunks(run: _CellRun) -> Iterator[Chunk]:
    return chunks(run.sweep.experiment, run.cell, run.sweep.trials)


def _measured(
    pool: ProcessPoolExecutor, todo: Iterator[tuple[_CellRun, Chunk]], seed: int, jobs: int
) -> Iterator[tuple[_CellRun, Chunk, Measurement]]:
    """Chunks as they finish, with only a few handed out at a time, so that memory stays bounded."""
    pending: dict[Future[Measurement], tuple[_CellRun, Chunk]] = {}
    while True:
        for run, chunk in itertools.islice(todo, _QUEUED_PER_WORKER * jobs - len(pending)):
            with _interrupts_held():
                pending[pool.submit(measure_chunk, chunk, seed)] = run, chunk
        if not pending:
            return
        finished, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in finished:
            run, chunk = pending.pop(future)
            yield run, chunk, _result(future, run, chunk)


def _result(future: Future[Measurement], run: _CellRun, chunk: Chunk) -> Measurement:
    try:
        return future.result()
    except BrokenProcessPool:
        problem = "a worker process died (killed, or out of memory) at or near this cell"
    except (ArithmeticError, ValueError, MemoryError) as error:
        problem = f"{type(error).__name__}: {error}"
    raise MeasurementError(f"sweep {run.sweep.name}, cell {describe(chunk.cell)}, chunk {chunk.index}: {problem}")


def _finished(sweep: Sweep, cell_runs: list[_CellRun]) -> Measured:
    experiment = load_experiment(sweep.experiment)
    rows = [row for run in cell_runs for row in _rows(run)]
    table = pd.DataFrame(rows, columns=[column.name for column in experiment.columns])
    return Measured(table, [experiment.detail(run.cell, run.merged) for run in cell_runs])


def _rows(run: _CellRun) -> Iterator[Row]:
    for row in load_experiment(run.sweep.experiment).tabulate(run.cell, run.merged):
        for name, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                where = f"sweep {run.sweep.name}, cell {describe(run.cell)}"
                raise MeasurementError(f"{where}: expected a finite {name}, got {value} in {row}")
        yield {**axis_values(run.cell), **row}
