"""The check of the tables of a config, and their overview."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.analysis.written import csv_bytes
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.engine.products import Product, build
from experiments.engine.reporter import FLAGGED, VERBOSE, Reporter
from experiments.engine.tables import read_sweep, why_stale
from experiments.errors import TableError, attempt, counted
from experiments.measuring.experiment import MEASURED
from experiments.paths import COLUMNS, DERIVED, LONG, csv_name

if TYPE_CHECKING:
    from experiments.analysis.results import Results

NOTHING_JUDGED = (
    "Student's t tests no value: it needs at least 20 trials and a metric with a known exact value"
)


def sound(config: Config, results: Path) -> "dict[str, Results]":
    """The results of the sweeps with sound tables, by name, in the order of the config."""
    found = {}
    for sweep in config.sweeps:
        with suppress(TableError):
            found[sweep.name] = read_sweep(results, sweep)
    return found


def write_overview(config: Config, results: Path, report: Reporter = VERBOSE) -> None:
    """Write columns.csv, the columns of all tables, and long-format.csv, the values of all sweeps
    with sound tables.

    Raises:
        BusyError: another run uses the results folder.
    """
    inputs: list[Path] = []
    for sweep in config.sweeps:
        inputs += [results / f"{sweep.name}.json", results / csv_name(sweep.name, MEASURED)]
        inputs += sorted((results / DERIVED / sweep.name).glob("*"))
    if sound(config, results):
        files = (results / LONG, results / COLUMNS)
        made = Product(files, partial(_overview, config, results), tuple(inputs), config.digest)
        build(results, [made], report, quietly=True)


def _overview(config: Config, results: Path) -> list[bytes]:
    """The content of long-format.csv and of columns.csv."""
    import pandas as pd

    from experiments.analysis.overview import described, long_columns, long_tables
    from experiments.measuring.columns import names

    sweeps = [*sound(config, results).values()]
    header = csv_bytes(pd.DataFrame(columns=names(long_columns(sweeps))))
    values = (csv_bytes(table).removeprefix(header) for table in long_tables(sweeps))
    return [b"".join([header, *values]), csv_bytes(described(sweeps))]


def check(
    config: Config, sweeps: Sequence[Sweep], results: Path, *, report: Reporter = VERBOSE
) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones; list
    leftover files.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Raises:
        TableError: a table is incomplete or altered.
        DisagreementError: measured and exact values are too far apart.
    """
    from experiments.analysis.agreement import agreement

    whole: list[Results] = []

    def check_sweep(sweep: Sweep) -> None:
        read = read_sweep(results, sweep)
        rows = counted(len(read.measured), "row")
        cells = counted(len(sweep.cells()), "cell")
        report.detail(f"checked {sweep.name}: {rows} for {cells}, complete and unaltered")
        if reason := why_stale(results, sweep):
            report.flag(f"{sweep.name}: {reason}")
        whole.append(read)
        if report.verbose and (verdict := agreement([read]).verdict()):
            report.detail(f"  {verdict}")

    def check_all() -> None:
        if not whole:
            return
        together = agreement(whole)
        report.verdict("checked", f"{counted(len(whole), 'sweep')}, complete and unaltered")
        together.raise_alarm()
        if verdict := together.verdict():
            report.verdict("agreed", verdict)
        else:
            report.verdict("not tested", NOTHING_JUDGED, FLAGGED)
        if gaps := together.gaps_in_short():
            report.verdict("others", gaps, None)

    for line in leftover_lines(config, results):
        report.flag(line)
    attempt([*(partial(check_sweep, sweep) for sweep in sweeps), check_all])


def leftover_lines(config: Config, results: Path) -> Iterator[str]:
    """A line about the tables in a folder that no sweep of its config has, if there are any."""
    named = {sweep.name for sweep in config.sweeps}
    sidecars = [path for path in sorted(results.glob("*.json")) if path.stem not in named]
    if found := [str(path) for path in sidecars if path.with_suffix(".csv").exists()]:
        yield f"the config has no such sweep; delete its files or leave them: {', '.join(found)}"
