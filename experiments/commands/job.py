"""A job: sweeps of a config in a folder of results, and what a command needs to work on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from experiments.config.loader import Config
from experiments.config.paths import STORE
from experiments.config.sweep import Sweep
from experiments.running.store import Store
from experiments.running.work import Work, Workers, find_work
from experiments.running.workers import LocalWorkers
from experiments.tables.all_results import AllResults
from experiments.tables.reporter import Reporter

_ONE_WORKER = LocalWorkers(1)


@dataclass(frozen=True)
class Job:
    """Sweeps to work on.

    Attributes:
        config: has these sweeps and perhaps others.
        folder: of their tables.
        report: tells the user.
        workers: measure.
        names: of the sweeps; none for all of the config.
        jobs: processes for all other work; None for one per processor.
        formats: of figures beside PNG.
    """

    config: Config
    folder: Path
    report: Reporter
    workers: Workers = _ONE_WORKER
    names: Sequence[str] = ()
    jobs: int | None = None
    formats: Sequence[str] = ()

    @property
    def sweeps(self) -> list[Sweep]:
        """The sweeps, in the order of the config."""
        every = self.config.sweeps
        return [sweep for sweep in every if not self.names or sweep.name in self.names]

    @cached_property
    def all_results(self) -> AllResults:
        """The results of all sweeps of the config."""
        return AllResults(self.config, self.folder)

    @property
    def store(self) -> Store:
        """The finished chunks."""
        return Store(self.folder / STORE)

    def work(self) -> Work:
        """The chunks of the sweeps in the store, and those still to measure."""
        return find_work(self.store, self.sweeps)
