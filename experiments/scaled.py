"""Cells with scaling rules: the rules as treatments of the same draw, their divisors, and their columns."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from experiments.harness.columns import Column
from sdpa import Scaling

TREATMENT = (
    Column("scaling", "str", "scaling rule"),
    Column("exponent", "float", "p if the divisor is d_k^p; empty for any other rule", may_be_empty=True),
    Column("divisor", "float", "divisor of the scores"),
)


class ScaledCell:
    """The part that all cells with scaling rules share.

    A class of cells is a frozen dataclass with these attributes, as fields or properties.
    """

    if TYPE_CHECKING:  # at run time, a property would become the default of the field of its name

        @property
        def d_k(self) -> int:
            """Width of queries and keys."""

        @property
        def n_keys(self) -> int:
            """Number of keys, the length of a softmax row."""

        @property
        def scaling(self) -> tuple[Scaling, ...]:
            """Treatments of the same draw."""

    def stamp(self) -> dict[str, Any]:
        """The values behind the names in a cell, such as those of scalings and laws.

        A stored result counts as up to date only if its stamp is unchanged. So an edit of one rule or law makes only
        the results that use it stale.
        """
        rules = [[rule.name, str(rule.exponent), str(rule.power_of("d_k"))] for rule in self.scaling]
        return {"rules": rules, "divisors": self.divisors()}

    def problem(self) -> str | None:
        """A field whose value others exclude, as `field: expected ..., got ...`; None for a possible cell."""
        return None

    def divisors(self) -> list[float]:
        """The divisor of each scaling, in order."""
        return [scaling.divisor(self.d_k, self.n_keys) for scaling in self.scaling]

    @property
    def divisor(self) -> float:
        """The divisor of a cell with one scaling; ValueError for any other number of scalings.

        The exact values of `sdpa.theory` hold for one divisor, so analysis makes such a cell for each row of a table.
        """
        (divisor,) = self.divisors()
        return divisor

    def divisors_by_rule(self) -> dict[str, float]:
        """The divisor of each scaling, by its name, in order."""
        return dict(zip(map(str, self.scaling), self.divisors(), strict=True))

    def treatments(self) -> Iterator[dict[str, Any]]:
        """The fields of TREATMENT for each scaling, in order; `exponent` is NaN unless the divisor is a power of d_k.

        >>> from experiments.sampling import Cell
        >>> next(Cell(d_k=64, n_keys=4, scaling=(Scaling.parse("d_k^1/2"),)).treatments())
        {'scaling': 'd_k^1/2', 'exponent': 0.5, 'divisor': 8.0}
        """
        for scaling, divisor in zip(self.scaling, self.divisors(), strict=True):
            exponent = math.nan if scaling.exponent is None else float(scaling.exponent)
            yield {
                "scaling": scaling.name,
                "exponent": exponent,
                "divisor": divisor,
            }
