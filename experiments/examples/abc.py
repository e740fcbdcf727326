"""A, B and C in two dimensions: angles and lengths, then every step by hand.

A score is a dot product, q.k = |q| |k| cos(angle), so the example shows both its geometry and its two products.
"""

import numpy as np

from experiments.examples.steps import ARTICLE, Example, Step, attention, blend, chosen, step
from sdpa import Trace, trace

TOKENS, _AXES = ("A", "B", "C"), ("x", "y")
QUERIES = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
KEYS = np.array([[0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
VALUES = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])


def tiny() -> Trace:
    """Attention of A, B and C under the default divisor sqrt(2); all arrays are (3, 2) or (3, 3)."""
    return trace(QUERIES, KEYS, VALUES)


def _steps() -> list[Step]:
    steps = attention(tiny(), TOKENS, TOKENS, widths=_AXES, outputs=_AXES)
    arrows, names = np.vstack([QUERIES, KEYS]), [f"{kind} {token}" for kind in ("query", "key") for token in TOKENS]
    angles, lengths = np.degrees(np.arctan2(arrows[:, 1], arrows[:, 0])), np.linalg.norm(arrows, axis=1)
    cosines = QUERIES @ KEYS.T / np.outer(lengths[:3], lengths[3:])
    terms = (QUERIES[:, None] * KEYS[None]).reshape(-1, 2)
    pairs = [f"{query} with {key}" for query in TOKENS for key in TOKENS]
    # As in a computation by hand, without the shift by the largest of the row.
    values = np.exp(tiny().scaled_scores)
    exponentials = np.column_stack([values, values.sum(axis=1)])
    return [
        *chosen(steps, "q k v"),
        step("geometry", "Arrows: degrees from x.", np.column_stack([angles, lengths]), names, ("angle", "length")),
        step("cosines", "Cosines of the angles: a score is this times both lengths.", cosines, TOKENS, TOKENS),
        step("terms", "Products and score.", np.column_stack([terms, terms.sum(axis=1)]), pairs, (*_AXES, "score"), 2),
        *chosen(steps, "scores divisor scaled_scores"),
        step("exponentials", "Softmax: exp(scaled score), and the sum.", exponentials, TOKENS, (*TOKENS, "sum")),
        steps["weights"],
        blend(tiny(), "A", 0, TOKENS, _AXES),
        *chosen(steps, "output undivided_weights divisor_effect"),
    ]


EXAMPLE = Example("A, B and C in two dimensions, by hand", ARTICLE, _steps, "cosines scores weights output")
