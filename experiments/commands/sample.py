"""A sample of the cells whose chunks are not stored, measured again and compared to the byte."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from experiments.commands.job import Job
from experiments.commands.measure import duration
from experiments.config.errors import DisagreementError, attempt, counted, in_part
from experiments.config.sweep import Sweep
from experiments.measuring.cells import CELL, Cell
from experiments.measuring.chunk import Chunk
from experiments.measuring.columns import describe, names
from experiments.measuring.experiment import MEASURED
from experiments.measuring.processor import is_supported
from experiments.running.fingerprint import measuring_source
from experiments.running.work import merged
from experiments.running.workers import helpers, machine_memory
from experiments.tables.changes import ROUNDING, change_of
from experiments.tables.layout import csv_bytes, written_columns
from experiments.tables.reporter import FLAGGED
from experiments.tables.results import Results

if TYPE_CHECKING:
    import pandas as pd

_SHARE = 0.05  # of the cells
_SECONDS = 300.0  # of one worker, as estimated


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a cell in a main table."""

    sweep: Sweep
    cell: Cell
    first: int  # from 1
    trials: int
    before: "pd.DataFrame"  # the measured columns

    @property
    def seconds(self) -> float:
        """Estimated time of one worker; infinite without the memory."""
        fits = self.cell.memory <= machine_memory()
        return self.cell.seconds_per_trial * self.trials if fits else math.inf

    @property
    def order(self) -> bytes:
        """SHA-256 of place and source: other versions of the source choose other cells."""
        source = measuring_source(self.sweep.experiment)
        return hashlib.sha256(f"{self.sweep.name} {self.first} {source}".encode()).digest()

    @property
    def place(self) -> str:
        """The sweep, the row and its cell in words."""
        return f"{self.sweep.name}, rows from {self.first} ({describe(self.cell)})"

    def difference(self) -> str:
        """Measure the rows; the difference in words, empty without any."""
        from experiments.tables.rows import tabulated

        experiment = self.sweep.experiment
        parts = Chunk.of_cell(experiment, self.cell, self.trials, self.sweep.seed)
        whole = merged(map(Chunk.measure, parts))
        table = tabulated(experiment, [self.cell], [whole])[MEASURED]
        change = change_of(csv_bytes(self.before), csv_bytes(table[[*self.before]]))
        is_same = change.kind == "unchanged" or (change.kind == ROUNDING and not is_supported())
        return "" if is_same else f"{self.place}: {change.where}"


def measure_again(job: Job) -> None:
    """Measure a sample of the cells of sweeps whose chunks are not stored, and compare the bytes.

    The sample has 5% of these cells, chosen by hash, and takes at most five minutes of one worker
    by their estimates; a cell that takes more, or more memory than there is, is never chosen.

    Raises:
        DisagreementError: a measured value is another one than in its table.
    """
    work = job.work()
    due = [sweep.name for sweep in job.sweeps if not work.is_complete(sweep)]
    rows = [each for name in due if name in job.study for each in _rows(job.study[name])]
    chosen = _chosen(rows)
    total = sum(each.seconds for each in chosen)
    differences: list[str] = []
    bar = job.report.bar.phase("check", total, total)
    with bar as advance, helpers(job.jobs, len(chosen)) as submit:

        def finish(each: _Rows, made: "Future[str]") -> None:
            try:
                differences.append(made.result())
            except Exception as error:
                raise in_part(each.place, error) from None
            advance(each.place, each.seconds)

        futures = [(each, submit(each.difference)) for each in chosen]
        attempt(partial(finish, *each) for each in futures)
    if found := [*filter(None, differences)]:
        raise DisagreementError("\n".join(["expected the bytes of the table, got others:", *found]))
    if rows:
        again = f"{len(chosen)} of {counted(len(rows), 'cell')} without chunks measured again"
        text = f"{again}, equal to {'the byte' if is_supported() else 'rounding'}"
        if long := sum(each.seconds > _SECONDS for each in rows):
            text += f"; {counted(long, 'cell')} beyond {duration(_SECONDS)} or memory left out"
        job.report.verdict("sample", text, None if chosen else FLAGGED)


def _rows(results: Results) -> Iterator[_Rows]:
    sweep, table = results.sweep, results.measured
    written = names(written_columns(results))
    measured = [name for name in written if not name.endswith("_exact")]
    cells = {of_rule: cell for cell in sweep.cells for of_rule in cell.by_rule()}
    for cell, rows in table.groupby(table[CELL].map(cells), sort=False):
        trials = int(rows["trials"].iloc[0]) if "trials" in rows else sweep.trials
        yield _Rows(sweep, cell, rows.index[0] + 1, trials, rows[measured])


def _chosen(rows: Sequence[_Rows]) -> list[_Rows]:
    """The first 5% in the order of hashes that fit into the time."""
    found: list[_Rows] = []
    left = _SECONDS
    for each in sorted(rows, key=lambda each: each.order):
        if len(found) < math.ceil(_SHARE * len(rows)) and each.seconds <= left:
            found.append(each)
            left -= each.seconds
    return found
