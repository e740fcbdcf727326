"""The page index.html; its content comes from the tables, captions, drawings and statements in results/."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from experiments.folders import SHIPPED_CONFIG
from experiments.harness.config import Config
from experiments.harness.fingerprint import versions
from experiments.page import opening, slider
from experiments.page.artifact import FOLDER, MADE_WITH, TEMPLATE
from experiments.page.entries import OF_OPENING, Entry, chosen, entries
from experiments.page.findings import Writer
from experiments.page.provenance import provenance, sound_tables
from experiments.page.typeset import typeset
from experiments.statements.summary import not_included


def make_page(config: Config, results: Path, config_path: Path, *, incomplete: bool = False) -> bytes:
    """The page of a config's results, as UTF-8 bytes.

    Styles, scripts and drawings are part of the file; links lead to tables, and to figures without room on the page.

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
    sections, examples = list(writer.sections()), writer.examples()
    loader = FileSystemLoader(FOLDER)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"typeset": typeset, "power": _power}
    text = environment.get_template(TEMPLATE).render(
        effects=opening.effects(sound, tables),
        non_effects=[*opening.non_effects(sound, tables), *_corrected(published)],
        slider=slider,
        expectations=slider.expectations(),
        vectors=slider.vectors(),
        sections=sections,
        published=published,
        not_included=not_included(),
        examples=examples,
        glyphs=Markup(writer.drawings.glyphs()),
        made=provenance(config, results, tables, problems),
        made_with=versions(*MADE_WITH),
        config_name=config_path.name if config_path.is_absolute() else config_path.as_posix(),
        shipped=config_path == SHIPPED_CONFIG,
        include=_include,
        json=_json,
        markup=Markup,
    )
    return text.encode()


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
