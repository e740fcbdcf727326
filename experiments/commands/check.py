"""Check the tables of a config: measure a sample of the cells again that have no finished chunks,
and require the same bytes; and list the columns of the tables.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.commands.job import Job
from experiments.commands.measure import duration
from experiments.config.errors import (
    DisagreementError,
    Problem,
    TableError,
    attempt,
    counted,
    in_part,
)
from experiments.config.paths import COLUMN_FILE
from experiments.config.sweep import Sweep
from experiments.figures.picture import Words
from experiments.measuring.cells import CELL, BaseCell
from experiments.measuring.chunk import Chunk
from experiments.measuring.columns import describe, names
from experiments.measuring.experiment import MEASURED
from experiments.measuring.intervals import MIN_TRIALS
from experiments.measuring.processor import is_supported
from experiments.running.fingerprint import hash_of, measuring_source
from experiments.running.work import merged
from experiments.running.workers import default_jobs, helpers, machine_memory
from experiments.tables.all_results import AllResults
from experiments.tables.changes import ROUNDING, change_of
from experiments.tables.layout import csv_bytes, written_columns
from experiments.tables.products import Product, build
from experiments.tables.reporter import FLAGGED
from experiments.tables.stored import Stored, read_sidecar

if TYPE_CHECKING:
    import pandas as pd

    from experiments.tables.results import Results

_SHARE = 0.05  # of the cells
_SECONDS = 300.0  # of one worker, as estimated


def write_columns(job: Job) -> None:
    """Write columns.csv, the columns of all sound tables.

    Raises:
        BusyError: another run uses the results folder.
    """
    all_results, folder = job.all_results, job.folder
    if all_results:
        inputs = tuple(Stored(folder, results.sweep).sidecar for results in all_results.values())
        made = Product(
            (folder / COLUMN_FILE,), partial(_columns, all_results), inputs, all_results.config.text
        )
        build(folder, [made], job.report, phase="tables", quietly=True)


def _columns(all_results: AllResults) -> list[bytes]:
    """The content of columns.csv."""
    from experiments.tables.analyse import described

    return [csv_bytes(described([*all_results.values()]))]


def check(job: Job) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones;
    measure a sample of rows without chunks again.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Raises:
        TableError: a table is missing, altered, or from another config.
        DisagreementError: measured and exact values are too far apart, or a row of the sample has
            other values than its table.
    """
    all_results, report = job.all_results, job.report
    whole: list[str] = []

    def check_sweep(sweep: Sweep) -> None:
        read = all_results.require(sweep.name)
        rows = counted(len(read.measured), "row")
        cells = counted(len(sweep.cells), "cell")
        report.detail(f"checked {sweep.name}: {rows} for {cells}, unaltered")
        if lost := read.lacking():
            lacks = f"{sweep.name}: its table lacks {', '.join(lost)}"
            report.flag(f"{lacks}, which is not tested; run measures it")
        if failed := read_sidecar(Stored(all_results.folder, sweep).sidecar).get("failed"):
            raise TableError("\n".join(failed))
        if sweep.experiment.has_precision and sweep.trials < MIN_TRIALS:
            few = f"{sweep.name}: intervals of {counted(sweep.trials, 'trial')} are not reliable"
            report.flag(f"{few}, expected {MIN_TRIALS} at least")
        whole.append(sweep.name)

    def check_all() -> None:
        if not whole:
            return
        from experiments.tables.analyse import agreement
        from experiments.tables.verdicts import NOTHING_JUDGED

        together = agreement(all_results[name] for name in whole)
        report.verdict("checked", f"{counted(len(whole), 'sweep')}, unaltered")
        if alarm := together.alarm():
            raise DisagreementError(alarm)
        if verdict := together.verdict():
            report.verdict("agreed", verdict)
        else:
            report.verdict("not tested", NOTHING_JUDGED, FLAGGED)
        if together.untested:
            report.verdict("others", f"{together.untested} not tested", None)

    checks = [partial(check_sweep, sweep) for sweep in job.sweeps]
    attempt([*checks, check_all, partial(measure_again, job)])


def check_figures(job: Job) -> None:
    """Flag each figure that is of other tables or another version.

    Raises:
        Problem: a figure is missing.
    """
    from experiments.figures.draw import figure_products

    read = [job.all_results[sweep.name] for sweep in job.sweeps if sweep.name in job.all_results]
    missing = []
    for product in figure_products(job.folder, read):
        path = product.files[0]
        if not path.exists():
            missing.append(f"{path} is missing; make figures draws it")
        elif not _is_of_today(product, job.folder):
            other = f"{path} is of other tables or another version"
            job.report.flag(f"{other}; make figures draws it again")
    if missing:
        raise Problem("\n".join(missing))


def _is_of_today(product: Product, folder: Path) -> bool:
    """True if a figure was made here of today's tables; of one from elsewhere, title and caption tell."""
    state = product.state(folder)
    if state != "foreign":
        return state == "current"
    words: Words = product.parameters
    drawn = product.files[0].read_bytes()
    return all(text and f"\0{text}".encode() in drawn for text in words[:2])


@dataclass(frozen=True, eq=False)
class _CellRows:
    """The rows of a cell in a main table."""

    sweep: Sweep
    cell: BaseCell
    first: int  # from 1
    trials: int
    before: "pd.DataFrame"  # the measured columns

    @property
    def seconds(self) -> float:
        """Estimated time of one worker; infinite without the memory."""
        fits = self.cell.memory <= machine_memory()
        return self.cell.seconds_per_trial * self.trials if fits else math.inf

    @property
    def order(self) -> str:
        """SHA-256 of place and source: other versions of the source choose other cells."""
        return hash_of([self.sweep.name, self.first, measuring_source(self.sweep.experiment)])

    @property
    def place(self) -> str:
        """The sweep, the row and its cell in words."""
        return f"{self.sweep.name}, rows from {self.first} ({describe(self.cell)})"

    def difference(self) -> str:
        """Measure the rows; the difference in words, empty without any."""
        from experiments.tables.rows import tabulated

        experiment = self.sweep.experiment
        chunks = Chunk.of_cell(experiment, self.cell, self.trials, self.sweep.seed)
        whole = merged(map(Chunk.measure, chunks))
        table = tabulated(experiment, [self.cell], [whole])[MEASURED]
        change = change_of(csv_bytes(self.before), csv_bytes(table[[*self.before]]))
        is_same = change.kind == "unchanged" or (change.kind == ROUNDING and not is_supported())
        return "" if is_same else f"{self.place}: {change.where}"


def measure_again(job: Job) -> None:
    """Measure a sample of the cells of sweeps whose chunks are not stored, and compare the bytes.

    Tables beside the main one are not compared. The sample has 5% of these cells, chosen by hash,
    and takes at most five minutes of one worker by their estimates; a cell that takes more, or more
    memory than there is, is never chosen.

    Raises:
        DisagreementError: a measured value is another one than in its table.
    """
    work = job.work()
    due = [sweep.name for sweep in job.sweeps if not work.is_complete(sweep)]
    rows = [
        sample
        for name in due
        if name in job.all_results
        for sample in _rows_by_cell(job.all_results[name])
    ]
    chosen = _chosen(rows)
    total = sum(sample.seconds for sample in chosen)
    differences: list[str] = []
    bar = job.report.bar.phase("check", total, total)
    largest = max((sample.cell.memory for sample in chosen), default=1)
    jobs = min(job.jobs or default_jobs(), machine_memory() // largest)
    with bar as advance, helpers(jobs, len(chosen)) as submit:

        def finish(sample: _CellRows, made: "Future[str]") -> None:
            try:
                differences.append(made.result())
            except Exception as error:
                raise in_part(sample.place, error) from None
            advance(sample.place, sample.seconds)

        futures = [(sample, submit(sample.difference)) for sample in chosen]
        attempt(partial(finish, *pair) for pair in futures)
    if differing := [*filter(None, differences)]:
        raise DisagreementError(
            "\n".join(["expected the bytes of the table, got others:", *differing])
        )
    if rows:
        again = f"main tables of {len(chosen)} of {counted(len(rows), 'cell')} without chunks measured again"
        text = f"{again}, equal to {'the byte' if is_supported() else 'rounding'}"
        if long := sum(sample.seconds > _SECONDS for sample in rows):
            text += f"; {counted(long, 'cell')} beyond {duration(_SECONDS)} or memory left out"
        job.report.verdict("sample", text, None if chosen else FLAGGED)


def _rows_by_cell(results: "Results") -> Iterator[_CellRows]:
    sweep, table = results.sweep, results.measured
    written = names(written_columns(results))
    measured = [name for name in written if not name.endswith("_exact")]
    cells = {rule_cell: cell for cell in sweep.cells for rule_cell in cell.by_rule()}
    for cell, rows in table.groupby(table[CELL].map(cells), sort=False):
        trials = int(rows["trials"].iloc[0]) if "trials" in rows else sweep.trials
        yield _CellRows(sweep, cell, rows.index[0] + 1, trials, rows[measured])


def _chosen(rows: Sequence[_CellRows]) -> list[_CellRows]:
    """The first 5% in the order of hashes that fit into the time."""
    chosen: list[_CellRows] = []
    left = _SECONDS
    for sample in sorted(rows, key=lambda sample: sample.order):
        if len(chosen) < math.ceil(_SHARE * len(rows)) and sample.seconds <= left:
            chosen.append(sample)
            left -= sample.seconds
    return chosen
