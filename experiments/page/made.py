"""Whether a page is there that was made of what is there now: known from a note, without making one."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from experiments.figures import RECORD_FIGURES, SUITE_FIGURES
from experiments.harness.config import Config
from experiments.harness.fingerprint import source_fingerprint, versions
from experiments.harness.paths import RECORD, SUITE, VERDICTS, figure_path

FOLDER = Path(__file__).parent
TEMPLATE = "index.html.j2"
_TEMPLATES = (TEMPLATE, "page.css", "attention.js", "strip.js", "page.js")
MADE_WITH = ("Jinja2", "matplotlib", "numpy", "pandas", "scipy", "seaborn")


def page_path(results: Path) -> Path:
    """The page of a results folder."""
    return results / "index.html"


def _page_source(config: Config) -> str:
    """SHA-256 of the source and templates that a page of this config is made by.

    It is not on the page, which would then be another one after every change of a comment.
    """
    figures = {*RECORD_FIGURES, *SUITE_FIGURES, *(figure for sweep in config.sweeps for figure in sweep.figures)}
    digest = hashlib.sha256(source_fingerprint("experiments.page.index").encode())
    digest.update(source_fingerprint(*(f"experiments.figures.{name}" for name in sorted(figures))).encode())
    for name in _TEMPLATES:
        digest.update((FOLDER / name).read_bytes())
    return digest.hexdigest()


def state(config: Config, results: Path, *given: object) -> bytes:
    """Of what a page is made, and what it is: to be the same as when it was made."""
    swept = [json.dumps([sweep.name, sweep.parameters(), sweep.figures]) for sweep in config.sweeps]
    lines = [_page_source(config), *versions(*MADE_WITH).values(), str(config.seed), *swept, *map(str, given)]
    for path in _files(config, results):
        content = path.read_bytes() if path.exists() else b"missing"
        lines.append(f"{path.name} {hashlib.sha256(content).hexdigest()}")
    return "\n".join(lines).encode()


def _files(config: Config, results: Path) -> Iterator[Path]:
    """The page and every file that it shows something of."""
    yield page_path(results)
    yield from (results / f"{name}.csv" for name in (RECORD, VERDICTS))
    for sweep in config.sweeps:
        yield from (results / f"{sweep.name}.{suffix}" for suffix in ("json", "csv"))
        yield from sorted(results.glob(f"{sweep.name}-*.csv"))
    drawn = [(sweep.name, figure) for sweep in config.sweeps for figure in sweep.figures]
    drawn += [(SUITE, figure) for figure in SUITE_FIGURES] + [(RECORD, figure) for figure in RECORD_FIGURES]
    for sweep_name, figure in drawn:
        yield from (figure_path(results, sweep_name, figure, suffix) for suffix in (".svg", ".txt"))
