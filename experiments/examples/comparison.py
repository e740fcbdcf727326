"""The article's comparison of scalings: one draw of five queries and keys, exact expectations, and how draws spread.

A single draw at each d_k shows trend and chance together. The exact values are the trend, and the range of nine draws
in ten tells how far one draw may lie from it.
"""

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from experiments.examples.steps import ARTICLE, Example, Floats, Step, step
from sdpa import ScalingComparison, compare_scaling, softmax

COMPARED = (4, 16, 64, 256, 512)
ROWS = ("deviation unscaled", "deviation d_k^1/2", "largest unscaled", "largest d_k^1/2")


@cache
def _both(d_k: int) -> ScalingComparison:
    """The article's draw at a width, from the legacy generator of seed 42."""
    return compare_scaling(d_k, rng=np.random.RandomState(42))


def comparison(d_k: int) -> tuple[float, float, float, float]:
    """Deviations of scores, then mean largest weights, unscaled and scaled, for five queries and keys of seed 42."""
    one, other = _both(d_k).unscaled, _both(d_k).scaled
    return one.score_std, other.score_std, one.max_weight, other.max_weight


def _exact(d_k: int) -> tuple[float, float, float, float]:
    """The same four over all draws: the deviation of a score, and the expected largest weight of five."""
    one, other = _both(d_k).unscaled, _both(d_k).scaled
    return one.exact_score_std, other.exact_score_std, one.exact_max_weight, other.exact_max_weight


def _band(d_k: int, rng: np.random.Generator) -> Floats:
    """The 5% and the 95% quantile of the four numbers of `comparison` over 2,000 draws, (2, 4)."""
    q, k = rng.standard_normal((2, 2000, 5, d_k))
    unscaled = q @ k.swapaxes(-1, -2)
    both = unscaled, unscaled / math.sqrt(d_k)
    drawn = [scores.std(axis=(-1, -2)) for scores in both] + [softmax(scores).max(-1).mean(-1) for scores in both]
    return np.asarray(np.quantile(drawn, (0.05, 0.95), axis=1))


def _steps() -> list[Step]:
    rng = np.random.default_rng(0)
    low, high = zip(*(_band(d_k, rng) for d_k in COMPARED), strict=True)

    def over_widths(name: str, says: str, columns: npt.ArrayLike) -> Step:
        return step(name, says, np.transpose(columns), ROWS, [str(d_k) for d_k in COMPARED])

    return [
        over_widths(
            "drawn", "The article's draw of 25 scores at each d_k, seed 42.", [comparison(d_k) for d_k in COMPARED]
        ),
        over_widths(
            "exact", "Exact, over all draws; the deviation is that of a score.", [_exact(d_k) for d_k in COMPARED]
        ),
        over_widths("low", "The 5% quantile of 2,000 draws.", low),
        over_widths("high", "The 95% quantile of 2,000 draws.", high),
    ]


EXAMPLE = Example("Scaled and unscaled, one draw at each d_k", ARTICLE, _steps, "~drawn ~exact")
