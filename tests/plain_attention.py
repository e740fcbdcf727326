"""The steps of attention in plain Python, loops and `math` on lists of rows; and the metrics of
drawn rows in NumPy.
"""

import math

import numpy as np
from scipy import special


def transposed(a):
    return [list(column) for column in zip(*a, strict=True)]


def product(a, b):
    return [
        [math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in transposed(b)]
        for row in a
    ]


def times(a, factor):
    return [[x * factor for x in row] for row in a]


def shifted(row):
    largest = max(row)
    return [math.exp(x - largest) for x in row]


def softmax(a):
    def divided(row, total):
        return [x / total for x in row]

    return [divided(row, math.fsum(row)) for row in map(shifted, a)]


def entropy(row):
    return -math.fsum(w * math.log(w) for w in row if w > 0)


def spread(weights):
    return [[max(row), entropy(row)] for row in weights]


def with_sums(a):
    return [[*row, math.fsum(row)] for row in a]


def from_scores(scores, divisor, v=None, hidden=lambda _i, _j: False):
    """The steps from scores to what the divisor changed."""

    def masked(a):
        return [
            [-math.inf if hidden(i, j) else x for j, x in enumerate(row)] for i, row in enumerate(a)
        ]

    scaled, raw = masked(times(scores, 1 / divisor)), masked(scores)
    weights, before = softmax(scaled), softmax(raw)
    steps = {
        "scores": scores,
        "divisor": [[divisor]],
        "scaled_scores": scaled,
        "exponentials": with_sums([shifted(row) for row in scaled]),
        "weights": weights,
        "undivided_weights": before,
        "divisor_effect": [
            [max(b), max(w), entropy(b), entropy(w)] for b, w in zip(before, weights, strict=True)
        ],
    }
    return steps | ({} if v is None else {"v": v, "output": product(weights, v)})


def attention(q, k, v=None, divisor=None, hidden=lambda _i, _j: False):
    """All steps of attention of q and k."""
    scores = product(q, transposed(k))
    return {"q": q, "k": k} | from_scores(scores, divisor or math.sqrt(len(q[0])), v, hidden)


def blend(weights, v):
    rows = [[w, *(w * x for x in row)] for w, row in zip(weights, v, strict=True)]
    return [*rows, [math.fsum(column) for column in transposed(rows)]]


def without(steps, *names):
    return {name: values for name, values in steps.items() if name not in names}


def drawn_rows(rng, q, k, divisor):
    """The weights of one row per draw, (draws, n_keys), and its metrics with norms as squares,
    (draws,) each.

    The gradient to the query is K^T J g / divisor of one standard normal g from `rng`.

    Args:
        rng: source of g.
        q, k: queries (draws, d_k) and keys (draws, n_keys, d_k).
        divisor: of the scores.
    """
    s = np.einsum("td,tjd->tj", q, k) / divisor
    w = special.softmax(s, axis=-1)
    g = rng.standard_normal(w.shape)
    to_scores = w * (g - (w * g).sum(axis=-1, keepdims=True)) / divisor
    s2, s3 = (w**2).sum(-1), (w**3).sum(-1)
    return w, {
        "max_weight": w.max(-1),
        "entropy": special.entr(w).sum(-1),
        "jacobian_trace": 1 - s2,
        "jacobian_square": s2 - 2 * s3 + s2**2,
        "query_gradient_square": (np.einsum("tj,tjd->td", to_scores, k) ** 2).sum(-1),
        "saturated_rows": 1.0 * (w.max(-1) > 0.99),
        "collision": s2,
        "key_gradient_square": (to_scores**2).sum(-1) * (q**2).sum(-1),
        "row_variance": s.var(axis=-1),
    }
