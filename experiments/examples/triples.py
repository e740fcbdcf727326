"""Rows of three scores, ten and a hundred times as large, and the softmax that the source prints beside them.

The softmax of 2, 1, 1 is 0.576, 0.212, 0.212; the source prints 0.50, 0.25, 0.25. The last row is the third one over
sqrt(512).
"""

import math

import numpy as np

from experiments.examples.example import QUESTIONS, Example, Step, table
from experiments.examples.walkthrough import Walkthrough, from_scores, spread

KEYS = ("first", "second", "third")
ONES, TENS, HUNDREDS = (2.0, 1.0, 1.0), (20.0, 10.0, 10.0), (200.0, 100.0, 100.0)
D_K = 512
# The weights that the source prints beside each row.
PRINTED = {
    "2, 1, 1": (0.50, 0.25, 0.25),
    "20, 10, 10": (0.99, 0.005, 0.005),
    "200, 100, 100": (1.00, 0.00, 0.00),
    "(200, 100, 100) / √512": (0.90, 0.05, 0.05),
}
_ROWS = tuple(PRINTED)


def _steps() -> list[Step]:
    scores = np.array([ONES, TENS, HUNDREDS, np.divide(HUNDREDS, math.sqrt(D_K))])
    told = Walkthrough(from_scores(scores), _ROWS, KEYS)
    printed = np.array(list(PRINTED.values()))
    apart = told.trace.weights - printed
    return [
        Step(
            "divisor",
            "Divisor",
            "The square root of d_k; the source takes d_k = 512.",
            table([[D_K, math.sqrt(D_K)]], ("d_k^1/2",), ("d_k", "divisor")),
        ),
        Step(
            "scores",
            "Four rows of scores",
            "The last row is the third over the divisor; the source rounds it to 8.8, 4.4 and 4.4.",
            table(scores, _ROWS, KEYS),
        ),
        told.exponentials(),
        told.weights(),
        Step("printed", "Weights as printed", "The source prints these weights.", table(printed, _ROWS, KEYS, 3)),
        Step(
            "difference",
            "Weights minus the printed ones",
            "A difference below half a unit of the last printed digit is rounding.",
            table(apart, _ROWS, KEYS),
        ),
        spread(told.trace.weights, _ROWS),
    ]


EXAMPLE = Example("Three scores, small and large, and over sqrt(512)", QUESTIONS, _steps)
