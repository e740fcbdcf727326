"""The experiments, and the axes of their cells among the columns of tables."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.measuring.columns import axis_names, defaults, plain
from experiments.measuring.experiment import load_experiment

if TYPE_CHECKING:
    import pandas as pd


@cache
def experiment_names() -> list[str]:
    """Names of the experiments, in alphabetical order: the modules of this folder."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))


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
