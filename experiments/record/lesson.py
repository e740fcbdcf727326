"""A lesson on the cat sat down: a table of scores, how to read its weights, and ranges of scores."""

import math

import numpy as np
from scipy import integrate, stats

from experiments.examples.cat_sat_down import SCORES, WEIGHTS, WORDS
from experiments.record.answers import Answer, Tables, cases, numbers, quantity, shown
from sdpa import softmax, theory


@quantity
def strip_of_two_decimals(_: Tables) -> Answer:
    """The table of scores, which the strip shows to two decimals."""
    return numbers(SCORES)


@quantity
def weights_of_the_table(_: Tables) -> Answer:
    """The weights that the lesson speaks of and does not show."""
    return cases(
        {"rows are distributions": np.allclose(WEIGHTS.sum(-1), 1)}, f"weights, row by row: {shown(WEIGHTS, 3)}"
    )


@quantity
def root_of_8(_: Tables) -> Answer:
    """sqrt(8)."""
    return numbers(math.sqrt(8))


def _unit_vectors(d: int) -> Answer:
    """The variance of the product of two independent unit vectors, integrated over the law of the cosine."""
    weight = integrate.quad(lambda t: (1 - t * t) ** ((d - 3) / 2), -1, 1, points=[0])[0]
    variance = integrate.quad(lambda t: t * t * (1 - t * t) ** ((d - 3) / 2), -1, 1, points=[0])[0] / weight
    return numbers(variance, note=f"1/d for unit vectors; {d} holds for vectors with entries of variance 1")


@quantity
def unit_vectors_of_8(_: Tables) -> Answer:
    """The variance of products of unit vectors of dimension 8."""
    return _unit_vectors(8)


@quantity
def unit_vectors_of_64(_: Tables) -> Answer:
    """The variance of products of unit vectors of dimension 64."""
    return _unit_vectors(64)


@quantity
def unit_vectors_of_512(_: Tables) -> Answer:
    """The variance of products of unit vectors of dimension 512."""
    return _unit_vectors(512)


def _range(d: int, claimed: float) -> Answer:
    """Two standard deviations, by which two of the lesson's three ranges go, and what the range claimed covers."""
    two = 2 * math.sqrt(d)
    covered, usual = (1 - 2 * float(theory.score_survival(x, d)) for x in (claimed, two))
    note = (
        f"two standard deviations, which cover {usual:.1%} of scores of unit-variance entries;"
        f" {claimed:g} covers {covered:.1%}; of unit vectors all lie within 1"
    )
    return numbers(-two, two, note=note)


@quantity
def range_of_8(_: Tables) -> Answer:
    """The range of scores at d = 8."""
    return _range(8, 4)


@quantity
def range_of_64(_: Tables) -> Answer:
    """The range of scores at d = 64."""
    return _range(64, 16)


@quantity
def range_of_512(_: Tables) -> Answer:
    """The range of scores at d = 512."""
    return _range(512, 45)


def _sharpened() -> list[bool]:
    """For each row, whether the ratio of the largest weight to the second exceeds that of the scores."""
    scores, weights = -np.sort(-SCORES), -np.sort(-WEIGHTS)
    return [bool(w) for w in weights[:, 0] / weights[:, 1] > scores[:, 0] / scores[:, 1]]


@quantity
def exp_amplifies(_: Tables) -> Answer:
    """Ratios of exponentials against ratios of the scores: of 20 and 10, and of the table's rows."""
    return cases(
        {"of 20 and 10": math.exp(10) > 2, "of the two largest scores of each row of the table": all(_sharpened())},
        "e^(a - b) exceeds a / b where scores are far apart, not where they are close",
    )


@quantity
def table_is_sharpened(_: Tables) -> Answer:
    """Ratio of the largest to the second in each row, of scores and of weights."""
    scores, weights = -np.sort(-SCORES), -np.sort(-WEIGHTS)
    ratios = [shown(x[:, 0] / x[:, 1], 3) for x in (scores, weights)]
    named = {f"row {word}": held for word, held in zip(WORDS, _sharpened(), strict=True)}
    return Answer(cases=named, note=f"largest over second: scores {ratios[0]}, weights {ratios[1]}")


@quantity
def split_of_attention(_: Tables) -> Answer:
    """The sum of the example's shares, in percent."""
    return numbers(40 + 30 + 15 + 15)


@quantity
def diagonal(_: Tables) -> Answer:
    """What words give themselves: the diagonal of weights, of a table made with a strong one and of the lesson's."""
    strong, share = np.diag(softmax(4 * np.eye(4))).mean(), np.diag(WEIGHTS).mean()
    note = f"in the lesson's table the diagonal takes {share:.1%} on average: less than a quarter, no strong diagonal"
    return cases({"scores with 4 on the diagonal keep most attention there": strong > 0.9}, note)


@quantity
def sat_to_cat(_: Tables) -> Answer:
    """The weights of sat in the lesson's table."""
    row = WEIGHTS[WORDS.index("sat")]
    given = ", ".join(f"{word} {weight:.3f}" for word, weight in zip(WORDS, row, strict=True))
    largest = row.argmax() == WORDS.index("cat")
    return cases(
        {"cat gets its largest weight": largest, "or more than a quarter": row[1] > 0.25}, f"sat gives {given}"
    )


@quantity
def dark_and_bright(_: Tables) -> Answer:
    """Which column is brightest where darker is more, and where brighter is more."""
    hub = int(np.bincount(WEIGHTS.argmax(-1), minlength=4).argmax())
    brightest = {"darker": (1 - WEIGHTS).mean(0).argmax(), "brighter": WEIGHTS.mean(0).argmax()}
    note = f"where darker is more, the brightest column is that of {WORDS[brightest['darker']]}, which gets least"
    return cases({f"where {shade} is more": place == hub for shade, place in brightest.items()}, note)


@quantity
def uniform_rows(_: Tables) -> Answer:
    """The entropy of each row over ln 4, and how far its weights are from a quarter."""
    share = stats.entropy(WEIGHTS, axis=-1) / math.log(4)
    far = abs(WEIGHTS - 0.25).max(-1)
    note = f"entropy over ln 4 {shown(share, 3)}; weights up to {shown(far, 2)} from a quarter"
    return cases(
        {
            "all four rows, within one eighth of a quarter, have nine tenths of ln 4": far.max() < 0.125
            and share.min() > 0.9
        },
        note,
    )


@quantity
def hub(_: Tables) -> Answer:
    """The mean weight of each column, and which column leads which rows."""
    means = WEIGHTS.mean(0)
    leads = int((WEIGHTS.argmax(-1) == means.argmax()).sum())
    note = f"{WORDS[means.argmax()]} gets {means.max():.1%} on average and leads {leads} of 4 rows"
    return cases(
        {"the strongest column gets more than a quarter": means.max() > 0.25, "and leads most rows": leads > 2}, note
    )


@quantity
def example_row_sum(_: Tables) -> Answer:
    """The sum of the example's weights."""
    return numbers(0.15 + 0.40 + 0.20 + 0.25)


@quantity
def row_of_sat(_: Tables) -> Answer:
    """The weights of sat, from the table of scores."""
    return numbers(WEIGHTS[2], note="from the lesson's own scores")
