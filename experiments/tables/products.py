"""Output files, and what each is made from (files, parameters, source), so that only outdated ones
are made again.

A folder of results keeps in `.made.json`, which git ignores, the stamp of each of its products and
the hash of its files. `build` makes a product again if one of them has changed.
"""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from experiments.config.errors import PartError, attempt, in_part, raise_all
from experiments.running.files import checksum, locked, write_atomically
from experiments.running.fingerprint import hash_of, stamp, suite_source
from experiments.running.workers import helpers
from experiments.tables.changes import Change, update
from experiments.tables.reporter import Reporter

_LEDGER = ".made.json"
MADE_WITH = ("Jinja2", "matplotlib", "numpy", "pandas", "pillow", "scipy")


class IncompleteError(Exception):
    """Files whose parts could not all be made: arguments are their contents and the errors."""


@dataclass(frozen=True)
class Product:
    """Files that one function makes together.

    Attributes:
        files: the files; the first names the product. An equal table stays as it is
            (`experiments.tables.changes`).
        make: returns the content of each file, in order, or raises `IncompleteError`. It may run in
            another process.
        inputs: the files that it reads.
        parameters: further JSON values that determine the content.
        source: the hash of the code that makes them; by default of both packages.
    """

    files: tuple[Path, ...]
    make: Callable[[], Sequence[bytes]]
    inputs: tuple[Path, ...] = ()
    parameters: Any = None
    source: str = ""

    def name(self, folder: Path) -> str:
        """The name of the product in the ledger of a folder of results."""
        return os.path.relpath(self.files[0], folder)

    def record(self) -> str:
        """The stamp of the files, and after a blank their hash."""
        inputs = [[*map(checksum, self.inputs)], self.parameters]
        made_of = stamp(inputs, self.source or suite_source(), *MADE_WITH)
        return f"{made_of} {hash_of([*map(checksum, self.files)])}"

    def state(self, folder: Path) -> Literal["current", "outdated", "foreign"]:
        """Of the files: `foreign` if they are not those that this clone made last, as after `git
        checkout`.
        """
        known, now = ledger(folder).get(self.name(folder), ""), self.record()
        if known.split()[1:] != now.split()[1:]:
            return "foreign"
        return "current" if known == now else "outdated"


def build(
    folder: Path,
    products: Sequence[Product],
    report: Reporter,
    *,
    phase: str,
    quietly: bool = False,
    jobs: int | None = None,
) -> None:
    """Make the products that are not up to date, several at a time, and write their files.

    Args:
        folder: of results, which keeps what its products were made of.
        products: in the order of the report.
        report: shows a bar while products are made, and what became of each.
        phase: of the command, which the bar shows: tables, figures or page.
        quietly: True to leave these files out of the counts of the summary.
        jobs: as for `experiments.running.workers.helpers`.

    Raises:
        BusyError: another run uses the folder.
        Exception: making a product, or a part of it, failed; all others are made. An ExceptionGroup
            if several failed. An outdated drawing that cannot be made is removed.
    """
    tell = report.made_quietly if quietly else report.made
    with locked(folder):
        due = [product for product in products if product.state(folder) != "current"]
        workers = helpers(jobs, len(due))
        bar = report.bar.phase(phase, len(due), len(due))
        with bar as advance, workers as submit:
            contents = {product.files[0]: submit(product.make) for product in due}

            def finish(product: Product) -> None:
                path = product.files[0]
                if path not in contents:
                    tell(path, None)
                    return
                content, failed = _result(product, contents.pop(path))
                changes = [_write(*file) for file in zip(product.files, content, strict=True)]
                keep_record(folder, product, "" if failed else product.record())
                advance("/".join(path.parts[-2:]), 1.0)
                tell(path, changes[0])
                raise_all(failed)

            attempt(partial(finish, product) for product in products)


def _result(
    product: Product, made: "Future[Sequence[bytes]]"
) -> tuple[Sequence[bytes], Sequence[Exception]]:
    """The content of each file of a product, and the errors of its parts."""
    try:
        return made.result(), []
    except IncompleteError as incomplete:
        content, errors = incomplete.args
        return content, errors
    except Exception as error:
        path = product.files[0]
        named = in_part(f"{path} not made", error)
        if isinstance(named, PartError) and path.suffix == ".png":
            for file in product.files:
                file.unlink(missing_ok=True)  # of other numbers than the tables have now
        raise named from None


def _write(path: Path, content: bytes) -> Change:
    if path.suffix == ".csv":
        return update(path, content)
    before = checksum(path)
    write_atomically(path, content)
    if not before:
        return Change("new")
    return Change("unchanged" if before == checksum(path) else "different")


def ledger(folder: Path) -> dict[str, str]:
    """The records of products by name; none if the file is damaged, so that all are made again."""
    try:
        content = json.loads((folder / _LEDGER).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def keep_record(folder: Path, product: Product, record: str) -> None:
    """Keep the record of a product."""
    content = json.dumps(ledger(folder) | {product.name(folder): record}, indent=1) + "\n"
    write_atomically(folder / _LEDGER, content.encode())
