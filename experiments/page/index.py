"""The page index.html; its content comes from the tables, captions, drawings and statements in results/."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from experiments.claims.summary import not_included
from experiments.claims.table import table_path
from experiments.folders import SHIPPED_CONFIG
from experiments.harness.config import Config
from experiments.harness.fingerprint import versions
from experiments.page import explorer, opening
from experiments.page.artifact import FOLDER, MADE_WITH, SCRIPTS, TEMPLATE
from experiments.page.downloads import downloads
from experiments.page.entries import OF_OPENING, Entry, chosen, entries
from experiments.page.findings import Writer
from experiments.page.provenance import provenance, sound_tables
from experiments.page.row_means import RELATIVE_ERROR
from experiments.page.typeset import typeset

LARGEST = 1_999_999  # bytes of a page, so that it can be sent by mail
STATEMENTS_CSV = table_path(Path()).as_posix()


def make_page(config: Config, results: Path, config_path: Path, *, incomplete: bool = False) -> bytes:
    """The page of a config's results, as UTF-8 bytes.

    Styles, scripts, fonts, drawings and tables are part of the file, which works alone. It names the tables and figures
    for which it has no room.

    Args:
        config: the config of the results.
        results: the folder of its tables and figures.
        config_path: the path of the config; the page shows it as given, or only the file name of an absolute path.
        incomplete: if sweeps are missing, make a page of the others, with a notice at its top.

    Raises:
        TableError: a sweep has no sound table, and `incomplete` is false.
    """
    tables, problems = sound_tables(config, results, incomplete=incomplete)
    sound = [sweep for sweep in config.sweeps if sweep.name in tables]
    published = entries(results)
    writer = Writer(config, results, tables, published)
    sections, diagnosis, examples = list(writer.sections()), writer.diagnosis(), writer.examples()
    loader = FileSystemLoader(FOLDER)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"typeset": typeset, "power": _power}
    csvs = list(dict.fromkeys(csv for section in sections for csv in section.csvs))
    csvs += [STATEMENTS_CSV] if published else []
    shipped = config_path == SHIPPED_CONFIG
    render = functools.partial(
        environment.get_template(TEMPLATE).render,
        law=explorer.LAW,
        # Their sentences name no inputs, so that only the config that they were written for shows them.
        effects=opening.effects(sound, tables) if shipped else [],
        non_effects=[*opening.non_effects(sound, tables), *_corrected(published)] if shipped else [],
        explorer=explorer.explorer(sound, tables),
        positions=explorer.POSITIONS,
        relative_error=RELATIVE_ERROR,
        sections=sections,
        diagnosis=diagnosis,
        published=published,
        not_included=not_included(),
        examples=examples,
        drawings=writer.drawings,
        csvs=csvs,
        statements_csv=STATEMENTS_CSV,
        made=provenance(config, results, tables, problems),
        made_with=versions(*MADE_WITH),
        config_name=config_path.name if config_path.is_absolute() else config_path.as_posix(),
        shipped=shipped,
        scripts=SCRIPTS,
        include=_include,
        json=_json,
        markup=Markup,
    )
    room = LARGEST - len(render(downloads={}).encode())
    return render(downloads=downloads(results, csvs, room)).encode()


def _corrected(published: list[Entry]) -> Iterator[opening.Statement]:
    """The published statements that the first screen corrects."""
    for name, head in OF_OPENING.items():
        for entry in chosen(published, [name]):
            yield opening.Statement(head, f"{entry.note}.")


def _include(name: str) -> Markup:
    """The text of a style sheet or script, unchanged."""
    return Markup((FOLDER / name).read_text(encoding="utf-8"))


def _json(value: Any) -> Markup:
    r"""Data for a script, escaped so that no text in it can end the script element.

    >>> str(_json({"note": "</script>"}))
    '{"note":"\\u003c/script>"}'
    """
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def _power(value: float) -> Markup:
    r"""A small number with its power of ten.

    >>> str(_power(3.2e-7))
    '3.2\xa0×\xa010<sup>−7</sup>'
    """
    digits, _, exponent = f"{value:.1e}".partition("e")
    return Markup("{}\u00a0×\u00a010<sup>{}</sup>").format(digits, str(int(exponent)).replace("-", "−"))
