"""Files of sweeps and figures that a config no longer has."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from experiments.config.errors import TableError, counted
from experiments.config.loader import Config
from experiments.config.paths import DRAWN, FIGURE_FOLDER, ON_REQUEST
from experiments.kinds.figures import FIGURES
from experiments.running.files import checksum
from experiments.tables.stored import csv_name, read_sidecar


def leftovers(config: Config, folder: Path) -> dict[str, list[Path]]:
    """The files of each sweep NAME, and of each SWEEP/FIGURE, that a folder has beyond a config.

    A sweep has its JSON, the tables that this vouches for, and drawings with names of figures. An
    altered table and any other file are none of them.
    """
    kept = {sweep.name: sweep.figures for sweep in config.sweeps}
    found: dict[str, list[Path]] = {}
    for sidecar in sorted(folder.glob("*.json")):
        name = sidecar.stem
        with suppress(TableError):
            made = read_sidecar(sidecar)
            if name not in kept and made.get("sweep") == name:
                tables = [*_vouched(folder, name, made["sha256"])]
                drawn = [path for paths in _drawn(folder, name).values() for path in paths]
                found[name] = [
                    *tables,
                    *drawn,
                    sidecar,
                ]  # last, in case that removing them ends early
    for name, figures in kept.items():
        drawings = _drawn(folder, name).items()
        found |= {f"{name}/{figure}": paths for figure, paths in drawings if figure not in figures}
    return found


def _vouched(folder: Path, name: str, sums: Mapping[str, str]) -> Iterator[Path]:
    for kind, sha256 in sums.items():
        path = folder / csv_name(name, kind)
        if checksum(path) == sha256:
            yield path


def _drawn(folder: Path, name: str) -> dict[str, list[Path]]:
    """The files of each figure in the folder of a sweep."""
    found: dict[str, list[Path]] = {}
    for path in sorted((folder / FIGURE_FOLDER / name).glob("*")):
        if path.stem in FIGURES and path.suffix in (*DRAWN, *ON_REQUEST):
            found.setdefault(path.stem, []).append(path)
    return found


def in_words(found: Mapping[str, Sequence[Path]]) -> str:
    """Their names, and the command that removes them; empty without any."""
    files = counted(sum(map(len, found.values())), "file")
    how = f"make clear-leftovers removes the {files} of what the config no longer has"
    return f"{', '.join(found)}; {how}" if found else ""


def remove(paths: Sequence[Path]) -> None:
    """Remove files, and their folders if nothing else is in them."""
    for path in paths:
        path.unlink()
        with suppress(OSError):  # the folder has other files
            path.parent.rmdir()
