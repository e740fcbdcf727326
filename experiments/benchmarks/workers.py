"""Measure a whole config into a store of its own."""

from pathlib import Path

from experiments.harness.config import Config
from experiments.harness.paths import STORE
from experiments.harness.run import fill, survey, survey_pilots
from experiments.harness.store import Store


def measure_all(config: Config, folder: Path, jobs: int) -> None:
    """Every chunk of every sweep, with that many workers."""
    store = Store(folder / STORE, config.seed)
    for surveyed in (survey_pilots, survey):
        for _ in fill(store, config.sweeps, surveyed(store, config.sweeps), jobs, lambda *_: None):
            pass  # a sweep whose records are there
