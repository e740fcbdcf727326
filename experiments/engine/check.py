"""The check of the tables of a config, their overview, and leftover files."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.analysis.written import csv_bytes
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.declarations import figures_of
from experiments.engine.files import checksum, locked
from experiments.engine.products import Product, build, untouched
from experiments.engine.reporter import FLAGGED, VERBOSE, Reporter
from experiments.engine.tables import ANOTHER_VERSION, read_sidecar, read_sweep, why_stale
from experiments.errors import TableError, attempt, counted
from experiments.measuring.experiment import MEASURED
from experiments.paths import ALL_SWEEPS, COLUMNS, DERIVED, FIGURES, LONG, csv_name

if TYPE_CHECKING:
    from experiments.analysis.results import Results

_OF_MATRICES = 0.05  # deviations below it are rather those of matrices at the start
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
    from experiments.analysis.overview import check_table

    whole: list[Results] = []

    def check_sweep(sweep: Sweep) -> None:
        read = read_sweep(results, sweep)
        report.detail(check_table(read))
        if reason := why_stale(results, sweep):
            report.flag(f"{sweep.name}: {reason}")
        whole.append(read)
        deviations = read.measured.filter(["query_std", "key_std"])
        if (deviations < _OF_MATRICES).any(axis=None):
            report.flag(
                f"{sweep.name}: with a query_std or key_std of {deviations.min(axis=None):g}, "
                f"weights are nearly equal;"
                " they belong to entries of q and k, not of W_Q and W_K (experiment: "
                "initialisation)"
            )
        if verdict := agreement([read]).verdict():
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
    """A line about the files that `prune` removes, if there are any."""
    if found := _leftovers(config, results):
        yield (
            f"leftover files (make prune with the same config removes them): "
            f"{', '.join(map(str, found))}"
        )


def _leftovers(config: Config, results: Path) -> list[Path]:
    """The tables and figures that the suite wrote, nobody changed, and the config does not name.

    A folder without a table of this config belongs to another one.
    """
    states = {why_stale(results, sweep) for sweep in config.sweeps}
    if not states & {"", ANOTHER_VERSION}:
        return []
    return [*_leftover_tables(config, results), *_leftover_figures(config, results)]


def _leftover_tables(config: Config, results: Path) -> Iterator[Path]:
    """Sidecars prove which tables the suite wrote."""
    named = {sweep.name for sweep in config.sweeps}
    for sidecar in sorted(results.glob("*.json")):
        name = sidecar.stem
        with suppress(TableError):
            content = read_sidecar(sidecar)
            if name in named or content.get("sweep") != name:
                continue
            yield sidecar
            for kind, sha256 in content["sha256"].items():
                path = results / csv_name(name, kind)
                if checksum(path) == sha256:
                    yield path


def _leftover_figures(config: Config, results: Path) -> Iterator[Path]:
    """The ledger of products proves which figures the suite wrote."""
    named = {(sweep.name, figure) for sweep in config.sweeps for figure in sweep.figures}
    named |= {(ALL_SWEEPS, figure) for figure in figures_of(ALL_SWEEPS)}
    for files in untouched(results):
        folder = files[0].parent
        figure = files[0].stem
        if folder.parent == results / FIGURES and (folder.name, figure) not in named:
            yield from files


def prune(config: Config, results: Path) -> None:
    """Remove the files that the suite wrote for sweeps and figures no longer in the config.

    Files that somebody changed, or that the suite may not have written, stay.
    """
    with locked(results):
        found = _leftovers(config, results)
        for path in found:
            path.unlink()
            print(f"removed {path}")
        for folder in {path.parent for path in found}:
            with suppress(OSError):
                folder.rmdir()  # fails unless it is empty
    if not found:
        print(f"{results}: no leftover files to remove")
