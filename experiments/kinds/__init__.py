"""The experiments: one folder each.

`cell` says the question, the cell, the draw and the metrics, `tables` derives tables, `figures`
declares figures with their findings, and `drawing` draws those that are not lines. Without one of the
last three, an experiment has none.
"""

import importlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


@cache
def experiment_names() -> list[str]:
    """Names of the experiments, in alphabetical order: the folders of this one."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/cell.py"))


def modules(name: str) -> Iterator[tuple[str, ModuleType]]:
    """Each experiment that has a module of a name, and the module."""
    for experiment in experiment_names():
        module = f"{__name__}.{experiment}.{name}"
        if find_spec(module):
            yield experiment, importlib.import_module(module)
