"""Products: files that follow from other files, from parameters and from the source of the suite.

A folder of results keeps in `.made.json`, which git ignores, what its products were made of. `build` makes a product
again if that has changed, or if somebody changed one of its files.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.errors import attempt
from experiments.run.files import checksum, locked, write_atomically
from experiments.run.fingerprint import ROOT, versions
from experiments.run.workers import helpers

if TYPE_CHECKING:
    from experiments.run.compare import Change
    from experiments.run.reporter import Reporter

_LEDGER = ".made.json"
_MADE_WITH = ("jinja2", "matplotlib", "numpy", "pandas", "scipy", "seaborn")


@dataclass(frozen=True)
class Product:
    """Files that one function makes together.

    Attributes:
        files: the files; the first names the product. An equal table stays as it is (`experiments.run.compare`).
        make: returns the content of each file, in order. It may run in another process.
        inputs: the files that it reads.
        parameters: further JSON values that determine the content.
    """

    files: tuple[Path, ...]
    make: Callable[[], Sequence[bytes | Iterable[bytes]]]
    inputs: tuple[Path, ...] = ()
    parameters: Any = None

    @property
    def label(self) -> str:
        """The name of the first file and its folder, beside a bar."""
        return "/".join(self.files[0].parts[-2:])

    def record(self, results: Path) -> dict[str, Any]:
        """Everything that determines the content (source, libraries, inputs and parameters), and that of the files."""
        inputs = [checksum(path) for path in self.inputs]
        origin = _digest([inputs, self.parameters, source_of_the_suite(), versions(*_MADE_WITH)])
        return {"origin": origin, "files": {os.path.relpath(path, results): checksum(path) for path in self.files}}


def build(
    results: Path,
    products: Iterable[Product],
    report: "Reporter",
    *,
    quietly: bool = False,
    jobs: int | None = None,
    are_slow: bool = False,
) -> None:
    """Make the products that are not up to date, several at a time, and write their files.

    Args:
        results: the folder that keeps what its products were made of.
        products: in the order of the report.
        report: shows a bar while products are made, and what became of each.
        quietly: True for files that are no tables or figures of a sweep, which nobody counts.
        jobs, are_slow: as for `experiments.run.workers.helpers`.

    Raises:
        BusyError: another run uses the folder.
        Exception: making a product failed; all others are made. An ExceptionGroup if several failed.
    """
    with locked(results):
        listed, made = list(products), _ledger(results)
        due = outdated(results, listed)
        of, tell = f"{len(due)} to make", report.made_quietly if quietly else report.made
        workers = helpers(jobs, len(due), are_slow=are_slow)
        with report.progress(len(due), of, due[0].label if due else "") as advance, workers as submit:
            contents = {product.files[0]: submit(product.make) for product in due}

            def finish(product: Product) -> None:
                path, change = product.files[0], None
                if path in contents:
                    changes = [_write(*file) for file in zip(product.files, contents.pop(path).result(), strict=True)]
                    change = changes[0]
                    made[os.path.relpath(path, results)] = product.record(results)
                    write_atomically(results / _LEDGER, (json.dumps(made, indent=1) + "\n").encode())
                    advance(product.label, 1.0)
                tell(path, change)

            attempt(partial(finish, product) for product in listed)


def outdated(results: Path, products: Iterable[Product]) -> list[Product]:
    """The products that `build` would make."""
    made = _ledger(results)
    return [each for each in products if made.get(os.path.relpath(each.files[0], results)) != each.record(results)]


def _write(path: Path, content: bytes | Iterable[bytes]) -> "Change":
    from experiments.run.compare import Change, update

    if isinstance(content, bytes) and path.suffix == ".csv":
        return update(path, content)
    before = checksum(path)
    write_atomically(path, content)
    return Change(("unchanged" if before == checksum(path) else "different") if before else "new")


def untouched(results: Path) -> Iterator[list[Path]]:
    """The files of each product that are as `build` wrote them."""
    for record in _ledger(results).values():
        files = {results / name: sha256 for name, sha256 in record["files"].items()}
        if all(checksum(path) == sha256 for path, sha256 in files.items()):
            yield [*files]


def _ledger(results: Path) -> dict[str, Any]:
    """The records of products by name; without those that are damaged, which are then made again."""
    try:
        content = json.loads((results / _LEDGER).read_bytes())
        return {name: each for name, each in content.items() if isinstance(each["files"], dict)}
    except (OSError, ValueError, AttributeError, LookupError, TypeError):
        return {}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@cache
def source_of_the_suite() -> str:
    """SHA-256 of the files of both packages."""
    files = (path for package in ("sdpa", "experiments") for path in sorted((ROOT / package).rglob("*.*")))
    return _digest([(path.relative_to(ROOT).as_posix(), checksum(path)) for path in files if path.suffix != ".pyc"])
