"""Hashes of source: a number depends on its parameters and on the code that computes it.

What is up to date has the inputs and the source of today: a chunk that of the code which measures its
experiment, and a table, a picture or the page that of all code. The source of folders is the hash of
their files, without docstrings and lines of comment. Results are cached: a process sees the source as
it was when first asked.
"""

import hashlib
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

from experiments.measuring.experiment import AnyExperiment

ROOT = Path(__file__).parents[2]
# What measures any experiment: no theory, and no tool.
_SHARED = "sdpa/*.py", "experiments/measuring/*.py"
# Parts of an experiment that measure nothing.
_LATER = {"example", "figures", "tables"}
_DOCSTRING = rb'(?:\A|(?<=:\n))[ \t]*r?"""[\s\S]*?"""[ \t]*\n'
_COMMENT = rb"^[ \t]*#.*\n"
_NO_CODE = re.compile(rb"%b|%b" % (_DOCSTRING, _COMMENT), re.MULTILINE)


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
    return source(*_SHARED, *(f"experiments/kinds/{each.name}/**/*" for each in experiments))


def theory_source() -> str:
    """The source of exact values."""
    return source("sdpa/theory/*.py")


def suite_source() -> str:
    """The source of both packages."""
    return source("sdpa/**/*", "experiments/**/*", later=True)


@cache
def source(*patterns: str, later: bool = False) -> str:
    """SHA-256 of the files of this clone that match patterns, by name; without the parts of experiments
    that measure nothing, unless `later`.
    """
    found = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in ROOT.glob(pattern)}):
        parts = {part.partition(".")[0] for part in path.relative_to(ROOT).parts[3:]}
        if path.is_file() and path.suffix != ".pyc" and (later or not parts & _LATER):
            content = path.read_bytes()
            code = _NO_CODE.sub(b"", content) if path.suffix == ".py" else content
            name = path.relative_to(ROOT).as_posix()
            found.update(f"{name} {hashlib.sha256(code).hexdigest()}\n".encode())
    return found.hexdigest()
