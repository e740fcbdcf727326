"""The figures of sweeps as files: those out of date are drawn again."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from experiments.analysis.agreement import agreement_tables
from experiments.analysis.results import Results
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.declarations import FIGURES, figures_of
from experiments.errors import attempt, counted, fail, in_part
from experiments.figures.findings import finding_of, lost_findings
from experiments.output.products import Product, build
from experiments.output.reporter import FLAGGED, Reporter
from experiments.output.study import Study
from experiments.paths import (
    ALL_SWEEPS,
    DRAWN,
    ON_REQUEST,
    SHIPPED_RESULTS,
    figure_path,
    sidecar_path,
)

_TOLD = 3  # titles in the summary
_BACK = "; the shipped config has them all: git checkout config.yaml && make all"


def draw(
    study: Study,
    sweeps: Sequence[Sweep],
    *,
    jobs: int | None = None,
    formats: Collection[str] = (),
    report: Reporter,
) -> None:
    """Draw the outdated figures of sweeps, and of all sweeps together.

    Raises:
        TableError: a sweep has no sound table; the figures of all others are drawn.
    """
    folder = study.folder
    drawn = [study[sweep.name] for sweep in sweeps if sweep.name in study]
    # An unsound table is an error, after the figures of all others.
    required: list[Callable[[], object]] = [partial(study.require, sweep.name) for sweep in sweeps]
    together = Results(None, {})
    try:
        together = agreement_tables(study.agreement(study))
    except Exception as error:
        required.append(partial(fail, in_part(f"figures of {ALL_SWEEPS}", error)))
    products = figures(study.config, folder, drawn, together, formats)
    attempt([partial(build, folder, products, report, jobs=jobs), *required])
    titles = [product.parameters[0] for product in products if product.parameters]
    for title in [*dict.fromkeys(titles)][:_TOLD]:
        report.verdict("found", title)
    if lost := [reason for each in drawn for reason in lost_findings(each)]:
        back = _BACK if folder.resolve() == SHIPPED_RESULTS.resolve() else ""
        text = f"{counted(len(lost), 'figure')} with a plain title instead: {'; '.join(lost)}{back}"
        report.verdict("findings", text, FLAGGED)


def figures(
    config: Config,
    results: Path,
    drawn: Sequence[Results],
    together: Results,
    formats: Collection[str] = (),
) -> list[Product]:
    """The figures of sweeps, and of all sweeps together if these have tables."""
    shown = [(each.name, each, figure) for each in drawn for figure in each.sweep.figures]
    if together:
        shown += [(ALL_SWEEPS, together, figure) for figure in figures_of(ALL_SWEEPS)]
    products = []
    for name, of, figure in shown:
        stem = figure_path(results, name, figure, "")
        old = [each for each in ON_REQUEST if stem.with_suffix(each).exists()]
        asked = [each for each in ON_REQUEST if each in old or each[1:] in formats]
        files = tuple(stem.with_suffix(suffix) for suffix in (*DRAWN, *asked))
        behind = [sweep.name for sweep in config.sweeps if name in (sweep.name, ALL_SWEEPS)]
        inputs = tuple(sidecar_path(results, sweep) for sweep in behind)
        make: Callable[[], list[bytes]]
        try:
            finding = finding_of(figure, of)
            make = partial(_drawn, figure, of, finding, asked)
        except Exception as error:
            finding = None
            make = partial(fail, in_part(f"{files[0]} not made", error))
        products.append(Product(files, make, inputs, finding))
    return products


def _drawn(
    figure: str, results: Results, finding: tuple[str, str] | None, formats: Sequence[str]
) -> list[bytes]:
    from experiments.figures.rendering import render_figure  # takes a second to load

    return [*render_figure(FIGURES[figure], results, finding=finding, formats=formats).values()]
