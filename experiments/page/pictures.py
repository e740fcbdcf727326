"""The figures of the page: what it shows of each."""

import base64
import itertools
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from experiments.config.errors import Problem
from experiments.config.loader import load_config
from experiments.config.paths import EXAMPLE_FOLDER, FULL, FULL_CONFIG, MODELS
from experiments.figures.draw import pictures_of
from experiments.figures.picture import Picture
from experiments.studies.examples.examples import EXAMPLES
from experiments.studies.examples.walk import example_path
from experiments.tables.study import Study

LONGER = "config-full"  # in place of a sweep's name: the figure of longer training
_MOST_EMBEDDED = 12  # figures that are part of the page; others are files beside it


class OnPage(NamedTuple):
    """A picture on the page: a unique name, itself, its file, its image as a data URI or this
    file, the size in pixels and the place in per cent of the drawing between title and caption.
    """

    name: str
    picture: Picture
    file: str
    source: str
    width: int
    height: int
    place: float


def pictures(study: Study, first: Collection[str] = ()) -> dict[str, list[OnPage]]:
    """The figures of the page by sweep, and of config.full.yaml, the model and examples by names of
    their own; those of the sweeps that it begins with, and of the first others, are part of it.

    A figure that could not be drawn is not on the page.
    """
    from experiments.studies.examples.picture import picture_of  # loads Matplotlib

    folder = study.folder
    drawn = {name: [*pictures_of(folder, results)] for name, results in study.items()}
    drawn[LONGER] = [*_longer(folder / FULL)]
    drawn[MODELS] = [*_model_pictures(folder)]
    drawn[EXAMPLE_FOLDER] = [
        picture_of(EXAMPLES[name], example_path(folder, name)) for name in sorted(EXAMPLES)
    ]
    embedded = itertools.repeat(True, _MOST_EMBEDDED)
    return {
        name: [
            _on_page(name, picture, folder, is_embedded=next(embedded, False))
            for picture in drawn[name]
            if picture.words.title and picture.path.exists()
        ]
        for name in sorted(drawn, key=lambda name: name not in first)
    }


def _longer(folder: Path) -> Iterator[Picture]:
    if not folder.exists():  # results of another config
        return
    full = load_config(FULL_CONFIG)
    sweeps = tuple(sweep for sweep in full.sweeps if sweep.name == "language")
    for results in Study(replace(full, sweeps=sweeps), folder).values():
        yield from pictures_of(folder, results)


def _model_pictures(folder: Path) -> Iterator[Picture]:
    from experiments.studies.smollm2.figures import model_picture

    with suppress(KeyError, Problem):  # no tables, or others than those of its sentence
        yield model_picture(folder, "divisors")


def _on_page(of: str, picture: Picture, results: Path, *, is_embedded: bool) -> OnPage:
    path = picture.path
    with Image.open(path) as image:
        width, height = image.size
    first, *below = (strip.rows for strip in picture.strips(width))
    place = round(100 * first / (first + sum(below)), 2)
    file = source = path.relative_to(results).as_posix()
    if is_embedded:
        encoded = base64.b64encode(path.read_bytes())
        source = "data:image/png;base64," + encoded.decode()
    prefix = path.parent.name if of == MODELS else of
    shown = height - first - sum(below)
    return OnPage(f"{prefix}-{path.stem}", picture, file, source, width, shown, place)
