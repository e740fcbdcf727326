"""From a config to its tables: the measurements that the store lacks, and the analysis of complete sweeps."""

import json
import os
import platform
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
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
from experiments.harness.tables import ChangedError, is_current, read_sidecar, write_sweep
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
        MeasurementError: a cell failed; the tables of sweeps that were complete before are written.
        ChangedError: a table differs from its previous version, although the same source and libraries made both.
    """
    from experiments.harness.plan import known_work
    from experiments.harness.run import measure_missing
    from experiments.harness.store import Store

    started = time.monotonic()
    for sweep in sweeps:
        tables_fingerprint(sweep.experiment)  # of the source as it is imported now, not of edits during the run
    with locked(results):
        records = Store(results / STORE, config.seed)
        known = known_work(records, sweeps)
        known.refuse_beyond(limit, workers)
        pilots, work = known.pilots, known.chunks
        if pilots.todo:
            _flag_damaged(records, pilots, report)
            report.line(f"measuring {counted(len(pilots.todo), 'pilot')} with {workers}: samples that set the trials")
            with report.progress(pilots.seconds) as advance:
                deque(measure_missing(records, sweeps, pilots, workers, advance), maxlen=0)
            known = known_work(records, sweeps)
            known.refuse_beyond(limit, workers)
            work = known.chunks
        analysed = _Analysed(results, config, report)
        attempt([partial(_measure_chunks, analysed, records, sweeps, work, workers, jobs), analysed.raise_changed])
        if all(is_current(results, config, sweep) for sweep in config.sweeps):
            write_atomically(results / STORED_CONFIG, config.text.encode())
        _write_manifest(results, (pilots, work), workers, time.monotonic() - started)


def _measure_chunks(
    analysed: "_Analysed",
    records: "Store",
    sweeps: Sequence[Sweep],
    work: "Work",
    workers: "Workers",
    jobs: int | None,
) -> None:
    """Measure the missing chunks, and write the tables of each sweep once its chunks are complete."""
    from experiments.analysis import analyse
    from experiments.harness.local import helpers
    from experiments.harness.run import measure_missing, pilot_summary, tabulate_sweep

    to_measure, report = work.missing(), analysed.report
    _flag_damaged(records, work, report)
    if work.todo:
        chunks = f"{counted(len(work.todo), 'chunk')} (groups of trials)"
        report.line(f"measuring {chunks} for {analysed.results} with {workers}")
        if without := [sweep for sweep in sweeps if to_measure[sweep.name] and analysed.has_tables(sweep)]:
            report.line(
                f"  {counted(len(without), 'sweep')} came with tables but without these chunks, as in a fresh clone:"
                f" this run should give\n  the same tables, {'byte for byte' if is_supported() else 'to rounding'}"
            )
        if not is_supported():
            report.line("  this is not Linux on an x86-64 processor with AVX2: last digits differ from those elsewhere")
    with (
        report.progress(work.seconds) as advance,
        helpers(jobs, len(sweeps)) as submit,
        closing(measure_missing(records, sweeps, work, workers, advance)) as completed,
    ):
        try:
            for sweep in completed:
                if not to_measure[sweep.name] and analysed.has_tables(sweep):
                    analysed.keep(sweep)
                    continue
                measured = tabulate_sweep(records, sweep)
                lines = list(pilot_summary(records, sweep, measured[MEASURED])) if sweep.precision else []
                analysed.add(sweep, lines, submit(analyse, sweep, measured))
                analysed.write_complete()
        except MeasurementError:
            analysed.write_all()
            raise
        advance("writing tables", 0.0)
        analysed.write_all()


def _write_manifest(results: Path, parts: "Sequence[Work]", workers: "Workers", seconds: float) -> None:
    """Write manifest.json, the account of this run, which is no part of the results: it differs from run to run.

    It tells which source made the results on which machine with which libraries, and how much of the work was new.
    """
    changes = _git("status", "--porcelain", "--untracked-files=no")
    manifest = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 2),
        "workers": str(workers),
        "chunks": {
            "measured": sum(len(work.todo) for work in parts),
            "reused": sum(sum(work.chunks.values()) - sum(work.missing().values()) for work in parts),
            "damaged": sum(len(work.damaged) for work in parts),
        },
        "source": {"commit": _git("rev-parse", "HEAD"), "clean": None if changes is None else not changes},
        "machine": {
            "name": platform.node(),
            "system": platform.platform(),
            **arithmetic(),
            "processors": os.cpu_count(),
            "python": platform.python_version(),
            "packages": versions("numpy", "scipy", "pandas", "matplotlib", "seaborn"),
        },
    }
    write_atomically(results / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def _git(*words: str) -> str | None:
    """The output of git about this source; None without git."""
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _flag_damaged(records: "Store", work: "Work", report: Reporter) -> None:
    for chunk in work.damaged:
        report.flag(f"{records.path(chunk)} is damaged; measuring it again")


class _Analysed:
    """The sweeps whose analysis has started, in order, until their tables are written."""

    def __init__(self, results: Path, config: Config, report: Reporter) -> None:
        self.results, self.report, self._config = results, report, config
        self._waiting: deque[tuple[Sweep, list[str], Future[Tables]]] = deque()
        self._changed: list[str] = []

    def has_tables(self, sweep: Sweep) -> bool:
        """True if the tables of a sweep are up to date."""
        return is_current(self.results, self._config, sweep)

    def keep(self, sweep: Sweep) -> None:
        """Report the tables of a sweep as up to date."""
        for kind in read_sidecar(self.results / f"{sweep.name}.json")["sha256"]:
            self.report.current(self.results / csv_name(sweep.name, kind))

    def add(self, sweep: Sweep, lines: list[str], tables: "Future[Tables]") -> None:
        """Put a sweep at the end, with the lines of its `pilot_summary`, which precede those of its tables."""
        self._waiting.append((sweep, lines, tables))

    def write_complete(self) -> None:
        """Write the tables of the first sweeps up to one whose analysis is not complete."""
        while self._waiting and self._waiting[0][-1].done():
            self._write_next()

    def write_all(self) -> None:
        """Wait for every analysis, and write its tables."""
        while self._waiting:
            self._write_next()

    def _write_next(self) -> None:
        sweep, lines, tables = self._waiting.popleft()
        reached, *missed = lines or [""]
        if reached:
            self.report.detail(reached)
        for line in missed:
            self.report.flag(line)
        from experiments.harness.compare import ROUNDING

        try:
            changes = write_sweep(self.results, self._config, sweep, tables.result())
        except ChangedError as error:
            self._changed.append(str(error))
            return
        for path, change in changes.items():
            self.report.table(path, change)
            if change.kind == ROUNDING and is_supported():
                self.report.flag(f"{path}: expected the same bytes, as from the same C library")

    def raise_changed(self) -> None:
        """Raise `ChangedError` if tables came out different that should have come out the same."""
        if self._changed:
            here = ", ".join(arithmetic().values())
            raise ChangedError(
                f"expected the same tables from the same source, config and libraries ({here}), got others; the"
                " previous ones stay, delete them to write these:\n" + "\n".join(self._changed)
            )
