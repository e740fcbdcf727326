"""From a config to its tables: the plan of a run, the measurements that the store lacks, and the
analysis of sweeps.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from experiments.commands.job import Job
from experiments.config.errors import TableError, attempt, counted, in_part, raise_all
from experiments.config.paths import STORED_CONFIG
from experiments.config.sweep import Sweep
from experiments.measuring.cells import ScaledCell
from experiments.measuring.experiment import MEASURED
from experiments.measuring.processor import is_supported
from experiments.running.files import locked, write_atomically
from experiments.running.fingerprint import suite_source, tables_source
from experiments.running.store import Store
from experiments.running.work import Work, Workers
from experiments.running.workers import helpers
from experiments.tables.reporter import Reporter
from experiments.tables.stored import Stored, read_sidecar
from sdpa.scaling import multiplies

if TYPE_CHECKING:
    from experiments.tables.results import Results

SECONDS_OF_ROW = 0.1  # of tables, roughly
_WORKER_BASE = 50 * 2**20  # interpreter, NumPy and the library


def measure(job: Job) -> None:
    """Measure the chunks of sweeps that the store lacks, and write the tables that change.

    Raises:
        BusyError: another run uses the results folder.
        MeasurementError: a cell failed; the tables of complete sweeps are written.
    """
    # Kept now, so that an edit during the run does not enter the records of this one.
    suite_source()
    tables_source()
    folder, report = job.folder, job.report
    for line in _multiplying(job.sweeps):
        report.line(line)
    with locked(folder):
        work = job.work()
        stored = [Stored(folder, sweep) for sweep in job.sweeps]
        kept = [tables for tables in stored if work.is_complete(tables.sweep) and tables.is_current]
        for tables in kept:
            for path in tables.paths():
                report.made(path, None)
        others = [tables.sweep for tables in stored if tables not in kept]
        if work.todo and not is_supported():
            machine = "this is not Linux on an x86-64 processor with AVX2"
            report.line(f"{machine}: last digits differ from those elsewhere")

        def measure_all() -> None:
            nonlocal work
            measure_chunks(job.store, work, job.workers, report)
            if work.needs_pilot:
                work = job.work()  # the pilots have set the trials
                measure_chunks(job.store, work, job.workers, report)

        def write_tables() -> None:
            _write_tables(job, [*filter(work.is_complete, others)])

        attempt([measure_all, write_tables])
        if not any(Stored(folder, sweep).fault for sweep in job.config.sweeps):
            write_atomically(folder / STORED_CONFIG, job.config.text.encode())


def analyse_again(job: Job) -> None:
    """Make the tables of sweeps again from the measured values in them, without their chunks.

    This is for sweeps that take hours to measure.

    Raises:
        BusyError: another run uses the results folder.
        TableError: a table is missing, altered, or from another config, or it follows from values
            that no table has.
    """
    with locked(job.folder):
        attempt(partial(_analyse_again, job, sweep) for sweep in job.sweeps)


def _analyse_again(job: Job, sweep: Sweep) -> None:
    from experiments.tables.analyse import DERIVED_TABLES, analyse

    stored = Stored(job.folder, sweep)
    written = stored.read()
    made = read_sidecar(stored.sidecar)
    origin = {name: made.get(name) for name in ("source", "versions")}
    results = analyse(sweep, written)
    raise_all(results.failed)  # no table is left out
    # Such a table has the rows at the best rate alone. Another best rate needs rows that only chunks have.
    lost = [
        table.kind
        for table in DERIVED_TABLES
        if table.kind in written
        and (table.source == table.kind or table.source not in written)
        and len(results.get(table.kind, ())) < len(written[table.kind])
    ]
    if lost:
        got = f"got {', '.join(lost)}, which need the chunks; run measures them again"
        raise TableError(f"{sweep.name}: expected tables that follow from the main one, {got}")
    for path, change in stored.write(results, origin).items():
        job.report.made(path, change)


def measure_chunks(
    store: Store,
    work: Work,
    workers: Workers,
    report: Reporter,
) -> None:
    """Measure what the store lacks; `work.left` counts down.

    If an error or a signal occurs, the workers end at once; all written records stay.

    Raises:
        MeasurementError: a worker failed or died, or a number is not finite; the message names the
            cell.
        OSError: writing a record failed.
    """
    for path in work.damaged:
        report.flag(f"{path} is damaged; measuring it again")
    if not work.todo:
        return
    names = [name for name, left in work.left.items() if left]
    less = f"; one alone: SWEEP={names[0]}" if len(names) > 1 else ""
    seconds = work.seconds / workers.slots
    report.line(
        f"measuring {counted(len(work.todo), 'chunk')} of {counted(len(names), 'sweep')} for "
        f"{store.folder.parent} with {workers}, "
        f"about {duration(seconds)} without exact values, tables and figures{less}"
    )
    bar = report.bar.phase("measuring", work.seconds, seconds)
    with bar as advance, closing(workers.measure(work.todo)) as measured:
        for task, packed in measured:
            store.write(task.chunk, packed)
            work.left.subtract(task.sweeps)
            advance(task.sweeps[0], task.seconds)


def _write_tables(job: Job, due: Sequence[Sweep]) -> None:
    """Write the tables of sweeps whose chunks are complete."""
    if not due:
        return
    from experiments.tables.analyse import results_of

    rows = {sweep.name: sum(len(cell.by_rule()) for cell in sweep.cells) for sweep in due}
    total = sum(rows.values())
    bar = job.report.bar.phase("tables", total, total * SECONDS_OF_ROW)
    with bar as advance, helpers(job.jobs, len(due)) as submit:

        def write(sweep: Sweep, made: "Future[Results]") -> None:
            try:
                results = made.result()
            except Exception as error:
                raise in_part(f"tables of {sweep.name} not made", error) from None
            advance(sweep.name, rows[sweep.name])
            if missed := results.unreached():
                job.report.flag(missed)
            for path, change in Stored(job.folder, sweep).write(results).items():
                job.report.made(path, change)
            raise_all(results.failed)

        futures = [(sweep, submit(results_of, job.store, sweep)) for sweep in due]
        attempt(partial(write, *pair) for pair in futures)


def _multiplying(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """A line on each sweep with a divisor below 1, on the smallest one."""
    for sweep in sweeps:
        cells = [cell for cell in sweep.cells if isinstance(cell, ScaledCell)]
        if line := multiplies(min((min(cell.divisors()) for cell in cells), default=1.0)):
            yield f"{sweep.name}: {line}"


def plan_lines(job: Job) -> Iterator[str]:
    """One line per sweep, one for each that multiplies scores, and a total.

    Times are rough estimates from counts of draws, products and exponentials.
    """
    work = job.work()
    yield f"{'sweep':<16} {'cells':>6} {'trials':>9} {'to measure':>18} {'memory':>10}  table"
    for sweep in job.sweeps:
        cells = sweep.cells
        trials = "by pilot" if sweep.precision else sweep.trials
        kind = "pilots" if sweep.name in work.needs_pilot else "chunks"
        chunks = f"{work.left[sweep.name]} of {work.total[sweep.name]} {kind}"
        memory = (max(cell.memory for cell in cells) + _WORKER_BASE) / 2**20
        yield (
            f"{sweep.name:<16} {len(cells):>6} {trials:>9} {chunks:>18} {memory:>6.0f} MiB  "
            f"{_state(Stored(job.folder, sweep), work)}"
        )
    yield from _multiplying(job.sweeps)
    total = duration(work.seconds / job.workers.slots)
    plus = ", plus the trials that the pilots will request" if work.needs_pilot else ""
    yield f"measuring: about {total} with {job.workers}{plus}; tables go to {job.folder}"
    if work.todo:
        yield "exact values, tables and figures come on top; for long rows, they may take longer"


def _state(stored: Stored, work: Work) -> str:
    """The state of the tables of a sweep."""
    if fault := stored.fault:
        return f"stale: {fault}" if stored.csv(MEASURED).exists() else "missing"
    if work.is_complete(stored.sweep):
        return "complete" if stored.is_current else "to be made again"
    by = "" if stored.is_measured_alike else " by another version"
    return f"complete as shipped{by}; a run measures it again"


def duration(seconds: float) -> str:
    """A time in words, in seconds below 90 s, in minutes below 90 min, else in hours.

    >>> duration(74.2), duration(600), duration(9000)
    ('75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
