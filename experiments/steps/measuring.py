"""From a config to its tables: the measurements that the store lacks, and the analysis of complete sweeps."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.config import Config
from experiments.harness.experiment import MEASURED
from experiments.harness.files import STORE, STORED_CONFIG, csv_name, locked, write_atomically
from experiments.harness.fingerprint import tables_fingerprint
from experiments.harness.grid import Sweep
from experiments.harness.problems import MeasurementError, attempt, counted
from experiments.harness.processor import is_supported
from experiments.harness.tables import is_current, read_sidecar, write_sweep
from experiments.steps.reporter import ALOUD, Reporter

if TYPE_CHECKING:
    from experiments.figures.figure import Tables
    from experiments.harness.run import Work, Workers
    from experiments.harness.store import Store


def measure(
    config: Config,
    sweeps: Sequence[Sweep],
    results: Path,
    workers: "Workers",
    *,
    jobs: int | None = None,
    limit: float | None = None,
    report: Reporter = ALOUD,
) -> None:
    """Measure the chunks of sweeps that the store lacks, and write the tables that change.

    Raises:
        BusyError: another run uses the results folder.
        LongRunError: the estimate exceeds the limit, perhaps only after pilots have set the trials; the pilots stay.
        MeasurementError: a cell failed; the tables of complete sweeps are written.
        ChangedError: a table differs from its previous version, although the same source and libraries made both.
    """
    from experiments.harness.plan import refuse_beyond
    from experiments.harness.run import find_work, measure_missing
    from experiments.harness.store import Store

    for sweep in sweeps:
        tables_fingerprint(sweep.experiment.name)  # of the source as it is imported now, not of edits during the run
    with locked(results):
        records = Store(results / STORE, config.seed)
        current = [sweep for sweep in sweeps if is_current(results, config, sweep)]
        work = find_work(records, sweeps)
        kept = {sweep.name for sweep in current if work.is_complete(sweep)}
        if again := len(current) - len(kept):
            same = "byte for byte" if is_supported() else "to rounding"
            report.line(f"{counted(again, 'sweep')} came with tables but without chunks: expecting the same, {same}")
        if work.todo and not is_supported():
            report.line("this is not Linux on an x86-64 processor with AVX2: last digits differ from those elsewhere")
        write = partial(_write_tables, config, results, records, sweeps, kept, jobs, report)
        try:
            while True:
                refuse_beyond(limit, work, workers)
                for path in work.damaged:
                    report.flag(f"{path} is damaged; measuring it again")
                if work.todo:
                    report.line(f"measuring {counted(len(work.todo), 'chunk')} of trials for {results} with {workers}")
                    with report.progress(work.seconds) as advance:
                        measure_missing(records, work, workers, advance)
                if not work.waiting:
                    break
                work = find_work(records, sweeps)  # the pilots have set the trials
        except MeasurementError:
            write(work)
            raise
        write(work)
        if all(is_current(results, config, sweep) for sweep in config.sweeps):
            write_atomically(results / STORED_CONFIG, config.text.encode())


def _write_tables(
    config: Config,
    results: Path,
    records: "Store",
    sweeps: Sequence[Sweep],
    kept: set[str],  # sweeps whose tables are up to date
    jobs: int | None,
    report: Reporter,
    work: "Work",
) -> None:
    """Write the tables of the sweeps whose chunks are complete."""
    from experiments.harness.local import helpers

    complete = [sweep for sweep in sweeps if work.is_complete(sweep)]
    due = [sweep for sweep in complete if sweep.name not in kept]
    with report.progress(len(due)) as advance, helpers(jobs, len(due)) as submit:
        made = {sweep.name: submit(_tables, records, sweep) for sweep in due}

        def write(sweep: Sweep) -> None:
            if sweep.name in kept:
                for kind in read_sidecar(results / f"{sweep.name}.json")["sha256"]:
                    report.made(results / csv_name(sweep.name, kind), None)
                return
            tables, (line, is_met) = made.pop(sweep.name).result()
            if line:
                (report.detail if is_met else report.flag)(line)
            for path, change in write_sweep(results, config, sweep, tables).items():
                report.made(path, change)
                if change.kind == "equal to rounding" and is_supported():
                    report.flag(f"{path}: expected the same bytes, as from the same C library")
            advance(f"tables of {sweep.name}", 1.0)

        attempt(partial(write, sweep) for sweep in complete)


def _tables(records: "Store", sweep: Sweep) -> "tuple[Tables, tuple[str, bool]]":
    """The finished tables of a sweep, and the precision that they reached; runs in another process."""
    from experiments.analysis import analyse
    from experiments.harness.run import reached, tabulate_sweep

    measured = tabulate_sweep(records, sweep)
    return analyse(sweep, measured), reached(sweep, measured[MEASURED])
