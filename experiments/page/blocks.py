"""Generated parts of Markdown pages, between markers, from the files in results/ and the
declarations in the code.

A page has the markers `<!-- begin NAME -->` and `<!-- end NAME -->` in separate lines. Each of
`BLOCKS` appears exactly once in all pages together; a missing or repeated marker is an error.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from experiments.config.errors import Problem, TableError
from experiments.config.loader import load_config
from experiments.config.paths import FULL, FULL_CONFIG, STORED_CONFIG
from experiments.figures.draw import pictures_of
from experiments.figures.markup import Source, code, formulas, markdown
from experiments.kinds.figures import FIGURES, default_figures
from experiments.page import numbers
from experiments.page.diagnosis import (
    DIAGNOSIS_COLUMNS,
    printed_diagnosis,
    printed_heads,
)
from experiments.page.glossary import GLOSSARY
from experiments.studies import contributions
from experiments.tables.all_results import AllResults

_BLOCK = re.compile(r"(<!-- begin (?P<name>[a-z-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)


class BlockError(Problem):
    """A marker without a block, or a block without its marker."""


def rewrite(pages: Mapping[Path, str], folder: Path) -> dict[Path, str]:
    """Markdown pages, by path, with every marked block generated from the files in a results
    folder.

    Links in a block start at the folder of its page. Nothing is written.

    Raises:
        BlockError: a block does not have exactly one marker in all pages together, or the results
            lack a table that it shows.
    """
    shipped = AllResults(load_config(folder / STORED_CONFIG), folder)
    full = AllResults(load_config(FULL_CONFIG), folder / FULL)
    names = sorted(match["name"] for text in pages.values() for match in _BLOCK.finditer(text))
    if names != sorted(BLOCKS):
        raise BlockError(
            f"expected the blocks {', '.join(sorted(BLOCKS))}, once each, got {', '.join(names)}"
        )
    filled = {}
    for path, text in pages.items():
        source = Source(shipped, full, path.parent)

        def block(match: re.Match[str], source: Source = source) -> str:
            name = match["name"]
            try:
                return f"{match[1]}{BLOCKS[name](source)}\n{match[3]}"
            except TableError as error:
                missing = f"block {name}: {error}; make all writes tables; delete a block with its experiment"
                raise BlockError(missing) from None

        filled[path] = _BLOCK.sub(block, text)
    return filled


def _gallery(source: Source) -> str:
    """The figures of all sweeps: title, first sentence and picture, and a link to the table."""
    folder = source.shipped.folder
    sections = []
    for name, results in source.shipped.items():
        for picture in pictures_of(folder, results):
            title, caption = map(formulas, picture.words[:2])
            sentence = caption.splitlines()[0].rstrip(".")
            path, table = picture.path, folder / f"{name}.csv"
            sections.append(
                f"## {title}\n\n{sentence} ([table]({source.link(table)})).\n\n"
                f"![Figure {path.stem}]({source.link(path)})"
            )
    return "\n\n".join(sections)


def _diagnosis(_: Source) -> str:
    """The meaning of each column of a diagnosis, without standard errors and exact values."""
    rows = [
        (code(name), unit, meaning, code(formula))
        for name, (unit, meaning, formula) in DIAGNOSIS_COLUMNS.items()
    ]
    return markdown(["column", "unit", "meaning", "formula"], rows)


def _figures(_: Source) -> str:
    """Every possible figure of a sweep; a sweep that names none gets the default one."""
    rows = [
        (
            code(figure.of),
            code(name),
            figure.shows,
            figure.lines.x if figure.lines else "",
            "yes" if name in default_figures(figure.of) else "",
        )
        for name, figure in FIGURES.items()
    ]
    return markdown(["sweeps of", "figure", "shows", "along", "by default"], rows)


BLOCKS: dict[str, Callable[[Source], str]] = {
    "gallery": _gallery,
    "glossary": lambda _: markdown(["term", "meaning"], GLOSSARY.items()),
    "dimension": numbers.dimension,
    "network-growth": numbers.network_growth,
    "networks": numbers.networks,
    "power": numbers.power,
    "statements": numbers.statement_counts,
    "diagnosis": _diagnosis,
    "diagnose-example": lambda _: printed_diagnosis(),
    "diagnosed": lambda _: printed_heads(),
    "figures": _figures,
}
for contribution in contributions():
    BLOCKS |= contribution.blocks
