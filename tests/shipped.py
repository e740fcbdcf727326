"""The results in results/, with the config that is stored beside them; `shipped_only` marks what README.md describes.

A user may edit config.yaml and run `make all`; results/ then holds the user's results. So may one whose processor has
other instructions. Tests of what holds for any results go on; tests of what README.md and the shipped page say are
skipped. `.ci/run` sets SHIPPED, and none is.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest

from experiments.analysis.results import Results
from experiments.config.loader import load_config
from experiments.config.problems import TableError
from experiments.run.files import STORED_CONFIG
from experiments.run.tables import read_sidecar, read_sweep

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
CONFIG = load_config(RESULTS / STORED_CONFIG)
# Of the shipped results: to be changed with them.
SHIPPED_DIGEST = "e4758102ffef6022945e9306fce312d9adac96c2c2c4d6dbadf903d0528de2df"


def _skip(reason: str) -> None:
    if "SHIPPED" in os.environ:
        raise AssertionError(reason)
    pytest.skip(reason, allow_module_level=True)


def tables_of_results() -> dict[str, Results]:
    """The tables of every sweep of the stored config; skips a module of tests where results are incomplete."""
    try:
        return {sweep.name: read_sweep(RESULTS, CONFIG, sweep) for sweep in CONFIG.sweeps}
    except TableError as error:
        _skip(f"results/ is incomplete: {error}")
        raise


def _digest() -> str:
    """SHA-256 over the config and the checksums of all tables of its sweeps; empty if a table is missing."""
    try:
        sums = [read_sidecar(RESULTS / f"{sweep.name}.json")["sha256"] for sweep in CONFIG.sweeps]
    except TableError:
        return ""
    return hashlib.sha256(json.dumps([CONFIG.digest, sums]).encode()).hexdigest()


IS_SHIPPED = _digest() == SHIPPED_DIGEST
_OTHER = f"results/ holds other results than the shipped ones: expected the digest {SHIPPED_DIGEST}, got {_digest()}"
if not IS_SHIPPED and "SHIPPED" in os.environ:
    raise AssertionError(_OTHER)
shipped_only = pytest.mark.skipif(not IS_SHIPPED, reason=_OTHER)
