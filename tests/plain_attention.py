"""The steps of attention in plain Python, loops and `math` on lists of rows."""

from math import exp, fsum, inf, log, sqrt


def dot(x, y):
    return fsum(a * b for a, b in zip(x, y, strict=True))


def shifted(row):
    largest = max(row)
    return [exp(x - largest) for x in row]


def softmax_of_row(row):
    exponentials = shifted(row)
    total = fsum(exponentials)
    return [x / total for x in exponentials]


def entropy(row):
    return -fsum(w * log(w) for w in row if w > 0)


def attention(q, k, v=(), divisor=None, hidden=lambda _i, _j: False):
    """All steps of attention; without values, outputs are empty."""
    divisor = divisor or sqrt(len(q[0]))
    scores = [[dot(query, key) for key in k] for query in q]
    raw = [[-inf if hidden(i, j) else x for j, x in enumerate(row)] for i, row in enumerate(scores)]
    scaled = [[x / divisor for x in row] for row in raw]
    exponentials = [shifted(row) for row in scaled]
    before, weights = (list(map(softmax_of_row, rows)) for rows in (raw, scaled))
    effect = [
        [max(b), max(w), entropy(b), entropy(w)] for b, w in zip(before, weights, strict=True)
    ]
    return {
        "q": q,
        "k": k,
        "v": v,
        "scores": scores,
        "divisor": [[divisor]],
        "scaled_scores": scaled,
        "exponentials": [[*row, fsum(row)] for row in exponentials],
        "weights": weights,
        "undivided_weights": before,
        "divisor_effect": effect,
        "output": [[dot(row, column) for column in zip(*v, strict=True)] for row in weights],
    }
