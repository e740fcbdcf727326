"""The cat sat down: a table of scaled scores, their weights, and how to read them as a heat map.

The source prints scores that are already divided by sqrt(8), without queries and keys. The undivided scores of the last
steps are these times sqrt(8).
"""

import math

import numpy as np

from experiments.examples.example import LESSON, Example, Floats, Step, table
from experiments.examples.walkthrough import Walkthrough, from_scores
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
    told = Walkthrough(from_scores(SCORES, divisor=math.sqrt(D_K)), WORDS, WORDS)
    scaled = Step(
        "scaled_scores",
        "Scaled scores (4 x 4)",
        "Rows are queries, columns are keys. The source prints these scores, already divided by sqrt(8).",
        table(SCORES, WORDS, WORDS, 3),
    )
    return [scaled, told.exponentials(), told.weights(), *_reading(told.trace.weights), told.divisor(), *told.effect()]


def _reading(weights: Floats) -> list[Step]:
    """Diagonal, columns and rows of the heat map, in numbers.

    The diagonal shows attention of words to themselves, the column means show which word gets most, and the entropy of
    each row over ln n shows how even it is: 1 for equal weights.

    Args:
        weights: (4, 4), rows summing to 1.
    """
    own, columns = np.diag(weights), weights.mean(axis=0)
    leads = [np.mean(weights.argmax(axis=1) == j) for j in range(len(WORDS))]
    uniform = np.column_stack([entropy(weights) / math.log(len(WORDS)), np.ptp(weights, axis=1)])
    rows = [WORDS[i] for i in np.argsort(-uniform[:, 0])]
    return [
        Step(
            "diagonal",
            "Reading the heat map: the diagonal",
            "Each word's weight for itself. A strong diagonal would be well above 1 / n, the even share.",
            table([[*own, own.mean(), 1 / len(WORDS)]], ("own weight",), (*WORDS, "mean", "even share")),
        ),
        Step(
            "columns",
            "Reading the heat map: the columns",
            "The column with the largest mean is the hub: most of the attention goes there.",
            table([columns, leads], ("mean weight", "share of rows it leads"), WORDS),
        ),
        Step(
            "rows",
            "Reading the heat map: the rows",
            "The most uniform row comes first: its entropy is closest to ln n, the entropy of even weights.",
            table(uniform[[WORDS.index(word) for word in rows]], rows, ("entropy / ln n", "largest - smallest")),
        ),
    ]


EXAMPLE = Example("The cat sat down: reading a heat map", LESSON, _steps)
