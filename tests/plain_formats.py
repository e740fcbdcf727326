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

    q, g = [to_format(x) for x in q], [to_format(x) for x in g]
    k = [[to_format(x) for x in row] for row in k]
    scores = []
    for row in k:
        total = wide(0)
        for x, y in zip(q, row, strict=True):
            total = wide(total + wide(x * y))
        scores.append(of_product(of_product(total) / wide(divisor)))
    e = [wide(np.exp(wide(s - max(scores)))) for s in scores]
    total = wide(0)
    for x in e:
        total = wide(total + x)
    w = [to_format(wide(x / total)) for x in e]
    if name.startswith("float8"):
        w = [to_format(x * wide(prescale)) / wide(total * wide(prescale)) for x in e]
    mean = wide(0)
    for x, y in zip(w, g, strict=True):
        mean = wide(mean + wide(x * y))
    to_scores = [
        to_format(to_format(wide(x * wide(y - mean))) / wide(divisor))
        for x, y in zip(w, g, strict=True)
    ]
    to_query = []
    for a in range(len(q)):
        total = wide(0)
        for x, row in zip(to_scores, k, strict=True):
            total = wide(total + wide(x * row[a]))
        to_query.append(of_product(total))
    return np.array(scores), np.array(w), np.array(to_scores), np.array(to_query)
