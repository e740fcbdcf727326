"""Attention rows of fused kernels in formats of 8 bits: the experiment `rounding` with a prescale
and the lost mass.

Weights far below the largest one become 0. A prescale keeps more of them, and the mass that a row
loses says how many matter. It has an exact value where the weights alone are rounded.
"""

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from experiments.kinds import rounding
from experiments.measuring.batch import RowMetric
from experiments.measuring.columns import Meaning
from experiments.measuring.exact import from_theory
from experiments.measuring.metric import Exact
from experiments.measuring.row_statistics import RowStatistics


@dataclass(frozen=True)
class Cell(rounding.Cell):
    """One point of the grid of `rounding`, in a format of 8 bits."""

    takes_8_bits = True
    prescale: Annotated[
        float, Ge(1), Le(2**15), Meaning("p, a factor of e^(s - max s) before it becomes 8 bits")
    ] = 1.0

    def problem(self) -> str | None:
        """As `rounding.Cell.problem`, or a prescale that the format does not take."""
        found = super().problem()
        if found is None and not (
            self.prescale <= self.arithmetic.largest and math.frexp(self.prescale)[0] == 0.5
        ):
            largest = f"the largest number of {self.arithmetic}, {self.arithmetic.largest:g}"
            return f"prescale: expected a power of 2 up to {largest}, got {self.prescale:g}"
        return found


LOSSES = (
    RowMetric(
        "rounding_loss",
        "mass of exact weights that rounding to the format loses, mean over rows",
        "E[1 - sum_j R(p e_j) / (p sum_j e_j)], e_j = e^(s_j - max s)",
        "mass of exact weights lost to rounding",
        exact=Exact(
            rounding.INTEGRALS,
            from_theory("rounding_loss", rounding.arguments),
            1e-6,
        ),
        within=(-1, 1),
    ),
    RowMetric(
        "lost_mass",
        "1 minus the sum of the rounded weights of a row, mean over rows; 1 in lost rows",
        "E[1 - sum_j w_j]",
        "lost mass of weights",
        within=(-1, 1),
    ),
)
STATISTICS = RowStatistics((*rounding.ROUNDING_METRICS, *LOSSES))
EXPERIMENT = STATISTICS.experiment("eight_bits", Cell)
