"""Every number of every example against plain Python: loops, math and the digits that the sources print."""

import math
import random

import numpy as np
import pytest

from experiments.examples import example_names, load_example

DOG = [[1.25, 0.80, -0.20], [0.80, 1.09, -0.40], [-0.20, -0.40, 1.16]]
DOG_VALUES = [[0.9, 0.1, -0.3, 0.5], [0.2, 0.8, 0.1, -0.4], [0.4, -0.2, 0.7, 0.3]]
DOG_PRINTED = [[0.44, 0.35, 0.21], [0.38, 0.41, 0.21], [0.19, 0.15, 0.66]]
CAT = [
    [0.226, 0.827, 0.029, 0.630],
    [0.413, 0.820, 0.094, 0.587],
    [0.847, 0.349, -0.078, 0.955],
    [-0.070, 0.648, 0.056, 0.200],
]
ABC_Q, ABC_K = [[1, 0], [0.5, 0.5], [0, 1]], [[0.8, 0.2], [0.3, 0.7], [0.1, 0.9]]
ABC_V = [[1, 0], [0, 1], [0.5, 0.5]]
WIDTHS = (8, 32, 64, 128, 256, 512)
COMPARED = (4, 16, 64, 256, 512)


def transposed(a):
    return [list(column) for column in zip(*a, strict=True)]


def product(a, b):
    return [[math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in transposed(b)] for row in a]


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
        return [[-math.inf if hidden(i, j) else x for j, x in enumerate(row)] for i, row in enumerate(a)]

    scaled, raw = masked(times(scores, 1 / divisor)), masked(scores)
    weights, before = softmax(scaled), softmax(raw)
    steps = {
        "scores": scores,
        "divisor": [[divisor]],
        "scaled_scores": scaled,
        "exponentials": with_sums([shifted(row) for row in scaled]),
        "weights": weights,
        "undivided_weights": before,
        "divisor_effect": [[max(b), max(w), entropy(b), entropy(w)] for b, w in zip(before, weights, strict=True)],
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
        "difference": [[w - p for w, p in zip(*rows, strict=True)] for rows in zip(weights, printed, strict=True)],
        "spread": spread(weights),
    }


def dog_bites_man():
    steps = from_scores(times(DOG, 2), 2, DOG_VALUES)
    weights = steps["weights"]
    blends = {f"blend_{word}": blend(w, DOG_VALUES) for word, w in zip(("dog", "bites", "man"), weights, strict=True)}
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
        "rows": [[entropy(weights[i]) / math.log(4), max(weights[i]) - min(weights[i])] for i in order],
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
            [x / lengths[i] / lengths[3 + j] for j, x in enumerate(row)] for i, row in enumerate(steps["scores"])
        ],
        "terms": with_sums([[q[0] * k[0], q[1] * k[1]] for q, k in pairs]),
        "exponentials": with_sums([[math.exp(x) for x in row] for row in steps["scaled_scores"]]),
        "blend_A": blend(steps["weights"][0], ABC_V),
    }


def projected(rng, n, d, width, token_scale, scale):
    x = times(rng.randn(n, d).tolist(), token_scale)
    return {"x": x} | {f"w_{name}": times(rng.randn(d, width).tolist(), scale) for name in "qkv"}


def of_tokens(inputs, hidden=lambda _i, _j: False):
    return attention(*(product(inputs["x"], inputs[f"w_{name}"]) for name in "qkv"), hidden=hidden)


def words():
    return projected(np.random.RandomState(123), 4, 8, 4, 0.5, 0.3)


def four_words():
    return words() | without(of_tokens(words()), "undivided_weights")


def session():
    inputs = projected(np.random.RandomState(42), 4, 8, 6, 1, 0.1)
    shapes = [[3, 4, 6], [3, 4, 6], [3, 4, 6], [3, 4, 4], [3, 4, 6]]
    return inputs | without(of_tokens(inputs), "undivided_weights", "exponentials") | {"batch_shapes": shapes}


def two_scales():
    scores = [[1.0, 0.8, 0.5, 0.2], [20.0, 16.0, 10.0, 4.0]]
    steps = from_scores(scores, 1)
    return {name: steps[name] for name in ("scores", "exponentials", "weights")} | {"spread": spread(steps["weights"])}


def variance_sweep():
    rng = np.random.RandomState(42)
    rng.randn(4 * 8 + 3 * 8 * 6)
    rows = []
    for d_k in WIDTHS:
        scores = np.einsum("ij,ij->i", rng.randn(10_000, d_k), rng.randn(10_000, d_k)).tolist()
        mean = math.fsum(scores) / 10_000
        variance = math.fsum((x - mean) ** 2 for x in scores) / 10_000
        error = d_k * math.sqrt((2 + 6 / d_k) / 10_000)
        rows.append([variance, d_k, variance / d_k, error, (variance - d_k) / error])
    return {"variances": rows}


def deviation(a):
    values = [x for row in a for x in row]
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((x - mean) ** 2 for x in values) / len(values))


def four_of(scores, d_k):
    scaled = times(scores, 1 / math.sqrt(d_k))
    largest = [sum(map(max, softmax(a))) / 5 for a in (scores, scaled)]
    return [deviation(scores), deviation(scaled), *largest]


def quantile(values, share):
    values = sorted(values)
    place = share * (len(values) - 1)
    low = math.floor(place)
    return values[low] + (place - low) * (values[low + 1] - values[low])


def comparison():
    """Without the exact expectations, which the draws check by themselves."""
    rng = np.random.default_rng(0)
    drawn, low, high = [], [], []
    for d_k in COMPARED:
        one = np.random.RandomState(42)
        q, k = one.randn(5, d_k).tolist(), one.randn(5, d_k).tolist()
        drawn.append(four_of(product(q, transposed(k)), d_k))
        qs, ks = rng.standard_normal((2, 2000, 5, d_k))
        found = transposed([four_of((a @ b.T).tolist(), d_k) for a, b in zip(qs, ks, strict=True)])
        low.append([quantile(values, 0.05) for values in found])
        high.append([quantile(values, 0.95) for values in found])
    return {"drawn": transposed(drawn), "low": transposed(low), "high": transposed(high)}


def weight_strip():
    rng = np.random.default_rng(42)
    query = rng.standard_normal(64).tolist()
    scores = product([query], transposed(rng.standard_normal((8, 64)).tolist()))
    divisors = [64 ** (i / 8) for i in range(9)]
    weights = [softmax(times(scores, 1 / divisor))[0] for divisor in divisors]
    return {
        "scores": scores,
        "weights": weights,
        "measures": [
            [
                divisor,
                max(row),
                entropy(row),
                math.sqrt(math.fsum(((i == j) * x - x * y) ** 2 for i, x in enumerate(row) for j, y in enumerate(row))),
            ]
            for divisor, row in zip(divisors, weights, strict=True)
        ],
    }


def permutation():
    inputs = words()
    outputs = of_tokens(inputs)["output"]
    shuffled = of_tokens(inputs | {"x": [inputs["x"][i] for i in (2, 0, 3, 1)]})["output"]
    dog = from_scores(DOG, 1, DOG_VALUES)["output"]
    turned = [[DOG[i][j] for j in (2, 1, 0)] for i in (2, 1, 0)]
    man = from_scores(turned, 1, [DOG_VALUES[i] for i in (2, 1, 0)])["output"]
    assert all(
        math.isclose(x, y, abs_tol=1e-14)
        for i, row in enumerate((2, 0, 3, 1))
        for x, y in zip(shuffled[i], outputs[row], strict=True)
    )
    return {
        "outputs": outputs,
        "shuffled": shuffled,
        "difference": [[0]] * 5,
        "dog_bites_man": dog,
        "man_bites_dog": man,
        "swap_difference": [[0]] * 4,
    }


def causal_mask():
    def later(i, j):
        return j > i

    inputs = words()
    changed = inputs | {"x": [[-x for x in row] if i == 2 else row for i, row in enumerate(inputs["x"])]}
    masked, after = of_tokens(inputs, later), of_tokens(changed, later)
    pairs = [(masked, after), (of_tokens(inputs), of_tokens(changed))]
    moved = [
        [
            max(abs(x - y) for x, y in zip(a, b, strict=True))
            for a, b in zip(one["output"], other["output"], strict=True)
        ]
        for one, other in pairs
    ]
    return without(masked, "q", "k", "v", "scores", "divisor") | {
        "x": inputs["x"],
        "changed_x": changed["x"],
        "mask": [[int(j <= i) for j in range(4)] for i in range(4)],
        "changed_output": after["output"],
        "moved": moved,
    }


REFERENCES = (
    abc,
    cat_sat_down,
    causal_mask,
    comparison,
    dog_bites_man,
    four_words,
    notebook,
    permutation,
    session,
    triples,
    two_scales,
    variance_sweep,
    weight_strip,
)


@pytest.fixture(scope="module")
def shown():
    """The matrices of an example's steps by name, computed once."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = {step.name: step.matrix.values for step in load_example(name).steps() if step.matrix}
        return found[name]

    return of


def test_every_example_has_a_reference():
    assert [reference.__name__ for reference in REFERENCES] == example_names()


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.__name__)
def test_every_number_is_that_of_plain_python(reference, shown):
    got, expected = shown(reference.__name__), reference()
    exact = {"exact"} if reference is comparison else set()
    assert set(got) == set(expected) | exact
    for step, values in expected.items():
        np.testing.assert_allclose(got[step], values, rtol=1e-9, atol=1e-13, err_msg=step)


def test_exact_expectations_are_the_means_of_many_draws(shown):
    """The means of 4,000 rows of five weights, by the standard library's generator, within 4.5 standard errors."""
    rng = random.Random(1)
    exact = shown("comparison")["exact"]
    np.testing.assert_allclose(exact[:2], [[math.sqrt(d_k) for d_k in COMPARED], [1] * 5], rtol=1e-12)
    for column, d_k in enumerate(COMPARED):
        rows = []
        for _ in range(4000):
            length = math.sqrt(rng.gammavariate(d_k / 2, 2))  # of a query: its square is chi-squared
            rows.append([rng.gauss(0, length) for _ in range(5)])
        for row, divisor in ((2, 1), (3, math.sqrt(d_k))):
            largest = [max(weights) for weights in softmax(times(rows, 1 / divisor))]
            mean = math.fsum(largest) / 4000
            error = math.sqrt(math.fsum((x - mean) ** 2 for x in largest) / 4000 / 3999)
            assert abs(exact[row][column] - mean) < 4.5 * error


# Digits as the article prints them.
PRINTED = [
    ("session", "scores", 3, "0.045 -0.237 -0.014 0.061 -0.053 0.492 0.015 -0.134 -0.147 0.173 0.044 0.191 "
                             "-0.114 0.163 0.109 -0.301"),
    ("session", "weights", 3, "0.258 0.230 0.252 0.260 0.236 0.294 0.242 0.228 0.229 0.261 0.247 0.263 "
                              "0.241 0.270 0.264 0.224"),
    ("session", "batch_shapes", 0, "3 4 6 3 4 6 3 4 6 3 4 4 3 4 6"),
    ("two_scales", "spread", 4, "0.3479 1.3434 0.9820 0.0906"),
    ("two_scales", "weights", 4, "0.3479 0.2848 0.2110 0.1563 0.9820 0.0180 0.0000 0.0000"),
    ("abc", "scores", 2, "0.80 0.30 0.10 0.50 0.50 0.50 0.20 0.70 0.90"),
    ("abc", "scaled_scores", 4, "0.5657 0.2121 0.0707 0.3536 0.3536 0.3536 0.1414 0.4950 0.6364"),
    ("abc", "weights", 4, "0.4326 0.3037 0.2637 0.3333 0.3333 0.3333 0.2460 0.3504 0.4036"),
    ("abc", "output", 4, "0.5644 0.4356 0.5000 0.5000 0.4478 0.5522"),
]  # fmt: skip


@pytest.mark.parametrize(("example", "step", "digits", "printed"), PRINTED)
def test_the_digits_that_the_article_prints_are_met(shown, example, step, digits, printed):
    assert [f"{x:z.{digits}f}" for x in shown(example)[step].ravel()] == printed.split()


def test_the_exponentials_of_a_are_those_that_the_article_prints(shown):
    assert [f"{x:.4f}" for x in shown("abc")["exponentials"][0]] == ["1.7607", "1.2363", "1.0733", "4.0702"]


def test_the_weights_of_large_scores_are_those_that_the_article_prints(shown):
    assert [f"{x:.6f}" for x in shown("two_scales")["weights"][1]] == ["0.981970", "0.017985", "0.000045", "0.000000"]


def test_the_table_of_the_comparison_is_that_of_the_article(shown):
    """Deviations to two digits, largest weights to four."""
    drawn = shown("comparison")["drawn"]
    printed = ["1.56 3.00 8.66 13.47 20.79", "0.78 0.75 1.08 0.84 0.92"]
    printed += ["0.6048 0.8633 0.7493 1.0000 1.0000", "0.4355 0.4592 0.4398 0.4961 0.4842"]
    for row, digits, line in zip(drawn, (2, 2, 4, 4), printed, strict=True):
        assert [f"{x:.{digits}f}" for x in row] == line.split()


def test_outputs_before_a_changed_token_stay_to_the_bit(shown):
    steps = shown("causal_mask")
    assert (steps["output"][:2] == steps["changed_output"][:2]).all()
    assert (steps["moved"][0][:2] == 0).all()
    assert (steps["moved"][0][2:] > 0.1).all()
    assert (steps["moved"][1] > 0.1).all()


def test_words_keep_their_outputs_wherever_they_stand(shown):
    steps = shown("permutation")
    np.testing.assert_allclose(steps["outputs"][[2, 0, 3, 1]], steps["shuffled"], atol=1e-14)
    np.testing.assert_allclose(steps["dog_bites_man"][::-1], steps["man_bites_dog"], atol=1e-14)


def test_half_the_scores_give_the_printed_weights_of_dog_alone():
    halved = [[f"{w:.2f}" for w in row] for row in softmax(times(DOG, 0.5))]
    printed = [[f"{w:.2f}" for w in row] for row in DOG_PRINTED]
    assert [a == b for a, b in zip(halved, printed, strict=True)] == [True, False, False]
