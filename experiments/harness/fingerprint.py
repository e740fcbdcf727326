"""What a number depends on besides its parameters: the source that makes it, followed through its imports.

Of `from package import name` only the module that defines the name counts, not what else the package offers: so that
measuring does not depend on theory, figures or the command line.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_OURS = ("sdpa", "experiments")
_MEASURING = "experiments.harness.measuring"
_ANALYSIS = "experiments.analysis"


@cache
def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages; without a name of those whose numbers a measurement consists of."""
    return {name: version(name) for name in packages or ("numpy", "scipy")}


def measuring_fingerprint(experiment: str) -> str:
    """SHA-256 of the source that measures chunks of an experiment, seeds them and merges them."""
    return source_fingerprint(_MEASURING, f"experiments.{experiment}")


def analysis_fingerprint() -> str:
    """SHA-256 of the source that makes finished tables of measured ones."""
    return source_fingerprint(_ANALYSIS)


@cache
def source_fingerprint(*roots: str) -> str:
    """SHA-256 over the names and sources of these modules and of all of ours that they import, directly or not."""
    digest = hashlib.sha256()
    for name in sorted(reached(*roots)):
        source = _path(name).read_bytes()
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()


def reached(*roots: str) -> set[str]:
    """These modules and all of ours that they import, directly or not."""
    found: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _imported(name)
    return found


def _imported(name: str) -> Iterator[str]:
    """The modules of ours that a module imports, anywhere in its source."""
    for node in ast.walk(_parsed(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            yield from (_defining(node.module, alias.name) for alias in node.names)


def _defining(module: str, name: str) -> str:
    """The module that `from module import name` gets its name from."""
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
    folder = _folder(name)
    return folder.with_suffix(".py").is_file() or (folder / "__init__.py").is_file()


def _path(name: str) -> Path:
    folder = _folder(name)
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _folder(name: str) -> Path:
    package, *rest = name.split(".")
    return _package_folder(package).joinpath(*rest)


@cache
def _package_folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"expected the package {package} on the path")
    return Path(spec.submodule_search_locations[0])


@cache
def _parsed(name: str) -> ast.Module:
    return ast.parse(_path(name).read_bytes())
