"""Orphans: files in a results folder that no sweep of its config owns any more, after one was renamed or deleted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.harness.config import RESERVED, Config
from experiments.harness.drawn import Drawn
from experiments.harness.figures import figures_of
from experiments.harness.grid import Sweep
from experiments.harness.paths import FIGURE_SUFFIXES, figure_path
from experiments.harness.tables import TableError, checksum_of, csv_name, read_sidecar


@dataclass(frozen=True)
class Orphans:
    """Files of no sweep: `ours` are as the suite wrote them, `others` are not known to be the suite's."""

    ours: tuple[Path, ...]
    others: tuple[Path, ...]

    def lines(self) -> Iterator[str]:
        """A line for each kind that there is."""
        if self.ours:
            yield f"of no sweep in this config (make prune removes them): {', '.join(map(str, self.ours))}"
        if self.others:
            yield f"of no sweep and not written by this suite: {', '.join(map(str, self.others))}"


def find_orphans(results: Path, config: Config) -> Orphans:
    """The files in a results folder that belong to no sweep of the config."""
    names = {sweep.name for sweep in config.sweeps}
    drawn = Drawn(results, config)
    ours = [path for sweep in config.sweeps for path in _figures_not_asked_for(drawn, sweep)]
    for sidecar in sorted(results.glob("*.json")):
        if sidecar.stem not in names:
            ours += _written_with(drawn, sidecar)
    files = sorted(path for suffix in ("csv", "json") for path in results.glob(f"*.{suffix}"))
    unowned = [path for path in files if path.stem.split("-")[0] not in names | set(RESERVED)]
    return Orphans(tuple(ours), tuple(path for path in unowned if path not in ours and path.name[0] != "."))


def _written_with(drawn: Drawn, sidecar: Path) -> Iterator[Path]:
    """The tables and figures that a sweep's sidecar vouches for, and the sidecar."""
    try:
        record = read_sidecar(sidecar)
    except TableError:
        return
    if record.get("sweep") != sidecar.stem:
        return
    tables = {drawn.results / csv_name(sidecar.stem, kind): checksum for kind, checksum in record["sha256"].items()}
    yield from (path for path, checksum in tables.items() if checksum_of(path) == checksum)
    yield sidecar
    yield from _figures(drawn, sidecar.stem, figures_of(record["parameters"].get("experiment")))


def _figures_not_asked_for(drawn: Drawn, sweep: Sweep) -> Iterator[Path]:
    others = [figure for figure in figures_of(sweep.experiment) if figure not in sweep.figures]
    return _figures(drawn, sweep.name, others)


def _figures(drawn: Drawn, sweep: str, figures: Iterable[str]) -> Iterator[Path]:
    """The files of figures that are as the suite drew them."""
    for figure in figures:
        if drawn.is_untouched(sweep, figure):
            paths = (figure_path(drawn.results, sweep, figure, suffix) for suffix in FIGURE_SUFFIXES)
            yield from (path for path in paths if path.exists())
