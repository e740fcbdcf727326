"""The check of the tables of a config, and the list of their columns."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from experiments.commands.sample import measure_again
from experiments.config.errors import DisagreementError, Problem, TableError, attempt, counted
from experiments.config.paths import COLUMN_FILE
from experiments.config.sweep import Sweep
from experiments.figures.picture import Words
from experiments.measuring.intervals import MIN_TRIALS
from experiments.tables.layout import csv_bytes
from experiments.tables.products import Product, build
from experiments.tables.reporter import FLAGGED, Reporter
from experiments.tables.stored import Stored, read_sidecar
from experiments.tables.study import Study

NOTHING_JUDGED = (
    "no value is tested: this needs a known exact value, 20 trials and 400 effective draws"
)


def write_columns(study: Study, report: Reporter) -> None:
    """Write columns.csv, the columns of all sound tables.

    Raises:
        BusyError: another run uses the results folder.
    """
    folder = study.folder
    if study:
        inputs = tuple(Stored(folder, one.sweep).sidecar for one in study.values())
        made = Product((folder / COLUMN_FILE,), partial(_columns, study), inputs, study.config.text)
        build(folder, [made], report, phase="tables", quietly=True)


def _columns(study: Study) -> list[bytes]:
    """The content of columns.csv."""
    from experiments.tables.analyse import described

    return [csv_bytes(described([*study.values()]))]


def check(
    study: Study, sweeps: Sequence[Sweep], *, jobs: int | None = None, report: Reporter
) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones;
    measure a sample of rows without chunks again.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Raises:
        TableError: a table is missing, altered, or from another config.
        DisagreementError: measured and exact values are too far apart, or a row of the sample has
            other values than its table.
    """
    whole: list[str] = []

    def check_sweep(sweep: Sweep) -> None:
        read = study.require(sweep.name)
        rows = counted(len(read.measured), "row")
        cells = counted(len(sweep.cells), "cell")
        report.detail(f"checked {sweep.name}: {rows} for {cells}, unaltered")
        if lost := read.lacking():
            lacks = f"{sweep.name}: its table lacks {', '.join(lost)}"
            report.flag(f"{lacks}, which is not tested; run measures it")
        if failed := read_sidecar(Stored(study.folder, sweep).sidecar).get("failed"):
            raise TableError("\n".join(failed))
        if sweep.experiment.has_precision and sweep.trials < MIN_TRIALS:
            few = f"{sweep.name}: intervals of {counted(sweep.trials, 'trial')} are not reliable"
            report.flag(f"{few}, expected {MIN_TRIALS} at least")
        whole.append(sweep.name)

    def check_all() -> None:
        if not whole:
            return
        from experiments.tables.analyse import agreement

        together = agreement(study[name] for name in whole)
        report.verdict("checked", f"{counted(len(whole), 'sweep')}, unaltered")
        if alarm := together.alarm():
            raise DisagreementError(alarm)
        if verdict := together.verdict():
            report.verdict("agreed", verdict)
        else:
            report.verdict("not tested", NOTHING_JUDGED, FLAGGED)
        if gaps := together.untested_in_words():
            report.verdict("others", gaps, None)

    again = partial(measure_again, study, sweeps, jobs, report)
    attempt([*(partial(check_sweep, sweep) for sweep in sweeps), check_all, again])


def check_figures(study: Study, sweeps: Sequence[Sweep], report: Reporter) -> None:
    """Flag each figure that is of other tables or another version.

    Raises:
        Problem: a figure is missing.
    """
    from experiments.figures.draw import figure_products

    read = [study[sweep.name] for sweep in sweeps if sweep.name in study]
    missing = []
    for product in figure_products(study.folder, read):
        path = product.files[0]
        if not path.exists():
            missing.append(f"{path} is missing; make figures draws it")
        elif not _is_of_today(product, study.folder):
            report.flag(
                f"{path} is of other tables or another version; make figures draws it again"
            )
    if missing:
        raise Problem("\n".join(missing))


def _is_of_today(product: Product, folder: Path) -> bool:
    """True if a figure was made here of today's tables; of one from elsewhere, title and caption tell."""
    known = product.is_current(folder)
    if known is not None:
        return known
    words: Words = product.parameters
    drawn = product.files[0].read_bytes()
    return all(text and f"\0{text}".encode() in drawn for text in words[:2])
