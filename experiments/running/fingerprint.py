"""Stamps: a result is up to date if it has the stamp of today's inputs, source and libraries.

The source is that of the code which measures an experiment for its chunks, that of measuring, theory
and analysis for a table, and that of both packages for a picture or the page. The source of folders is
the hash of their files, without docstrings and lines of comment. It is cached: a process sees the
source as it was when first asked.
"""

import hashlib
import json
import re
from collections.abc import Collection
from functools import cache
from importlib.metadata import version
from pathlib import Path

from experiments.measuring.experiment import AnyExperiment

ROOT = Path(__file__).parents[2]
# What measures any experiment: no theory.
_SHARED = "sdpa/*.py", "experiments/measuring/*.py"
# Parts of an experiment, entries and folders that come after measuring, and after tables.
_AFTER_MEASURING = "example", "figures", "drawing", "tables", "__init__", "__main__"
_AFTER_TABLES = "example", "figures", "drawing", "studies", "page", "commands", "one_page"
_NOT_READ = ".pyc", ".md", ""  # suffixes of files that no command reads, such as LICENSE
# A module is read as the body of a header. `tokenize` and `ast` would take most of a second.
_HEADER = rb"(\n[ \t]*(?:(?:async|class|def)\b|\))[^#\n]*:(?:[ \t]*#.*)?)"
_DOCSTRING = rb'\n[ \t]*r?(?>"""[\s\S]*?""")[ \t]*(?=\n)'
_COMMENT = rb"\n[ \t]*#.*"
_KEPT = rb"""(#.*|("{3}|'{3}|"|')(?:[^\\]|\\[\s\S])*?\3)"""  # a comment behind code, a text
_LEXEME = re.compile(rb"""(?=["'\n#])(?:%b%b|%b|%b)""" % (_HEADER, _DOCSTRING, _COMMENT, _KEPT))


def stamp(inputs: object, source: str, *packages: str) -> str:
    """SHA-256 of all that determines a result: its inputs as JSON values, its source, and the versions
    of packages.
    """
    return hash_of([inputs, source, versions(*packages)])


def hash_of(value: object) -> str:
    """SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@cache
def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages; by default of NumPy and SciPy, whose numbers make up a
    measurement.

    Raises:
        PackageNotFoundError: a package is not installed.
    """
    return {name: version(name) for name in packages or ("numpy", "scipy")}


def measuring_source(*experiments: AnyExperiment) -> str:
    """The source that measures experiments: their folders but `tables`, `figures` and `example`, all of
    `measuring`, and the modules of `sdpa` itself.
    """
    folders = (f"experiments/kinds/{experiment.name}/**/*" for experiment in experiments)
    return source(*_SHARED, *folders, but=_AFTER_MEASURING)


def theory_source() -> str:
    """The source of exact values."""
    return source("sdpa/theory/**/*.py")


def tables_source() -> str:
    """The source of tables: attention, its theory, and the suite without figures, page and commands."""
    return source("sdpa/*.py", "sdpa/theory/**/*.py", "experiments/**/*", but=_AFTER_TABLES)


def suite_source() -> str:
    """The source of both packages."""
    return source("sdpa/**/*", "experiments/**/*")


@cache
def source(*patterns: str, but: Collection[str] = ()) -> str:
    """SHA-256 of the files of this clone that match patterns, by name; without modules and folders of
    some names.
    """
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in ROOT.glob(pattern)}):
        names = {part.partition(".")[0] for part in path.relative_to(ROOT).parts}
        if path.is_file() and path.suffix not in _NOT_READ and names.isdisjoint(but):
            content = path.read_bytes()
            code = _code(content) if path.suffix == ".py" else content
            name = path.relative_to(ROOT).as_posix()
            digest.update(f"{name} {hashlib.sha256(code).hexdigest()}\n".encode())
    return digest.hexdigest()


@cache  # folders overlap
def _code(content: bytes) -> bytes:
    """A module without docstrings and lines of comment."""
    return _LEXEME.sub(rb"\1\2", b"\nclass Module:\n" + content)
