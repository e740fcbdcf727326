"""The cat sat down: a table of scaled scores, their weights, and how to read them as a heat map.

The source prints scores that are already divided by sqrt(8), without queries and keys.
"""

import math

import numpy as np

from experiments.examples.steps import LESSON, Example, Step, attention, chosen, from_scores, step
from sdpa import entropy, softmax

WORDS = ("The", "cat", "sat", "down")
D_K = 8
SCORES = np.array(
    [
        [0.226, 0.827, 0.029, 0.630],
        [0.413, 0.820, 0.094, 0.587],
        [0.847, 0.349, -0.078, 0.955],
        [-0.070, 0.648, 0.056, 0.200],
    ]
)
WEIGHTS = softmax(SCORES)


def _steps() -> list[Step]:
    steps = attention(from_scores(SCORES, divisor=math.sqrt(D_K)), WORDS, WORDS)
    weights = steps["weights"].table.to_numpy()
    own, columns = np.diag(weights), weights.mean(axis=0)
    leads = [np.mean(weights.argmax(axis=1) == j) for j in range(4)]
    uniform = np.column_stack([entropy(weights) / math.log(4), np.ptp(weights, axis=1)])
    order = np.argsort(-uniform[:, 0])
    own_row = [[*own, own.mean(), 1 / 4]]
    return [
        step("scaled_scores", "Scaled scores, as the source prints them.", SCORES, WORDS, WORDS, 3),
        *chosen(steps, "exponentials weights"),
        step("diagonal", "Each word's weight for itself.", own_row, ("own weight",), (*WORDS, "mean", "even share")),
        step("columns", "The hub has the largest.", [columns, leads], ("mean weight", "share of rows it leads"), WORDS),
        step(
            "rows",
            "The most uniform row comes first.",
            uniform[order],
            [WORDS[i] for i in order],
            ("entropy / ln n", "largest - smallest"),
        ),
        *chosen(steps, "divisor undivided_weights divisor_effect"),
    ]


EXAMPLE = Example("The cat sat down: reading a heat map", LESSON, _steps, "scaled_scores weights")
