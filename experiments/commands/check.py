"""The check of the tables of a config, and the list of their columns."""

from functools import partial
from pathlib import Path

from experiments.commands.job import Job
from experiments.commands.sample import measure_again
from experiments.config.errors import DisagreementError, Problem, TableError, attempt, counted
from experiments.config.paths import COLUMN_FILE, drawn_texts
from experiments.config.sweep import Sweep
from experiments.measuring.intervals import MIN_TRIALS
from experiments.tables.layout import csv_bytes
from experiments.tables.products import Product, build
from experiments.tables.reporter import FLAGGED
from experiments.tables.stored import Stored, read_sidecar
from experiments.tables.study import Study

NOTHING_JUDGED = (
    "no value is tested: this needs a known exact value, 20 trials and 400 effective draws"
)


def write_columns(job: Job) -> None:
    """Write columns.csv, the columns of all sound tables.

    Raises:
        BusyError: another run uses the results folder.
    """
    study, folder = job.study, job.results
    if study:
        inputs = tuple(Stored(folder, one.sweep).sidecar for one in study.values())
        made = Product((folder / COLUMN_FILE,), partial(_columns, study), inputs, study.config.text)
        build(folder, [made], job.report, phase="tables", quietly=True)


def _columns(study: Study) -> list[bytes]:
    """The content of columns.csv."""
    from experiments.tables.analyse import described

    return [csv_bytes(described([*study.values()]))]


def check(job: Job) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones;
    measure a sample of rows without chunks again.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Raises:
        TableError: a table is missing, altered, or from another config.
        DisagreementError: measured and exact values are too far apart, or a row of the sample has
            other values than its table.
    """
    study, report = job.study, job.report
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

    each = [partial(check_sweep, sweep) for sweep in job.sweeps]
    attempt([*each, check_all, partial(measure_again, job)])


def check_figures(job: Job) -> None:
    """Flag each figure that is of other tables or another version.

    Raises:
        Problem: a figure is missing.
    """
    from experiments.figures.draw import figure_products

    read = [job.study[sweep.name] for sweep in job.sweeps if sweep.name in job.study]
    missing = []
    for product in figure_products(job.results, read):
        path = product.files[0]
        if lost := [file for file in product.files if not file.exists()]:
            missing.append(f"{lost[0]} is missing; make figures draws it")
        elif not _is_of_today(product, job.results):
            other = f"{path} is of other tables or another version"
            job.report.flag(f"{other}; make figures draws it again")
    if missing:
        raise Problem("\n".join(missing))


def _is_of_today(product: Product, folder: Path) -> bool:
    """True if a figure was made here of today's tables; of one from elsewhere, title and caption tell."""
    known = product.is_current(folder)
    if known is None:
        return (product.parameters or ())[:2] == drawn_texts(product.files[0])
    return known
