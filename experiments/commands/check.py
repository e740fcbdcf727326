"""The check of the tables of a config, and the list of their columns."""

from collections.abc import Iterator, Sequence
from functools import partial

from experiments.commands.sample import measure_again
from experiments.config.errors import DisagreementError, TableError, attempt, counted
from experiments.config.paths import (
    COLUMN_FILE,
    FIGURE_FOLDER,
    drawn_texts,
)
from experiments.config.sweep import Sweep
from experiments.tables.layout import csv_bytes
from experiments.tables.products import Product, build, ledger
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
        build(folder, [made], report, quietly=True)


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
        if failed := read_sidecar(Stored(study.folder, sweep).sidecar).get("failed"):
            raise TableError("\n".join(failed))
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
    """Flag each figure that is missing, of other tables or another version, or not in the config."""
    for line in _old_figures(study, sweeps):
        report.flag(line)


def _old_figures(study: Study, sweeps: Sequence[Sweep]) -> Iterator[str]:
    """A line on each figure that is not one of today's.

    A fresh clone does not know what its figures were made of; there, title and caption tell.
    """
    from experiments.figures.draw import figure_products

    made = ledger(study.folder)
    read = [study[sweep.name] for sweep in sweeps if sweep.name in study]
    drawn = {product.files[0]: product for product in figure_products(study.folder, read)}
    for path, product in drawn.items():
        known = made.get(product.name(study.folder))
        if not path.exists():
            yield f"{path} is missing; make figures draws it"
        elif known != product.record() if known else product.parameters[:2] != drawn_texts(path):
            yield f"{path} is of other tables or another version; make figures draws it again"
    for results in read:
        for path in sorted((study.folder / FIGURE_FOLDER / results.name).glob("*.png")):
            if path not in drawn:
                yield f"{path}: expected one of the figures of {results.name}, got an old one; delete it"
