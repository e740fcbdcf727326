"""Fingerprints of source: a number depends on its parameters and on the code that computes it.

This module declares the code, by files and folders; a test follows imports and proves that the declaration is complete.
Comments, docstrings and layout do not count. Results are cached: a process sees the source as it was when first asked.
"""

import ast
import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.measuring.experiment import Cell, Experiment, load_experiment

ROOT = Path(__file__).parents[2]
# Modules that measure chunks, seed them and merge them, by folder; the module of the experiment counts in addition.
# Rules, laws, formats and schemes count in the stamp of a cell instead, so that a new one leaves all results complete.
MEASURING = {
    "sdpa": "_arrays attention diagnostics gradients metrics pairs row_maps row_tiles training",
    "experiments/measuring": "*",
}
# Modules that, beside those, make the tables of records: number of trials, tabulating, analysis and writing.
TABULATING = {
    "sdpa/theory": "*",
    "experiments/kinds": "__init__ depth distribution training",
    "experiments/config": "sweep",
    "experiments/analysis": "analyse bands crossings depth derived laws slopes verdicts written",
    "experiments/run": "store tables work",
}


@cache
def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages; by default of NumPy and SciPy, whose numbers make up a measurement.

    Raises:
        PackageNotFoundError: a package is not installed.
    """
    return {name: version(name) for name in packages or ("numpy", "scipy")}


def measuring_fingerprint(experiment: str) -> str:
    """SHA-256 of the code that measures an experiment."""
    return _fingerprint((*_listed(MEASURING), *_own([experiment])))


def worker_fingerprint(*experiments: str) -> str:
    """SHA-256 of the code that measures them, with the rules and laws that stamps describe."""
    return _fingerprint(("sdpa/*.py", *_listed(MEASURING), *_own(experiments)))


def tables_fingerprint(experiment: str) -> str:
    """SHA-256 of the code that makes the finished tables of an experiment."""
    return _fingerprint((*_listed(MEASURING), *_listed(TABULATING), *_own([experiment])))


def _listed(declared: Mapping[str, str]) -> Iterator[str]:
    return (f"{folder}/{name}.py" for folder, names in declared.items() for name in names.split())


def _own(experiments: Iterable[str]) -> Iterator[str]:
    """The modules of the experiments, and those of the cells from which theirs derive."""
    for name in experiments:
        yield f"experiments/kinds/{name}.py"
        modules = (each.__module__ for each in load_experiment(name).cell.__mro__)
        yield from (f"{module.replace('.', '/')}.py" for module in modules if module.startswith("experiments.kinds."))


@cache
def _fingerprint(patterns: tuple[str, ...]) -> str:
    files = {path.relative_to(ROOT).as_posix(): path for pattern in patterns for path in ROOT.glob(pattern)}
    text = "\n".join(f"{name} {_code(files[name].read_bytes())}" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _code(source: bytes) -> str:
    return _bare(ast.parse(source))


def _bare(node: ast.AST) -> str:
    r"""The code of a syntax tree without comments, docstrings and layout.

    >>> _bare(ast.parse('"A module."\nx = ( # one\n  "# 1")\n\n'))
    "x = '# 1'"
    """
    for each in ast.walk(node):
        if isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(each) is not None:
            each.body = each.body[1:] or [ast.Pass()]
    return ast.unparse(node)


def stamp(experiment: Experiment, cell: Cell) -> Any:
    """JSON values behind the names in a cell, such as the divisors of its rules, with functions as fingerprints.

    So a changed rule or law makes only its own results stale.
    """
    return json.loads(json.dumps(experiment.stamp(cell), default=definition_fingerprint))


@cache
def definition_fingerprint(definition: Any) -> str:
    """SHA-256 of the code of a class, or of a function and of all that it names in its module, directly or not."""
    nodes = dict(_defined(_tree(inspect.getfile(definition))))
    found: dict[str, str] = {}
    todo = [definition.__qualname__]
    while todo:
        if (name := todo.pop()) in nodes and name not in found:
            found[name] = _bare(nodes[name])
            if not isinstance(nodes[name], ast.ClassDef):
                todo += [each.id for each in ast.walk(nodes[name]) if isinstance(each, ast.Name)]
    return hashlib.sha256("\n".join(found[name] for name in sorted(found)).encode()).hexdigest()


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
