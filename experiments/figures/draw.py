"""The figures of sweeps as files: those out of date are drawn again."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from experiments.config.errors import attempt, fail, in_part
from experiments.config.paths import (
    ON_REQUEST,
    SHIPPED_RESULTS,
    figure_path,
)
from experiments.config.sweep import Sweep
from experiments.figures.captions import words_of
from experiments.figures.picture import Drawing, Picture, Words
from experiments.figures.shown import Shown, shown
from experiments.kinds.figures import FIGURES
from experiments.tables.all_results import AllResults
from experiments.tables.products import Product, build
from experiments.tables.reporter import Reporter
from experiments.tables.results import Results
from experiments.tables.stored import Stored

_MOST_TITLES = 3  # in the summary
_SWEEPS = {figure.finding.sweep for figure in FIGURES.values() if figure.finding}
_NOTHING_TO_DO = "Plain titles stand instead; nothing needs to be done."


def draw_sweeps(
    all_results: AllResults,
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
    folder = all_results.folder
    sound = [all_results[sweep.name] for sweep in sweeps if sweep.name in all_results]
    products = [*figure_products(folder, sound, formats)]
    # An unsound table is an error, after the figures of all others.
    required = [partial(all_results.require, sweep.name) for sweep in sweeps]
    attempt([partial(build, folder, products, report, phase="figures", jobs=jobs), *required])
    words = [product.parameters for product in products]
    titles = dict.fromkeys(text.title for text in words if text.is_found)
    for title in [*titles][:_MOST_TITLES]:
        report.verdict("found", title)
    # Other folders have the results of a config that may lack any of these sweeps.
    is_main = folder.resolve() == SHIPPED_RESULTS.resolve()
    names = {sweep.name for sweep in all_results.config.sweeps}
    for line in [*lacking(sound), *left_out(words, _SWEEPS - names if is_main else ())]:
        report.verdict("left out", line, None)


def lacking(sweeps: Iterable[Results]) -> Iterator[str]:
    """A line for each figure with metrics that the table of its sweep lacks."""
    for results in sweeps:
        for figure in results.sweep.figures:
            if lost := results.lacking(FIGURES[figure].metrics):
                yield f"{', '.join(lost)} in {results.name}/{figure}: its table lacks it; run measures it"


def left_out(words: Iterable[Words], absent: Collection[str]) -> Iterator[str]:
    """A line for each reason why titles of findings are missing.

    Args:
        words: of the figures.
        absent: the names of sweeps that the config lacks.
    """
    lost = {text.lost: text.reason for text in words if text.lost}
    for reason in dict.fromkeys(lost.values()):
        titles = ", ".join(f'"{title}"' for title in lost if lost[title] == reason)
        yield f"{titles}: {reason}. {_NOTHING_TO_DO}"
    if absent:
        yield f"findings go by names, and no sweep is named {', '.join(sorted(absent))}. {_NOTHING_TO_DO}"


def pictures_of(folder: Path, results: Results) -> Iterator[Picture]:
    """The pictures of the figures of a sweep. One that cannot be made has no title, and raises the
    error when it is drawn.
    """
    for figure in map(FIGURES.__getitem__, results.sweep.figures):
        lost = results.lacking(figure.metrics)
        # A picture of lines is drawn without the panels of these metrics.
        if lost and (not figure.lines or len(lost) == len(figure.metrics)):
            continue
        path = figure_path(folder, results.name, figure.name)
        try:
            selection = shown(figure, results)
            yield Picture(path, words_of(figure, selection), partial(_plot, selection))
        except Exception as error:
            named = in_part(f"{path} not made", error)
            yield Picture(path, Words("", ""), partial(fail, named))


def figure_products(
    folder: Path,
    sweeps: Iterable[Results],
    formats: Collection[str] = (),
) -> Iterator[Product]:
    """The figures of sweeps as files; their words are parameters of the products."""
    for results in sweeps:
        inputs = (Stored(folder, results.sweep).sidecar,)
        for picture in pictures_of(folder, results):
            further = map(picture.path.with_suffix, ON_REQUEST)
            asked = [path for path in further if path.suffix[1:] in formats or path.exists()]
            make = partial(picture.render, [path.suffix for path in asked])
            yield Product((picture.path, *asked), make, inputs, picture.words)


def _plot(selection: Shown) -> Drawing:
    from experiments.figures.rendering import draw  # takes a second to load

    return draw(selection)
