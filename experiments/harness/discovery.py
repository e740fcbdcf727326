"""Discovery of what modules declare: an EXPERIMENT, a FIGURE, or DERIVED_TABLES.

A name at the top level of a module of `experiments` goes in; the modules that bind it come out. The search reads the
sources and imports nothing, so that the harness finds its clients without naming or loading them.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import __path__ as _folders
from experiments.harness.columns import axis_names, defaults
from experiments.harness.experiment import load_experiment
from experiments.harness.grid import plain

if TYPE_CHECKING:
    import pandas as pd


@cache
def modules_binding(name: str) -> Mapping[str, Path]:
    """Modules of `experiments` that bind a name at their top level, in alphabetical order; read, not imported.

    The result is cached: the function does not see a module that appears later in the same process.

    Returns:
        The path of each module's source, by the module's name without the prefix `experiments.`.

    >>> list(modules_binding("DERIVED_TABLES"))
    ['analysis']
    """
    binds = re.compile(rf"^{name}\b[^\n]* = ", re.MULTILINE)
    sources = {_module(path, folder): path for folder in map(Path, _folders) for path in folder.rglob("*.py")}
    return {module: sources[module] for module in sorted(sources) if binds.search(sources[module].read_text("utf-8"))}


def _module(path: Path, folder: Path) -> str:
    """The name of a module of `experiments`, without that prefix; of a package, not of its __init__.py.

    >>> _module(Path("a/b/c.py"), Path("a")), _module(Path("a/b/__init__.py"), Path("a"))
    ('b.c', 'b')
    """
    return ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


def experiment_names() -> list[str]:
    """Names of the experiments, in alphabetical order: modules that bind EXPERIMENT."""
    return list(modules_binding("EXPERIMENT"))


def axes_of(table: "pd.DataFrame") -> list[str]:
    """The axes among the columns of a table: the columns that the cell of some experiment declares.

    Treatments such as `scaling` are no axes. The order is that of the table.
    """
    return [name for name in table.columns if name in _all_axes()]


@cache
def _all_axes() -> frozenset[str]:
    return frozenset(axis for name in experiment_names() for axis in axis_names(load_experiment(name).cell))


@cache
def usual_values() -> Mapping[str, Any]:
    """The default of each axis except sizes, as in tables: a cell with these values needs no remark.

    >>> usual_values()["inputs"], usual_values()["query_std"]
    ('gaussian', 1.0)
    """
    values: dict[str, Any] = {}
    for cell in (load_experiment(name).cell for name in experiment_names()):
        for axis, value in ((name, plain(given)) for name, given in defaults(cell).items() if name in axis_names(cell)):
            if values.setdefault(axis, value) != value:
                raise TypeError(f"{axis}: expected one default in all experiments, got {values[axis]} and {value}")
    return {axis: value for axis, value in values.items() if not isinstance(value, int)}


def unusual_axes(row: Mapping[str, Any]) -> list[str]:
    """The axes with another value than the usual one, in the order of the row.

    >>> unusual_axes({"d_k": 7, "inputs": "gaussian", "key_mean": 2.0})
    ['key_mean']
    """
    return [name for name, value in row.items() if value != usual_values().get(name, value)]
