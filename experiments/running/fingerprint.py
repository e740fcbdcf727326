"""Hashes of source: a number depends on its parameters and on the code that computes it.

Results are cached: a process sees the source as it was when first asked.
"""

import ast
import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TOOLS = (
    "theory",
    "diagnosis",
    "heads",
    "auditing",
    "command",
)  # parts of sdpa that measure nothing
_AFTER = (
    "tables.py",
    "figures.py",
    "figures",
)  # parts of an experiment that follow its measurements
# Code of metrics of rows: only what measures rows depends on it.
_ROWS = "experiments.measuring.rows"
_OF_ROWS = ("sdpa/diagnostics.py", "sdpa/row_tiles.py", "experiments/measuring/rows")


@cache
def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages; by default of NumPy and SciPy, whose numbers make up a
    measurement.

    Raises:
        PackageNotFoundError: a package is not installed.
    """
    return {name: version(name) for name in packages or ("numpy", "scipy")}


@cache
def measuring_source(*experiments: str) -> str:
    """SHA-256 of the code that measures experiments: of their folders, and of what they share.

    Comments, docstrings and layout do not count.
    """
    shared = [
        path
        for path in ROOT.glob("sdpa/**/*.py")
        if path.relative_to(ROOT).parts[1].removesuffix(".py") not in _TOOLS
    ]
    shared += ROOT.glob("experiments/measuring/**/*.py")
    own = [path for name in experiments for path in _measuring_files(name)]
    if not any(_ROWS in path.read_text() for path in own if path.suffix == ".py"):
        shared = [path for path in shared if not _is_of_rows(path)]
    return _hash([*shared, *own])


def _measuring_files(experiment: str) -> list[Path]:
    folder = ROOT / "experiments" / "kinds" / experiment
    files = folder.glob("**/*.*")
    return [path for path in files if path.relative_to(folder).parts[0] not in _AFTER]


def _is_of_rows(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(_OF_ROWS)


@cache
def theory_source() -> str:
    """SHA-256 of the code of exact values, without comments, docstrings and layout."""
    return _hash(ROOT.glob("sdpa/theory/**/*.py"))


@cache
def suite_source() -> str:
    """SHA-256 of all files of both packages, to the byte."""
    files = [*ROOT.glob("sdpa/**/*.*"), *ROOT.glob("experiments/**/*.*")]
    return _hash((path for path in files if path.suffix != ".pyc"), whole=True)


@cache
def commit() -> dict[str, str | bool] | None:
    """The commit of this clone, and whether both packages are as it has them; None without git."""
    git = ["git", "-C", str(ROOT)]
    status = [*git, "status", "--porcelain", "--", "sdpa", "experiments"]
    try:
        head, changed = (
            subprocess.run(each, capture_output=True, text=True, check=True).stdout.strip()
            for each in ([*git, "rev-parse", "HEAD"], status)
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": head, "clean": not changed}


def _hash(paths: Iterable[Path], *, whole: bool = False) -> str:
    found = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".py" and not whole:
            content = _bare(ast.parse(content)).encode()
        name = path.relative_to(ROOT).as_posix()
        found.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return found.hexdigest()


def _bare(node: ast.AST) -> str:
    r"""The code of a syntax tree without comments, docstrings and layout.

    >>> _bare(ast.parse('"A module."\nx = ( # one\n  "# 1")\n\n'))
    "x = '# 1'"
    """
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(each, clean=False) is not None
        ):
            each.body = each.body[1:] or [ast.Pass()]
    return ast.unparse(node)
