"""The figures of the page: their files, and what the page shows of each."""

import base64
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from experiments.config.loader import Config
from experiments.config.paths import (
    DRAWN_ROWS,
    EXAMPLE_FOLDER,
    FULL,
    MODELS,
    drawn_texts,
    figure_path,
    model_path,
)

LONGER = "config-full"  # in place of a sweep's name: the figure of longer training
_MOST_EMBEDDED = 12  # figures that are part of the page; others are files beside it


class Picture(NamedTuple):
    """A figure on the page: a unique name, its texts, its file, its image as a data URI or this
    file, the size in pixels and the place in per cent of the drawing between title and caption.
    """

    name: str
    title: str
    caption: str
    file: str
    source: str
    width: int
    height: int
    place: float


def pictures(config: Config, results: Path) -> dict[str, list[Path]]:
    """The PNG files of the page by sweep, and of config.full.yaml, models and
    examples by names of their own.

    Only files with a text beside them count: a figure that could not be drawn is not on the page.
    """
    found = {
        sweep.name: [figure_path(results, sweep.name, name, ".png") for name in sweep.figures]
        for sweep in config.sweeps
    }
    found[LONGER] = [figure_path(results / FULL, "language", "losses", ".png")]
    found[MODELS] = [model_path(results, "divisors.png")]
    found[EXAMPLE_FOLDER] = sorted((results / EXAMPLE_FOLDER).glob("*.png"))
    return {
        name: [path for path in paths if path.with_suffix(".txt").exists()]
        for name, paths in found.items()
    }


def drawn_pictures(
    config: Config, results: Path, first: Collection[str]
) -> dict[str, list[Picture]]:
    """The figures of the page, as `pictures`; those of the sweeps that it begins with, and of the
    first others, are part of it.
    """
    paths = pictures(config, results)
    ordered = sorted(paths, key=lambda name: name not in first)
    embedded = [path for name in ordered for path in paths[name]][:_MOST_EMBEDDED]
    return {
        name: [_picture(name, path, results, is_embedded=path in embedded) for path in of_one]
        for name, of_one in paths.items()
    }


def _picture(of: str, path: Path, results: Path, *, is_embedded: bool) -> Picture:
    title, caption = drawn_texts(path)
    with Image.open(path) as image:
        width, height = image.size
        first, end = map(int, image.info[DRAWN_ROWS].split())
    shown = end - first
    place = round(100 * first / (height - shown), 2)
    file = source = path.relative_to(results).as_posix()
    if is_embedded:
        encoded = base64.b64encode(path.read_bytes())
        source = "data:image/png;base64," + encoded.decode()
    prefix = path.parent.name if of == MODELS else of
    name = f"{prefix}-{path.stem}"
    return Picture(name, title, caption, file, source, width, shown, place)
