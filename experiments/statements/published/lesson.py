"""A lesson on the cat sat down: a table of scores, how to read its weights, and ranges of scores."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize

from experiments.examples.cat_sat_down import D_K, SCORES, WEIGHTS, WORDS
from experiments.statements.answer import Answer, Claimed, cases, numbers, shown, values
from experiments.statements.cutoffs import AMPLIFIED
from experiments.statements.declare import statement
from experiments.statements.measured import UNTRAINED
from experiments.statements.shared import Floats, share_beyond, variance_of_unit_vectors
from sdpa import theory


@statement(
    "lesson-08",
    says="The strip shows the sixteen scores of the table to two decimals.",
    claimed="0.23 0.83 0.03 0.63 0.41 0.82 0.09 0.59 0.85 0.35 -0.08 0.96 -0.07 0.65 0.06 0.20",
    rule="digits",
    severity="wrong number",
)
def strip_of_two_decimals() -> Answer:
    return numbers(SCORES)


@statement(
    "lesson-13 lesson-14 lesson-15 lesson-16 lesson-17 lesson-18",
    says="In 8, 64 and 512 dimensions, the product of two random unit vectors has a variance of about 8, 64 and 512,"
    " and ranges roughly from -4 to 4, -16 to 16 and -45 to 45.",
    claimed="8 64 512 -4 4 -16 16 -45 45",
    rule="about",
    severity="conceptual error",
)
def products_of_unit_vectors(claimed: Sequence[Claimed]) -> Answer:
    """Products of unit vectors of dimension 8, 64 and 512: variances, and two standard deviations on either side."""
    variances = {d: variance_of_unit_vectors(d) for d in (8, 64, 512)}
    ranges = [(-2 * math.sqrt(variance), 2 * math.sqrt(variance)) for variance in variances.values()]
    bounds = zip(variances, values(claimed)[4::2], strict=True)
    listed = ", ".join(f"{1 - share_beyond(bound, d):.1%} of scores at d = {d}" for d, bound in bounds)
    note = (
        "For unit vectors, the variance is 1/d; the computed ranges are two standard deviations on either side. Later,"
        " the lesson says that it means entries of variance 1. For these, the claimed variances are right, two standard"
        f" deviations are {shown([2 * math.sqrt(d) for d in variances])}, and the claimed ranges contain {listed}"
    )
    return numbers(*variances.values(), *ranges, note=note)


def median_ratio(d_k: int, divisor: float) -> float:
    """The median of e^(larger - smaller) of two scores over a divisor: q.(k - k') is a score times sqrt(2)."""
    beyond = optimize.brentq(lambda x: float(theory.score_survival(x, d_k)) - 1 / 4, 0, 2 * math.sqrt(d_k))
    return math.exp(math.sqrt(2) * beyond / divisor)


@statement(
    "lesson-26",
    says="Exponentials amplify differences: a larger score becomes much larger than a smaller one.",
    severity="conceptual error",
)
def exp_amplifies() -> Answer:
    """Exponentials of two scaled scores at the lesson's width: differences alone decide. Its table is in the note."""
    pair = median_ratio(D_K, math.sqrt(D_K))
    ordered = np.sort(WEIGHTS)[:, ::-1]
    second, last = (ordered[:, 0] / ordered[:, j] for j in (1, -1))
    note = (
        f"The ratio of two exponentials, e^(a - b), depends on the difference alone. Its median is {pair:.2f} for two"
        f" scaled scores at d_k = {D_K}, {UNTRAINED}. In the rows of the table, it is {shown(last, 3)} for the largest"
        f" and the smallest score, and {shown(second, 3)} for the largest and the second, which are close"
    )
    condition = f"in the median pair of scaled scores at d_k = {D_K}, one exponential is more than twice the other"
    return cases({condition: pair > AMPLIFIED.value}, note)


@statement(
    "lesson-28",
    says="In the table softmax sharpens: the largest score of each row is amplified, the others are suppressed.",
    severity="wrong number",
)
def table_is_sharpened() -> Answer:
    """The largest of each row over the second, and over the sum of the row, of scores and of weights."""
    ratios = [_largest_over_second(rows) for rows in (SCORES, WEIGHTS)]
    shares = [rows.max(-1) / rows.sum(-1) for rows in (SCORES, WEIGHTS)]
    conditions = {
        f"in row {word}, {what} is larger for weights than for scores": of_weights > of_scores
        for what, (before, after) in {"the largest over the second": ratios, "its share of the sum": shares}.items()
        for word, of_scores, of_weights in zip(WORDS, before, after, strict=True)
    }
    note = (
        f"Row by row, the largest over the second is {shown(ratios[0], 3)} for scores and {shown(ratios[1], 3)} for"
        f" weights; its share of the sum is {shown(shares[0], 3)} and {shown(shares[1], 3)}. The lead of the largest"
        " over the second grows as a share of the row's range, but it does so under any increasing convex function"
    )
    return cases(conditions, note)


def _largest_over_second(rows: Floats) -> Floats:
    second, largest = np.sort(rows)[:, -2:].T
    return np.asarray(largest / second)


@statement(
    "lesson-33",
    says="Darker means more attention, and a bright column marks a token that many attend to.",
    severity="conceptual error",
)
def dark_and_bright() -> Answer:
    """The brightest column if darker means more attention, and if brighter does."""
    hub = int(np.bincount(WEIGHTS.argmax(-1), minlength=4).argmax())
    brightest = {"darker": (1 - WEIGHTS).mean(0).argmax(), "brighter": WEIGHTS.mean(0).argmax()}
    note = f"If darker means more, {WORDS[brightest['darker']]} has the brightest column and gets the least attention"
    return cases(
        {
            f"the brightest column gets the most attention if {shade} means more": place == hub
            for shade, place in brightest.items()
        },
        note,
    )


@statement("lesson-37", says="A column of large weights marks a token that many attend to.", severity="wrong number")
def hub() -> Answer:
    """The mean weight of each column, and which column leads which rows."""
    means = WEIGHTS.mean(0)
    leads = int((WEIGHTS.argmax(-1) == means.argmax()).sum())
    note = f"The column of {WORDS[means.argmax()]} gets {means.max():.1%} on average and leads {leads} of 4 rows"
    return cases({"the strongest column leads most rows": leads > len(WORDS) / 2}, note)
