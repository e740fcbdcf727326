"""From the tables of a config to its other results: draw, check, write the page, remove orphans.

Each step reads the files of earlier ones and writes its own, except those that are up to date. So a step that was
interrupted can simply run again.
"""

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.findings import check_findings, is_shipped, told
from experiments.folders import ALL_SWEEPS, drawn_texts, figure_path
from experiments.harness.artifacts import Artifact, Ledger
from experiments.harness.config import Config
from experiments.harness.files import locked, write_atomically
from experiments.harness.grid import Sweep
from experiments.harness.problems import attempt
from experiments.harness.tables import TableError, is_current, read_sweep
from experiments.harness.wording import counted
from experiments.steps.drawing import SUFFIXES, drawing
from experiments.steps.orphans import find_orphans
from experiments.steps.reporter import ALOUD, FLAGGED, Reporter

if TYPE_CHECKING:
    from experiments.analysis.agreement import Agreement
    from experiments.figures.figure import Tables

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

    Args:
        config: the whole config; figures of all sweeps together show its sound tables.
        sweeps: the sweeps of the config to draw.
        results: the folder of the tables and figures.
        jobs: number of processes that draw; by default one per processor.
        formats: further formats of each figure, `pdf` or `svg`.
        report: told about each figure.

    Raises:
        TableError: a sweep has no sound table; the figures of all others are drawn.
    """
    from experiments.analysis.agreement import agreement_tables
    from experiments.figures.declared import figures_of
    from experiments.harness.local import helpers

    tables, unsound = _read(config, results)
    shown = [(sweep.name, figure) for sweep in sweeps for figure in sweep.figures]
    if together := agreement_tables([sweep for sweep in config.sweeps if sweep.name in tables], tables):
        tables[ALL_SWEEPS] = together
        shown += [(ALL_SWEEPS, figure) for figure in figures_of(ALL_SWEEPS)]
    drawings = {each: _drawing(config, results, *each, formats=formats) for each in shown}
    ledger = Ledger(results)

    def finish(sweep: str, figure: str) -> None:
        if sweep in unsound:
            raise unsound[sweep]  # an altered table is an error even if its figure is up to date
        path, drawn = figure_path(results, sweep, figure, ".png"), (sweep, figure) in renderings
        if drawn:
            renderings[sweep, figure].result()
            ledger.note(drawings[sweep, figure])
            before, now = findings.get((sweep, figure), ""), drawn_texts(path).title
            if before and before != now:
                report.finding(path, before, now)
        report.figure(path, drawn_texts(path).caption, drawn=drawn)

    with locked(results):
        due = [each for each in shown if each[0] in tables and not ledger.is_current(drawings[each])]
        texts = {each: figure_path(results, *each, ".txt") for each in due}
        findings = {each: drawn_texts(path).title for each, path in texts.items() if path.exists()}
        with helpers(jobs, len(due)) as submit:
            renderings = {
                (sweep, figure): submit(
                    _render, figure, tables[sweep], drawings[sweep, figure], told(config, sweep, figure, tables[sweep])
                )
                for sweep, figure in due
            }
            attempt([partial(finish, *each) for each in shown])


def _render(figure: str, tables: "Tables", drawn: Artifact, finding: tuple[str, str] | None) -> None:
    """Draw the files of the figure of that name, with title and sentence of its finding, if there is one."""
    from experiments.figures.figure import load_figure
    from experiments.figures.rendering import render

    formats = [path.suffix[1:] for path in drawn.files if path.suffix not in SUFFIXES]
    render(load_figure(figure), tables, drawn.files[0].with_suffix(""), finding=finding, formats=formats)


def _read(config: Config, results: Path) -> "tuple[dict[str, Tables], dict[str, TableError]]":
    """The sound tables of every sweep by name, and the errors of the others."""
    sound: dict[str, Tables] = {}
    unsound: dict[str, TableError] = {}
    for sweep in config.sweeps:
        try:
            sound[sweep.name] = read_sweep(results, config, sweep)
        except TableError as error:
            unsound[sweep.name] = error
    return sound, unsound


def _drawing(config: Config, results: Path, sweep: str, figure: str, *, formats: Collection[str]) -> Artifact:
    """The drawing of a sweep, or of all sweeps together under its name, from the sidecars of its tables."""
    tables = [results / f"{other.name}.json" for other in config.sweeps if sweep in (other.name, ALL_SWEEPS)]
    code = ["experiments.analysis.agreement"] * (sweep == ALL_SWEEPS)
    stem, has_findings = figure_path(results, sweep, figure, ""), is_shipped(config)
    return drawing(stem, figure, tables, "experiments.findings", *code, formats=formats, parameters=has_findings)


def check(config: Config, sweeps: Sequence[Sweep], results: Path, *, report: Reporter = ALOUD) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones; list leftover files.

    Each sweep is checked alone and all of them together; one alarm is raised, for all together.

    Args:
        config: the whole config.
        sweeps: the sweeps of the config to check.
        results: the folder of the tables; nothing in it changes.
        report: told the verdicts.

    Raises:
        TableError: a table is incomplete or altered.
        FindingError: a table of the shipped config does not support a finding.
        DisagreementError: measured and exact values are too far apart.
    """
    from experiments.analysis.agreement import agreement
    from experiments.analysis.check import check_table

    tables = {}

    def check_sweep(sweep: Sweep) -> None:
        read = read_sweep(results, config, sweep)
        report.detail(check_table(sweep, read))
        if not is_current(results, config, sweep):
            report.flag(f"another version of the source or of the libraries made {sweep.name} and its exact values")
        tables[sweep.name] = read
        if summary := agreement([sweep], tables).summary():
            report.detail(f"  {summary}")
        check_findings(config, sweep.name, read)

    def check_all() -> None:
        together = agreement([sweep for sweep in sweeps if sweep.name in tables], tables)
        if tables:
            report.verdict("checked", f"{counted(len(tables), 'sweep')}, complete and unaltered")
        for gap in together.gaps:
            report.detail(str(gap))
        together.raise_alarm()
        if tables:
            _tell_agreement(together, report)

    for line in find_orphans(results, config).lines():
        report.flag(line)
    attempt([*(partial(check_sweep, sweep) for sweep in sweeps), check_all])


def _tell_agreement(found: "Agreement", report: Reporter) -> None:
    """Report how many values agree with theory, and how many nobody could test."""
    if verdict := found.verdict():
        report.verdict("agreed", verdict)
    else:
        report.verdict("not tested", NOTHING_JUDGED, FLAGGED)
    if gaps := found.gaps_in_short():
        report.verdict("gaps", gaps, None)


def prune(config: Config, results: Path) -> None:
    """Remove the files that the suite wrote for sweeps and figures no longer in the config.

    Files that somebody changed, or that the suite may not have written, stay.
    """
    with locked(results):
        found = find_orphans(results, config)
        for path in found.ours:
            path.unlink()
            print(f"removed {path}")
        for folder in {path.parent for path in found.ours} - {results}:
            if not any(folder.iterdir()):
                folder.rmdir()
    if not found.ours:
        print(f"{results}: no leftover files to remove")
    if found.others:
        kept = ", ".join(map(str, found.others))
        print(f"kept, because somebody changed them or the suite did not write them: {kept}")


def whole_sweeps(config: Config, results: Path, *, incomplete: bool) -> list[Sweep]:
    """The sweeps with sound and whole tables; `TableError` if a sweep has none and `incomplete` is false."""
    from experiments.page.provenance import sound_tables

    tables, _ = sound_tables(config, results, incomplete=incomplete)
    return [sweep for sweep in config.sweeps if sweep.name in tables]


def write_page(
    config: Config, results: Path, config_path: Path, *, incomplete: bool = False, report: Reporter = ALOUD
) -> None:
    """Write index.html from tables, figures and published statements if one of them changed.

    Args:
        config: the whole config.
        results: the folder of the tables and the page.
        config_path: the file of the config.
        incomplete: True to write the page even if sweeps have no sound tables.
        report: told whether the page changed.

    Raises:
        TableError: a sweep has no sound table, and `incomplete` is false.
    """
    from experiments.page.artifact import page, page_path

    path, given = page_path(results), (config_path, incomplete)
    if Ledger(results).is_current(page(config, results, *given)):
        report.detail(f"{path}: up to date")
        return
    from experiments.page.index import make_page

    with locked(results):
        content = make_page(config, results, config_path, incomplete=incomplete)
        write_atomically(path, content)
        Ledger(results).note(page(config, results, *given))
    report.detail(f"wrote {path}: {len(content) / 1e6:.2f} MB")
