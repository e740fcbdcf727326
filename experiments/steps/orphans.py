"""Orphans: files in a results folder whose sweep its config no longer has, because it was renamed or deleted.

A results folder and a config come in; the files that belong to no sweep come out. The step that removes them removes
only files that the suite wrote and nobody changed since; checksums and the ledger tell.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.figures.declared import figures_of
from experiments.folders import figure_path
from experiments.harness.artifacts import Ledger, checksum
from experiments.harness.config import Config
from experiments.harness.grid import Sweep
from experiments.harness.paths import COLUMNS, DERIVED, LONG, MANIFEST, csv_name
from experiments.harness.tables import TableError, read_sidecar
from experiments.steps.drawing import drawing, is_untouched


@dataclass(frozen=True)
class Orphans:
    """Files of no sweep: the suite wrote `ours` and nobody changed them; the suite may not have written `others`.

    Attributes:
        ours: tables, JSON files and figures of absent sweeps, and figures that a sweep no longer asks for; safe to
            remove.
        others: tables and JSON files without proof of their origin; the suite only lists them.
    """

    ours: tuple[Path, ...]
    others: tuple[Path, ...]

    def lines(self) -> Iterator[str]:
        """One line for each kind of orphan found."""
        if self.ours:
            yield f"leftover files (make prune with the same config removes them): {', '.join(map(str, self.ours))}"
        if self.others:
            yield f"other files of no sweep in this config (make prune keeps them): {', '.join(map(str, self.others))}"


def find_orphans(results: Path, config: Config) -> Orphans:
    """The files in a results folder that belong to no sweep of the config.

    columns.csv, long-format.csv, manifest.json and hidden files are no orphans. Besides the folder itself, the search
    covers `derived`, and `figures` for figures that the suite drew.
    """
    names = {sweep.name for sweep in config.sweeps}
    ours = [path for sweep in config.sweeps for path in _figures_not_asked_for(results, sweep)]
    for sidecar in sorted(results.glob("*.json")):
        if sidecar.stem not in names:
            ours += _written_with(sidecar)
    tables = [path for pattern in ("*.csv", "*.json") for path in results.glob(pattern) if path.stem not in names]
    derived = [path for path in results.glob(f"{DERIVED}/*/*.csv") if path.parent.name not in names]
    unowned = sorted(path for path in tables + derived if path.name not in (COLUMNS, LONG, MANIFEST))
    return Orphans(tuple(ours), tuple(path for path in unowned if path not in ours and path.name[0] != "."))


def _written_with(sidecar: Path) -> Iterator[Path]:
    """The tables and figures that a sweep's sidecar vouches for, and the sidecar; none if it is invalid.

    Tables and figures that somebody changed since are left out.
    """
    try:
        content = read_sidecar(sidecar)
    except TableError:
        return
    if content.get("sweep") != sidecar.stem:
        return
    results = sidecar.parent
    tables = {results / csv_name(sidecar.stem, kind): expected for kind, expected in content["sha256"].items()}
    yield from (path for path, expected in tables.items() if checksum(path) == expected)
    yield sidecar
    yield from _figures(results, sidecar.stem, figures_of(content["parameters"].get("experiment")))


def _figures_not_asked_for(results: Path, sweep: Sweep) -> Iterator[Path]:
    """The untouched files of figures that a sweep could have but does not name."""
    others = [figure for figure in figures_of(sweep.experiment.name) if figure not in sweep.figures]
    return _figures(results, sweep.name, others)


def _figures(results: Path, sweep: str, figures: Iterable[str]) -> Iterator[Path]:
    """The files of figures that nobody changed since the suite drew them."""
    for figure in figures:
        drawn = drawing(figure_path(results, sweep, figure, ""), figure)
        if is_untouched(Ledger(results), drawn):
            yield from (path for path in drawn.files if path.exists())
