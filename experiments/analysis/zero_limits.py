"""The d_k at which half of all weights round to 0 in a number format, for each number of keys and rule.

The main table of a sweep of `rounding` comes in; the derived table `zero_limits` comes out. P(w < half the smallest
number) of `sdpa.theory.out_of_range` rises with d_k unless the divisor keeps the spread of the scores, so that the d_k
where it is 1/2 is a line on the (d_k, n_keys) plane. No draw enters.
"""

import math

import pandas as pd
from scipy.optimize import brentq

from experiments.analysis.derived import Derived
from experiments.analysis.exact import cells_of
from experiments.harness.columns import Column, axis_columns
from experiments.harness.discovery import axes_of
from experiments.harness.experiment import MEASURED, Cell, Experiment
from sdpa import theory

LIMITS = "zero_limits"
HALF_ZERO = "half_zero_d_k"
LARGEST = 20  # log2 of the largest d_k of the search
_STEP = 1e-3  # of log2 d_k: a relative 7e-4


def zero_limits(experiment: Experiment, table: pd.DataFrame) -> pd.DataFrame:
    """One row for each rule and each combination of the axes but d_k; `half_zero_d_k` is empty if there is none.

    Args:
        experiment: of the table.
        table: a finished main table of `rounding`.
    """
    names = [name for name in axes_of(table) if name != "d_k"]
    rows = table.drop_duplicates([*names, "scaling"])
    limits = [_limit(cell) for cell in cells_of(experiment, rows)]
    return rows[[*names, "scaling"]].assign(**{HALF_ZERO: limits, "searched_to": 2**LARGEST}).reset_index(drop=True)


def _limit(cell: Cell) -> float:
    """The d_k from 1 to 2^20 where half of the weights of a cell with one rule round to 0; NaN if there is none."""
    if cell.has_mask:  # one value takes seconds
        return math.nan
    (rule,) = cell.scaling

    def excess(log_d_k: float) -> float:
        d_k = 2.0**log_d_k
        divisor = rule.divisor(d_k, cell.n_keys)
        found = theory.out_of_range(d_k, cell.n_keys, divisor, cell.arithmetic, cell.law, cell.shortest_row)
        return found.tiny_weights - 0.5

    try:
        if not excess(0) < 0 < excess(LARGEST):
            return math.nan
        return float(2 ** brentq(excess, 0, LARGEST, xtol=_STEP))
    except theory.UnknownError:
        return math.nan


ZERO_LIMITS = Derived(
    LIMITS,
    needs=frozenset({"arithmetic", "zero_weights"}),
    columns=lambda experiment: (
        *(column for column in axis_columns(experiment.cell) if column.name != "d_k"),
        Column("scaling", "str", "scaling rule"),
        Column(
            HALF_ZERO,
            "float",
            "d_k at which half of all exact weights round to 0 in the format; empty if that happens at no d_k of "
            "the search, under a mask, or if no exact value is known",
            "P(w < half the smallest number) = 1/2",
            may_be_empty=True,
        ),
        Column("searched_to", "int", "largest d_k of the search, which starts at 1"),
    ),
    derive=lambda sweep, tables: zero_limits(sweep.experiment, tables[MEASURED]),
)
