"""Attention of one query in a number format, in loops over single numbers, each rounded after every
operation.
"""

import ml_dtypes
import numpy as np


def type_of(name):
    """The NumPy type of a format."""
    return getattr(ml_dtypes, name) if name.startswith(("bf", "float8")) else np.dtype(name).type


def by_loops(q, k, g, divisor, name, prescale=1.0):
    """Scores, weights, dL/dS and dL/dq of one query, with every operation on single numbers
    rounded.
    """
    wide = np.float64 if name == "float64" else np.float32
    kind = type_of(name)

    def to_format(x):
        return wide(kind(wide(x)))

    of_product = wide if name.startswith("float8") else to_format  # scores and dL/dq

    def dot(one, other):
        total = wide(0)
        for x, y in zip(one, other, strict=True):
            total = wide(total + wide(x * y))
        return total

    divisor, prescale = wide(divisor), wide(prescale)
    q = [to_format(x) for x in q]
    g = [to_format(x) for x in g]
    k = [[to_format(x) for x in row] for row in k]
    scores = [of_product(of_product(dot(q, row)) / divisor) for row in k]
    e = [wide(np.exp(wide(s - max(scores)))) for s in scores]
    total = dot(e, [wide(1)] * len(e))
    if name.startswith("float8"):
        w = [to_format(x * prescale) / wide(total * prescale) for x in e]
    else:
        w = [to_format(wide(x / total)) for x in e]
    mean = dot(w, g)
    to_scores = []
    for x, y in zip(w, g, strict=True):
        gradient = to_format(wide(x * wide(y - mean)))
        to_scores.append(to_format(gradient / divisor))
    to_query = [of_product(dot(to_scores, column)) for column in zip(*k, strict=True)]
    return np.array(scores), np.array(w), np.array(to_scores), np.array(to_query)
