"""The article's comparison of scalings: one draw of five queries and keys, exact expectations, and how draws spread.

A single draw at each d_k shows trend and chance together. The exact values are the trend, and the range of nine draws
in ten tells how far one draw may lie from it.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from experiments.examples.example import ARTICLE, Example, Floats, Step, table
from sdpa import ScalingComparison, compare_scaling, softmax

COMPARED = (4, 16, 64, 256, 512)
ROWS = ("deviation unscaled", "deviation d_k^1/2", "largest unscaled", "largest d_k^1/2")
_DRAWS, _BAND = 2000, (0.05, 0.95)

Four = tuple[float, float, float, float]


@cache
def _both(d_k: int) -> ScalingComparison:
    """The article's draw at a width, with undivided and with divided scores, from the legacy generator of seed 42."""
    return compare_scaling(d_k, rng=np.random.RandomState(42))


def comparison(d_k: int) -> Four:
    """Deviations of scores, then mean largest weights, unscaled and scaled, for five queries and keys of seed 42.

    >>> [round(value, 3) for value in comparison(64)]
    [8.663, 1.083, 0.749, 0.44]
    """
    one, other = _both(d_k).unscaled, _both(d_k).scaled
    return one.score_std, other.score_std, one.max_weight, other.max_weight


def _exact(d_k: int) -> Four:
    """The same four over all draws: the deviation of a score, and the expected largest weight of five."""
    one, other = _both(d_k).unscaled, _both(d_k).scaled
    return one.exact_score_std, other.exact_score_std, one.exact_max_weight, other.exact_max_weight


def _band(d_k: int, rng: np.random.Generator) -> Floats:
    """The two limits that enclose nine of ten single draws, for each of the four, (2, 4).

    Args:
        d_k: width of queries and keys.
        rng: draws 2,000 times five queries and keys.

    Returns:
        The 5% and the 95% quantile of the four numbers of `comparison`.
    """
    q, k = rng.standard_normal((2, _DRAWS, 5, d_k))
    unscaled = q @ k.swapaxes(-1, -2)
    both = unscaled, unscaled / math.sqrt(d_k)
    drawn = [scores.std(axis=(-1, -2)) for scores in both] + [softmax(scores).max(-1).mean(-1) for scores in both]
    return np.asarray(np.quantile(drawn, _BAND, axis=1))


def _steps() -> list[Step]:
    rng = np.random.default_rng(0)
    low, high = zip(*(_band(d_k, rng) for d_k in COMPARED), strict=True)
    exact = (
        "The standard deviation of a score, sqrt(d_k) / divisor, and the expected largest weight. "
        "The deviation of 25 scores about their own mean is smaller on average (5% at d_k = 4, 3% at 512), "
        "because they share queries and keys."
    )
    text = "Each column is a d_k. Rows have the standard deviation of 25 scores, and the mean largest of 5 weights."
    return [
        _step("drawn", "The article's draw, seed 42", text, [comparison(d_k) for d_k in COMPARED]),
        _step("exact", "Exact, over all draws", exact, [*map(_exact, COMPARED)]),
        _step("low", "The lower end of nine draws in ten", "The 5% quantile of 2,000 draws.", low),
        _step("high", "The upper end of nine draws in ten", "The 95% quantile of 2,000 draws.", high),
    ]


def _step(name: str, heading: str, text: str, columns: Sequence[Four | Floats]) -> Step:
    return Step(name, heading, text, table(np.array(columns).T, ROWS, tuple(map(str, COMPARED))))


EXAMPLE = Example("Scaled and unscaled, one draw at each d_k", ARTICLE, _steps)
