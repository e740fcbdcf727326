"""The file statements.csv, from the shipped tables of config.yaml and of config.full.yaml."""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.claims.compute import compute_table
from experiments.claims.table import table_path
from experiments.config.loader import Config, load_config
from experiments.config.sweep import Sweep
from experiments.declarations.figure import Needs
from experiments.declarations.tables import BOTH, POWERS
from experiments.figures.findings import mismatch
from experiments.measuring.experiment import MEASURED
from experiments.output.products import Product, build
from experiments.output.reporter import Reporter
from experiments.output.tables import read_sweep
from experiments.paths import sidecar_path
from sdpa.scaling import UNSCALED

TRAINED = Path("config.full.yaml")  # of the decoders that training is judged by
# The sweeps that statements read: the least number of trials, and the needed values.
_Read = Mapping[str, tuple[int, Needs]]
_READ: _Read = {  # of config.yaml
    "dimension": (
        3000,
        {
            "d_k": (4, 8, 16, 32, 64, 128, 256, 512),
            "n_keys": 64,
            "scaling": POWERS,
        },
    ),
    "powers": (
        1500,
        {
            "d_k": (64, 512),
            "n_keys": 64,
            "scaling": (*POWERS, "d_k^1"),
        },
    ),
    "dot_products": (1_000_000, {"d_k": (1, 4, 16, 64, 256)}),
    "phase": (
        20,
        {
            "d_k": tuple(2**power for power in range(1, 13)),
            "n_keys": (4, 16, 64, 256, 1024, 4096),
            "scaling": BOTH,
        },
    ),
}
_OF_DECODERS: Needs = {"n_keys": 64, "initial": ("unit",), "initial_divisor": (UNSCALED,)}
_TWO_RULES: Needs = {**_OF_DECODERS, "scaling": BOTH}
_READ_TRAINED: _Read = {  # of config.full.yaml
    "language": (9, {**_TWO_RULES, "d_k": 64, "learning_rate": (0.001, 0.002, 0.004, 0.008)}),
    "language_wide": (
        9,
        {
            **_TWO_RULES,
            "d_k": 512,
            "initial": ("unit", "small"),
            "learning_rate": (0.0005, 0.001, 0.002, 0.004),
        },
    ),
    "language_uniform": (
        3,
        {
            **_OF_DECODERS,
            "d_k": (64, 512),
            "layers": (4,),
            "learning_rate": (0.001, 0.002, 0.004),
            "scaling": "1000000",
        },
    ),
}


def update_statements(config: Config, results: Path, report: Reporter) -> None:
    """Bring statements.csv up to date; if a sweep lacks what they are judged by, it stays as it is.

    Args:
        config: the config of the results.
        results: the folder of its tables; statements.csv is in its folder `statements`.
        report: told what becomes of the file.

    Raises:
        TableError: a table is missing, altered, or from another config.
    """
    path = table_path(results)
    if reason := cannot_judge(config):
        report.line(f"kept {path}: {reason}")
        return
    sidecars = tuple(
        sidecar_path(folder, sweep.name) for folder, sweep in _sources(config, results)
    )
    build(results, [Product((path,), partial(_table, config, results), sidecars)], report)


def cannot_judge(config: Config) -> str:
    """The first reason why the sweeps of a config, or those of config.full.yaml, do not judge the
    statements; empty if they do.
    """
    return _cannot_judge(config, _READ) or _cannot_judge(_trained(), _READ_TRAINED)


@cache
def _trained() -> Config:
    return load_config(TRAINED)


def _cannot_judge(config: Config, read: _Read) -> str:
    sweeps = {sweep.name: sweep for sweep in config.sweeps}
    for name, (trials, needs) in read.items():
        judged_by = f"statements are judged by the sweep {name}"
        if name not in sweeps:
            return f"{judged_by}, which the config does not have"
        if reason := mismatch(sweeps[name], needs):
            return f"{judged_by}: {reason}"
        if sweeps[name].trials < trials:
            got = sweeps[name].trials
            return f"{judged_by}: expected {trials} trials, got {got}"
    return ""


def _table(config: Config, results: Path) -> list[bytes]:
    return [csv_bytes(compute_table(measured_tables(config, results)))]


def measured_tables(config: Config, results: Path) -> dict[str, pd.DataFrame]:
    """The tables behind the statements by name: SWEEP if measured, SWEEP/KIND if derived."""
    return {
        sweep.name if kind == MEASURED else f"{sweep.name}/{kind}": table
        for folder, sweep in _sources(config, results)
        for kind, table in read_sweep(folder, sweep).items()
    }


def _sources(config: Config, results: Path) -> list[tuple[Path, Sweep]]:
    """The sweeps that the statements read, each with the folder of its tables."""
    trained = results / TRAINED.stem
    both = (results, config, _READ), (trained, _trained(), _READ_TRAINED)
    return [
        (folder, sweep)
        for folder, each, read in both
        for sweep in each.sweeps
        if sweep.name in read
    ]
