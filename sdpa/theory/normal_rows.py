"""What rows of normal scores share, whatever their lengths: nodes, transforms, and the candidates for the largest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from sdpa.theory._grids import FINE_STEP, Span, gauss_panels, trapezoid
from sdpa.theory.groups import NormalLaw
from sdpa.theory.integrands import Integrands
from sdpa.theory.largest import Candidates, normal_candidates
from sdpa.theory.normal_survival import FEW_SIGMA, Kernel, by_characteristic, by_inversion, saturation_bound

FloatArray = npt.NDArray[np.float64]

_ROWS = 64  # in memory at once
_NEGLIGIBLE = 1e-13


class NormalRows:
    """Rows of normal scores of one or two laws.

    Args:
        laws: of the scores of each group, which share a unit.
        counts: of the scores of each group, the least and the greatest.
    """

    def __init__(self, laws: Sequence[NormalLaw], counts: Sequence[Span]) -> None:
        self.laws, self.counts = laws, counts
        self._kernels: dict[tuple[int, float], Kernel] = {}

    @cached_property
    def integrands(self) -> Integrands:
        """Nodes u from the least that matters to any group to the greatest at which no G vanishes."""
        ends = np.array([law.ends(of) for law, of in zip(self.laws, self.counts, strict=True)])
        return Integrands(self.laws, self.laws[0].unit, *_row_nodes(*ends[ends[:, 0] < ends[:, 1].min()].T))

    @cached_property
    def candidates(self) -> list[Candidates]:
        """Scores that may be the largest."""
        return normal_candidates(self.laws, self.counts)

    def survival(self, group: int, counts: Sequence[float], log_ratio: float) -> float:
        """As `RowLaws.survival`.

        From a deviation of 0.4 of the scores by the real integral of `Kernel`. Below, most rows have no such weight,
        as the bound shows, and what is left comes from transforms of complex arguments.
        """
        if self.laws[group].deviation >= FEW_SIGMA:
            if (group, log_ratio) not in self._kernels:
                self._kernels[group, log_ratio] = Kernel(
                    self.laws, self.integrands, group, self.counts[group][1], log_ratio
                )
            return self._kernels[group, log_ratio].probability(counts)
        bound = saturation_bound(self.laws, counts, group, log_ratio)
        if bound < _NEGLIGIBLE or sum(counts) == 2:
            return bound if sum(counts) == 2 else 0.0
        if len(self.laws) == 1:
            return min(by_characteristic(self.laws[0].deviation, counts[0], math.exp(log_ratio)), bound)
        return counts[group] * by_inversion(self.laws, counts, group, log_ratio)


def _row_nodes(low: FloatArray, high: FloatArray, width: FloatArray) -> tuple[FloatArray, float | FloatArray]:
    """Nodes u from the least low to the least high end, and their weights, or the step between all.

    Groups of very different widths have panels of their own, each between its ends.
    """
    first, last, step = low.min(), high.min(), FINE_STEP * width
    if step.max() < 4 * step.min():
        return trapezoid(first, last, step.min())
    pieces = [
        np.linspace(start, min(end, last), math.ceil((min(end, last) - start) / (10 * each)) + 1)
        for start, end, each in zip(low, high, step, strict=True)
    ]
    return gauss_panels(np.unique(np.concatenate(pieces)), 16)


@lru_cache(_ROWS)
def normal_rows(laws: tuple[NormalLaw, ...], counts: tuple[Span, ...]) -> NormalRows:
    """The same object for the same rows."""
    return NormalRows(laws, counts)
