"""Fingerprints of source: a number depends on its parameters and on the code that computes it.

The code of an experiment is its module and all modules that this one imports, directly or not,
except those declared here. Comments, docstrings and layout do not count. Results are cached: a
process sees the source as it was when first asked.
"""

import ast
import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.measuring.experiment import Cell

ROOT = Path(__file__).parents[2]
# Beside the module of the experiment, which imports the rest.
MEASURING = ("experiments/measuring/chunk.py",)
TABULATING = (
    "experiments/analysis/analyse.py",
    "experiments/running/work.py",
    "experiments/output/tables.py",
)
# Rules, laws and schemes count in the stamp of a cell instead, so that a new one leaves
# all results complete.
STAMPED = (
    "sdpa/scaling.py",
    "sdpa/inputs.py",
    "sdpa/initialisation.py",
    "sdpa/_names.py",
)
# Tables import these, which read configs, name and write files, and word messages.
AROUND = (
    "experiments/config/loader.py",
    "experiments/errors.py",
    "experiments/paths.py",
    "experiments/output/compare.py",
    "experiments/files.py",
    "experiments/running/fingerprint.py",
)


@cache
def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages; by default of NumPy and SciPy, whose numbers make up a
    measurement.

    Raises:
        PackageNotFoundError: a package is not installed.
    """
    return {name: version(name) for name in packages or ("numpy", "scipy")}


@cache
def measuring_fingerprint(experiment: str) -> str:
    """SHA-256 of the code that measures an experiment."""
    return _fingerprint(measuring_code(experiment))


def worker_fingerprint(*experiments: str) -> str:
    """SHA-256 of all code that a worker runs for them."""
    return _fingerprint(_code_of((*MEASURING, *map(_module, experiments))))


@cache
def tables_fingerprint(experiment: str) -> str:
    """SHA-256 of the code that makes the finished tables of an experiment."""
    return _fingerprint(tables_code(experiment))


def theory_fingerprint(module: str) -> str:
    """SHA-256 of the code of `sdpa.theory` that a module imports, directly or not."""
    code = _code_of((module,))
    return _fingerprint({file: code[file] for file in code if file.startswith("sdpa/theory/")})


def measuring_code(experiment: str) -> dict[str, str]:
    """The code that measures an experiment, by file."""
    return _code_of((*MEASURING, _module(experiment)), STAMPED)


def tables_code(experiment: str) -> dict[str, str]:
    """The code that makes the finished tables of an experiment, by file."""
    return _code_of((*MEASURING, *TABULATING, _module(experiment)), (*STAMPED, *AROUND))


def _module(experiment: str) -> str:
    return f"experiments/kinds/{experiment}.py"


@cache
def _code_of(roots: tuple[str, ...], without: tuple[str, ...] = ()) -> dict[str, str]:
    """The code of these files and of all that they import; without some files, and what only these
    import.
    """
    found: dict[str, str] = {}
    todo = list(roots)
    while todo:
        file = todo.pop()
        if file in found or any(fnmatch(file, pattern) for pattern in without):
            continue
        found[file], imported = _read((ROOT / file).read_bytes())
        todo += (path for name in imported if (path := _file(name)))
    return found


def _fingerprint(code: Mapping[str, str]) -> str:
    text = "\n".join(f"{file} {code[file]}" for file in sorted(code))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _read(source: bytes) -> tuple[str, list[str]]:
    """The code of a source, and the full names of all modules, functions, classes and constants
    that it imports, also within functions.

    >>> _read(b"import numpy as np\\nfrom sdpa.pairs import PairLaw")[1]
    ['numpy', 'sdpa.pairs.PairLaw']
    """
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return _bare(tree), found


@cache
def _file(name: str) -> str | None:
    """The project file behind a name: of a module or package, or the one that defines what a module
    or package has.
    """
    path = name.replace(".", "/")
    above, _, last = name.rpartition(".")
    for file in (f"{path}.py", f"{path}/__init__.py", f"{above.replace('.', '/')}.py"):
        if (ROOT / file).is_file():
            return file
    package = f"{above.replace('.', '/')}/__init__.py"
    if not (ROOT / package).is_file():
        return None
    _, exported = _read((ROOT / package).read_bytes())
    return next((_file(one) for one in exported if one.endswith(f".{last}")), package)


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


def stamp(cell: Cell) -> Any:
    """JSON values behind the names in a cell, such as the divisors of its rules, with functions as
    fingerprints.

    So a changed rule or law makes only its own results stale.
    """
    return json.loads(json.dumps(cell.stamp(), default=definition_fingerprint))


@cache
def definition_fingerprint(definition: Any) -> str:
    """SHA-256 of the code of a class, or of a function and of all that it names in its module,
    directly or not.
    """
    nodes = dict(_defined(_tree(inspect.getfile(definition))))
    found: dict[str, str] = {}
    todo = [definition.__qualname__]
    while todo:
        name = todo.pop()
        if name in nodes and name not in found:
            node = nodes[name]
            found[name] = _bare(node)
            if not isinstance(node, ast.ClassDef):
                todo += [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    text = "\n".join(found[name] for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_bytes())


def _defined(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The functions, classes, methods and constants of a module, by qualified name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _defined(node, f"{node.name}.")
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = (each for target in targets for each in ast.walk(target))
            yield from ((prefix + each.id, node) for each in bound if isinstance(each, ast.Name))
