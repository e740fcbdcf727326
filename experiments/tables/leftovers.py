"""Files of sweeps and figures that a config no longer has."""

from contextlib import suppress
from pathlib import Path

from experiments.config.errors import TableError
from experiments.config.loader import Config
from experiments.config.paths import FIGURE_FOLDER, ON_REQUEST
from experiments.running.files import checksum
from experiments.tables.products import Product
from experiments.tables.stored import csv_name, read_sidecar


def leftovers(config: Config, folder: Path) -> dict[str, list[Path]]:
    """The files of each sweep NAME, and of each SWEEP/FIGURE, that a folder has beyond a config, as the
    suite wrote them.

    A sweep has its JSON, the tables that this vouches for, and the figures that the folder has a record
    of. A figure of which somebody changed or added a file is none of them, and neither is any other file.
    """
    kept = {sweep.name: sweep.figures for sweep in config.sweeps}
    extra: dict[str, list[Path]] = {}
    for sidecar in sorted(folder.glob("*.json")):
        name = sidecar.stem
        with suppress(TableError):
            made = read_sidecar(sidecar)
            if name not in kept and made.get("sweep") == name:
                extra[name] = [sidecar]
                for kind, sha256 in made["sha256"].items():
                    table = folder / csv_name(name, kind)
                    if checksum(table) == sha256:
                        extra[name].insert(-1, table)
    for drawing in sorted(folder.glob(f"{FIGURE_FOLDER}/*/*.png")):
        name, figure = drawing.parent.name, drawing.stem
        further = map(drawing.with_suffix, ON_REQUEST)
        files = (drawing, *filter(Path.exists, further))
        is_left = name in extra or figure not in kept.get(name, [figure])
        is_as_made = Product(files, list).state(folder) != "foreign"
        if is_left and is_as_made:
            key = name if name in extra else f"{name}/{figure}"
            extra[key] = [*files, *extra.get(key, ())]  # the JSON last, if removal ends early
    return extra


def remove(path: Path) -> None:
    """Remove a file, and its folder if nothing else is in it."""
    path.unlink()
    with suppress(OSError):
        path.parent.rmdir()
