"""Four scores, and the same scores times 20: weights, largest weight and entropy.

Only the scale differs, as if queries and keys were 400 times as wide, so the softmax of the large ones shows saturation
alone: its order of keys is the same.
"""

import numpy as np

from experiments.examples.steps import ARTICLE, Example, Step, attention, chosen, from_scores, numbered, spread, step

SMALL = np.array([1.0, 0.8, 0.5, 0.2])
LARGE = 20 * SMALL


def _steps() -> list[Step]:
    scores, rows = np.array([SMALL, LARGE]), ("small", "large")
    found = from_scores(scores)
    return [
        step("scores", "Scores at two scales; the large ones are 20 times the small ones.", scores, rows, digits=1),
        *chosen(attention(found, rows, numbered(4)), "exponentials weights"),
        spread(found.weights, rows),
    ]


EXAMPLE = Example("Four scores at two scales", ARTICLE, _steps, "scores weights")
