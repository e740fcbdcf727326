"""A derived table: its module declares it, and every sweep whose tables have the needed columns gets it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from experiments.harness.columns import Column
from experiments.harness.experiment import MEASURED, Experiment
from experiments.harness.grid import Sweep

TESTS = "tests"  # the kind of a table of one test per cell
VERDICTS = "verdicts"  # the kind of the table of one verdict per measured value

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Derived:
    """A table derived/SWEEP/KIND.csv.

    Attributes:
        kind: its name.
        needs: required columns of the source table.
        columns: its own columns, for an experiment.
        derive: makes it from the existing tables of a sweep; gives no rows if it does not apply.
        source: the source table.
    """

    kind: str
    needs: frozenset[str]
    columns: Callable[[Experiment], tuple[Column, ...]]
    derive: Callable[[Sweep, Tables], pd.DataFrame]
    source: str = MEASURED
