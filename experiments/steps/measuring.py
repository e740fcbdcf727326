"""From a config to its tables: the measurements that the store lacks, and the analysis of complete sweeps."""

import json
import platform
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.config import Config
from experiments.harness.experiment import MEASURED
from experiments.harness.files import MANIFEST, STORE, STORED_CONFIG, csv_name, locked, write_atomically
from experiments.harness.fingerprint import tables_fingerprint, versions
from experiments.harness.grid import Sweep
from experiments.harness.problems import MeasurementError, attempt, counted
from experiments.harness.processor import arithmetic, is_supported
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

    It also writes manifest.json.

    Raises:
        BusyError: another run uses the results folder.
        LongRunError: the estimate exceeds the limit. The trials that pilots request are known only after the pilots,
            so the error may also come between pilots and chunks; the pilots stay.
        MeasurementError: a cell failed; the tables of complete sweeps are written.
        ChangedError: a table differs from its previous version, although the same source and libraries made both.
    """
    from experiments.harness.plan import known_work
    from experiments.harness.run import measure_missing
    from experiments.harness.store import Store

    started = time.monotonic()
    for sweep in sweeps:
        tables_fingerprint(sweep.experiment.name)  # of the source as it is imported now, not of edits during the run

    def fill(work: "Work", noun: str, note: str) -> None:
        for chunk in work.damaged:
            report.flag(f"{records.path(chunk)} is damaged; measuring it again")
        if work.todo:
            report.line(f"measuring {counted(len(work.todo), noun)} ({note}) for {results} with {workers}")
            with report.progress(work.seconds) as advance:
                measure_missing(records, work, workers, advance)

    with locked(results):
        records = Store(results / STORE, config.seed)
        known = known_work(records, sweeps)
        known.refuse_beyond(limit, workers)
        pilots = known.pilots
        if pilots.todo:
            fill(pilots, "pilot", "samples that set the trials")
            known = known_work(records, sweeps)
            known.refuse_beyond(limit, workers)
        work = known.chunks
        current = {sweep.name for sweep in sweeps if is_current(results, config, sweep)}
        kept = {name for name in current if not work.left[name]}
        if current - kept:
            same = "byte for byte" if is_supported() else "to rounding"
            report.line(
                f"{counted(len(current - kept), 'sweep')} came with tables but without chunks, as in a fresh clone:"
                f" this run should give\n  the same tables, {same}"
            )
        if work.todo and not is_supported():
            report.line("this is not Linux on an x86-64 processor with AVX2: last digits differ from those elsewhere")
        write = partial(_write_tables, config, results, records, sweeps, work, kept, jobs, report)
        try:
            fill(work, "chunk", "groups of trials")
        except MeasurementError:
            write()
            raise
        write()
        if all(is_current(results, config, sweep) for sweep in config.sweeps):
            write_atomically(results / STORED_CONFIG, config.text.encode())
        _write_manifest(results, (pilots, work), workers, time.monotonic() - started)


def _write_tables(
    config: Config,
    results: Path,
    records: "Store",
    sweeps: Sequence[Sweep],
    work: "Work",
    kept: set[str],  # sweeps whose tables are up to date
    jobs: int | None,
    report: Reporter,
) -> None:
    """Write the tables of the sweeps whose chunks are complete."""
    from experiments.harness.local import helpers

    complete = [sweep for sweep in sweeps if not work.left[sweep.name]]
    due = [sweep for sweep in complete if sweep.name not in kept]
    with report.progress(len(due)) as advance, helpers(jobs, len(due)) as submit:
        made = {sweep.name: submit(_tables, records, sweep) for sweep in due}

        def write(sweep: Sweep) -> None:
            if sweep.name in kept:
                for kind in read_sidecar(results / f"{sweep.name}.json")["sha256"]:
                    report.current(results / csv_name(sweep.name, kind))
                return
            tables, reached = made.pop(sweep.name).result()
            for i, line in enumerate(reached):
                (report.flag if i else report.detail)(line)
            for path, change in write_sweep(results, config, sweep, tables).items():
                report.table(path, change)
                if change.kind == "equal to rounding" and is_supported():
                    report.flag(f"{path}: expected the same bytes, as from the same C library")
            advance(f"tables of {sweep.name}", 1.0)

        attempt(partial(write, sweep) for sweep in complete)


def _tables(records: "Store", sweep: Sweep) -> "tuple[Tables, list[str]]":
    """The finished tables of a sweep and its `pilot_summary`; runs in another process."""
    from experiments.analysis import analyse
    from experiments.harness.run import pilot_summary, tabulate_sweep

    measured = tabulate_sweep(records, sweep)
    return analyse(sweep, measured), pilot_summary(sweep, measured[MEASURED])


def _write_manifest(results: Path, parts: "Sequence[Work]", workers: "Workers", seconds: float) -> None:
    """Write manifest.json, the account of this run: its source, machine and libraries, and how much work was new.

    It is no part of the results: it differs from run to run.
    """
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = None
    manifest = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 2),
        "workers": str(workers),
        "chunks": {
            "measured": sum(len(work.todo) for work in parts),
            "reused": sum(states["sound"] for work in parts for states in work.states.values()),
            "damaged": sum(len(work.damaged) for work in parts),
        },
        "commit": commit,
        "machine": {"name": platform.node(), "system": platform.platform(), **arithmetic()},
        "versions": {"python": platform.python_version(), **versions("numpy", "scipy", "pandas", "matplotlib")},
    }
    write_atomically(results / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
