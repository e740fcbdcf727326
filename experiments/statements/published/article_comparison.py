"""The article's comparison of scalings on one draw of five keys."""

import math
from functools import cache

import numpy as np

from experiments.examples.comparison import COMPARED, comparison
from experiments.statements.answer import Answer, cases, numbers, shown
from experiments.statements.cutoffs import ABOUT, DOMINANT, ONE_HOT, UNLIKELY
from experiments.statements.declare import statement
from experiments.statements.measured import UNTRAINED, Tables, rows_of
from experiments.statements.shared import Floats, expectations, least_likely
from sdpa import softmax, theory

_COLUMNS = "standard deviation of scores unscaled and scaled, mean largest weight unscaled and scaled"
_PRINTED_DEVIATION = "20.79"  # unscaled, at d_k = 512
_ITS_TABLE = "the article's own table agrees to sampling error"
_DRAWS = 2000  # of five queries and keys, beside the article's


@cache
def _drawn(d_k: int) -> tuple[Floats, Floats]:
    """The deviation of scores and the mean largest weight, unscaled, of each of many draws of five queries and keys."""
    q, k = np.random.default_rng(0).standard_normal((2, _DRAWS, 5, d_k))
    scores = q @ k.swapaxes(-1, -2)
    return scores.std(axis=(-1, -2)), softmax(scores).max(-1).mean(-1)


def _tails(drawn: Floats, own: float) -> float:
    """The probability of a draw as far out as the article's, on either side."""
    return 2 * float(min((drawn <= own).mean(), (drawn >= own).mean()))


def _chance_of_deviations() -> float:
    """The probability of deviations as far out as the table's; the same of scaled scores, which are in proportion."""
    return least_likely(_tails(_drawn(d_k)[0], comparison(d_k)[0]) for d_k in COMPARED)


def _chance_of_largest() -> float:
    """The probability of unscaled largest weights as far out as the table's."""
    return least_likely(_tails(_drawn(d_k)[1], comparison(d_k)[2]) for d_k in COMPARED)


@statement(
    "article-117",
    says=f"At d_k = 4: {_COLUMNS}.",
    claimed="1.56 0.78 0.6048 0.4355",
    rule="digits",
    severity="wrong number",
    given={"d_k": 4},
)
@statement(
    "article-118",
    says=f"At d_k = 16: {_COLUMNS}.",
    claimed="3.00 0.75 0.8633 0.4592",
    rule="digits",
    severity="wrong number",
    given={"d_k": 16},
)
@statement(
    "article-119",
    says=f"At d_k = 64: {_COLUMNS}.",
    claimed="8.66 1.08 0.7493 0.4398",
    rule="digits",
    severity="wrong number",
    given={"d_k": 64},
)
@statement(
    "article-120",
    says=f"At d_k = 256: {_COLUMNS}.",
    claimed="13.47 0.84 1.0000 0.4961",
    rule="digits",
    severity="wrong number",
    given={"d_k": 256},
)
@statement(
    "article-121",
    says=f"At d_k = 512: {_COLUMNS}.",
    claimed=f"{_PRINTED_DEVIATION} 0.92 1.0000 0.4842",
    rule="digits",
    severity="wrong number",
    given={"d_k": 512},
)
def row_of_the_table(d_k: int) -> Answer:
    return numbers(
        comparison(d_k), note="The computation repeats the article's draw of five queries and five keys with seed 42"
    )


@statement(
    "article-122",
    says="In prose: the unscaled standard deviation reaches over 22 at d_k = 512.",
    claimed="22",
    rule="digits",
    severity="wrong number",
)
def deviation_at_512() -> Answer:
    note = (
        f"The article itself prints {_PRINTED_DEVIATION}; over all draws it is exactly sqrt(512) = {math.sqrt(512):.2f}"
    )
    return numbers(comparison(512)[0], note=note)


@statement(
    "article-123", says="The standard deviation of unscaled scores grows as sqrt(d_k).", severity="conceptual error"
)
def deviation_grows_as_root(tables: Tables) -> Answer:
    """The standard deviation of unscaled scores over sqrt(d_k): measured over many draws, and in the article's one."""
    rows = rows_of(tables["dimension"], "unscaled")
    measured = np.sqrt(rows["score_variance"] / rows["d_k"])
    own, chance = [comparison(d_k)[0] / math.sqrt(d_k) for d_k in COMPARED], _chance_of_deviations()
    note = (
        f"Divided by sqrt(d_k), it is {measured.min():.3f} to {measured.max():.3f} over many draws (dimension.csv,"
        f" unscaled, d_k = 4 to 512, 64 keys, {UNTRAINED}) and {min(own):.2f} to {max(own):.2f} in the article's draws."
        f" By chance, draws deviate this much with probability {chance:.1f}"
    )
    conditions = {
        "over many draws, it is within 5% of sqrt(d_k)": (abs(measured - 1) < ABOUT.value).all(),
        _ITS_TABLE: chance >= UNLIKELY.value,
    }
    return cases(conditions, note)


@statement("article-124", says="The largest unscaled weight is pushed toward 1.", severity="wrong number")
def pushed_to_one() -> Answer:
    """The largest of five weights at d_k = 512, unscaled: exact mean."""
    mean = expectations(512, 5, 1.0).max_weight
    note = (
        f"With five keys at d_k = 512, it is {mean:.3f} on average (exact, {UNTRAINED}),"
        " and 1.0000 in the article's draw"
    )
    return cases({"it is above 0.9 on average": mean > ONE_HOT.value}, note)


@statement(
    "article-125 article-128 article-129",
    says="The standard deviation of scaled scores stays around 1.0 in the table.",
    severity="wrong number",
)
def scaled_deviation_is_one() -> Answer:
    """The standard deviation of scaled scores in the article's table, and exactly."""
    own, chance = [comparison(d_k)[1] for d_k in COMPARED], _chance_of_deviations()
    note = (
        f"It is exactly 1 over all draws, {UNTRAINED}, and {min(own):.2f} to {max(own):.2f} in the article's draws of"
        f" 25 scores each. By chance, draws deviate this much with probability {chance:.1f}"
    )
    conditions = {
        "it is 1 over all draws": all(math.isclose(theory.score_variance(d, math.sqrt(d)), 1) for d in COMPARED),
        _ITS_TABLE: chance >= UNLIKELY.value,
    }
    return cases(conditions, note)


def _largest_scaled() -> tuple[list[float], float]:
    """The mean largest weights under scaling in the article's table, and the exact one at d_k = 512."""
    exact = expectations(512, 5, math.sqrt(512)).max_weight
    return [comparison(d_k)[3] for d_k in COMPARED], exact


@statement("article-126", says="The largest scaled weights stay moderate.", severity="wrong number")
def scaled_largest_is_moderate() -> Answer:
    """The largest weights under scaling in the article's table, and exactly."""
    own, mean = _largest_scaled()
    return cases(
        {"they are below one half": max(own) < DOMINANT.value and mean < DOMINANT.value},
        f"They are {min(own):.3f} to {max(own):.3f} in the article's table; the exact mean at d_k = 512 is {mean:.3f}",
    )


@statement(
    "article-127",
    says="The unscaled standard deviation grows from 2 to 22.",
    claimed="2 22",
    rule="digits",
    severity="wrong number",
)
def ends_of_the_deviation() -> Answer:
    return numbers(
        comparison(4)[0], comparison(512)[0], note="These are the first and the last row of the article's own table"
    )


@statement(
    "article-130",
    says="The largest scaled weight stays around 0.4.",
    claimed="0.4",
    rule="about",
    severity="wrong number",
)
def scaled_largest_is_0_4() -> Answer:
    """The mean of the largest weights under scaling in the article's table."""
    own, mean = _largest_scaled()
    note = f"This is the mean of the article's own column; the exact mean for five keys at d_k = 512 is {mean:.3f}"
    return numbers(np.mean(own), note=note)


@statement("article-131", says="Unscaled attention becomes increasingly peaked as d_k grows.", severity="wrong number")
def increasingly_peaked() -> Answer:
    """The largest of five weights, unscaled, as d_k grows: exact means, and the article's own draws."""
    means = [expectations(d_k, 5, 1.0).max_weight for d_k in COMPARED]
    own, chance = [comparison(d_k)[2] for d_k in COMPARED], _chance_of_largest()
    note = (
        f"At d_k = {', '.join(map(str, COMPARED))} with five keys, {UNTRAINED}, the largest weight is {shown(means, 3)}"
        f" on average (exact), and {shown(own, 3)} in the article's draws. By chance, draws deviate this much with"
        f" probability {chance:.1f}"
    )
    return cases(
        {"the mean largest weight grows with d_k": (np.diff(means) > 0).all(), _ITS_TABLE: chance >= UNLIKELY.value},
        note,
    )
