"""Fingerprints of source: a number depends on its parameters and on the modules that compute it.

A fingerprint follows the imports of a module. For `from package import name`, only the module that defines the name
counts, not the rest of the package; so measuring does not depend on theory, figures or the command line. Comments,
docstrings and blank lines do not count.

Imports inside functions and under TYPE_CHECKING count too. All results are cached: a process sees the source as it was
when it first asked.
"""

import ast
import hashlib
import inspect
import io
import json
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.discovery import modules_binding
from experiments.harness.experiment import Cell, Experiment

_OURS = ("sdpa", "experiments")
_MEASURING = "experiments.harness.measuring"
_TABULATING = ("experiments.harness.run", "experiments.harness.tables")
# Hints in messages, which laws, rules and schemes import, and the figures that a config may name: no numbers.
_WITHOUT_NUMBERS = frozenset({"sdpa._names", "experiments.figures.declared", "experiments.figures.figure"})


@cache
def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages; by default of NumPy and SciPy, whose numbers make up a measurement.

    Raises:
        PackageNotFoundError: a package is not installed.
    """
    return {name: version(name) for name in packages or ("numpy", "scipy")}


def measuring_fingerprint(experiment: Experiment) -> str:
    """SHA-256 of the source that measures chunks of an experiment, seeds them and merges them."""
    return source_fingerprint(_MEASURING, f"experiments.{experiment.name}", without=_stamped(experiment))


def tables_fingerprint(experiment: Experiment) -> str:
    """SHA-256 of the source that makes finished tables of records: number of trials, tabulating, analysis, writing."""
    analysis = [f"experiments.{name}" for name in modules_binding("DERIVED_TABLES")]
    if len(analysis) != 1:
        raise TypeError(f"expected one module that binds DERIVED_TABLES, got {', '.join(analysis) or 'none'}")
    return source_fingerprint(*_TABULATING, *analysis, without=_stamped(experiment))


def _stamped(experiment: Experiment) -> frozenset[str]:
    """The modules of the parameters that a cell's stamp describes."""
    return frozenset(kind.__module__ for kind in experiment.named)


def stamp(experiment: Experiment, cell: Cell) -> Any:
    """JSON values behind the names in a cell: the experiment's stamp, with functions as fingerprints.

    The stamp stands in for the modules of rules and laws, which count in no fingerprint of a sweep: a new rule leaves
    all results complete, and a changed one makes only its own results stale.
    """
    return json.loads(json.dumps(experiment.stamp(cell), default=definition_fingerprint))


@cache
def definition_fingerprint(function: Callable[..., Any]) -> str:
    """SHA-256 of the code of a function, and of the functions, classes and constants that it uses, directly or not.

    Code of other packages does not count.

    Raises:
        ValueError: a constant has no text that is the same in every process.
    """
    found: dict[str, str] = {}
    todo: list[Any] = [function]
    while todo:
        one = todo.pop()
        name = f"{one.__module__}.{one.__qualname__}"
        if name in found:
            continue
        found[name] = code(textwrap.dedent(inspect.getsource(one)))
        for used, value in _globals_of(one):
            if inspect.isfunction(value) or inspect.isclass(value):
                todo += [value] * (value.__module__ == function.__module__ or _is_ours(value.__module__))
            elif not inspect.ismodule(value):
                found[f"{one.__module__}.{used}"] = _constant(f"{name}: {used}", value)
    return hashlib.sha256("\n".join(f"{name} {found[name]}" for name in sorted(found)).encode()).hexdigest()


def _globals_of(definition: Any) -> Iterator[tuple[str, Any]]:
    """The global names that a function uses, those within its inner functions included, with their values."""
    codes = [definition.__code__] if inspect.isfunction(definition) else []
    while codes:
        one = codes.pop()
        codes += [constant for constant in one.co_consts if inspect.iscode(constant)]
        yield from ((name, definition.__globals__[name]) for name in one.co_names if name in definition.__globals__)


def _constant(name: str, value: Any) -> str:
    """The text of a constant: every entry of an array, else its representation."""
    text = f"{value.dtype} {value.tolist()}" if isinstance(value, np.ndarray) else repr(value)
    if " at 0x" in text:
        raise ValueError(f"{name}: expected a constant whose text names no address in memory, got {text}")
    return text


@cache
def source_fingerprint(*roots: str, without: frozenset[str] = frozenset()) -> str:
    """SHA-256 over the names and code of these modules and of all project modules that they import, also indirectly.

    Modules that only word messages do not count.

    Args:
        roots: full names of modules.
        without: modules to leave out; what they import counts nevertheless.
    """
    digest = hashlib.sha256()
    for name in sorted(imported_modules(*roots) - without - _WITHOUT_NUMBERS):
        source = code(_path(name).read_text(encoding="utf-8")).encode()
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()


@cache
def code(source: str) -> str:
    r"""A Python source without comments, docstrings and blank lines.

    The text of the code itself counts, not its syntax tree, which differs between versions of Python.

    >>> code('"A module."\nx = "# 1"  # one\n\n')
    'x = "# 1"'
    """
    docstrings = {(node.lineno, node.col_offset) for node in _docstrings(ast.parse(source))}
    lines = source.splitlines()
    # From the end, so that earlier positions stay valid.
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.start in docstrings):
            (first, start), (last, end) = token.start, token.end
            lines[first - 1 : last] = [lines[first - 1][:start] + lines[last - 1][end:]]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """The docstrings of a module and of everything that it defines."""
    for node in (tree, *_statements(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements within a node; no import or definition stands within an expression, and these take most time."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child)


def imported_modules(*roots: str) -> set[str]:
    """These modules and all project modules that they import, directly or not.

    >>> sorted(imported_modules("experiments.statistics.quantiles"))
    ['experiments.statistics.intervals', 'experiments.statistics.quantiles']
    """
    found: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _imported(name)
    return found


@cache
def _imported(name: str) -> frozenset[str]:
    """The project modules that a module imports anywhere in its source."""
    found: set[str] = set()
    for node in _statements(_parsed(name)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            found.update(_defining(node.module, alias.name) for alias in node.names)
    return frozenset(found)


def _defining(module: str, name: str) -> str:
    """The module from which `from module import name` takes its name.

    This is the submodule of that name, or the module from which a package's __init__.py imports the name, or else the
    module itself.

    >>> _defining("sdpa", "Scaling"), _defining("sdpa", "theory"), _defining("sdpa.scaling", "Scaling")
    ('sdpa.scaling', 'sdpa.theory', 'sdpa.scaling')
    """
    if _exists(f"{module}.{name}"):
        return f"{module}.{name}"
    if _path(module).name == "__init__.py":
        for node in _parsed(module).body:
            if isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
                for alias in node.names:
                    if name == (alias.asname or alias.name):
                        return _defining(node.module, alias.name)
    return module


def _is_ours(name: str) -> bool:
    return name.split(".")[0] in _OURS


def _exists(name: str) -> bool:
    """True if the source of a module or package of that name exists."""
    folder = _folder(name)
    return folder.with_suffix(".py").is_file() or (folder / "__init__.py").is_file()


def _path(name: str) -> Path:
    """The source of a module; of a package, its __init__.py."""
    folder = _folder(name)
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _folder(name: str) -> Path:
    package, *rest = name.split(".")
    return _package_folder(package).joinpath(*rest)


def package_folders() -> list[Path]:
    """The folders of both packages."""
    return [_package_folder(package) for package in _OURS]


@cache
def _package_folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"expected the package {package} on the path")
    return Path(spec.submodule_search_locations[0])


@cache
def _parsed(name: str) -> ast.Module:
    return ast.parse(_path(name).read_bytes())
