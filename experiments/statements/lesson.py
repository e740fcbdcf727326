"""A lesson on the cat sat down: a table of scores, how to read its weights, and ranges of scores."""

import math

import numpy as np
import numpy.typing as npt
from scipy import integrate, optimize, stats

from experiments.examples.cat_sat_down import D_K, SCORES, WEIGHTS, WORDS
from experiments.statements.answers import Answer, Tables, cases, numbers, quantity, shown
from experiments.statements.checks import UNTRAINED
from experiments.statements.cutoffs import AMPLIFIED, BROAD, DOMINANT, NEARLY_EQUAL
from sdpa import softmax, theory

Floats = npt.NDArray[np.floating]


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


def _variance_of_unit_vectors(d: int) -> float:
    """The variance of the product of two independent unit vectors, integrated over the law of the cosine."""
    mass, square = (
        integrate.quad(lambda t, p=p: t**p * (1 - t * t) ** ((d - 3) / 2), -1, 1, points=[0])[0] for p in (0, 2)
    )
    return float(square / mass)


@quantity
def products_of_unit_vectors(_: Tables) -> Answer:
    """Products of unit vectors of dimension 8, 64 and 512: variances, and two standard deviations on either side."""
    variances = {d: _variance_of_unit_vectors(d) for d in (8, 64, 512)}
    ranges = [(-2 * math.sqrt(variance), 2 * math.sqrt(variance)) for variance in variances.values()]
    claimed = dict(zip(variances, (4.0, 16.0, 45.0), strict=True))
    covered = {d: 1 - 2 * float(theory.score_survival(bound, d)) for d, bound in claimed.items()}
    listed = ", ".join(f"{share:.1%} within {claimed[d]:g} at {d}" for d, share in covered.items())
    note = (
        "the variance is 1/d for unit vectors, the range is of two standard deviations. The lesson says further down"
        " what it means: entries of variance 1. For these the variances are right, two standard deviations are"
        f" {shown([2 * math.sqrt(d) for d in variances])}, and of the scores {listed}"
    )
    return numbers(*variances.values(), *ranges, note=note)


def _lead(rows: Floats) -> Floats:
    """How far the largest of each row is ahead of the second, as a share of how far it is ahead of the last."""
    ordered = np.sort(rows)[:, ::-1]
    return np.asarray((ordered[:, 0] - ordered[:, 1]) / (ordered[:, 0] - ordered[:, -1]))


def median_ratio(d_k: int, divisor: float) -> float:
    """The median of e^(larger - smaller) of two scores over a divisor: q.(k - k') is a score times sqrt(2)."""
    beyond = optimize.brentq(lambda x: float(theory.score_survival(x, d_k)) - 1 / 4, 0, 2 * math.sqrt(d_k))
    return math.exp(math.sqrt(2) * beyond / divisor)


@quantity
def exp_amplifies(_: Tables) -> Answer:
    """Exponentials of two scaled scores at the lesson's width: differences alone decide. Its table is in the note."""
    pair = median_ratio(D_K, math.sqrt(D_K))
    ordered = np.sort(WEIGHTS)[:, ::-1]
    second, last = (ordered[:, 0] / ordered[:, j] for j in (1, -1))
    note = (
        f"e^(a - b) depends on the difference alone: its median is {pair:.2f} for two scaled scores at d_k = {D_K},"
        f" {UNTRAINED}. In the rows of the table it is {shown(last, 3)} for the largest score and the smallest,"
        f" {shown(second, 3)} for the largest and the second, which are close"
    )
    return cases({f"twice as large in the median pair of scaled scores at d_k = {D_K}": pair > AMPLIFIED}, note)


@quantity
def table_is_sharpened(_: Tables) -> Answer:
    """The lead of the largest over the second as a share of the row's range, of scores and of weights."""
    scores, weights = _lead(SCORES), _lead(WEIGHTS)
    named = {f"row {word}": ahead for word, ahead in zip(WORDS, weights > scores, strict=True)}
    note = (
        f"lead of the largest over the second, as a share of the row's range: scores {shown(scores, 3)}, weights"
        f" {shown(weights, 3)}; adding a constant to all scores changes neither"
    )
    return cases(named, note)


@quantity
def diagonal(_: Tables) -> Answer:
    """What words give themselves: the diagonal of weights, of a table made with a strong one and of the lesson's."""
    strong, share = np.diag(softmax(4 * np.eye(4))).mean(), np.diag(WEIGHTS).mean()
    note = f"in the lesson's table the diagonal takes {share:.1%} on average: less than a quarter, no strong diagonal"
    return cases({"scores with 4 on the diagonal keep most attention there": strong > DOMINANT}, note)


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
    uniform = 1 / len(WORDS)
    share = stats.entropy(WEIGHTS, axis=-1) / math.log(len(WORDS))
    far = abs(WEIGHTS - uniform).max(-1)
    equal = far < NEARLY_EQUAL * uniform
    note = f"entropy over ln 4 {shown(share, 3)}; weights up to {shown(far, 2)} from a quarter"
    conditions = {f"row {WORDS[i]} of nearly equal weights": share[i] > BROAD for i in np.flatnonzero(equal)}
    return cases(conditions, note)


@quantity
def hub(_: Tables) -> Answer:
    """The mean weight of each column, and which column leads which rows."""
    means = WEIGHTS.mean(0)
    leads = int((WEIGHTS.argmax(-1) == means.argmax()).sum())
    note = f"{WORDS[means.argmax()]} gets {means.max():.1%} on average and leads {leads} of 4 rows"
    return cases(
        {
            "the strongest column gets more than a quarter": means.max() > 1 / len(WORDS),
            "and leads most rows": leads > 2,
        },
        note,
    )
