"""Attention of one query in a number format, in loops over single numbers, each rounded after every operation."""

import ml_dtypes
import numpy as np


def by_loops(q, k, g, divisor, name):
    """Scores, weights, dL/dS and dL/dq of one query, with every operation on single numbers rounded."""
    wide = np.float64 if name == "float64" else np.float32
    kind = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name).type

    def to_format(x):
        return wide(kind(wide(x)))

    q, g = [to_format(x) for x in q], [to_format(x) for x in g]
    k = [[to_format(x) for x in row] for row in k]
    scores = []
    for row in k:
        total = wide(0)
        for x, y in zip(q, row, strict=True):
            total = wide(total + wide(x * y))
        scores.append(to_format(to_format(total) / wide(divisor)))
    e = [wide(np.exp(wide(s - max(scores)))) for s in scores]
    total = wide(0)
    for x in e:
        total = wide(total + x)
    w = [to_format(wide(x / total)) for x in e]
    mean = wide(0)
    for x, y in zip(w, g, strict=True):
        mean = wide(mean + wide(x * y))
    to_scores = [to_format(to_format(wide(x * wide(y - mean))) / wide(divisor)) for x, y in zip(w, g, strict=True)]
    to_query = []
    for a in range(len(q)):
        total = wide(0)
        for x, row in zip(to_scores, k, strict=True):
            total = wide(total + wide(x * row[a]))
        to_query.append(to_format(total))
    return np.array(scores), np.array(w), np.array(to_scores), np.array(to_query)
