"""Dog bites man: scaled scores, their softmax, the blend of the values, and the weights that are printed.

The source prints scaled scores, weights and values of three words. Its weights are not the softmax of its scores, and
later steps look for the origin of the printed ones.
"""

import numpy as np

from experiments.examples.example import QUESTIONS, Example, Floats, Step, table
from experiments.examples.walkthrough import Walkthrough, from_scores
from sdpa import softmax

WORDS = ("dog", "bites", "man")
SCORES = np.array([[1.25, 0.80, -0.20], [0.80, 1.09, -0.40], [-0.20, -0.40, 1.16]])
PRINTED = np.array([[0.44, 0.35, 0.21], [0.38, 0.41, 0.21], [0.19, 0.15, 0.66]])
VALUES = np.array([[0.9, 0.1, -0.3, 0.5], [0.2, 0.8, 0.1, -0.4], [0.4, -0.2, 0.7, 0.3]])
PRINTED_OUTPUT = np.array([0.550, 0.282, 0.050, 0.143])
_TWO = 2.0  # sqrt(4): the values have four columns, and d_k is taken to be as wide


def _steps() -> list[Step]:
    told = Walkthrough(from_scores(SCORES, VALUES, _TWO), WORDS, WORDS)
    scaled = Step(
        "scaled_scores",
        "Scaled scores (3 x 3)",
        "Rows are queries, columns are keys. The source prints these scores, already divided.",
        table(SCORES, WORDS, WORDS, 2),
    )
    return [
        scaled,
        told.exponentials(),
        told.weights(),
        told.v(),
        *(told.blend(word) for word in WORDS),
        told.output(),
        *_printed(told.trace.weights),
        *_effect(told),
    ]


def _printed(weights: Floats) -> list[Step]:
    """The weights and the output that the source prints, beside the correct ones."""
    halved = softmax(SCORES / 2)
    rows = ("printed weights of dog", "softmax of half the scores", "softmax of the scores")
    blended = [PRINTED_OUTPUT, PRINTED[0] @ VALUES, weights[0] @ VALUES]
    outputs = ("printed", "of the printed weights", "of the softmax")
    return [
        Step("printed", "Weights as printed", "The source prints these weights.", table(PRINTED, WORDS, WORDS, 2)),
        Step(
            "halved",
            "The printed row of dog",
            "To two decimals, it is the softmax of half the scores. The printed rows of bites and man are not.",
            table([PRINTED[0], halved[0], weights[0]], rows, WORDS),
        ),
        Step(
            "printed_output",
            "The output of dog as printed",
            "It blends the values with the printed weights, so it shares their error.",
            table(blended, outputs, ("1", "2", "3", "4"), 3),
        ),
    ]


def _effect(told: Walkthrough) -> list[Step]:
    """The weights without the divisor, under an assumed d_k of 4, and the effect of the divisor."""
    undivided = told.undivided()
    text = "The source does not state d_k. If it is 4, the width of the values, the scores were twice as large."
    return [Step(undivided.name, undivided.heading, text, undivided.matrix), told.divisor_effect()]


EXAMPLE = Example("Dog bites man: from scores to a blend of values", QUESTIONS, _steps)
