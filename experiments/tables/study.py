"""The tables of a config in a folder: what each command reads, once."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.config.errors import TableError
from experiments.config.loader import Config
from experiments.tables.stored import Stored

if TYPE_CHECKING:
    from experiments.tables.results import Results


class Study(Mapping[str, "Results"]):
    """The results of the sweeps of a config whose tables are sound, by name, in its order.

    All tables are read at the first look, and not again: a run measures before it looks.

    Args:
        config: defines the sweeps.
        folder: of their tables.
    """

    def __init__(self, config: Config, folder: Path) -> None:
        self.config = config
        self.folder = folder

    @cached_property
    def _read(self) -> "tuple[dict[str, Results], dict[str, TableError]]":
        """The sound results, and for each other sweep the reason why its tables are not sound."""
        sound = {}
        unsound = {}
        for sweep in self.config.sweeps:
            try:
                sound[sweep.name] = Stored(self.folder, sweep).read()
            except TableError as error:
                unsound[sweep.name] = error
        return sound, unsound

    def __getitem__(self, name: str) -> "Results":
        return self._read[0][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read[0])

    def __len__(self) -> int:
        return len(self._read[0])

    @property
    def unsound(self) -> "dict[str, TableError]":
        """The reason why the tables of a sweep are not sound, for each such sweep."""
        return self._read[1]

    def require(self, name: str) -> "Results":
        """The results of a sweep; `TableError` if its tables are not sound."""
        if name in self.unsound:
            raise self.unsound[name]
        return self[name]
