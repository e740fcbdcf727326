"""The state of a page: checksums of all that it shows, kept in a note."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from experiments.examples import example_names
from experiments.examples.place import example_path
from experiments.harness.config import Config
from experiments.harness.figures import declarations, figures_of
from experiments.harness.fingerprint import source_fingerprint, versions
from experiments.harness.paths import SUITE, figure_path
from experiments.statements.table import table_path

FOLDER = Path(__file__).parent
TEMPLATE = "index.html.j2"
_TEMPLATES = (TEMPLATE, "page.css", "attention.js", "strip.js", "page.js")
MADE_WITH = ("Jinja2", "matplotlib", "numpy", "pandas", "scipy", "seaborn")


def page_path(results: Path) -> Path:
    """The page of a results folder."""
    return results / "index.html"


def _page_source() -> str:
    """SHA-256 of the source and templates that pages are made by.

    It is not on the page, which would then be another one after every change of a comment.
    """
    figures = (f"experiments.figures.{name}" for name in declarations())
    digest = hashlib.sha256(source_fingerprint("experiments.page.index", *figures).encode())
    for name in _TEMPLATES:
        digest.update((FOLDER / name).read_bytes())
    return digest.hexdigest()


def state(config: Config, results: Path, *given: object) -> bytes:
    """Checksums of a page's inputs and of the page itself."""
    lines = [_page_source(), *versions(*MADE_WITH).values(), config.digest, *map(str, given)]
    for path in _files(config, results):
        content = path.read_bytes() if path.exists() else b"missing"
        lines.append(f"{path.name} {hashlib.sha256(content).hexdigest()}")
    return "\n".join(lines).encode()


def _files(config: Config, results: Path) -> Iterator[Path]:
    """The page and every file that it shows something of."""
    yield page_path(results)
    yield table_path(results)
    for sweep in config.sweeps:
        yield from (results / f"{sweep.name}.{suffix}" for suffix in ("json", "csv"))
        yield from sorted(results.glob(f"{sweep.name}-*.csv"))
    drawn = [(sweep.name, figure) for sweep in config.sweeps for figure in sweep.figures]
    drawn += [(SUITE, figure) for figure in figures_of(SUITE)]
    for suffix in (".svg", ".txt"):
        yield from (figure_path(results, sweep_name, figure, suffix) for sweep_name, figure in drawn)
        yield from (example_path(results, name, suffix) for name in example_names())
