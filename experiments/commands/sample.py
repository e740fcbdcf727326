"""A sample of rows measured again, because measuring all of them may take hours."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial, reduce

from experiments.analysis.derived import row_cells
from experiments.analysis.written import csv_bytes
from experiments.commands.measure import duration
from experiments.config.sweep import Sweep
from experiments.errors import DisagreementError, attempt, counted, in_part
from experiments.measuring.chunk import chunks, measure_chunk
from experiments.measuring.columns import describe, names
from experiments.measuring.experiment import MEASURED, Cell
from experiments.measuring.processor import is_supported
from experiments.output.compare import compare
from experiments.output.reporter import FLAGGED, Reporter
from experiments.output.study import Study
from experiments.output.tables import measured_part, sound_contents
from experiments.paths import STORE
from experiments.running.fingerprint import measuring_source
from experiments.running.store import Store
from experiments.running.work import find_work, tabulated
from experiments.running.workers import default_jobs, worker_pool

_SHARE = 0.05  # of the rows
_SECONDS = 300.0  # of one worker, as estimated


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a main table that are measured together: one, unless a rule has several."""

    sweep: Sweep
    cell: Cell  # with the rule of the row
    first: int  # from 1
    trials: int
    before: bytes  # a CSV of the measured columns

    @property
    def seconds(self) -> float:
        """Estimated time of one worker."""
        return self.cell.seconds_per_trial * self.trials

    @property
    def order(self) -> bytes:
        """SHA-256 of place and source: other versions of the source choose other rows."""
        source = measuring_source(self.sweep.experiment.name)
        return hashlib.sha256(f"{self.sweep.name} {self.first} {source}".encode()).digest()

    @property
    def place(self) -> str:
        """The sweep, the row and its cell in words."""
        return f"{self.sweep.name}, row {self.first} ({describe(self.cell)})"

    def difference(self) -> str:
        """Measure the rows; the difference in words, empty without any."""
        experiment = self.sweep.experiment
        parts = chunks(experiment, self.cell, self.trials)
        measured = (measure_chunk(chunk, self.sweep.seed) for chunk in parts)
        whole = reduce(lambda merged, following: merged.merge(following), measured)
        table = tabulated(experiment, [self.cell], [whole])[MEASURED]
        ordered = [name for name in names(experiment.table_columns) if name in table]
        change = compare(self.before, csv_bytes(table[ordered]))
        is_same = change.kind == "unchanged" or (
            change.kind == "equal to rounding" and not is_supported()
        )
        return "" if is_same else f"{self.place}: {change.where.replace(' in row 1:', ':')}"


def measure_again(study: Study, sweeps: Sequence[Sweep], report: Reporter) -> None:
    """Measure a sample of the rows of sweeps whose chunks are not stored, and compare the bytes.

    The sample has 5% of these rows, chosen by hash, and takes at most five minutes of one worker by
    the estimates of the cells; a row that takes more is never chosen.

    Raises:
        DisagreementError: a measured value is another one than in its table.
    """
    work = find_work(Store(study.folder / STORE, study.config.seed), sweeps)
    rows = [
        each
        for sweep in sweeps
        if sweep.name in study and not work.is_complete(sweep)
        for each in _rows(study, sweep)
    ]
    chosen = _chosen(rows)
    total = sum(each.seconds for each in chosen)
    differences: list[str] = []
    with (
        report.progress(total, f"{counted(len(chosen), 'row')} to measure again") as advance,
        worker_pool(default_jobs()) as pool,
    ):

        def finish(each: _Rows, made: "Future[str]") -> None:
            try:
                differences.append(made.result())
            except Exception as error:
                raise in_part(each.place, error) from None
            advance(each.place, each.seconds)

        futures = [(each, pool.submit(each.difference)) for each in chosen]
        attempt(partial(finish, *each) for each in futures)
    if found := [*filter(None, differences)]:
        raise DisagreementError("\n".join(["expected the bytes of the table, got others:", *found]))
    if rows:
        long = sum(each.seconds > _SECONDS for each in rows)
        never = f"; {counted(long, 'row')} of more than {duration(_SECONDS)} each left out"
        report.verdict(
            "sample",
            f"{len(chosen)} of {counted(len(rows), 'row')} without chunks measured again, equal to "
            f"{'the byte' if is_supported() else 'rounding'}{never if long else ''}",
            None if chosen else FLAGGED,
        )


def _rows(study: Study, sweep: Sweep) -> Iterator[_Rows]:
    content = measured_part(sound_contents(study.folder, sweep)[MEASURED])
    head, *lines = content.splitlines(keepends=True)
    table = study[sweep.name].measured
    first = 0
    for cell in sweep.cells:
        trials = int(table["trials"].iloc[first]) if "trials" in table else sweep.trials
        singles = row_cells([cell])
        height = cell.table_rows(trials)
        together = singles if len(singles) == height else [cell]
        for each in together:
            last = first + height // len(together)
            yield _Rows(sweep, each, first + 1, trials, head + b"".join(lines[first:last]))
            first = last


def _chosen(rows: Sequence[_Rows]) -> list[_Rows]:
    """The first 5% in the order of hashes that fit into the time."""
    found: list[_Rows] = []
    left = _SECONDS
    for each in sorted(rows, key=lambda each: each.order):
        if len(found) < math.ceil(_SHARE * len(rows)) and each.seconds <= left:
            found.append(each)
            left -= each.seconds
    return found
