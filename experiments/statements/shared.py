"""Computations that several statements share.

None of them reads a measured table.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import integrate, optimize

from experiments.statements.answer import Claimed, values
from sdpa import softmax, theory

Floats = npt.NDArray[np.floating]
expectations = cache(theory.attention_expectations)  # integrals of seconds, which other cut-offs need again


def normals(*shape: int, seed: int = 0) -> Any:
    """Standard normal numbers of that shape for a check, of NumPy's default generator with that seed."""
    return np.random.default_rng(seed).standard_normal(shape)


def share_beyond(bound: float, d_k: int) -> float:
    """P(|q.k| > bound) of standard normal q and k."""
    return 2 * float(theory.score_survival(bound, d_k))


def variance_of_unit_vectors(d: int) -> float:
    """The variance of the product of two independent unit vectors, integrated over the law of the cosine.

    The cosine t of two independent uniform directions in d dimensions has a density proportional to
    (1 - t^2)^((d - 3) / 2), with mean 0 and variance 1/d.

    >>> round(variance_of_unit_vectors(64) * 64, 9)
    1.0
    """
    mass, square = (
        integrate.quad(lambda t, p=p: t**p * (1 - t * t) ** ((d - 3) / 2), -1, 1, points=[0])[0] for p in (0, 2)
    )
    return float(square / mass)


def least_likely(p_values: Iterable[float]) -> float:
    """The probability that one of several p-values is this small: the smallest one, times their number (Bonferroni).

    >>> least_likely([0.02, 0.5, 0.9])
    0.06
    """
    found = list(p_values)
    return min(1.0, len(found) * min(found))


def tempered(scores: Sequence[float], claimed: Sequence[Claimed]) -> str:
    """The divisor of the scores that gives a claimed softmax, to half a unit of its last digit, in words.

    It finds the origin of a printed row of weights that is not the softmax of its scores. The divisors 1, 2 and 1/2
    have precedence over any other from 0.2 to 10 that fits better.

    Args:
        scores: one row.
        claimed: its printed weights.

    >>> from experiments.statements.answer import parse_claimed
    >>> tempered([1.25, 0.80, -0.20], parse_claimed("0.44 0.35 0.21"))
    'the softmax of the scores divided by 2'
    """
    wanted, given = np.array(values(claimed)), np.array(scores, dtype=float)

    def distance(divisor: float) -> float:
        return float(np.abs(softmax(given / divisor) - wanted).max())

    half = 0.51 * min(number.unit for number in claimed)
    best = optimize.minimize_scalar(distance, bounds=(0.2, 10), method="bounded").x
    whole = min((1.0, 2.0, 0.5), key=distance)
    divisor = whole if distance(whole) <= half else best
    if distance(divisor) > half:
        return f"not the softmax of any multiple of the scores (closest: divided by {best:.3g})"
    return f"the softmax of the scores divided by {divisor:.3g}"
