"""The figures of sweeps as files: those out of date are drawn again."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from experiments.analysis.agreement import agreement_tables
from experiments.analysis.results import Results
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.declarations import FIGURES, figures_of
from experiments.engine.check import sound
from experiments.engine.products import Product, build
from experiments.engine.reporter import FLAGGED, VERBOSE, Reporter
from experiments.engine.tables import read_sweep
from experiments.errors import attempt, counted
from experiments.figures.findings import finding_of, lost_findings
from experiments.paths import ALL_SWEEPS, DRAWN, HOME, ON_REQUEST, figure_path

_BACK = "; the shipped config has them all: git checkout config.yaml && make all"


def draw(
    config: Config,
    sweeps: Sequence[Sweep],
    results: Path,
    *,
    jobs: int | None = None,
    formats: Collection[str] = (),
    report: Reporter = VERBOSE,
) -> None:
    """Draw the outdated figures of sweeps, and of all sweeps together.

    Raises:
        TableError: a sweep has no sound table; the figures of all others are drawn.
    """
    found = sound(config, results)

    def draw_sound() -> None:
        products = figures(config, sweeps, results, found, formats)
        build(results, products, report, jobs=jobs)

    # An unsound table is an error, after the figures of all others.
    unsound = [sweep for sweep in sweeps if sweep.name not in found]
    attempt([draw_sound, *(partial(read_sweep, results, sweep) for sweep in unsound)])
    drawn = [found[sweep.name] for sweep in sweeps if sweep.name in found]
    if lost := [reason for each in drawn for reason in lost_findings(each)]:
        back = _BACK if results.resolve() == HOME.resolve() else ""
        text = f"{counted(len(lost), 'figure')} with a plain title instead: {'; '.join(lost)}{back}"
        report.verdict("findings", text, FLAGGED)


def figures(
    config: Config,
    sweeps: Sequence[Sweep],
    results: Path,
    found: Mapping[str, Results],
    formats: Collection[str] = (),
) -> list[Product]:
    """The figures of those sweeps that have results, and of all sweeps together."""
    shown = [
        (sweep.name, found[sweep.name], name)
        for sweep in sweeps
        if sweep.name in found
        for name in sweep.figures
    ]
    if together := agreement_tables(found.values()):
        shown += [(ALL_SWEEPS, together, name) for name in figures_of(ALL_SWEEPS)]

    def product(name: str, of: Results, figure: str) -> Product:
        stem = figure_path(results, name, figure, "")
        finding = finding_of(f"{name}/{figure}", of)
        asked = [
            each
            for each in ON_REQUEST
            if each[1:] in formats or stem.with_name(f"{stem.name}{each}").exists()
        ]
        files = tuple(stem.with_name(f"{stem.name}{suffix}") for suffix in (*DRAWN, *asked))
        behind = [sweep.name for sweep in config.sweeps if name in (sweep.name, ALL_SWEEPS)]
        inputs = tuple(results / f"{sweep}.json" for sweep in behind)
        return Product(files, partial(_drawn, figure, of, finding, asked), inputs, finding)

    return [product(*each) for each in shown]


def _drawn(
    figure: str, results: Results, finding: tuple[str, str] | None, formats: Sequence[str]
) -> list[bytes]:
    from experiments.figures.rendering import render_figure  # takes a second to load

    return [*render_figure(FIGURES[figure], results, finding=finding, formats=formats).values()]
