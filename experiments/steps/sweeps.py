"""From a config to its results: measure, draw, check, write the page, remove orphans.

Each step reads the files of earlier ones and writes its own, except those that are up to date. So a step that was
interrupted can simply run again.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.folders import ALL_SWEEPS, figure_path
from experiments.harness.artifacts import Artifact, Ledger
from experiments.harness.config import Config
from experiments.harness.experiment import MEASURED
from experiments.harness.files import locked, write_atomically
from experiments.harness.fingerprint import tables_fingerprint
from experiments.harness.grid import Sweep
from experiments.harness.paths import COLUMNS, STORE, STORED_CONFIG, csv_name
from experiments.harness.problems import MeasurementError, attempt
from experiments.harness.tables import TableError, csv_bytes, is_current, read_sweep, write_sweep
from experiments.steps.drawing import drawing
from experiments.steps.orphans import find_orphans

if TYPE_CHECKING:
    from experiments.figures.figure import Tables
    from experiments.harness.run import Workers

NOTHING_JUDGED = "Student's t tests no value: it needs at least 20 trials and a metric with a known exact value"


def measure(
    config: Config,
    sweeps: Sequence[Sweep],
    results: Path,
    workers: "Workers",
    *,
    store: Path | None = None,
    jobs: int | None = None,
) -> None:
    """Measure the chunks of sweeps that the store lacks, and write the tables that change.

    It also writes columns.csv and manifest.json.

    Args:
        config: the whole config; the results folder keeps a copy of its text once all its tables exist.
        sweeps: the sweeps of the config to measure.
        results: the folder of the tables.
        workers: measure the chunks.
        store: the folder of the chunks' records, if it is not in `results`.
        jobs: number of processes on this machine that analyse complete sweeps; by default one per processor.

    Raises:
        BusyError: another run uses the results folder.
        MeasurementError: a cell failed; the tables of sweeps that were complete before are written.
    """
    from experiments.analysis import all_columns, analyse
    from experiments.harness.local import helpers
    from experiments.harness.manifest import write_manifest
    from experiments.harness.pilot import pilot_summary
    from experiments.harness.progress import reporting
    from experiments.harness.run import measure_missing
    from experiments.harness.store import Store
    from experiments.harness.tabulate import tabulate_sweep
    from experiments.harness.work import find_chunks, find_pilots

    started = time.monotonic()
    for sweep in sweeps:
        tables_fingerprint(sweep.experiment)  # of the source as it is imported now, not of edits during the run
    with locked(results):
        records = Store(store or results / STORE, config.seed)
        pilots = find_pilots(records, sweeps)
        if pilots.todo:
            with reporting(pilots.seconds) as report:
                for _ in measure_missing(records, sweeps, pilots, workers, report.advance):
                    pass  # the pilots of a sweep are complete
        work = find_chunks(records, sweeps)
        to_measure = work.missing()
        write_atomically(results / COLUMNS, csv_bytes(all_columns(sorted({s.experiment for s in config.sweeps}))))
        with reporting(work.seconds) as report, helpers(jobs, len(sweeps)) as submit:
            for chunk in pilots.damaged + work.damaged:
                report.line(f"{records.path(chunk)} is damaged; measuring it again")
            analysed = _Analysed(results, config, report.line)
            try:
                for sweep in measure_missing(records, sweeps, work, workers, report.advance):
                    if not to_measure[sweep.name] and is_current(results, config, sweep):
                        report.line(f"{results / csv_name(sweep.name, 'measured')}: up to date")
                        continue
                    measured = tabulate_sweep(records, sweep)
                    lines = list(pilot_summary(records, sweep, measured[MEASURED])) if sweep.precision else []
                    analysed.add(sweep, lines, submit(analyse, sweep, measured))
                    analysed.write_complete()
            except MeasurementError:
                analysed.write_all()
                raise
            analysed.write_all()
        if all(is_current(results, config, sweep) for sweep in config.sweeps):
            write_atomically(results / STORED_CONFIG, config.text.encode())
        write_manifest(results, (pilots, work), workers, time.monotonic() - started)


class _Analysed:
    """The sweeps whose analysis has started, in order, until their tables are written.

    Args:
        results: the folder of the tables.
        config: the whole config.
        say: receives a line about each written table.
    """

    def __init__(self, results: Path, config: Config, say: Callable[[str], object]) -> None:
        self._results, self._config, self._say = results, config, say
        self._waiting: deque[tuple[Sweep, list[str], Future[Tables]]] = deque()

    def add(self, sweep: Sweep, lines: list[str], tables: "Future[Tables]") -> None:
        """Put a sweep at the end, with the lines to say before its tables are written."""
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
        for line in [*lines, *write_sweep(self._results, self._config, sweep, tables.result())]:
            self._say(line)


def draw(config: Config, sweeps: Sequence[Sweep], results: Path, *, jobs: int | None = None) -> None:
    """Draw the outdated figures of sweeps, and of all sweeps together.

    Args:
        config: the whole config; figures of all sweeps together show its sound tables.
        sweeps: the sweeps of the config to draw.
        results: the folder of the tables and figures.
        jobs: number of processes that draw; by default one per processor.

    Raises:
        TableError: a sweep has no sound table; the figures of all others are drawn.
    """
    from experiments.analysis.agreement import agreement_tables
    from experiments.harness.figures import figures_of
    from experiments.harness.local import helpers

    tables, unsound = _read(config, results)
    shown = [(sweep.name, figure) for sweep in sweeps for figure in sweep.figures]
    if together := agreement_tables([sweep for sweep in config.sweeps if sweep.name in tables], tables):
        tables[ALL_SWEEPS] = together
        shown += [(ALL_SWEEPS, figure) for figure in figures_of(ALL_SWEEPS)]
    drawings = {each: _drawing(config, results, *each) for each in shown}
    ledger = Ledger(results)

    def finish(sweep: str, figure: str) -> None:
        if sweep in unsound:
            raise unsound[sweep]  # an altered table is an error even if its figure is up to date
        if (sweep, figure) in renderings:
            renderings[sweep, figure].result()
            ledger.note(drawings[sweep, figure])
        done = "drew" if (sweep, figure) in renderings else "kept"
        caption = figure_path(results, sweep, figure, ".txt").read_text(encoding="utf-8").strip()
        print(f"{done} {figure_path(results, sweep, figure, '.png')}: {caption}")

    with locked(results):
        due = [each for each in shown if each[0] in tables and not ledger.is_current(drawings[each])]
        with helpers(jobs, len(due)) as submit:
            renderings = {
                (sweep, figure): submit(_render, figure, tables[sweep], figure_path(results, sweep, figure, ""))
                for sweep, figure in due
            }
            attempt([partial(finish, *each) for each in shown])


def _render(figure: str, tables: "Tables", stem: Path) -> None:
    """Draw the figure of that name."""
    from experiments.figures.figure import load_figure
    from experiments.figures.rendering import render

    render(load_figure(figure), tables, stem)


def _read(config: Config, results: Path) -> "tuple[dict[str, Tables], dict[str, TableError]]":
    """The sound tables of every sweep by name, and the errors of the others."""
    sound: dict[str, Tables] = {}
    unsound: dict[str, TableError] = {}
    for sweep in config.sweeps:
        try:
            sound[sweep.name] = read_sweep(results, config, sweep)
        except TableError as error:
            unsound[sweep.name] = error
    return sound, unsound


def _drawing(config: Config, results: Path, sweep: str, figure: str) -> Artifact:
    """The drawing of a sweep, or of all sweeps together under its name, from the sidecars of its tables."""
    tables = [results / f"{other.name}.json" for other in config.sweeps if sweep in (other.name, ALL_SWEEPS)]
    code = ["experiments.analysis.agreement"] * (sweep == ALL_SWEEPS)
    return drawing(figure_path(results, sweep, figure, ""), figure, tables, *code)


def check(config: Config, sweeps: Sequence[Sweep], results: Path) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones; list leftover files.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Args:
        config: the whole config.
        sweeps: the sweeps of the config to check.
        results: the folder of the tables; nothing in it changes.

    Raises:
        TableError: a table is incomplete or altered.
        DisagreementError: measured and exact values are too far apart.
    """
    from experiments.analysis.agreement import agreement
    from experiments.analysis.check import check_table

    tables = {}

    def check_sweep(sweep: Sweep) -> None:
        read = read_sweep(results, config, sweep)
        print(check_table(sweep, read))
        if not is_current(results, config, sweep):
            print(f"  another version of the source or of the libraries made {sweep.name} and its exact values")
        tables[sweep.name] = read
        if summary := agreement([sweep], tables).summary():
            print(f"  {summary}")

    def check_all() -> None:
        together = agreement([sweep for sweep in sweeps if sweep.name in tables], tables)
        if tables and not together.disagrees:
            summary = together.summary()
            print(f"theory, sampler and error bars agree: {summary}" if summary else NOTHING_JUDGED)
        for gap in together.gaps:
            print(gap)
        together.raise_alarm()

    for line in find_orphans(results, config).lines():
        print(line)
    attempt([*(partial(check_sweep, sweep) for sweep in sweeps), check_all])


def prune(config: Config, results: Path) -> None:
    """Remove the files that the suite wrote for sweeps and figures no longer in the config.

    Files that somebody changed, or that the suite may not have written, stay.
    """
    with locked(results):
        found = find_orphans(results, config)
        for path in found.ours:
            path.unlink()
            print(f"removed {path}")
        for folder in {path.parent for path in found.ours} - {results}:
            if not any(folder.iterdir()):
                folder.rmdir()
    if not found.ours:
        print(f"{results}: no leftover files to remove")
    if found.others:
        kept = ", ".join(map(str, found.others))
        print(f"kept, because somebody changed them or the suite did not write them: {kept}")


def whole_sweeps(config: Config, results: Path, *, incomplete: bool) -> list[Sweep]:
    """The sweeps with sound and whole tables; `TableError` if a sweep has none and `incomplete` is false."""
    from experiments.page.provenance import sound_tables

    tables, _ = sound_tables(config, results, incomplete=incomplete)
    return [sweep for sweep in config.sweeps if sweep.name in tables]


def write_page(config: Config, results: Path, config_path: Path, *, incomplete: bool = False) -> None:
    """Write index.html from tables, figures and published statements if one of them changed.

    Args:
        config: the whole config.
        results: the folder of the tables and the page.
        config_path: the file of the config.
        incomplete: True to write the page even if sweeps have no sound tables.

    Raises:
        TableError: a sweep has no sound table, and `incomplete` is false.
    """
    from experiments.page.artifact import page, page_path

    path, given = page_path(results), (config_path, incomplete)
    if Ledger(results).is_current(page(config, results, *given)):
        print(f"{path}: up to date")
        return
    from experiments.page.index import make_page

    with locked(results):
        content = make_page(config, results, config_path, incomplete=incomplete)
        write_atomically(path, content)
        Ledger(results).note(page(config, results, *given))
    print(f"wrote {path}: {len(content) / 1e6:.2f} MB")
