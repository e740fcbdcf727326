"""A, B and C in two dimensions: angles and lengths, then every step by hand.

A score is a dot product, q.k = |q| |k| cos(angle), so the example shows both its geometry and its two products.
"""

import numpy as np

from experiments.examples.example import ARTICLE, Example, Floats, Step, sizes, table
from experiments.examples.walkthrough import Walkthrough
from sdpa import Trace, trace

TOKENS = ("A", "B", "C")
QUERIES = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
KEYS = np.array([[0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
VALUES = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
_AXES = ("x", "y")


def tiny() -> Trace:
    """Attention of A, B and C under the default divisor sqrt(2); all arrays are (3, 2) or (3, 3).

    >>> tiny().scores[0].round(1)
    array([0.8, 0.3, 0.1])
    """
    return trace(QUERIES, KEYS, VALUES)


def _steps() -> list[Step]:
    """The steps of the example, geometry before the scores, and exponentials as in a computation by hand."""
    told = Walkthrough(tiny(), TOKENS, TOKENS, widths=_AXES, outputs=_AXES)
    return [
        told.q(),
        told.k(),
        told.v(),
        *_geometry(),
        _terms(),
        told.scores(),
        told.divisor(),
        told.scaled_scores(),
        _exponentials(told.trace.scaled_scores),
        told.weights(),
        told.blend("A"),
        told.output(),
        *told.effect(),
    ]


def _geometry() -> list[Step]:
    """Angles and lengths of queries and keys, and the cosines between them."""
    rows = tuple(f"{kind} {token}" for kind in ("query", "key") for token in TOKENS)
    arrows = np.vstack([QUERIES, KEYS])
    angles, lengths = np.degrees(np.arctan2(arrows[:, 1], arrows[:, 0])), np.linalg.norm(arrows, axis=1)
    cosines = QUERIES @ KEYS.T / np.outer(lengths[:3], lengths[3:])
    return [
        Step(
            "geometry",
            "Queries and keys as arrows",
            "Angles in degrees from the x axis.",
            table(np.column_stack([angles, lengths]), rows, ("angle", "length")),
        ),
        Step(
            "cosines",
            f"Cosines of the angles between queries and keys {sizes(cosines)}",
            "A score is the length of the query times the length of the key times this cosine.",
            table(cosines, TOKENS, TOKENS),
        ),
    ]


def _terms() -> Step:
    """Each score as the sum of its two products."""
    rows = tuple(f"{query} with {key}" for query in TOKENS for key in TOKENS)
    terms = (QUERIES[:, None] * KEYS[None]).reshape(-1, 2)
    return Step(
        "terms",
        "Every score as the sum of two products",
        "The product of the x entries, the product of the y entries, and their sum.",
        table(np.column_stack([terms, terms.sum(axis=1)]), rows, (*_AXES, "score"), 2),
    )


def _exponentials(scaled: Floats) -> Step:
    """Exponentials without the shift by the largest of the row, as in a computation by hand."""
    values = np.exp(scaled)
    columns = (*TOKENS, "sum")
    return Step(
        "exponentials",
        "Softmax, row by row: exponentials",
        "Each row has exp(scaled score) for every key, and the sum. Scores as small as these need no shift.",
        table(np.column_stack([values, values.sum(axis=1)]), TOKENS, columns),
    )


EXAMPLE = Example("A, B and C in two dimensions, by hand", ARTICLE, _steps)
