"""The steps of worked examples in plain Python: those that attention of q, k and v does not give.

Each function of REFERENCES returns the matrices of the example of its name, by step, as lists of
rows.
"""

import math

from experiments.publication.examples import examples as declared
from tests.plain_attention import (
    attention,
    blend,
    entropy,
    from_scores,
    product,
    shifted,
    softmax,
    spread,
    times,
    transposed,
    with_sums,
    without,
)

DOG = declared.DOG_SCORES.tolist()
DOG_VALUES = declared.DOG_VALUES.tolist()
DOG_PRINTED = declared.DOG_PRINTED.tolist()
CAT = declared.CAT_SCORES.tolist()
ABC_Q, ABC_K, ABC_V = declared.ABC.q.tolist(), declared.ABC.k.tolist(), declared.ABC.v.tolist()


def triples():
    root = math.sqrt(512)
    scores = [[2, 1, 1], [20, 10, 10], [200, 100, 100], [200 / root, 100 / root, 100 / root]]
    printed = [[0.50, 0.25, 0.25], [0.99, 0.005, 0.005], [1.00, 0.00, 0.00], [0.90, 0.05, 0.05]]
    weights = softmax(scores)
    return {
        "divisor": [[512, root]],
        "scores": scores,
        "exponentials": with_sums([shifted(row) for row in scores]),
        "weights": weights,
        "printed": printed,
        "difference": [
            [w - p for w, p in zip(*rows, strict=True)]
            for rows in zip(weights, printed, strict=True)
        ],
        "spread": spread(weights),
    }


def dog_bites_man():
    steps = from_scores(times(DOG, 2), 2, DOG_VALUES)
    weights = steps["weights"]
    blends = {
        f"blend_{word}": blend(w, DOG_VALUES)
        for word, w in zip(("dog", "bites", "man"), weights, strict=True)
    }
    halved = softmax(times(DOG, 0.5))
    outputs = [[0.550, 0.282, 0.050, 0.143], *product([DOG_PRINTED[0], weights[0]], DOG_VALUES)]
    own = {
        "printed": DOG_PRINTED,
        "halved": [DOG_PRINTED[0], halved[0], weights[0]],
        "printed_output": outputs,
    }
    return without(steps, "scores", "divisor") | blends | own


def cat_sat_down():
    steps = without(from_scores(times(CAT, math.sqrt(8)), math.sqrt(8)), "scores")
    weights = steps["weights"]
    own = [weights[i][i] for i in range(4)]
    order = sorted(range(4), key=lambda i: -entropy(weights[i]))
    return steps | {
        "diagonal": [[*own, sum(own) / 4, 1 / 4]],
        "columns": [
            [sum(column) / 4 for column in transposed(weights)],
            [sum(row[j] == max(row) for row in weights) / 4 for j in range(4)],
        ],
        "rows": [
            [entropy(weights[i]) / math.log(4), max(weights[i]) - min(weights[i])] for i in order
        ],
    }


def abc():
    steps = attention(ABC_Q, ABC_K, ABC_V)
    lengths = [math.hypot(*arrow) for arrow in ABC_Q + ABC_K]
    pairs = [(q, k) for q in ABC_Q for k in ABC_K]
    return steps | {
        "geometry": [
            [math.degrees(math.atan2(arrow[1], arrow[0])), length]
            for arrow, length in zip(ABC_Q + ABC_K, lengths, strict=True)
        ],
        "cosines": [
            [x / lengths[i] / lengths[3 + j] for j, x in enumerate(row)]
            for i, row in enumerate(steps["scores"])
        ],
        "terms": with_sums([[q[0] * k[0], q[1] * k[1]] for q, k in pairs]),
        "exponentials": with_sums([[math.exp(x) for x in row] for row in steps["scaled_scores"]]),
        "blend_A": blend(steps["weights"][0], ABC_V),
    }


REFERENCES = (abc, cat_sat_down, dog_bites_man, triples)
