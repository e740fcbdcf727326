"""Recognition: the slips of the catalogue, or pairs of them, that compute the outputs found."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sdpa.auditing.catalogue import CATALOGUE, Slip
from sdpa.auditing.computation import Array, Computation, Expected
from sdpa.auditing.function import Sample

_STEPS = 20  # of Gauss and Newton, each of which about doubles the digits of a free number
_LARGEST = 2**11  # scores of a head, up to which pairs are tried


@dataclass(frozen=True)
class Cause:
    """Slips whose output agrees with every sample: with their free number, by head if heads differ,
    and the largest deviation over what rounding allows.
    """

    slips: tuple[Slip, ...]
    number: Any
    off: float

    def __str__(self) -> str:
        number = ", ".join(f"{x:.6g}" for x in np.ravel(self.number))
        by_head = " (by head)" if np.size(self.number) > 1 else ""
        names = ", and ".join(slip.name for slip in self.slips)
        return names.format(number) + by_head


@np.errstate(all="ignore")
def causes(samples: Sequence[Sample], expected: Expected) -> list[Cause]:
    """The slips, or else the pairs of slips of different stages, that agree with all samples; those
    without a free number first, and several if they are the same function here.
    """
    wrong = [sample for sample in samples if sample.error > 1]
    first = min(wrong, key=_cost)
    rest = [sample for sample in samples if sample is not first]
    for size, free in ((1, 0), (1, 1), (2, 0), (2, 1)):
        if size == 2 and _cost(first)[2] > _LARGEST:
            break
        tried = (
            _cause(slips, [first, *rest], expected)
            for slips in itertools.combinations(CATALOGUE, size)
            if len({slip.stage for slip in slips}) == size
            and sum(bool(slip.numbers) for slip in slips) == free
        )
        found = [cause for cause in tried if cause]
        if found:
            limit = 4 * min(cause.off for cause in found) + 1 / 64
            return [cause for cause in found if cause.off <= limit]
    return []


def _cost(sample: Sample) -> tuple[bool, int, int, float]:
    """The order in which samples serve to fit: several queries, the usual heads, few scores, small
    ones.
    """
    q, k, _ = sample.arrays
    n_queries = q.shape[2]
    return n_queries < 4, -k.shape[1], n_queries * k.shape[2], sample.tolerance


def _cause(
    slips: tuple[Slip, ...],
    samples: Sequence[Sample],
    expected: Expected,
) -> Cause | None:
    """The slips with a free number that agrees with the first sample, if the others agree."""
    first = samples[0]
    variants = {slip.stage: slip.compute for slip in slips}

    def output(sample: Sample, number: Any) -> Array:
        """That with these slips, infinite where they do not take or give the shape."""
        computation = Computation(sample.arrays, expected, number)
        try:
            return np.broadcast_to(computation.output(variants), sample.found.shape)
        except ValueError:
            return np.full_like(sample.found, np.inf)

    guesses = next((slip.numbers for slip in slips if slip.numbers), (0,))
    for number in _numbers(guesses, first, partial(output, first)):
        if np.isnan(output(first, number)).mean() <= 0.5:
            off = _largest_off(samples, number, output)
            if off <= 1:
                return Cause(slips, number, off)
    return None


def _largest_off(
    samples: Sequence[Sample], number: Any, output: Callable[[Sample, Any], Array]
) -> float:
    """The largest deviation over all samples, or the first above 1.

    Where each head has a number of its own, samples with other heads do not count.
    """
    largest = 0.0
    for sample in samples:
        if np.size(number) in (1, sample.found.shape[1]):
            largest = max(largest, sample.off(output(sample, number)))
        if largest > 1:
            break
    return largest


def _numbers(
    guesses: Sequence[float],
    sample: Sample,
    output: Callable[[Any], Array],
) -> Sequence[Any]:
    """Free numbers whose output agrees with a sample: guesses, or that of least squares, of each
    head, or one where that agrees, too.
    """
    outputs = [*map(output, guesses)]
    good = [x for x, of_guess in zip(guesses, outputs, strict=True) if sample.off(of_guess) <= 1]
    if good or isinstance(guesses[0], int):  # sizes have no numbers between
        return good

    def by_head(product: Array) -> Any:
        return np.nansum(product, axis=(0, 2, 3))[:, None, None]

    errors = [by_head((sample.found - np.nan_to_num(of_guess)) ** 2) for of_guess in outputs]
    number = best = np.array(guesses)[np.argmin(errors, axis=0)]
    before = np.inf
    for _ in range(_STEPS):
        off = sample.found - output(number)
        size = np.nansum(off**2)
        if not size < 0.9 * before:
            break
        before = size
        best = number
        step = 1e-6 * (1 + np.abs(number))
        moved = sample.found - output(number + step)
        slope = (moved - off) / step
        change = by_head(slope * off) / by_head(slope**2)
        number = number - np.nan_to_num(change)
    for fitted in (best.mean(), best):
        if sample.off(output(fitted)) <= 1:
            return [fitted]
    return []
