"""Dog bites man: scaled scores, their softmax, the blend of the values, and the weights that are printed.

The source prints scaled scores, weights and values of three words. Its weights are not the softmax of its scores, and
later steps look for the origin of the printed ones. It does not state d_k, which is taken to be 4, the width of the
values.
"""

import numpy as np

from experiments.examples.steps import QUESTIONS, Example, Step, attention, blend, chosen, from_scores, numbered, step
from sdpa import softmax

WORDS = ("dog", "bites", "man")
SCORES = np.array([[1.25, 0.80, -0.20], [0.80, 1.09, -0.40], [-0.20, -0.40, 1.16]])
PRINTED = np.array([[0.44, 0.35, 0.21], [0.38, 0.41, 0.21], [0.19, 0.15, 0.66]])
VALUES = np.array([[0.9, 0.1, -0.3, 0.5], [0.2, 0.8, 0.1, -0.4], [0.4, -0.2, 0.7, 0.3]])
PRINTED_OUTPUT = np.array([0.550, 0.282, 0.050, 0.143])


def _steps() -> list[Step]:
    found = from_scores(SCORES, VALUES, 2.0)
    steps, weights = attention(found, WORDS, WORDS), found.weights
    rows = ("printed weights of dog", "softmax of half the scores", "softmax of the scores")
    blended = [PRINTED_OUTPUT, PRINTED[0] @ VALUES, weights[0] @ VALUES]
    outputs = ("printed", "of the printed weights", "of the softmax")
    halved = [PRINTED[0], softmax(SCORES / 2)[0], weights[0]]
    return [
        step("scaled_scores", "Scaled scores, as the source prints them.", SCORES, WORDS, WORDS, 2),
        *chosen(steps, "exponentials weights v"),
        *(blend(found, word, i, WORDS, numbered(4)) for i, word in enumerate(WORDS)),
        steps["output"],
        step("printed", "Weights as printed.", PRINTED, WORDS, WORDS, 2),
        step(
            "halved", "To two decimals, the printed row of dog halves the scores; others do not.", halved, rows, WORDS
        ),
        step("printed_output", "The output of dog blends the printed weights.", blended, outputs, digits=3),
        *chosen(steps, "undivided_weights divisor_effect"),
    ]


_DRAWS = "scaled_scores weights printed output"
EXAMPLE = Example("Dog bites man: from scores to a blend of values", QUESTIONS, _steps, _DRAWS)
