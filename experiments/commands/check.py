"""The check of the tables of a config, and their overview."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from experiments.analysis.written import csv_bytes
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.errors import DisagreementError, TableError, attempt, counted
from experiments.measuring.experiment import MEASURED
from experiments.output.products import Product, build
from experiments.output.reporter import FLAGGED, Reporter
from experiments.output.study import Study
from experiments.output.tables import read_sidecar
from experiments.paths import (
    COLUMNS,
    DERIVED,
    FIGURES,
    LONG,
    csv_name,
    sidecar_path,
)

NOTHING_JUDGED = (
    "no value is tested: this needs a known exact value, 20 trials and 400 effective draws"
)


def write_overview(study: Study, report: Reporter) -> None:
    """Write columns.csv, the columns of all tables, and long-format.csv, the values of all sweeps
    with sound tables.

    Raises:
        BusyError: another run uses the results folder.
    """
    folder = study.folder
    inputs: list[Path] = []
    for sweep in study.config.sweeps:
        inputs += [sidecar_path(folder, sweep.name), folder / csv_name(sweep.name, MEASURED)]
        inputs += sorted((folder / DERIVED / sweep.name).glob("*"))
    if study:
        files = (folder / LONG, folder / COLUMNS)
        made = Product(files, partial(_overview, study), tuple(inputs), study.config.text)
        build(folder, [made], report, quietly=True)


def _overview(study: Study) -> list[bytes]:
    """The content of long-format.csv and of columns.csv."""
    import pandas as pd

    from experiments.analysis.overview import described, long_columns, long_tables
    from experiments.measuring.columns import names

    sweeps = [*study.values()]
    header = csv_bytes(pd.DataFrame(columns=names(long_columns(sweeps))))
    values = (csv_bytes(table).removeprefix(header) for table in long_tables(sweeps))
    return [b"".join([header, *values]), csv_bytes(described(sweeps))]


def check(study: Study, sweeps: Sequence[Sweep], *, report: Reporter) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones;
    measure a sample of rows without chunks again; name the tables and drawings that the config does
    not have, and models whose laws are outdated.

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
        if failed := read_sidecar(sidecar_path(study.folder, sweep.name)).get("failed"):
            raise TableError("\n".join(failed))
        whole.append(sweep.name)
        if report.verbose and (verdict := study.agreement([sweep.name]).verdict()):
            report.detail(f"  {verdict}")

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

    for line in leftover_lines(study.config, study.folder):
        report.flag(line)
    again = partial(measure_again, study, sweeps, report)
    attempt([*(partial(check_sweep, sweep) for sweep in sweeps), check_all, again])


def leftover_lines(config: Config, results: Path) -> Iterator[str]:
    """A line for each sweep that has results in a folder, but no place in its config, and for each
    sweep with drawings of figures that it no longer names.
    """
    named = {sweep.name for sweep in config.sweeps}
    for table in sorted(results.glob("*.csv")):
        name = table.stem
        if name in named or table.name in (COLUMNS, LONG):
            continue
        places = (
            table,
            table.with_suffix(".json"),
            results / DERIVED / name,
            results / FIGURES / name,
        )
        if len(found := [str(place) for place in places if place.exists()]) > 1:
            yield f"the config has no sweep {name}; delete or keep its results: {' '.join(found)}"
    for sweep in config.sweeps:
        folder = results / FIGURES / sweep.name
        if old := sorted({path.stem for path in folder.glob("*")} - {*sweep.figures}):
            yield (
                f"{sweep.name} no longer names the figures {', '.join(old)}; delete or keep their "
                f"files in {folder}"
            )
