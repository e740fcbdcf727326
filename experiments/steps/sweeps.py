"""From the tables of a config to its other results: overview, figures, page; the check, and leftover files.

Each step reads the files of earlier ones and writes its own, except those that are up to date. So a step that was
interrupted can simply run again.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.findings import check_findings, told
from experiments.folders import ALL_SWEEPS, FIGURES, figure_path
from experiments.harness.config import Config
from experiments.harness.files import COLUMNS, DERIVED, LONG, checksum, csv_name, locked
from experiments.harness.grid import Sweep
from experiments.harness.problems import attempt, counted
from experiments.harness.tables import TableError, csv_bytes, is_current, read_sidecar, read_sweep
from experiments.steps.reporter import ALOUD, FLAGGED, Reporter

if TYPE_CHECKING:
    from experiments.figures.figure import Tables

DRAWN = (".png", ".txt")  # the files of a figure: the drawing; title and caption
ON_REQUEST = (".pdf", ".svg")  # one from an earlier run is drawn again, so that it does not go out of date
NOTHING_JUDGED = "Student's t tests no value: it needs at least 20 trials and a metric with a known exact value"


def draw(
    config: Config,
    sweeps: Sequence[Sweep],
    results: Path,
    *,
    jobs: int | None = None,
    formats: Collection[str] = (),
    report: Reporter = ALOUD,
) -> None:
    """Draw the outdated figures of sweeps, and of all sweeps together.

    Raises:
        TableError: a sweep has no sound table; the figures of all others are drawn.
    """
    from experiments.analysis.agreement import agreement_tables
    from experiments.figures.declared import figures_of
    from experiments.harness.products import Product, build

    tables = dict(_sound(config, results))
    shown = [(sweep.name, figure) for sweep in sweeps if sweep.name in tables for figure in sweep.figures]
    if together := agreement_tables([sweep for sweep in config.sweeps if sweep.name in tables], tables):
        tables[ALL_SWEEPS] = together
        shown += [(ALL_SWEEPS, figure) for figure in figures_of(ALL_SWEEPS)]

    def product(name: str, figure: str) -> Product:
        stem, finding = figure_path(results, name, figure, ""), told(config, name, figure, tables[name])
        asked = [each for each in ON_REQUEST if each[1:] in formats or stem.with_name(f"{stem.name}{each}").exists()]
        files = tuple(stem.with_name(f"{stem.name}{suffix}") for suffix in (*DRAWN, *asked))
        behind = [sweep.name for sweep in config.sweeps if name in (sweep.name, ALL_SWEEPS)]
        inputs = tuple(results / f"{sweep}.json" for sweep in behind)
        return Product(files, partial(_drawn, figure, tables[name], finding, asked), inputs, finding)

    # An unsound table is an error, after the figures of all others.
    unsound = (partial(read_sweep, results, config, sweep) for sweep in sweeps if sweep.name not in tables)
    attempt([lambda: build(results, (product(*each) for each in shown), report.made, jobs=jobs), *unsound])


def _drawn(figure: str, tables: "Tables", finding: tuple[str, str] | None, formats: Sequence[str]) -> list[bytes]:
    from experiments.figures.declared import FIGURES as DECLARED
    from experiments.figures.rendering import render_figure

    return [*render_figure(DECLARED[figure], tables, finding=finding, formats=formats).values()]


def _sound(config: Config, results: Path) -> "Iterator[tuple[str, Tables]]":
    """The sweeps with sound tables, by name."""
    for sweep in config.sweeps:
        with suppress(TableError):
            yield sweep.name, read_sweep(results, config, sweep)


def write_overview(config: Config, results: Path, report: Reporter = ALOUD) -> None:
    """Write columns.csv, the columns of all tables, and long-format.csv, the values of all sweeps with sound tables.

    Raises:
        BusyError: another run uses the results folder.
    """
    from experiments.harness.products import Product, build

    sidecars = [results / f"{sweep.name}.json" for sweep in config.sweeps]
    tables = [
        path for each in sidecars for path in (each.with_suffix(".csv"), *results.glob(f"{DERIVED}/{each.stem}/*"))
    ]
    files = (results / LONG, results / COLUMNS)
    if any(_sound(config, results)):
        made = Product(files, partial(_overview, config, results), (*sidecars, *sorted(tables)), config.digest)
        build(results, [made], report.made_quietly)


def _overview(config: Config, results: Path) -> list[bytes | Iterator[bytes]]:
    """The content of long-format.csv, in parts, and of columns.csv."""
    import pandas as pd

    from experiments.analysis.overview import described, long_columns, long_tables
    from experiments.harness.columns import names

    tables = dict(_sound(config, results))
    sweeps = [sweep for sweep in config.sweeps if sweep.name in tables]
    header = csv_bytes(pd.DataFrame(columns=names(long_columns(sweeps))))
    values = (csv_bytes(table).removeprefix(header) for table in long_tables(sweeps, tables))
    return [b"".join([header, *values]), csv_bytes(described(sweeps, tables))]


def whole_sweeps(config: Config, results: Path, *, incomplete: bool) -> list[Sweep]:
    """The sweeps with sound and whole tables; `TableError` if a sweep has none and `incomplete` is false."""
    from experiments.page.parts import sound_tables

    tables, _ = sound_tables(config, results, incomplete=incomplete)
    return [sweep for sweep in config.sweeps if sweep.name in tables]


def write_page(
    config: Config, results: Path, config_path: Path, *, incomplete: bool = False, report: Reporter = ALOUD
) -> None:
    """Write index.html from tables, figures and published statements if one of them changed.

    Raises:
        TableError: a sweep has no sound table, and `incomplete` is false.
    """
    from experiments.harness.products import Product, build
    from experiments.page.parts import page_path, shown

    make = partial(_page, config, results, config_path, incomplete=incomplete)
    options = [config.text, config_path.as_posix(), incomplete]
    build(results, [Product((page_path(results),), make, (*shown(config, results),), options)], report.made_quietly)


def _page(config: Config, results: Path, config_path: Path, *, incomplete: bool) -> list[bytes]:
    from experiments.page.index import make_page

    return [make_page(config, results, config_path, incomplete=incomplete)]


def check(config: Config, sweeps: Sequence[Sweep], results: Path, *, report: Reporter = ALOUD) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones; list leftover files.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Raises:
        TableError: a table is incomplete or altered.
        FindingError: a table of the shipped config does not support a finding.
        DisagreementError: measured and exact values are too far apart.
    """
    from experiments.analysis.agreement import agreement
    from experiments.analysis.overview import check_table

    tables = {}

    def check_sweep(sweep: Sweep) -> None:
        read = read_sweep(results, config, sweep)
        report.detail(check_table(sweep, read))
        if not is_current(results, config, sweep):
            report.flag(f"another version of the source or of the libraries made {sweep.name} and its exact values")
        tables[sweep.name] = read
        if verdict := agreement([sweep], tables).verdict():
            report.detail(f"  {verdict}")
        check_findings(config, sweep.name, read)

    def check_all() -> None:
        together = agreement([sweep for sweep in sweeps if sweep.name in tables], tables)
        if tables:
            report.verdict("checked", f"{counted(len(tables), 'sweep')}, complete and unaltered")
        together.raise_alarm()
        if tables:
            verdict, gaps = together.verdict(), together.gaps_in_short()
            report.verdict(*(("agreed", verdict) if verdict else ("not tested", NOTHING_JUDGED, FLAGGED)))
            if gaps:
                report.verdict("gaps", gaps, None)

    for line in leftover_lines(config, results):
        report.flag(line)
    attempt([*(partial(check_sweep, sweep) for sweep in sweeps), check_all])


def leftover_lines(config: Config, results: Path) -> Iterator[str]:
    """A line about the files that `prune` removes, if there are any."""
    if found := _leftovers(config, results):
        yield f"leftover files (make prune with the same config removes them): {', '.join(map(str, found))}"


def _leftovers(config: Config, results: Path) -> list[Path]:
    """The tables and figures that the suite wrote, nobody changed, and the config does not name.

    A sidecar proves that the suite wrote a table, and the ledger that it drew a figure.
    """
    from experiments.figures.declared import figures_of
    from experiments.harness.products import untouched

    shown = {sweep.name: sweep.figures for sweep in config.sweeps} | {ALL_SWEEPS: figures_of(ALL_SWEEPS)}
    found = []
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
