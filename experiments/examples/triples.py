"""Rows of three scores, ten and a hundred times as large, and the softmax that the source prints beside them.

The softmax of 2, 1, 1 is 0.576, 0.212, 0.212; the source prints 0.50, 0.25, 0.25. The last row is the third one over
sqrt(512); the source rounds it to 8.8, 4.4 and 4.4.
"""

import math

import numpy as np

from experiments.examples.steps import QUESTIONS, Example, Step, attention, chosen, from_scores, spread, step

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


def _steps() -> list[Step]:
    rows, printed = tuple(PRINTED), np.array(list(PRINTED.values()))
    scores = np.array([ONES, TENS, HUNDREDS, np.divide(HUNDREDS, math.sqrt(D_K))])
    found = from_scores(scores)
    return [
        step("divisor", "The square root of d_k.", [[D_K, math.sqrt(D_K)]], ("d_k^1/2",), ("d_k", "divisor")),
        step("scores", "Four rows of scores; the last is the third over the divisor.", scores, rows, KEYS),
        *chosen(attention(found, rows, KEYS), "exponentials weights"),
        step("printed", "Weights as printed.", printed, rows, KEYS, 3),
        step("difference", "Weights minus the printed ones.", found.weights - printed, rows, KEYS),
        spread(found.weights, rows),
    ]


EXAMPLE = Example("Three scores, small and large, and over sqrt(512)", QUESTIONS, _steps, "weights printed")
