"""The check of the tables of a config, and their overview."""

from collections.abc import Sequence
from functools import partial

from experiments.analysis.written import csv_bytes
from experiments.config.sweep import Sweep
from experiments.errors import DisagreementError, attempt, counted
from experiments.output.products import Product, build
from experiments.output.reporter import FLAGGED, Reporter
from experiments.output.study import Study
from experiments.paths import (
    COLUMNS,
    MODELS,
    sidecar_path,
)

NOTHING_JUDGED = (
    "no value is tested: this needs a known exact value, 20 trials and 400 effective draws"
)


def write_overview(study: Study, report: Reporter) -> None:
    """Write columns.csv, the columns of all sound tables.

    Raises:
        BusyError: another run uses the results folder.
    """
    folder = study.folder
    if study:
        inputs = tuple(sidecar_path(folder, name) for name in study)
        made = Product((folder / COLUMNS,), partial(_columns, study), inputs, study.config.text)
        build(folder, [made], report, quietly=True)


def _columns(study: Study) -> list[bytes]:
    """The content of columns.csv."""
    from experiments.analysis.analyse import described

    return [csv_bytes(described([*study.values()]))]


def check(study: Study, sweeps: Sequence[Sweep], *, report: Reporter) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones;
    measure a sample of rows without chunks again; name the models whose laws are outdated.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Raises:
        TableError: a table is missing, altered, or from another config.
        DisagreementError: measured and exact values are too far apart, or a row of the sample has
            other values than its table.
    """
    from experiments.commands.sample import measure_again

    whole: list[str] = []

    def check_sweep(sweep: Sweep) -> None:
        read = study.require(sweep.name)
        rows = counted(len(read.measured), "row")
        cells = counted(len(sweep.cells), "cell")
        report.detail(f"checked {sweep.name}: {rows} for {cells}, unaltered")
        whole.append(sweep.name)

    def check_all() -> None:
        if not whole:
            return
        together = study.agreement(whole)
        report.verdict("checked", f"{counted(len(whole), 'sweep')}, unaltered")
        if alarm := together.alarm():
            raise DisagreementError(alarm)
        if verdict := together.verdict():
            report.verdict("agreed", verdict)
        else:
            report.verdict("not tested", NOTHING_JUDGED, FLAGGED)
        if gaps := together.gaps_in_short():
            report.verdict("others", gaps, None)

    if (study.folder / MODELS).exists():
        from experiments.models.command import outdated

        for line in outdated(study.folder):
            report.flag(line)
    again = partial(measure_again, study, sweeps, report)
    attempt([*(partial(check_sweep, sweep) for sweep in sweeps), check_all, again])
