"""The figures of sweeps as files: those out of date are drawn again."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from experiments.config.errors import attempt, counted, fail, in_part
from experiments.config.paths import (
    DRAWN,
    ON_REQUEST,
    SHIPPED_RESULTS,
    figure_path,
    sidecar_path,
)
from experiments.config.sweep import Sweep
from experiments.figures.captions import finding_of, lost_findings
from experiments.kinds.figures import FIGURES
from experiments.tables.products import Product, build
from experiments.tables.reporter import FLAGGED, Reporter
from experiments.tables.results import Results
from experiments.tables.study import Study

_TOLD = 3  # titles in the summary
_BACK = "; the shipped config has them all: git checkout config.yaml && make all"


def draw_sweeps(
    study: Study,
    sweeps: Sequence[Sweep],
    *,
    jobs: int | None = None,
    formats: Collection[str] = (),
    report: Reporter,
) -> None:
    """Draw the outdated figures of sweeps.

    Raises:
        TableError: a sweep has no sound table; the figures of all others are drawn.
    """
    folder = study.folder
    drawn = [study[sweep.name] for sweep in sweeps if sweep.name in study]
    products = figure_products(folder, drawn, formats)
    # An unsound table is an error, after the figures of all others.
    required = [partial(study.require, sweep.name) for sweep in sweeps]
    attempt([partial(build, folder, products, report, jobs=jobs), *required])
    titles = [product.parameters[0] for product in products if product.parameters]
    for title in [*dict.fromkeys(titles)][:_TOLD]:
        report.verdict("found", title)
    if lost := [reason for each in drawn for reason in lost_findings(each)]:
        back = _BACK if folder.resolve() == SHIPPED_RESULTS.resolve() else ""
        text = f"{counted(len(lost), 'figure')} with a plain title instead: {'; '.join(lost)}{back}"
        report.verdict("findings", text, FLAGGED)


def figure_products(
    results: Path,
    drawn: Sequence[Results],
    formats: Collection[str] = (),
) -> list[Product]:
    """The figures of sweeps."""
    products = []
    for of, figure in [(each, name) for each in drawn for name in each.sweep.figures]:
        stem = figure_path(results, of.name, figure, "")
        asked = [
            each for each in ON_REQUEST if each[1:] in formats or stem.with_suffix(each).exists()
        ]
        files = tuple(stem.with_suffix(suffix) for suffix in (*DRAWN, *asked))
        inputs = (sidecar_path(results, of.name),)
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
