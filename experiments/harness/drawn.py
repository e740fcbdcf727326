"""Which figures are there already, drawn by this source from these tables: kept in a file that git ignores."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from experiments.harness.config import Config
from experiments.harness.files import write_whole
from experiments.harness.fingerprint import source_fingerprint, versions
from experiments.harness.paths import EXAMPLES, FIGURE_SUFFIXES, RECORD, SUITE, VERDICTS, figure_path

_DRAWN_WITH = ("matplotlib", "seaborn", "pandas", "numpy")


@dataclass(frozen=True)
class Drawn:
    """What is known of the figures in a results folder."""

    results: Path
    config: Config

    def is_current(self, sweep: str, figure: str) -> bool:
        """Whether a figure is there as it was drawn, from what there is now."""
        return self._read().get(f"{sweep}/{figure}") == self._record(sweep, figure)

    def note(self, sweep: str, figure: str) -> None:
        """Remember that a figure was drawn from what there is now."""
        drawn = self._read() | {f"{sweep}/{figure}": self._record(sweep, figure)}
        write_whole(self._path, json.dumps(drawn, indent=1).encode())

    @property
    def _path(self) -> Path:
        return self.results / ".drawn.json"

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            content = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _record(self, sweep: str, figure: str) -> dict[str, str]:
        """Of what a figure is made, and what was made: its module and libraries, all tables, its files."""
        tests = ["experiments.analysis.suite"] * (sweep == SUITE)
        source = source_fingerprint(f"experiments.figures.{figure}", "experiments.figures.style", *tests)
        libraries = " ".join(versions(*_DRAWN_WITH).values())
        tables = [self.results / f"{other.name}.json" for other in self.config.sweeps if sweep in (other.name, SUITE)]
        tables += [self.results / EXAMPLES] * (sweep == RECORD)
        files = [figure_path(self.results, sweep, figure, suffix) for suffix in FIGURE_SUFFIXES]
        return {
            "by": f"{source} {libraries}",
            "from": _checksum([*tables, self.results / f"{VERDICTS}.csv"]),
            "files": _checksum(files),
        }


def _checksum(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes() if path.exists() else b"missing"
        digest.update(f"{len(content)}\n".encode() + content)
    return digest.hexdigest()
