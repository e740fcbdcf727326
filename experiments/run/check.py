"""The check of the tables of a config, their overview, and leftover files."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.analysis.written import csv_bytes
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.errors import TableError, attempt, counted
from experiments.paths import ALL_SWEEPS, COLUMNS, DERIVED, FIGURES, LONG, csv_name
from experiments.run.files import checksum, locked
from experiments.run.reporter import ALOUD, FLAGGED, Reporter
from experiments.run.tables import ANOTHER_VERSION, read_sidecar, read_sweep, why_stale

if TYPE_CHECKING:
    from experiments.analysis.results import Results

_OF_MATRICES = 0.05  # deviations below it are rather those of matrices at the start
NOTHING_JUDGED = "Student's t tests no value: it needs at least 20 trials and a metric with a known exact value"


def sound(config: Config, results: Path) -> "dict[str, Results]":
    """The results of the sweeps with sound tables, by name, in the order of the config."""
    found = {}
    for sweep in config.sweeps:
        with suppress(TableError):
            found[sweep.name] = read_sweep(results, config, sweep)
    return found


def write_overview(config: Config, results: Path, report: Reporter = ALOUD) -> None:
    """Write columns.csv, the columns of all tables, and long-format.csv, the values of all sweeps with sound tables.

    Raises:
        BusyError: another run uses the results folder.
    """
    from experiments.run.products import Product, build

    sidecars = [results / f"{sweep.name}.json" for sweep in config.sweeps]
    tables = [
        path for each in sidecars for path in (each.with_suffix(".csv"), *results.glob(f"{DERIVED}/{each.stem}/*"))
    ]
    files = (results / LONG, results / COLUMNS)
    if sound(config, results):
        made = Product(files, partial(_overview, config, results), (*sidecars, *sorted(tables)), config.digest)
        build(results, [made], report, quietly=True)


def _overview(config: Config, results: Path) -> list[bytes | Iterator[bytes]]:
    """The content of long-format.csv, in parts, and of columns.csv."""
    import pandas as pd

    from experiments.analysis.overview import described, long_columns, long_tables
    from experiments.measuring.columns import names

    sweeps = [*sound(config, results).values()]
    header = csv_bytes(pd.DataFrame(columns=names(long_columns(sweeps))))
    values = (csv_bytes(table).removeprefix(header) for table in long_tables(sweeps))
    return [b"".join([header, *values]), csv_bytes(described(sweeps))]


def check(
    config: Config,
    sweeps: Sequence[Sweep],
    results: Path,
    *,
    report: Reporter = ALOUD,
) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones; list leftover files.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Raises:
        TableError: a table is incomplete or altered.
        DisagreementError: measured and exact values are too far apart.
    """
    from experiments.analysis.agreement import agreement
    from experiments.analysis.overview import check_table

    whole: list[Results] = []

    def check_sweep(sweep: Sweep) -> None:
        read = read_sweep(results, config, sweep)
        report.detail(check_table(read))
        if reason := why_stale(results, config, sweep):
            report.flag(f"{sweep.name}: {reason}")
        whole.append(read)
        deviations = read.measured.filter(["query_std", "key_std"])
        if (deviations < _OF_MATRICES).any(axis=None):
            report.flag(
                f"{sweep.name}: with a query_std or key_std of {deviations.min(axis=None):g}, weights are nearly equal;"
                " they belong to entries of q and k, not of W_Q and W_K (experiment: initialisation)"
            )
        if verdict := agreement([read]).verdict():
            report.detail(f"  {verdict}")

    def check_all() -> None:
        together = agreement(whole)
        if whole:
            report.verdict("checked", f"{counted(len(whole), 'sweep')}, complete and unaltered")
        together.raise_alarm()
        if whole:
            verdict, gaps = together.verdict(), together.gaps_in_short()
            report.verdict(*(("agreed", verdict) if verdict else ("not tested", NOTHING_JUDGED, FLAGGED)))
            if gaps:
                report.verdict("others", gaps, None)

    for line in leftover_lines(config, results):
        report.flag(line)
    attempt([*(partial(check_sweep, sweep) for sweep in sweeps), check_all])


def leftover_lines(config: Config, results: Path) -> Iterator[str]:
    """A line about the files that `prune` removes, if there are any."""
    if found := _leftovers(config, results):
        yield f"leftover files (make prune with the same config removes them): {', '.join(map(str, found))}"


def _leftovers(config: Config, results: Path) -> list[Path]:
    """The tables and figures that the suite wrote, nobody changed, and the config does not name.

    Sidecars and the ledger prove what the suite wrote. A folder without a table of this config belongs to another one.
    """
    from experiments.figures.declared import figures_of
    from experiments.run.products import untouched

    shown = {sweep.name: sweep.figures for sweep in config.sweeps} | {ALL_SWEEPS: figures_of(ALL_SWEEPS)}
    found: list[Path] = []
    if not {why_stale(results, config, sweep) for sweep in config.sweeps} & {"", ANOTHER_VERSION}:
        return found
    for sidecar in sorted(results.glob("*.json")):
        with suppress(TableError):
            if sidecar.stem not in shown and (content := read_sidecar(sidecar)).get("sweep") == sidecar.stem:
                tables = {results / csv_name(sidecar.stem, kind): each for kind, each in content["sha256"].items()}
                found += [sidecar, *(path for path, sha256 in tables.items() if checksum(path) == sha256)]
    for files in untouched(results):
        sweep = files[0].parent
        if sweep.parent == results / FIGURES and files[0].stem not in shown.get(sweep.name, ()):
            found += files
    return found


def prune(config: Config, results: Path) -> None:
    """Remove the files that the suite wrote for sweeps and figures no longer in the config.

    Files that somebody changed, or that the suite may not have written, stay.
    """
    with locked(results):
        found = _leftovers(config, results)
        for path in found:
            path.unlink()
            print(f"removed {path}")
        for folder in {path.parent for path in found} - {results}:
            if not any(folder.iterdir()):
                folder.rmdir()
    if not found:
        print(f"{results}: no leftover files to remove")
