"""Discovery of experiments: every module of `experiments` that binds EXPERIMENT is one."""

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import __path__ as _folders
from experiments.harness.columns import axis_names
from experiments.harness.experiment import load_experiment

if TYPE_CHECKING:
    import pandas as pd

_BINDING = re.compile(r"^EXPERIMENT\b", re.MULTILINE)


@cache
def experiment_names() -> list[str]:
    """Names of the experiments, in alphabetical order; their modules are read, not imported."""
    modules = [path for folder in _folders for path in Path(folder).glob("*.py")]
    return sorted(path.stem for path in modules if _BINDING.search(path.read_text(encoding="utf-8")))


def axes_of(table: "pd.DataFrame") -> list[str]:
    """The axes among the columns of a table: the columns that the cell of some experiment declares."""
    return [name for name in table.columns if name in _all_axes()]


@cache
def _all_axes() -> frozenset[str]:
    return frozenset(axis for name in experiment_names() for axis in axis_names(load_experiment(name).cell))
