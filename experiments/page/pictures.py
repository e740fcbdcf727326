"""The figures of the page: what it shows of each."""

import base64
import itertools
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from experiments.figures.draw import pictures_of
from experiments.figures.picture import Words
from experiments.studies import contributions
from experiments.tables.all_results import AllResults

_MOST_EMBEDDED = 12  # figures that are part of the page; others are files beside it


class OnPage(NamedTuple):
    """A picture on the page: a unique name, its words, its file, its image as a data URI or this
    file, the size in pixels and the place in per cent of the drawing between title and caption.
    """

    name: str
    words: Words
    file: str
    source: str
    width: int
    height: int
    place: float


def pictures(all_results: AllResults, first: Collection[str] = ()) -> dict[str, list[OnPage]]:
    """The figures of the page by sweep; those of the sweeps that it begins with, and of the first
    others, are part of it.

    A figure that could not be drawn is not on the page.
    """
    folder = all_results.folder
    embedded = itertools.repeat(True, _MOST_EMBEDDED)
    return {
        name: [
            _on_page(name, picture.path, folder, is_embedded=next(embedded, False))
            for picture in pictures_of(folder, all_results[name])
            if picture.words.title and picture.path.exists()
        ]
        for name in sorted(all_results, key=lambda name: name not in first)
    }


def study_pictures(folder: Path) -> dict[str, list[OnPage]]:
    """The pictures of studies in a results folder by their place on the page."""
    return {
        place: [_on_page(place, path, folder) for path in sorted(folder.glob(pattern))]
        for study in contributions()
        for place, pattern in study.pictures.items()
    }


def _on_page(of: str, path: Path, folder: Path, *, is_embedded: bool = False) -> OnPage:
    with Image.open(path) as image:
        width, height = image.size
        words = Words(image.info["Title"], image.info["Description"])
        first, end = map(int, image.info["Rows"].split())
    shown = end - first
    place = round(100 * first / (height - shown), 2)
    file = source = path.relative_to(folder).as_posix()
    if is_embedded:
        encoded = base64.b64encode(path.read_bytes())
        source = "data:image/png;base64," + encoded.decode()
    return OnPage(f"{of}-{path.stem}", words, file, source, width, shown, place)
