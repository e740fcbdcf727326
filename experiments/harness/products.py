"""Products: files that follow from other files, from parameters and from the source of the suite.

A folder of results keeps in `.made.json`, which git ignores, what its products were made of. `build` makes a product
again if that has changed, or if somebody changed one of its files.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness.files import checksum, locked, write_atomically
from experiments.harness.fingerprint import ROOT, versions
from experiments.harness.local import helpers
from experiments.harness.problems import attempt

if TYPE_CHECKING:
    from experiments.harness.compare import Change

_LEDGER = ".made.json"
_MADE_WITH = ("jinja2", "matplotlib", "numpy", "pandas", "scipy", "seaborn")


@dataclass(frozen=True)
class Product:
    """Files that one function makes together.

    Attributes:
        files: the files; the first names the product. An equal table stays as it is (`experiments.harness.compare`).
        make: returns the content of each file, in order. It may run in another process.
        inputs: the files that it reads.
        parameters: further JSON values that determine the content.
    """

    files: tuple[Path, ...]
    make: Callable[[], Sequence[bytes | Iterable[bytes]]]
    inputs: tuple[Path, ...] = ()
    parameters: Any = None

    def origin(self) -> str:
        """SHA-256 of everything that determines the content: source, libraries, inputs and parameters."""
        names = [path.name for path in self.files]
        inputs = [checksum(path) for path in self.inputs]
        return _digest([names, inputs, self.parameters, source_of_the_suite(), versions(*_MADE_WITH)])


def build(
    results: Path,
    products: Iterable[Product],
    report: Callable[[Path, "Change | None"], object],
    *,
    jobs: int | None = None,
) -> None:
    """Make the products that are not up to date, several at a time, and write their files.

    Raises:
        BusyError: another run uses the folder.
        Exception: making a product failed; all others are made. An ExceptionGroup if several failed.
    """
    with locked(results):
        listed, made = list(products), _ledger(results)
        due = [
            product
            for product in listed
            if not is_untouched(results, product.files, made)
            or made[_name(results, product.files)].get("origin") != product.origin()
        ]
        with helpers(jobs, len(due)) as submit:
            contents = {product.files[0]: submit(product.make) for product in due}
            attempt(partial(_finish, results, each, contents.get(each.files[0]), made, report) for each in listed)


def _finish(
    results: Path,
    product: Product,
    contents: "Future[Sequence[bytes | Iterable[bytes]]] | None",
    made: dict[str, Any],
    report: Callable[[Path, "Change | None"], object],
) -> None:
    """Write the files of a product that is due, and note it; report it."""
    if contents is None:
        report(product.files[0], None)
        return
    changes = [_write(path, content) for path, content in zip(product.files, contents.result(), strict=True)]
    made[_name(results, product.files)] = {
        "origin": product.origin(),
        "files": [checksum(path) for path in product.files],
    }
    write_atomically(results / _LEDGER, (json.dumps(made, indent=1) + "\n").encode())
    report(product.files[0], changes[0])


def _write(path: Path, content: bytes | Iterable[bytes]) -> "Change":
    from experiments.harness.compare import Change, update

    if isinstance(content, bytes) and path.suffix == ".csv":
        return update(path, content)
    before = checksum(path)
    write_atomically(path, content)
    return Change(("unchanged" if before == checksum(path) else "different") if before else "new")


def is_untouched(results: Path, files: Sequence[Path], made: dict[str, Any] | None = None) -> bool:
    """True if the files of a product are as `build` wrote them; the first names it."""
    noted = (_ledger(results) if made is None else made).get(_name(results, files))
    return isinstance(noted, dict) and noted.get("files") == [checksum(path) for path in files]


def _name(results: Path, files: Sequence[Path]) -> str:
    return os.path.relpath(files[0], results)


def _ledger(results: Path) -> dict[str, Any]:
    """The noted products by name; none if the file is missing or damaged: everything is then made again."""
    try:
        content = json.loads((results / _LEDGER).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@cache
def source_of_the_suite() -> str:
    """SHA-256 of the files of both packages."""
    files = (path for package in ("sdpa", "experiments") for path in sorted((ROOT / package).rglob("*.*")))
    return _digest([(path.relative_to(ROOT).as_posix(), checksum(path)) for path in files if path.suffix != ".pyc"])
