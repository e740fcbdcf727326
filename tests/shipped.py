"""The results in results/, with the config that is stored beside them; `shipped_only` marks what
README.md describes.

A user may edit config.yaml and run `make all`; results/ then holds the user's results, which git
tells from the committed ones. Tests of what holds for any results go on; tests of what README.md
and the shipped page say are skipped. `.ci/run` sets SHIPPED, and none is.
"""

import os
import subprocess

import pytest

from experiments.config.errors import TableError
from experiments.config.loader import load_config
from experiments.config.paths import FULL, FULL_CONFIG, STORED_CONFIG
from experiments.tables.all_results import AllResults
from tests.suite_process import ROOT

RESULTS = ROOT / "results"
CONFIG = load_config(RESULTS / STORED_CONFIG)
OF_CONFIG = AllResults(CONFIG, RESULTS)
OF_FULL = AllResults(load_config(FULL_CONFIG), RESULTS / FULL)


def _skip(reason):
    if "SHIPPED" in os.environ:
        raise AssertionError(reason)
    pytest.skip(reason, allow_module_level=True)


def tables_of_results():
    """The tables of every sweep of the stored config; skips a module of tests where results are
    incomplete.
    """
    try:
        for sweep in CONFIG.sweeps:
            OF_CONFIG.require(sweep.name)
    except TableError as error:
        _skip(f"results/ is incomplete: {error}")
    return OF_CONFIG


def _are_committed():
    """True if git knows this config and these results as they are."""
    compared = ["git", "diff", "--quiet", "HEAD", "--", "config.yaml", "results"]
    try:
        return (
            subprocess.run(compared, cwd=ROOT, stderr=subprocess.DEVNULL, check=False).returncode
            == 0
        )
    except FileNotFoundError:
        return False


IS_SHIPPED = "SHIPPED" in os.environ or _are_committed()
_OTHER = "config.yaml or results/ differ from the committed ones; SHIPPED=1 tests them all the same"
shipped_only = pytest.mark.skipif(not IS_SHIPPED, reason=_OTHER)
