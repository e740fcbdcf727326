"""The steps of attention in plain Python, loops and `math` on lists of rows."""

import math


def transposed(a):
    return [list(column) for column in zip(*a, strict=True)]


def dot(x, y):
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def product(a, b):
    columns = transposed(b)
    return [[dot(row, column) for column in columns] for row in a]


def times(a, factor):
    return [[x * factor for x in row] for row in a]


def shifted(row):
    largest = max(row)
    return [math.exp(x - largest) for x in row]


def softmax_of_row(row):
    exponentials = shifted(row)
    total = math.fsum(exponentials)
    return [x / total for x in exponentials]


def softmax(a):
    return [softmax_of_row(row) for row in a]


def entropy(row):
    return -math.fsum(w * math.log(w) for w in row if w > 0)


def spread(weights):
    return [[max(row), entropy(row)] for row in weights]


def with_sums(a):
    return [[*row, math.fsum(row)] for row in a]


def from_scores(scores, divisor, v=None, hidden=lambda _i, _j: False):
    """The steps from scores to what the divisor changed."""

    def masked_row(i, row):
        return [-math.inf if hidden(i, j) else x for j, x in enumerate(row)]

    raw = [masked_row(i, row) for i, row in enumerate(scores)]
    scaled = times(raw, 1 / divisor)
    before = softmax(raw)
    weights = softmax(scaled)
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
