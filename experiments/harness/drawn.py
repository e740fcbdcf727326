"""The state of every figure when it was drawn, kept in a file that git ignores."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from experiments.harness.config import Config
from experiments.harness.files import write_whole
from experiments.harness.fingerprint import source_fingerprint, versions
from experiments.harness.paths import FIGURE_SUFFIXES, SUITE, figure_path

_DRAWN_WITH = ("matplotlib", "seaborn", "pandas", "numpy")


@dataclass(frozen=True)
class Drawn:
    """The figures in a results folder, with what each was drawn from."""

    results: Path
    config: Config

    def is_current(self, sweep: str, figure: str) -> bool:
        """True if a figure is there as it was drawn, and its source, libraries and tables are still the same."""
        return self._read().get(f"{sweep}/{figure}") == self._record(sweep, figure)

    def note(self, sweep: str, figure: str) -> None:
        """Remember that a figure was drawn from what there is now."""
        drawn = self._read() | {f"{sweep}/{figure}": self._record(sweep, figure)}
        write_whole(self._path, json.dumps(drawn, indent=1).encode())

    def is_untouched(self, sweep: str, figure: str) -> bool:
        """True if the files of a figure are as the suite wrote them.

        Where this folder has not drawn it, as in a fresh clone, there is no SVG, and the PNG holds its caption.
        """
        known = self._read().get(f"{sweep}/{figure}")
        if known is not None:
            return known.get("files") == _checksum(self._files(sweep, figure))
        png, svg, text = self._files(sweep, figure)
        caption = text.read_bytes().strip() if text.exists() else b""
        return bool(caption) and png.exists() and caption in png.read_bytes() and not svg.exists()

    def _files(self, sweep: str, figure: str) -> list[Path]:
        return [figure_path(self.results, sweep, figure, suffix) for suffix in FIGURE_SUFFIXES]

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
        """Source and libraries that draw a figure, its tables, and its files, each by checksum."""
        tests = ["experiments.analysis.suite"] * (sweep == SUITE)
        source = source_fingerprint(f"experiments.figures.{figure}", "experiments.figures.rendering", *tests)
        libraries = " ".join(versions(*_DRAWN_WITH).values())
        tables = [self.results / f"{other.name}.json" for other in self.config.sweeps if sweep in (other.name, SUITE)]
        return {
            "by": f"{source} {libraries}",
            "from": _checksum(tables),
            "files": _checksum(self._files(sweep, figure)),
        }


def _checksum(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes() if path.exists() else b"missing"
        digest.update(f"{len(content)}\n".encode() + content)
    return digest.hexdigest()
