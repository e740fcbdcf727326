"""Hashes of source: a number depends on its parameters and on the code that computes it.

Results are cached: a process sees the source as it was when first asked.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from experiments.measuring.experiment import AnyExperiment

ROOT = Path(__file__).parents[2]
_EVERY = "experiments.measuring.chunk"  # measures the chunks of every experiment
# Text for people: a blank beside a small letter, or mathematics of a title. No number follows from it.
_WORDS = re.compile(r"[a-z] | [a-z]|\$")


@cache
def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages; by default of NumPy and SciPy, whose numbers make up a
    measurement.

    Raises:
        PackageNotFoundError: a package is not installed.
    """
    return {name: version(name) for name in packages or ("numpy", "scipy")}


@cache
def measuring_source(*experiments: AnyExperiment) -> str:
    """SHA-256 of the code that measures experiments: of all that their cells import, and data.

    Comments, docstrings, layout and words do not count: titles, meanings and messages.
    """
    folders = [ROOT / "experiments" / "kinds" / each.name for each in experiments]
    data = {
        file
        for each in folders
        for file in each.glob("**/*.*")
        if file.suffix not in (".py", ".pyc")
    }
    cells = (f"experiments.kinds.{each.name}.cell" for each in experiments)
    return _hash([*data, *_files_behind([_EVERY, *cells])])


def _files_behind(modules: Iterable[str]) -> set[Path]:
    """The files of modules of this clone, and of all that they import, in functions too.

    The `__init__` of a package does not count: names are followed to the modules that define them.
    """
    found, waiting = set(), [*modules]
    while waiting:
        path = _file(waiting.pop())
        if path and path.name != "__init__.py" and path not in found:
            found.add(path)
            waiting += _imports(path)
    return found


def _imports(path: Path) -> Iterator[str]:
    """The modules whose names a file imports; for a name of a package, the one that defines it."""
    for node in _nodes(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (_home(node.module, alias.name) for alias in node.names)


def _home(module: str, name: str) -> str:
    """The module behind `from MODULE import NAME`: a submodule, or where a package has it from."""
    if _file(submodule := f"{module}.{name}"):
        return submodule
    path = _file(module)
    if path and path.name == "__init__.py":
        for node in _tree(path).body:
            if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
                return str(node.module)
    return module


def _file(module: str) -> Path | None:
    """The file of a module of this clone."""
    path = ROOT.joinpath(*module.split("."))
    files = path.with_suffix(".py"), path / "__init__.py"
    return next((file for file in files if file.is_file()), None)


@cache
def _tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_bytes())


@cache
def _nodes(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a tree; walking it takes as long as parsing it."""
    return [*ast.walk(tree)]


@cache
def theory_source() -> str:
    """SHA-256 of the code of exact values, likewise."""
    return _hash(ROOT.glob("sdpa/theory/**/*.py"))


@cache
def suite_source() -> str:
    """SHA-256 of all files of both packages, to the byte."""
    files = [*ROOT.glob("sdpa/**/*.*"), *ROOT.glob("experiments/**/*.*")]
    return _hash((path for path in files if path.suffix != ".pyc"), whole=True)


def _hash(paths: Iterable[Path], *, whole: bool = False) -> str:
    found = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        is_bare = path.suffix == ".py" and not whole
        content = _bare(_tree(path)).encode() if is_bare else path.read_bytes()
        name = path.relative_to(ROOT).as_posix()
        found.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return found.hexdigest()


@cache
def _bare(tree: ast.Module) -> str:
    r"""The code of a file without comments, docstrings, layout and words.

    >>> _bare(ast.parse('"A module."\nx = ( # one\n  "#1", "the first number")\n\n'))
    "x = ('#1', '')"
    """
    for each in _nodes(tree):
        if (
            isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(each, clean=False) is not None
        ):
            each.body = each.body[1:] or [ast.Pass()]
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            each.value = "" if _WORDS.search(each.value) else each.value
    return ast.unparse(tree)
