"""Files of sweeps and figures that a config no longer has."""

from contextlib import suppress
from pathlib import Path

from experiments.config.errors import TableError
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
            sums = made["sha256"]
            if name not in kept and made.get("sweep") == name:
                tables = {folder / csv_name(name, kind): sums[kind] for kind in sums}
                whole = [path for path in tables if checksum(path) == tables[path]]
                found[name] = [*whole, sidecar]
    for path in sorted(folder.glob(f"{FIGURE_FOLDER}/*/*")):
        name, figure = path.parent.name, path.stem
        if figure in FIGURES and path.suffix in (*DRAWN, *ON_REQUEST):
            if name in found:
                found[name].insert(0, path)  # the JSON goes last, in case that removal ends early
            elif figure not in kept.get(name, FIGURES):
                found.setdefault(f"{name}/{figure}", []).append(path)
    return found


def remove(path: Path) -> None:
    """Remove a file, and its folder if nothing else is in it."""
    path.unlink()
    with suppress(OSError):
        path.parent.rmdir()
