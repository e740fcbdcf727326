"""The steps from a config to its results: measure, draw, check. Each takes what it needs from files of the one before.

What a step needs is imported when it is taken, so that the others start without it.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.config import Config
from experiments.harness.files import held, write_whole
from experiments.harness.grid import Sweep
from experiments.harness.paths import BENCHMARKS, EXAMPLES, RECORD, STORE, SUITE, figure_path
from experiments.harness.tables import TableError, csv_bytes, csv_name, is_current, read_sweep, write_sweep

if TYPE_CHECKING:
    import pandas as pd

    from experiments.figures import Tables

_CLAIMS = Path(__file__).parent / "record" / "claims.csv"


def measure(config: Config, sweeps: Sequence[Sweep], results: Path, jobs: int) -> None:
    """Measure the chunks of sweeps that the store has not, and write the tables that this changes."""
    from experiments.analysis import all_columns, analyse
    from experiments.harness.manifest import write_manifest
    from experiments.harness.pilot import pilot_summary
    from experiments.harness.progress import reporting
    from experiments.harness.run import fill, gather, survey, survey_pilots
    from experiments.harness.store import Store

    started = time.monotonic()
    with held(results):
        store = Store(results / STORE, config.seed)
        pilots = survey_pilots(store, sweeps)
        if pilots.todo:
            with reporting(pilots.seconds) as report:
                for _ in fill(store, sweeps, pilots, jobs, report.advance):
                    pass  # a sweep whose pilots are there
        work = survey(store, sweeps)
        to_measure = work.left()
        write_whole(results / "columns.csv", csv_bytes(all_columns(sorted({s.experiment for s in config.sweeps}))))
        with reporting(work.seconds) as report:
            for chunk in pilots.damaged + work.damaged:
                report.line(f"{store.path(chunk)} is damaged: measuring it again")
            for sweep in fill(store, sweeps, work, jobs, report.advance):
                if not to_measure[sweep.name] and is_current(results, config, sweep):
                    report.line(f"{results / csv_name(sweep.name, 'measured')}: measured before, nothing to do")
                    continue
                if sweep.precision:
                    for line in pilot_summary(store, sweep):
                        report.line(line)
                tables = analyse(sweep, gather(store, sweep))
                for path, alike in write_sweep(results, config, sweep, tables).items():
                    report.line(f"wrote {path}: {alike}")
        write_manifest(results, (pilots, work), jobs, time.monotonic() - started)


def draw(config: Config, sweeps: Sequence[Sweep], results: Path) -> None:
    """Draw the figures of sweeps and of the whole suite that are not there as they would be drawn.

    Raises:
        TableError: sweeps have no sound table; the figures of all others are drawn.
    """
    from experiments.figures import RECORD_FIGURES, SUITE_FIGURES
    from experiments.harness.drawn import Drawn

    sound, unsound = {}, {}
    for sweep in config.sweeps:
        try:
            sound[sweep.name] = read_sweep(results, config, sweep)
        except TableError as error:
            unsound[sweep.name] = error
    drawn = Drawn(results, config)

    def draw_figures(sweep: str, figures: Sequence[str], tables: Callable[[], "Tables"]) -> None:
        for figure in figures:
            done = "kept" if drawn.is_current(sweep, figure) else _drew(sweep, figure, tables(), results)
            drawn.note(sweep, figure)
            caption = figure_path(results, sweep, figure, ".txt").read_text(encoding="utf-8").strip()
            print(f"{done} {figure_path(results, sweep, figure, '.png')}: {caption}")

    def of_sweep(sweep: Sweep) -> "Tables":
        from experiments.analysis.suite import all_verdicts

        return {**sound[sweep.name], "suite": all_verdicts(sound)}

    def of_suite() -> "Tables":
        from experiments.analysis.suite import suite_tables

        return suite_tables([sweep for sweep in config.sweeps if sweep.name in sound], sound)

    def draw_sweep(sweep: Sweep) -> None:
        if sweep.name in unsound:
            raise unsound[sweep.name]
        draw_figures(sweep.name, sweep.figures, lambda: of_sweep(sweep))

    with held(results):
        _for_each(sweeps, draw_sweep)
        if any("tests" in tables for tables in sound.values()):
            draw_figures(SUITE, SUITE_FIGURES, of_suite)
        if (results / EXAMPLES).exists():
            draw_figures(RECORD, RECORD_FIGURES, lambda: {"examples": _read_examples(results)})


def _drew(sweep: str, figure: str, tables: "Tables", results: Path) -> str:
    from experiments.figures import load_figure
    from experiments.figures.style import render

    render(load_figure(figure), tables, results, sweep, figure)
    return "drew"


def check(config: Config, sweeps: Sequence[Sweep], results: Path) -> None:
    """Hold tables against config and checksums, and measured values against exact ones.

    Raises:
        TableError: a table is not whole.
        DisagreementError: measured and exact values are too far apart.
    """
    from experiments.analysis.check import check_table
    from experiments.analysis.suite import agreement

    tables = {}

    def check_sweep(sweep: Sweep) -> None:
        read = read_sweep(results, config, sweep)
        print(check_table(sweep, read))
        tables[sweep.name] = read
        if summary := agreement([sweep], tables).summary():
            print(f"  {summary}")

    _for_each(sweeps, check_sweep)
    suite = agreement(sweeps, tables)
    suite.raise_alarm()
    if summary := suite.summary():
        print(f"theory, sampler and error bars agree: {summary}")


def write_record(config: Config, results: Path) -> None:
    """Write record.csv: what published statements say, what was computed for them, the verdicts; and its examples.

    Made anew only where the tables or the source of the record changed.
    """
    from experiments.harness.fingerprint import source_fingerprint

    made_of = {sweep.name: (results / f"{sweep.name}.json").read_text(encoding="utf-8") for sweep in config.sweeps}
    source = source_fingerprint("experiments.record.build", "experiments.record.examples")
    paths, note = (results / f"{RECORD}.csv", results / EXAMPLES), results / STORE / RECORD

    def state() -> bytes:
        """What the record was made of, and what it is."""
        checksums = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (_CLAIMS, *paths))
        return "\n".join([source, *made_of.values(), *checksums]).encode()

    if all(path.exists() for path in (*paths, note)) and note.read_bytes() == state():
        print(f"{paths[0]}: made before, nothing to do")
        return
    from experiments.harness.compare import how_alike
    from experiments.record.build import build
    from experiments.record.examples import examples

    with held(results):
        for path, table in zip(paths, (build(_by_kind(config, results)), examples()), strict=True):
            content = csv_bytes(table)
            alike = how_alike(path.read_bytes() if path.exists() else None, content)
            write_whole(path, content)
            print(f"wrote {path}: {alike}")
        write_whole(note, state())


def whole_sweeps(config: Config, results: Path, *, incomplete: bool) -> list[Sweep]:
    """The sweeps whose tables are sound and whole; `TableError` if these are not all and `incomplete` is not given."""
    from experiments.page.provenance import sound_tables

    tables, _ = sound_tables(config, results, incomplete=incomplete)
    return [sweep for sweep in config.sweeps if sweep.name in tables]


def write_page(config: Config, results: Path, config_path: Path, *, incomplete: bool = False) -> None:
    """Write index.html, the page to look at, from tables, figures and record; anew only where one of them changed.

    Raises:
        TableError: a sweep has no sound table, and `incomplete` is not given.
    """
    from experiments.page.made import page_path, state

    path, note, given = page_path(results), results / STORE / "page", (config_path, incomplete)
    if note.exists() and note.read_bytes() == state(config, results, *given):
        print(f"{path}: made before, nothing to do")
        return
    from threadpoolctl import threadpool_limits

    from experiments.page.index import make_page

    with held(results), threadpool_limits(limits=1):
        content = make_page(config, results, config_path, incomplete=incomplete)
        write_whole(path, content)
        write_whole(note, state(config, results, *given))
    print(f"wrote {path}: {len(content) / 1e6:.2f} MB")


def measure_growth(results: Path) -> str:
    """Write cost.csv, time and memory of attention on this machine, which no two runs have alike; how both grow."""
    from experiments.analysis.growth import exponents
    from experiments.record.cost import measure_cost

    cost = measure_cost()
    write_whole(results / "cost.csv", csv_bytes(cost))
    lines = [cost.to_string(index=False)]
    for _, row in exponents(cost).iterrows():
        name = row["swept"]
        lines.append(f"time grows as {name}^{row['seconds']:.2f}, memory as {name}^{row['peak_bytes']:z.2f}")
    return "\n".join(lines)


def bench(config: Config, results: Path) -> str:
    """Write benchmarks.csv, which no two runs have alike, draw its figure, and give what was found."""
    from experiments.bench.eager import is_there
    from experiments.bench.measure import benchmark
    from experiments.bench.summary import growth_rows, over_floor, report
    from experiments.figures import load_figure
    from experiments.figures.style import render

    if not is_there():
        print("PyTorch is not installed: without it")
    later = {
        "tables": lambda folder: measure(config, config.sweeps, folder, jobs=1),
        "record": lambda folder: write_record(config, folder),
        "figures": lambda folder: draw(config, config.sweeps, folder),
        "check": lambda folder: check(config, config.sweeps, folder),
    }
    found = benchmark(config, later, print)
    write_whole(results / f"{BENCHMARKS}.csv", csv_bytes(found))
    tables = {"ratios": over_floor(found), "growth": growth_rows(found)}
    render(load_figure(BENCHMARKS), tables, results, BENCHMARKS, BENCHMARKS)
    return report(found)


def record_summary(results: Path) -> str:
    """Verdicts by source, and what is wrong with what is right."""
    from experiments.record.summary import summary

    return summary(results / f"{RECORD}.csv")


def _read_examples(results: Path) -> "pd.DataFrame":
    """The matrices that the record's figures show; names of rows and columns are text, whatever they look like."""
    import pandas as pd

    return pd.read_csv(results / EXAMPLES, dtype={"row": str, "column": str})


def _by_kind(config: Config, results: Path) -> "dict[str, pd.DataFrame]":
    """All tables by name: SWEEP for what was measured, SWEEP-KIND for what is derived."""
    tables = {}
    for sweep in config.sweeps:
        for kind, table in read_sweep(results, config, sweep).items():
            tables[sweep.name if kind == "measured" else f"{sweep.name}-{kind}"] = table
    return tables


def rewrite_readme(config: Config, results: Path) -> None:
    """Write the measured numbers of README.md anew from the tables."""
    from experiments.page.readme import rewrite

    path = Path("README.md")
    tables = {sweep.name: read_sweep(results, config, sweep) for sweep in config.sweeps}
    write_whole(path, rewrite(path.read_text(encoding="utf-8"), config.sweeps, tables, results).encode())


def _for_each(sweeps: Sequence[Sweep], act: Callable[[Sweep], None]) -> None:
    """Act on every sweep whose table is sound; name all others at the end."""
    problems = []
    for sweep in sweeps:
        try:
            act(sweep)
        except TableError as error:
            problems.append(str(error))
    if problems:
        raise TableError("\n".join(problems))
