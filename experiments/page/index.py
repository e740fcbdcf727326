"""The page index.html of a results folder, from its tables, figures, and the statements of others
that it judges.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from experiments.config.errors import in_part
from experiments.config.paths import FIGURE_FOLDER
from experiments.figures.markup import digits, typeset
from experiments.page import explorer
from experiments.page.cards import cards
from experiments.page.glossary import explained
from experiments.page.pictures import pictures, study_pictures
from experiments.page.provenance import provenance
from experiments.page.quiz import questions
from experiments.page.sections import Section, section_of
from experiments.page.statements import grouped, table_path
from experiments.running.fingerprint import versions
from experiments.tables.all_results import AllResults
from experiments.tables.products import MADE_WITH, IncompleteError, Product, build
from experiments.tables.reporter import Reporter
from experiments.tables.stored import Stored
from sdpa.scaling import SCALED


def write_page(all_results: AllResults, first: Collection[str], report: Reporter) -> None:
    """Write index.html from tables, figures and published statements if one of them changed."""
    folder = all_results.folder
    unsound = map(str, all_results.unsound.values())
    config = all_results.config
    options = [config.text, config.path.as_posix(), str(folder), *first, *unsound]
    sources = tuple(_sources(all_results))
    path = folder / "index.html"
    page = Product((path,), lambda: [make_page(all_results, first)], sources, options)
    build(folder, [page], report, phase="page", quietly=True)


def _sources(all_results: AllResults) -> Iterator[Path]:
    """Every file whose content appears on the page; the JSON of a sweep vouches for its tables, and a
    picture has its words in it.
    """
    yield table_path(all_results.folder)
    yield from (Stored(all_results.folder, sweep).sidecar for sweep in all_results.config.sweeps)
    yield from sorted((all_results.folder / FIGURE_FOLDER).rglob("*.png"))
    for picture in chain.from_iterable(study_pictures(all_results.folder).values()):
        yield all_results.folder / picture.file


def make_page(all_results: AllResults, first: Collection[str] = ()) -> bytes:
    """The page of a config's results, as UTF-8 bytes.

    Styles, scripts and the first figures are part of the file; further figures, and tables, are
    files beside it. A notice at its top names the sweeps without sound tables.

    Args:
        all_results: the results, whose folder also has the figures. The page shows the path of its config as
            given, as it does the folder.
        first: names of the sweeps that the page begins with.

    Raises:
        IncompleteError: some sections could not be made; the page names them at its top.
    """
    failed = []

    def part(name: str, make: Callable[[], Any], instead: Any) -> Any:
        try:
            return make()
        except Exception as error:
            failed.append(in_part(f"page, section {name}", error))
            return instead

    folder = all_results.folder
    drawn = pictures(all_results, first)
    known = part("cards", lambda: [*cards(all_results)], [])
    # An explorer of textbook rows beside other rows would show numbers that are not theirs.
    is_shown = any(card.subject == "Saturation" for card in known)
    has_law = is_shown or explorer.follow_law(all_results.values())
    sections = [
        part(
            name, partial(section_of, results, drawn[name]), Section(name, results.experiment.name)
        )
        for name, results in all_results.items()
    ]
    page = _template().render(
        cards=known,
        questions=part("quiz", lambda: [*questions(known)], []) if known else [],
        explorer=part("explorer", lambda: explorer.explorer(all_results.values()), {})
        if has_law
        else {},
        of_rows=explorer,
        folder=folder,
        scaled=SCALED,
        everything=sections,
        first=first,
        of_studies=study_pictures(folder),
        statements=part("statements", lambda: grouped(folder), []),
        statements_csv=table_path(Path()),
        made=provenance(all_results),
        made_with=versions(*MADE_WITH),
        config=all_results.config,
        failed=failed,
    )
    content = page.encode()
    if failed:
        raise IncompleteError([content], failed)
    return content


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"typeset": typeset, "digits": digits, "explained": explained}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment.get_template("index.html.j2")
