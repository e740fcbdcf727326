"""The article's comparison of scalings on one draw of five keys, and its module."""

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from experiments.examples.comparison import COMPARED, comparison
from experiments.statements.answers import Answer, Tables, cases, numbers, quantity, shown
from experiments.statements.article import exactly_one
from experiments.statements.checks import UNTRAINED, least_likely
from experiments.statements.cutoffs import ABOUT, DOMINANT, ONE_HOT, UNLIKELY
from sdpa import ScaledDotProductAttention, softmax, theory

Floats = npt.NDArray[np.floating]

_DRAWS = 2000  # of five queries and keys, beside the article's
_ITS_TABLE = "its own table, to sampling error"


@cache
def module() -> tuple[Floats, Floats]:
    """Output and weights of the module of seed 42 for eight tokens of the same stream."""
    rng = np.random.RandomState(42)
    attention = ScaledDotProductAttention(32, 16, 16, rng=rng)
    return attention(rng.standard_normal((8, 32)), return_weights=True)


@cache
def _drawn(d_k: int) -> tuple[Floats, Floats]:
    """Of many draws of five queries and keys: the deviation of scores and the mean largest weight, unscaled."""
    q, k = np.random.default_rng(0).standard_normal((2, _DRAWS, 5, d_k))
    scores = q @ k.swapaxes(-1, -2)
    return scores.std(axis=(-1, -2)), softmax(scores).max(-1).mean(-1)


def _tails(drawn: Floats, own: float) -> float:
    """How likely a draw is as far out as the article's, on either side."""
    return 2 * float(min((drawn <= own).mean(), (drawn >= own).mean()))


def _chance_of_deviations() -> float:
    """How far chance goes in the table's deviations: those of scaled scores are as likely, being in proportion."""
    return least_likely(_tails(_drawn(d_k)[0], comparison(d_k)[0]) for d_k in COMPARED)


def _chance_of_largest() -> float:
    """The same of its largest weights, unscaled."""
    return least_likely(_tails(_drawn(d_k)[1], comparison(d_k)[2]) for d_k in COMPARED)


def _comparison(d_k: int) -> Answer:
    return numbers(comparison(d_k), note="five queries and keys of seed 42")


@quantity
def comparison_at_4(_: Tables) -> Answer:
    """The printed row of d_k = 4."""
    return _comparison(4)


@quantity
def comparison_at_16(_: Tables) -> Answer:
    """The printed row of d_k = 16."""
    return _comparison(16)


@quantity
def comparison_at_64(_: Tables) -> Answer:
    """The printed row of d_k = 64."""
    return _comparison(64)


@quantity
def comparison_at_256(_: Tables) -> Answer:
    """The printed row of d_k = 256."""
    return _comparison(256)


@quantity
def comparison_at_512(_: Tables) -> Answer:
    """The printed row of d_k = 512."""
    return _comparison(512)


@quantity
def deviation_at_512(_: Tables) -> Answer:
    """The standard deviation of unscaled scores at d_k = 512, as the article prints it."""
    return numbers(
        comparison(512)[0],
        note=f"the article prints 20.79 itself; exactly sqrt(512) = {math.sqrt(512):.2f} over all draws",
    )


@quantity
def deviation_grows_as_root(tables: Tables) -> Answer:
    """The standard deviation of unscaled scores over sqrt(d_k): measured over many draws, and in the article's one."""
    rows = tables["scaling"][tables["scaling"]["scaling"] == "unscaled"]
    measured = np.sqrt(rows["score_variance"] / rows["d_k"])
    own, chance = [comparison(d_k)[0] / math.sqrt(d_k) for d_k in COMPARED], _chance_of_deviations()
    note = (
        f"over sqrt(d_k) it is {measured.min():.3f} to {measured.max():.3f} (scaling.csv, unscaled, d_k = 4 to 512,"
        f" 64 keys, {UNTRAINED}), {min(own):.2f} to {max(own):.2f} in the article's draws: chance goes so far with"
        f" probability {chance:.1f}"
    )
    conditions = {"over many draws": (abs(measured - 1) < ABOUT).all(), _ITS_TABLE: chance >= UNLIKELY}
    return cases(conditions, note)


@quantity
def pushed_to_one(_: Tables) -> Answer:
    """The largest of five weights at d_k = 512, unscaled: exact mean."""
    mean = theory.attention_expectations(512, 5, 1.0).max_weight
    return cases(
        {"above 0.9 on average": mean > ONE_HOT},
        f"five keys, d_k = 512: on average {mean:.3f} (exact, {UNTRAINED}); 1.0000 in the article's draw",
    )


@quantity
def scaled_deviation_is_one(_: Tables) -> Answer:
    """The standard deviation of scaled scores in the article's table, and exactly."""
    own, chance = [comparison(d_k)[1] for d_k in COMPARED], _chance_of_deviations()
    note = (
        f"exactly 1 over all draws, {UNTRAINED}; {min(own):.2f} to {max(own):.2f} in the article's, of 25 scores each:"
        f" chance goes so far with probability {chance:.1f}"
    )
    conditions = {
        "over all draws": all(math.isclose(theory.score_variance(d, math.sqrt(d)), 1) for d in COMPARED),
        _ITS_TABLE: chance >= UNLIKELY,
    }
    return cases(conditions, note)


@quantity
def scaled_largest_is_moderate(_: Tables) -> Answer:
    """The largest weights under scaling in the article's table, and exactly."""
    own = [comparison(d_k)[3] for d_k in COMPARED]
    mean = theory.attention_expectations(512, 5, math.sqrt(512)).max_weight
    return cases(
        {"below one half": max(own) < DOMINANT and mean < DOMINANT},
        f"{min(own):.3f} to {max(own):.3f}; on average {mean:.3f} (exact)",
    )


@quantity
def ends_of_the_deviation(_: Tables) -> Answer:
    """The first and the last standard deviation of unscaled scores in the article's table."""
    return numbers(comparison(4)[0], comparison(512)[0], note="first and last row of the article's own table")


@quantity
def scaled_largest_is_0_4(_: Tables) -> Answer:
    """The mean of the largest weights under scaling in the article's table."""
    own = [comparison(d_k)[3] for d_k in COMPARED]
    mean = theory.attention_expectations(512, 5, math.sqrt(512)).max_weight
    return numbers(
        np.mean(own), note=f"mean of the article's own column; over all draws {mean:.3f} (exact, five keys, d_k = 512)"
    )


@quantity
def increasingly_peaked(_: Tables) -> Answer:
    """The largest of five weights, unscaled, as d_k grows: exact means, and the article's own draws."""
    means = [theory.attention_expectations(d_k, 5, 1.0).max_weight for d_k in COMPARED]
    own, chance = [comparison(d_k)[2] for d_k in COMPARED], _chance_of_largest()
    note = (
        f"exact means at d_k = {', '.join(map(str, COMPARED))}, five keys, {UNTRAINED}: {shown(means, 3)};"
        f" the article's draws {shown(own, 3)}: chance goes so far with probability {chance:.1f}"
    )
    return cases({"on average": (np.diff(means) > 0).all(), _ITS_TABLE: chance >= UNLIKELY}, note)


@quantity
def shapes_of_the_module(_: Tables) -> Answer:
    """Shapes of the module's input, output and weights."""
    output, weights = module()
    return numbers((8, 32), output.shape, weights.shape)


@quantity
def in_and_out_of_the_module(_: Tables) -> Answer:
    """Shapes of the module's input and output."""
    return numbers((8, 32), module()[0].shape)


@quantity
def sums_of_the_module(_: Tables) -> Answer:
    """Row sums of the module's weights."""
    return numbers(module()[1].sum(axis=1))


@quantity
def exact_sums_of_the_module(_: Tables) -> Answer:
    """Whether the module's row sums are exactly 1."""
    return exactly_one(module()[1])


@quantity
def parts_of_the_module(_: Tables) -> Answer:
    """What the module is made of: projections, attention, and weights of the stated variance."""
    attention = ScaledDotProductAttention(300, 200, 100, seed=0)
    shapes = [weights.shape for weights in (attention.W_Q, attention.W_K, attention.W_V)]
    return cases(
        {
            "three projections": shapes == [(300, 200), (300, 200), (300, 100)],
            "initialised": abs(attention.W_Q.var() * 250 - 1) < ABOUT,
        }
    )
