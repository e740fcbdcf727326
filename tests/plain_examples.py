"""The steps of every worked example in plain Python, from the draws of its recipe.

Each function of REFERENCES returns the matrices of the example of its name, by step, as lists of
rows.
"""

import math
from statistics import fmean, pvariance, quantiles

import numpy as np

from experiments.publication.examples import examples as declared
from sdpa.theory import attention_expectations
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
COMPARED = (4, 16, 64, 256, 512)
WIDTHS = (8, 32, 64, 128, 256, 512)


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


def notebook():
    rng = np.random.RandomState(42)
    return attention(rng.randn(3, 4).tolist(), rng.randn(3, 4).tolist())


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


def projected(rng, n, d, width, token_scale, scale):
    x = times(rng.randn(n, d).tolist(), token_scale)
    return {"x": x} | {f"w_{name}": times(rng.randn(d, width).tolist(), scale) for name in "qkv"}


def of_tokens(inputs):
    return attention(*(product(inputs["x"], inputs[f"w_{name}"]) for name in "qkv"))


def words():
    return projected(np.random.RandomState(123), 4, 8, 4, 0.5, 0.3)


def four_words():
    return words() | without(of_tokens(words()), "undivided_weights")


def session():
    inputs = projected(np.random.RandomState(42), 4, 8, 6, 1, 0.1)
    shapes = [[3, 4, 6], [3, 4, 6], [3, 4, 6], [3, 4, 4], [3, 4, 6]]
    return (
        inputs
        | without(of_tokens(inputs), "undivided_weights", "exponentials")
        | {"batch_shapes": shapes}
    )


def two_scales():
    scores = [[1.0, 0.8, 0.5, 0.2], [20.0, 16.0, 10.0, 4.0]]
    steps = from_scores(scores, 1)
    return {name: steps[name] for name in ("scores", "exponentials", "weights")} | {
        "spread": spread(steps["weights"])
    }


def variance_sweep():
    rng = np.random.RandomState(42)
    rng.randn(4 * 8 + 3 * 8 * 6)
    rows = []
    for d_k in WIDTHS:
        scores = np.einsum("ij,ij->i", rng.randn(10_000, d_k), rng.randn(10_000, d_k)).tolist()
        variance = pvariance(scores)
        error = d_k * math.sqrt((2 + 6 / d_k) / 10_000)
        rows.append([variance, d_k, variance / d_k, error, (variance - d_k) / error])
    return {"variances": rows}


def four_of(scores, d_k):
    scaled = times(scores, 1 / math.sqrt(d_k))
    deviations = [np.std(rows) for rows in (scores, scaled)]
    return deviations + [fmean(map(max, softmax(rows))) for rows in (scores, scaled)]


def comparison():
    rng = np.random.default_rng(0)
    steps = {"drawn": [], "exact": [], "low": [], "high": []}
    for d_k in COMPARED:
        one = np.random.RandomState(42)
        q, k = one.randn(5, d_k).tolist(), one.randn(5, d_k).tolist()
        steps["drawn"].append(four_of(product(q, transposed(k)), d_k))
        means = [attention_expectations(d_k, 5, divisor).max_weight for divisor in (1.0, d_k**0.5)]
        steps["exact"].append([math.sqrt(d_k), 1, *means])
        qs, ks = rng.standard_normal((2, 2000, 5, d_k))
        found = transposed([four_of((a @ b.T).tolist(), d_k) for a, b in zip(qs, ks, strict=True)])
        cuts = [quantiles(values, n=20, method="inclusive") for values in found]
        steps["low"].append([cut[0] for cut in cuts])
        steps["high"].append([cut[-1] for cut in cuts])
    return {name: transposed(values) for name, values in steps.items()}


def permutation():
    inputs = words()
    outputs = of_tokens(inputs)["output"]
    shuffled = of_tokens(inputs | {"x": [inputs["x"][i] for i in (2, 0, 3, 1)]})["output"]
    dog = from_scores(DOG, 1, DOG_VALUES)["output"]
    turned = [[DOG[i][j] for j in (2, 1, 0)] for i in (2, 1, 0)]
    man = from_scores(turned, 1, [DOG_VALUES[i] for i in (2, 1, 0)])["output"]
    return {
        "outputs": outputs,
        "shuffled": shuffled,
        "difference": [[0]] * 5,
        "dog_bites_man": dog,
        "man_bites_dog": man,
        "swap_difference": [[0]] * 4,
    }


REFERENCES = (
    abc,
    cat_sat_down,
    comparison,
    dog_bites_man,
    four_words,
    notebook,
    permutation,
    session,
    triples,
    two_scales,
    variance_sweep,
)
