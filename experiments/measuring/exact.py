"""Exact values of metrics from functions of `sdpa.theory`, which only analysis loads."""

import math
from collections.abc import Callable
from typing import Any

from experiments.measuring.experiment import AnyCell
from experiments.measuring.metric import OfCell, Theory


def from_theory(
    function: str,
    arguments: Callable[[AnyCell], tuple[Any, ...]],
    field: str = "",
    otherwise: float = math.nan,
) -> OfCell:
    """A function of `sdpa.theory` at the arguments that a cell gives, or a field of what it
    returns.

    `otherwise` is the value where theory does not know it.

    >>> from experiments.kinds.distribution import Cell
    >>> from sdpa import PairLaw, theory
    >>> of_law = from_theory("score_mean", lambda cell: (cell.d_k, 1.0, PairLaw(normalize="l2", query_mean=1.0)))
    >>> of_law(theory, Cell(d_k=4))
    nan
    """

    def value(theory: Theory, cell: AnyCell) -> float:
        try:
            found = getattr(theory, function)(*arguments(cell))
        except theory.UnknownError:
            return otherwise
        return float(getattr(found, field) if field else found)

    return value
