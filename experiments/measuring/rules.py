"""Cells with scaling rules, the treatments of one draw, and the columns that describe a rule in a
table.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.measuring.columns import Column
from experiments.measuring.experiment import Cell
from sdpa import Scaling

Floats = npt.NDArray[np.floating]
TREATMENT = (
    Column("scaling", "str", "scaling rule"),
    Column(
        "exponent",
        "float",
        "p if the divisor is d_k^p; empty for any other rule",
        may_be_empty=True,
    ),
    Column(
        "divisor",
        "float",
        "divisor of the scores; with n_visible, that of a query that sees all keys",
    ),
)


class ScaledCell(Cell):
    """The part of all cells with scaling rules: frozen dataclasses with these attributes, as fields
    or properties.
    """

    d_k: int  # width of queries and keys
    n_keys: int  # length of a softmax row
    scaling: tuple[Scaling, ...]  # rules: treatments of the same draw

    def table_rows(self, trials: int) -> int:  # noqa: ARG002
        """As `Cell.table_rows`: one for each rule."""
        return len(self.scaling)

    def divisors(self) -> list[float]:
        """The divisor of each scaling, in order; under a rule with n_visible, that of a query that
        sees all keys.
        """
        return [scaling.divisor(self.d_k, self.n_keys) for scaling in self.scaling]

    @property
    def divisor(self) -> float:
        """The divisor of a cell with one scaling, as of a row of a table."""
        (divisor,) = self.divisors()
        return divisor

    def treatments(self) -> Iterator[dict[str, Any]]:
        """The fields of TREATMENT for each scaling, in order; `exponent` is NaN unless the divisor
        is a power of d_k.

        >>> from experiments.measuring.sampling import SampledCell
        >>> next(SampledCell(d_k=64, n_keys=4, scaling=(Scaling.parse("d_k^1/2"),)).treatments())
        {'scaling': 'd_k^1/2', 'exponent': 0.5, 'divisor': 8.0}
        """
        for scaling, divisor in zip(self.scaling, self.divisors(), strict=True):
            exponent = math.nan if scaling.exponent is None else float(scaling.exponent)
            yield {"scaling": scaling.name, "exponent": exponent, "divisor": divisor}
