"""The results in results/, with the config that is stored beside them; `shipped_only` marks what README.md describes.

A user may edit config.yaml and run `make all`; results/ then holds the user's results. Tests of what holds for any
results go on; tests of what README.md and the shipped page say are skipped. `.ci/run` sets SHIPPED, and none is.
"""

import os
from pathlib import Path

import pandas as pd
import pytest

from experiments.harness.config import load_config
from experiments.harness.paths import STORED_CONFIG
from experiments.harness.tables import TableError, read_sweep

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
CONFIG = load_config(RESULTS / STORED_CONFIG)
# Of the config whose results are shipped: to be changed with it.
SHIPPED_DIGEST = "65731f4c773f55f262b4266547119dbf0438db47e15ed5d86aeff333000d568d"


def _skip(reason: str) -> None:
    if "SHIPPED" in os.environ:
        raise AssertionError(reason)
    pytest.skip(reason, allow_module_level=True)


def tables_of_results() -> dict[str, dict[str, pd.DataFrame]]:
    """The tables of every sweep of the stored config; skips a module of tests where results are incomplete."""
    try:
        return {sweep.name: read_sweep(RESULTS, CONFIG, sweep) for sweep in CONFIG.sweeps}
    except TableError as error:
        _skip(f"results/ is incomplete: {error}")
        raise


_OTHER = f"results/ holds the sweeps of a config other than the shipped one, got digest {CONFIG.digest}"
if CONFIG.digest != SHIPPED_DIGEST and "SHIPPED" in os.environ:
    raise AssertionError(_OTHER)
shipped_only = pytest.mark.skipif(CONFIG.digest != SHIPPED_DIGEST, reason=_OTHER)
