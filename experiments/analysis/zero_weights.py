"""The d_k at which half of the exact weights round to 0 in a number format.

P(w < half the smallest number) of `sdpa.theory.out_of_range` rises with d_k unless the divisor keeps
the spread of the scores, so that the d_k where it is 1/2 is a line on the (d_k, n_keys) plane of a
format.
"""

import math

import pandas as pd
from scipy.optimize import brentq

from experiments.analysis.derived import Derived, after_axes, columns_of_text, row_cells
from experiments.analysis.results import Results
from experiments.analysis.slopes import shared_by_line
from experiments.kinds.rounding import Cell as RoundedCell
from experiments.measuring.experiment import Cell
from sdpa import theory

_LARGEST = 20  # log2 of the largest d_k of the search
_STEP = 1e-3  # of log2 d_k: a relative 7e-4


def zero_limits(results: Results) -> pd.DataFrame:
    """One row for each rule and each combination of the axes but d_k; `half_zero_d_k` is empty if
    there is none.
    """
    shared = shared_by_line(results)
    rows = results.measured[shared].reset_index(drop=True).drop_duplicates()
    cells = row_cells(results.cells)
    found = [_limit(cells[place]) for place in rows.index]
    return rows.assign(half_zero_d_k=found, searched_to=2**_LARGEST)


def _limit(cell: Cell) -> float:
    """The d_k from 1 to 2^20 where half of the weights of a cell with one rule round to 0; NaN if
    there is none.
    """
    if not isinstance(cell, RoundedCell) or cell.has_mask:  # under a mask, one value takes seconds
        return math.nan
    (rule,) = cell.scaling
    n_keys = cell.n_keys

    def excess(log_d_k: float) -> float:
        d_k = 2.0**log_d_k
        divisor = rule.divisor(d_k, n_keys)
        found = theory.out_of_range(
            d_k, n_keys, divisor, cell.arithmetic, cell.law, None, cell.prescale
        )
        return found.tiny_weights - 0.5

    try:
        if not excess(0) < 0 < excess(_LARGEST):
            return math.nan
        log_d_k = brentq(excess, 0, _LARGEST, xtol=_STEP)
        return float(2**log_d_k)
    except theory.UnknownError:
        return math.nan


_ZERO_LIMITS = columns_of_text(
    """
    scaling str scaling rule
    half_zero_d_k float? d_k at which half of all exact weights round to 0 in the format; empty if that happens at no
        d_k of the search, under a mask, or if no exact value is known := P(w < half the smallest number) = 1/2
    searched_to int largest d_k of the search, which starts at 1
    """
)
TABLES = (
    Derived(
        "zero_limits",
        needs={"arithmetic", "zero_weights"},
        columns=after_axes(_ZERO_LIMITS, but="d_k"),
        derive=zero_limits,
    ),
)
