"""The tables of a config, read once from a folder for all that a command does."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.config.errors import TableError
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.tables.stored import Stored

if TYPE_CHECKING:
    from experiments.tables.results import Results


class AllResults(dict[str, "Results"]):
    """The results of the sweeps of a config whose tables are sound, by name, in its order.

    It reads all tables once: a run measures before it looks.

    Args:
        config: defines the sweeps.
        folder: of their tables.
    """

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__()
        self.config = config
        self.folder = folder
        self.unsound: dict[str, TableError] = {}  # the reason for each sweep without sound tables
        for sweep in config.sweeps:
            try:
                self[sweep.name] = Stored(folder, sweep).read()
            except TableError as error:
                self.unsound[sweep.name] = error

    def require(self, name: str) -> "Results":
        """The results of a sweep; `TableError` if its tables are not sound, or the config lacks it."""
        if name in self.unsound:
            raise self.unsound[name]
        if name not in self:
            raise TableError(f"expected the sweep {name} in {self.config.path}, got none")
        return self[name]

    def require_all(self, is_wanted: Callable[[Sweep], bool]) -> list["Results"]:
        """The results of the wanted sweeps that were ever measured; `TableError` if the tables of one are
        not sound, or without any.
        """
        sweeps = filter(is_wanted, self.config.sweeps)
        written = [sweep for sweep in sweeps if Stored(self.folder, sweep).sidecar.exists()]
        if not written:
            raise TableError(
                f"expected tables of a sweep that this shows in {self.folder}, got none"
            )
        return [self.require(sweep.name) for sweep in written]
