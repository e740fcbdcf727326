"""Studies of one model or one record, beside the sweeps: each folder says what it asks.

Its module `contribution` declares what the study gives to the page, to docs and to commands. These
iterate over the folders that are there, so that each can be deleted.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from experiments.config.errors import UsageError
from experiments.figures.markup import Source
from experiments.tables.reporter import Reporter

_FOLDER = Path(__file__).parent
Step = Callable[[Path, Reporter], None]  # of a command, in a results folder


class Contribution(NamedTuple):
    """What a study gives.

    Attributes:
        write: writes what follows from its data, for the command `readme`.
        check: names what is out of date, for the command `check`.
        pictures: a pattern of PNGs in a results folder by their place on the page.
        blocks: generated parts of docs by name.
    """

    write: Step | None = None
    check: Step | None = None
    pictures: Mapping[str, str] = {}
    blocks: Mapping[str, Callable[[Source], str]] = {}


def study_names() -> list[str]:
    """The names of the studies, in alphabetical order: the folders of this one."""
    return sorted(path.parent.name for path in _FOLDER.glob("*/contribution.py"))


def require_study(name: str) -> None:
    """Raises UsageError if this clone lacks the folder of a study."""
    if name not in study_names():
        raise UsageError(f"expected the study {name} in this clone, got no folder {_FOLDER / name}")


@cache
def contributions() -> list[Contribution]:
    """Those of the studies that are there."""
    modules = (f"{__name__}.{name}.contribution" for name in study_names())
    return [import_module(module).CONTRIBUTION for module in modules]
