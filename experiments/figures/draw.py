"""The figures of sweeps as files: those out of date are drawn again."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from experiments.analysis.agreement import agreement_tables
from experiments.analysis.derived import Tables
from experiments.config.loader import Config
from experiments.config.problems import attempt, counted
from experiments.config.sweep import Sweep
from experiments.figures.declared import FIGURES, figures_of
from experiments.figures.findings import dropped, told
from experiments.run.check import sound
from experiments.run.paths import ALL_SWEEPS, DRAWN, HOME, ON_REQUEST, figure_path
from experiments.run.products import Product, build
from experiments.run.reporter import ALOUD, FLAGGED, Reporter
from experiments.run.tables import read_sweep

_BACK = "; the shipped config has them all: git checkout config.yaml && make all && make prune"


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
    tables = dict(sound(config, results))
    # An unsound table is an error, after the figures of all others.
    unsound = (partial(read_sweep, results, config, sweep) for sweep in sweeps if sweep.name not in tables)
    attempt([lambda: build(results, figures(config, sweeps, results, tables, formats), report, jobs=jobs), *unsound])
    lost = [each for sweep in sweeps if sweep.name in tables for each in dropped(sweep, tables[sweep.name])]
    if lost:
        back = _BACK if results.resolve() == HOME.resolve() else ""
        text = f"{counted(len(lost), 'figure')} with a plain title instead: {'; '.join(lost)}{back}"
        report.verdict("findings", text, FLAGGED)


def figures(
    config: Config, sweeps: Sequence[Sweep], results: Path, tables: Mapping[str, Tables], formats: Collection[str] = ()
) -> list[Product]:
    """The figures of those sweeps that have tables, and of all sweeps together."""
    tables = dict(tables)
    shown = [(sweep.name, figure) for sweep in sweeps if sweep.name in tables for figure in sweep.figures]
    named = {sweep.name: sweep for sweep in config.sweeps}
    if together := agreement_tables([sweep for sweep in config.sweeps if sweep.name in tables], tables):
        tables[ALL_SWEEPS] = together
        shown += [(ALL_SWEEPS, figure) for figure in figures_of(ALL_SWEEPS)]

    def product(name: str, figure: str) -> Product:
        stem, finding = figure_path(results, name, figure, ""), told(name, figure, named.get(name), tables[name])
        asked = [each for each in ON_REQUEST if each[1:] in formats or stem.with_name(f"{stem.name}{each}").exists()]
        files = tuple(stem.with_name(f"{stem.name}{suffix}") for suffix in (*DRAWN, *asked))
        behind = [sweep.name for sweep in config.sweeps if name in (sweep.name, ALL_SWEEPS)]
        inputs = tuple(results / f"{sweep}.json" for sweep in behind)
        return Product(files, partial(_drawn, figure, tables[name], finding, asked), inputs, finding)

    return [product(*each) for each in shown]


def _drawn(figure: str, tables: Tables, finding: tuple[str, str] | None, formats: Sequence[str]) -> list[bytes]:
    from experiments.figures.rendering import render_figure  # takes a second to load

    return [*render_figure(FIGURES[figure], tables, finding=finding, formats=formats).values()]
