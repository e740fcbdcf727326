"""Four scores, and the same scores times 20: weights, largest weight and entropy.

Only the scale differs, so the softmax of the large ones shows saturation alone: its order of keys is the same.
"""

import numpy as np

from experiments.examples.example import ARTICLE, Example, Step, table
from experiments.examples.walkthrough import Walkthrough, from_scores, numbered, spread

SMALL = np.array([1.0, 0.8, 0.5, 0.2])
LARGE = 20 * SMALL
_ROWS, _POSITIONS = ("small", "large"), numbered(4)


def _steps() -> list[Step]:
    scores = np.array([SMALL, LARGE])
    told = Walkthrough(from_scores(scores), _ROWS, _POSITIONS)
    text = "Large scores are 20 times the small ones, as if queries and keys were 400 times as wide."
    return [
        Step("scores", "Scores at two scales", text, table(scores, _ROWS, _POSITIONS, 1)),
        told.exponentials(),
        told.weights(),
        spread(told.trace.weights, _ROWS),
    ]


EXAMPLE = Example("Four scores at two scales", ARTICLE, _steps)
