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
_NOT_MEASURING = ("theory", "diagnosis", "heads", "auditing", "command")  # parts of sdpa


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
    """SHA-256 of the code that measures experiments: their modules or folders, and what all share.

    Comments, docstrings and layout do not count.
    """
    files = [
        path
        for path in ROOT.glob("sdpa/**/*.py")
        if path.relative_to(ROOT).parts[1].removesuffix(".py") not in _NOT_MEASURING
    ]
    files += ROOT.glob("experiments/measuring/**/*.py")
    files += ROOT.glob("experiments/kinds/text/*")
    for name in experiments:
        files += ROOT.glob(f"experiments/kinds/{name}.py")
        files += ROOT.glob(f"experiments/kinds/{name}/**/*.*")
    return _hash(files)


@cache
def theory_source() -> str:
    """SHA-256 of the code of `sdpa.theory`, as `measuring_source`."""
    return _hash(ROOT.glob("sdpa/theory/*.py"))


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
