"""An article's whole session, from top to bottom, on the legacy generator that it uses; what it says of its outputs.

Numbers are drawn in the article's order: seed 42 for the running example, whose stream the variance sweep goes on with,
seed 123 for the example of four words, whose stream the batch goes on with, and seed 42 again for each comparison of
scalings and for the module.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from experiments.record.answers import Answer, Tables, cases, numbers, quantity, shown, tempered
from experiments.record.general import trace_shapes
from sdpa import ScaledDotProductAttention, jacobian_norm, scaled_dot_product_attention, softmax, theory

Floats = npt.NDArray[np.floating]

SWEPT = (8, 32, 64, 128, 256, 512)
COMPARED = (4, 16, 64, 256, 512)
SMALL = np.array([1.0, 0.8, 0.5, 0.2])
LARGE = 20 * SMALL
WORDS = ("The", "cat", "sat", "down")
QUERIES = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
KEYS = np.array([[0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
VALUES = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])


@dataclass(frozen=True)
class Session:
    """The arrays of the session that its printed blocks are of."""

    tokens: Floats
    queries: Floats
    keys: Floats
    values: Floats
    variances: Floats
    example_scores: Floats
    example_weights: Floats
    batch: tuple[Floats, Floats, Floats]


@cache
def session() -> Session:
    """Every number that the article draws up to its module, in its order."""
    rng = np.random.RandomState(42)
    tokens = rng.standard_normal((4, 8))
    projections = [rng.standard_normal((8, 6)) * 0.1 for _ in range(3)]
    variances = []
    for d_k in SWEPT:
        q, k = rng.standard_normal((10_000, d_k)), rng.standard_normal((10_000, d_k))
        variances.append(np.var((q * k).sum(axis=1)))
    rng = np.random.RandomState(123)
    words = rng.standard_normal((4, 8)) * 0.5
    q, k, _ = (words @ (rng.standard_normal((8, 4)) * 0.3) for _ in range(3))
    batch = rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6))
    scores = q @ k.T / 2
    queries, keys, values = (tokens @ projection for projection in projections)
    return Session(tokens, queries, keys, values, np.array(variances), scores, softmax(scores), batch)


@cache
def comparison(d_k: int) -> tuple[float, float, float, float]:
    """Of five queries and keys of seed 42: deviations of scores, then mean largest weights, unscaled and scaled."""
    rng = np.random.RandomState(42)
    q, k = rng.standard_normal((5, d_k)), rng.standard_normal((5, d_k))
    unscaled = q @ k.T
    scaled = unscaled / math.sqrt(d_k)
    largest = [float(softmax(scores).max(axis=-1).mean()) for scores in (unscaled, scaled)]
    return float(unscaled.std()), float(scaled.std()), largest[0], largest[1]


@cache
def module() -> tuple[Floats, Floats]:
    """Output and weights of the module of seed 42 for eight tokens of the same stream."""
    rng = np.random.RandomState(42)
    attention = ScaledDotProductAttention(32, 16, 16, rng)
    return attention(rng.standard_normal((8, 32)), return_weights=True)


def running() -> tuple[Floats, Floats]:
    """Output and weights of the running example."""
    s = session()
    return scaled_dot_product_attention(s.queries, s.keys, s.values, return_weights=True)


def tiny() -> tuple[Floats, Floats, Floats, Floats]:
    """Scores, scaled scores, weights and outputs of A, B and C in two dimensions."""
    scores = QUERIES @ KEYS.T
    scaled = scores / math.sqrt(2)
    weights = softmax(scaled)
    return scores, scaled, weights, weights @ VALUES


# The running example, Out[3] to Out[13]


@quantity
def shapes_of_the_session(_: Tables) -> Answer:
    """Shapes of X, Q, K and V."""
    s = session()
    return numbers(*(array.shape for array in (s.tokens, s.queries, s.keys, s.values)))


@quantity
def shape_of_the_scores(_: Tables) -> Answer:
    """The shape of the score matrix."""
    return numbers((session().queries @ session().keys.T).shape)


@quantity
def scores_of_the_session(_: Tables) -> Answer:
    """The sixteen raw scores."""
    return numbers(session().queries @ session().keys.T)


@quantity
def signs_of_the_scores(_: Tables) -> Answer:
    """How many of the sixteen scores are positive and negative."""
    scores = session().queries @ session().keys.T
    positive = int((scores > 0).sum())
    return cases(
        {"some positive": positive > 0, "some negative": positive < 16},
        f"{positive} positive, {16 - positive} negative",
    )


@quantity
def one_product_for_all(_: Tables) -> Answer:
    """One matrix product against sixteen dot products."""
    s = session()
    dots = np.array([q @ k for q in s.queries for k in s.keys])
    return cases(
        {"equal": np.allclose(s.queries @ s.keys.T, dots.reshape(4, 4), rtol=0, atol=1e-15)},
        f"{len(dots)} dot products",
    )


@quantity
def shapes_of_the_output(_: Tables) -> Answer:
    """Shapes of input, output and weights."""
    output, weights = running()
    return numbers(session().tokens.shape, output.shape, weights.shape)


@quantity
def shape_of_the_output(_: Tables) -> Answer:
    """The shape of the output."""
    return numbers(running()[0].shape)


@quantity
def weights_of_the_session(_: Tables) -> Answer:
    """The sixteen weights."""
    return numbers(running()[1])


@quantity
def sums_of_the_session(_: Tables) -> Answer:
    """Row sums of the weights."""
    return numbers(running()[1].sum(axis=1))


def _exactly_one(weights: Floats) -> Answer:
    sums = weights.sum(axis=1)
    note = f"row sums in double precision differ from 1 by up to {abs(sums - 1).max():.1g}"
    return cases({"as real numbers": np.allclose(sums, 1, rtol=0, atol=1e-15), "as doubles": (sums == 1).all()}, note)


@quantity
def exact_sums_of_the_session(_: Tables) -> Answer:
    """Whether row sums are 1 to the last bit."""
    return _exactly_one(running()[1])


# The variance sweep, Out[7]


@quantity
def sweep_of_the_session(_: Tables) -> Answer:
    """The variance of 10,000 scores at each dimension, of the session's stream."""
    return numbers(session().variances, note="the article's own draws, which it shows as a figure")


@quantity
def sweep_at_512(_: Tables) -> Answer:
    """The variance of 10,000 scores at d_k = 512, of the session's stream."""
    return numbers(session().variances[-1], note="the article's own draw; exactly 512")


@quantity
def sweep_is_exact(_: Tables) -> Answer:
    """How far the sweep's variances are from d_k, in the standard errors of such samples, sqrt(2 + 6 / d_k) / 100."""
    d_k = np.array(SWEPT)
    away = abs(session().variances / d_k - 1)
    errors = np.sqrt((2 + 6 / d_k) / 10_000)
    note = (
        f"the samples are up to {away.max():.1%} off, at most {(away / errors).max():.1f} standard"
        f" errors of 10,000 scores"
    )
    conditions = {
        "the law": all(theory.score_variance(d, 1.0) == d for d in SWEPT),
        "the samples, as closely as they can": (away < 3 * errors).all(),
    }
    return cases(conditions, note)


@quantity
def within_50(_: Tables) -> Answer:
    """The share of scores within 50 at d_k = 512."""
    share = 1 - 2 * float(theory.score_survival(50.0, 512))
    return cases({"more than 19 in 20": share > 0.95}, f"{share:.1%} of scores lie within 50")


@quantity
def root_of_512(_: Tables) -> Answer:
    """sqrt(512)."""
    return numbers(math.sqrt(512))


@quantity
def beyond_30(_: Tables) -> Answer:
    """The share of scores beyond 30 at d_k = 512."""
    share = 2 * float(theory.score_survival(30.0, 512))
    return cases({"more than 1 in 10": share > 0.1}, f"{share:.1%} of scores lie beyond 30")


# Softmax at two scales, Out[9] and Out[10]


@quantity
def first_of_ten_and_ones(_: Tables) -> Answer:
    """The largest weight of [10, 1, 1, 1]."""
    return numbers(softmax([10, 1, 1, 1])[0])


@quantity
def others_of_ten_and_ones(_: Tables) -> Answer:
    """The other weights of [10, 1, 1, 1]."""
    return numbers(softmax([10, 1, 1, 1])[1])


@quantity
def gradient_where_saturated(_: Tables) -> Answer:
    """|J|_F at the small and the large scores, and the largest of many rows that have a weight above 0.99."""
    small, large = (float(jacobian_norm(softmax(scores))) for scores in (SMALL, LARGE))
    weights = softmax(30 * np.random.default_rng(0).standard_normal((20_000, 16)))
    saturated = jacobian_norm(weights[weights.max(-1) > 0.99])
    note = (
        f"|J| {small:.3f} at the small scores, {large:.3f} at the large; at most"
        f" {saturated.max():.3f} in {len(saturated)} rows"
        " with a weight above 0.99. How many rows are saturated is another question"
    )
    conditions = {
        "in the example": large < 0.1 * small,
        "in every row with a weight above 0.99": saturated.max() < 0.1 * small,
    }
    return cases(conditions, note)


@quantity
def entropy_of_large_scores(_: Tables) -> Answer:
    """Entropy at the small and the large scores."""
    small, large = (float(stats.entropy(softmax(scores))) for scores in (SMALL, LARGE))
    return cases({"less than a tenth is left": large < 0.1 * small}, f"entropy {small:.3f} and {large:.3f} nats")


@quantity
def small_weights(_: Tables) -> Answer:
    """Weights of the small scores."""
    return numbers(softmax(SMALL))


@quantity
def small_largest(_: Tables) -> Answer:
    """The largest weight of the small scores."""
    return numbers(softmax(SMALL).max(), note="as the article prints itself: 0.3479")


@quantity
def small_entropy(_: Tables) -> Answer:
    """The entropy of the small scores' weights, in nats."""
    return numbers(stats.entropy(softmax(SMALL)), note="as the article prints itself: 1.3434")


@quantity
def large_scores(_: Tables) -> Answer:
    """Twenty times the small scores."""
    return numbers(LARGE)


@quantity
def large_weights(_: Tables) -> Answer:
    """Weights of the large scores, rounded to six decimals as they are printed."""
    return numbers(np.round(softmax(LARGE), 6))


@quantity
def large_largest(_: Tables) -> Answer:
    """The largest weight of the large scores."""
    return numbers(softmax(LARGE).max())


@quantity
def large_entropy(_: Tables) -> Answer:
    """The entropy of the large scores' weights, in nats."""
    return numbers(stats.entropy(softmax(LARGE)))


@quantity
def large_is_one_hot(_: Tables) -> Answer:
    """Largest weight, place, second weight and entropy of the large scores."""
    weights = softmax(LARGE)
    second, entropy = float(np.sort(weights)[-2]), float(stats.entropy(weights))
    note = f"weights {shown(weights, 3)}, entropy {entropy:.3f}"
    return cases(
        {
            "first position above 0.95": weights[0] > 0.95,
            "others below 0.05": second < 0.05,
            "entropy below a tenth": entropy < 0.1,
        },
        note,
    )


@quantity
def small_is_spread(_: Tables) -> Answer:
    """The smallest weight of the small scores."""
    smallest = softmax(SMALL).min()
    return cases({"above one tenth": smallest > 0.1}, f"smallest weight {smallest:.3f}")


# Four words, Out[15]


@quantity
def bounds_of_four_words(_: Tables) -> Answer:
    """The smallest and the largest scaled score of the four words."""
    scores = session().example_scores
    return cases({"within 1": abs(scores).max() <= 1}, f"from {scores.min():.3f} to {scores.max():.3f}")


@quantity
def range_of_four_words(_: Tables) -> Answer:
    """The smallest and the largest scaled score of the four words, as numbers."""
    scores = session().example_scores
    return numbers(scores.min(), scores.max(), note="smallest and largest of the article's own scaled scores")


@quantity
def centre_of_four_words(_: Tables) -> Answer:
    """Mean and standard deviation of the scaled scores of the four words."""
    scores = session().example_scores
    note = f"mean {scores.mean():.3f}, standard deviation {scores.std():.3f}"
    return cases(
        {"mean well within a standard deviation": abs(scores.mean()) < scores.std() / 2, "moderate": scores.std() < 1},
        note,
    )


@quantity
def cat_to_sat(_: Tables) -> Answer:
    """The weights of cat."""
    row = session().example_weights[WORDS.index("cat")]
    note = f"cat gives {dict(zip(WORDS, row.round(3).tolist(), strict=True))}"
    return cases(
        {
            "sat is its largest": row.argmax() == WORDS.index("sat"),
            "more than a third": row[WORDS.index("sat")] > 1 / 3,
        },
        note,
    )


@quantity
def sharp_rows_of_four_words(_: Tables) -> Answer:
    """The largest weight of each row of the four words."""
    largest = session().example_weights.max(axis=-1)
    return cases({"some row has a weight above one half": largest.max() > 0.5}, f"largest weights {shown(largest, 3)}")


@quantity
def broad_rows_of_four_words(_: Tables) -> Answer:
    """The entropy of each row of the four words, over ln 4."""
    share = stats.entropy(session().example_weights, axis=-1) / math.log(4)
    return cases({"some row above nine tenths": share.max() > 0.9}, f"entropy over ln 4: {shown(share, 3)}")


@quantity
def sums_of_four_words(_: Tables) -> Answer:
    """Row sums of the four words' weights."""
    return numbers(session().example_weights.sum(axis=1))


# Shapes, Out[17] and Out[19]


@quantity
def seven_shapes(_: Tables) -> Answer:
    """Shapes through attention for n = 100 and d_k = d_v = 64, of arrays that went it."""
    return numbers(*trace_shapes(100, 64, 64).values())


@quantity
def batch_shapes(_: Tables) -> Answer:
    """Shapes of the batch of queries and of its output."""
    q, k, v = session().batch
    return numbers(q.shape, scaled_dot_product_attention(q, k, v).shape)


@quantity
def batch_is_loop(_: Tables) -> Answer:
    """The batch at once against its sequences one by one."""
    q, k, v = session().batch
    loop = [scaled_dot_product_attention(*one) for one in zip(q, k, v, strict=True)]
    return cases({"equal": np.allclose(scaled_dot_product_attention(q, k, v), loop, rtol=0, atol=1e-14)})


# A, B and C by hand, Out[23] to Out[30]


@quantity
def shapes_by_hand(_: Tables) -> Answer:
    """Shapes of queries, keys and values of A, B and C."""
    return numbers(QUERIES.shape, KEYS.shape, VALUES.shape)


@quantity
def angles_of_queries(_: Tables) -> Answer:
    """Directions of the three queries, in degrees from east."""
    return numbers(np.degrees(np.arctan2(QUERIES[:, 1], QUERIES[:, 0])))


@quantity
def directions_of_keys(_: Tables) -> Answer:
    """Directions and lengths of the three keys."""
    angles, lengths = np.degrees(np.arctan2(KEYS[:, 1], KEYS[:, 0])), np.linalg.norm(KEYS, axis=1)
    note = f"angles {shown(angles, 3)} degrees, lengths {shown(lengths, 3)}"
    return cases(
        {
            "in the order of the queries": (np.diff(angles) > 0).all(),
            "of different lengths": len(set(lengths.round(6))) == 3,
        },
        note,
    )


@quantity
def values_by_hand(_: Tables) -> Answer:
    """The values: two orthogonal unit vectors and their midpoint."""
    return cases(
        {
            "orthogonal units": (VALUES[:2] @ VALUES[:2].T == np.eye(2)).all(),
            "midpoint": (VALUES[2] == VALUES[:2].mean(0)).all(),
        }
    )


@quantity
def alignment_by_hand(_: Tables) -> Answer:
    """With which key each query is aligned: cosines, and scores for B."""
    cosines = QUERIES @ KEYS.T / np.linalg.norm(QUERIES, axis=1)[:, None] / np.linalg.norm(KEYS, axis=1)
    note = f"cosines {shown(cosines, 3)}, scores of B {shown(tiny()[0][1], 2)}"
    return cases(
        {
            "A best with its own key": cosines[0].argmax() == 0,
            "C best with its own key": cosines[2].argmax() == 2,
            "B the same with all": np.ptp(tiny()[0][1]) < 1e-12,
        },
        note,
    )


@quantity
def scores_of_a(_: Tables) -> Answer:
    """The scores of A."""
    return numbers(tiny()[0][0])


@quantity
def scores_by_hand(_: Tables) -> Answer:
    """The nine scores of A, B and C."""
    return numbers(tiny()[0])


@quantity
def order_of_a(_: Tables) -> Answer:
    """Which key A is most and least similar to."""
    row = tiny()[0][0]
    return cases({"most to A": row.argmax() == 0, "least to C": row.argmin() == 2})


@quantity
def root_of_2(_: Tables) -> Answer:
    """sqrt(2)."""
    return numbers(math.sqrt(2))


@quantity
def scale_by_hand(_: Tables) -> Answer:
    """1 / sqrt(2)."""
    return numbers(1 / math.sqrt(2))


@quantity
def effect_in_two_dimensions(_: Tables) -> Answer:
    """The largest weight of A without and with scaling."""
    before, after = softmax(tiny()[0][0]).max(), tiny()[2][0].max()
    return cases(
        {"changes by less than a tenth": before - after < 0.1},
        f"largest weight of A {before:.3f} without, {after:.3f} with scaling",
    )


@quantity
def scaled_by_hand(_: Tables) -> Answer:
    """The nine scaled scores."""
    return numbers(tiny()[1])


@quantity
def variance_by_hand(_: Tables) -> Answer:
    """The variance of the nine scores over that of the scaled ones."""
    return numbers(tiny()[0].var() / tiny()[1].var())


@quantity
def scaled_point_eight(_: Tables) -> Answer:
    """0.8 / sqrt(2)."""
    return numbers(0.8 / math.sqrt(2))


@quantity
def order_after_scaling(_: Tables) -> Answer:
    """Order of scores before and after scaling, and the ratio of their differences."""
    scores, scaled = tiny()[:2]
    ratio = np.ptp(scaled, axis=1)[[0, 2]] / np.ptp(scores, axis=1)[[0, 2]]
    same = (np.argsort(scores[[0, 2]]) == np.argsort(scaled[[0, 2]])).all()
    return cases(
        {"order is kept": same, "differences shrink": (ratio < 1).all()}, f"differences shrink to {ratio[0]:.3f}"
    )


@quantity
def exponentials_of_a(_: Tables) -> Answer:
    """Exponentials of the scaled scores of A."""
    return numbers(np.exp(tiny()[1][0]))


@quantity
def partition_of_a(_: Tables) -> Answer:
    """Their sum."""
    return numbers(np.exp(tiny()[1][0]).sum())


@quantity
def weights_of_a(_: Tables) -> Answer:
    """The weights of A."""
    return numbers(tiny()[2][0])


@quantity
def weights_by_hand(_: Tables) -> Answer:
    """The nine weights."""
    return numbers(tiny()[2])


@quantity
def sums_by_hand(_: Tables) -> Answer:
    """Row sums of the nine weights."""
    return numbers(tiny()[2].sum(axis=1))


@quantity
def a_attends_softly(_: Tables) -> Answer:
    """Whether A gives itself most, and how much the others get."""
    row = tiny()[2][0]
    return cases(
        {
            "most to itself": row.argmax() == 0,
            "less than half": row.max() < 0.5,
            "others more than a quarter": row.min() > 0.25,
        },
        f"weights {shown(row, 3)}",
    )


@quantity
def output_of_a(_: Tables) -> Answer:
    """The output of A."""
    return numbers(tiny()[3][0])


@quantity
def outputs_by_hand(_: Tables) -> Answer:
    """The three outputs."""
    return numbers(tiny()[3])


@quantity
def prose_output_of_a(_: Tables) -> Answer:
    """The output of A, which the prose gives otherwise than the print."""
    claimed = [0.37, 0.32, 0.31]
    return numbers(
        tiny()[3][0],
        note=(
            f"as the article prints itself; the prose goes with weights {claimed}:"
            f" {tempered(tiny()[0][0].tolist(), claimed, 0.01)}"
        ),
    )


def _prose_weight(token: int) -> Answer:
    return numbers(tiny()[2][0][token], note="as the article prints itself a few lines above")


@quantity
def prose_weight_of_a(_: Tables) -> Answer:
    """The weight that A gives A."""
    return _prose_weight(0)


@quantity
def prose_weight_of_b(_: Tables) -> Answer:
    """The weight that A gives B."""
    return _prose_weight(1)


@quantity
def prose_weight_of_c(_: Tables) -> Answer:
    """The weight that A gives C."""
    return _prose_weight(2)


@quantity
def blends_by_hand(_: Tables) -> Answer:
    """Rows of weights are distributions, and outputs lie between the values."""
    weights, outputs = tiny()[2:]
    return cases(
        {
            "rows are distributions": np.allclose(weights.sum(1), 1),
            "outputs within the values": bool(((outputs >= 0) & (outputs <= 1)).all()),
        }
    )


# The comparison of scalings, Out[32] and Out[33]


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
    own = [comparison(d_k)[0] / math.sqrt(d_k) for d_k in COMPARED]
    note = (
        f"scaling.csv, unscaled: {measured.min():.3f} to {measured.max():.3f}; {min(own):.2f} to"
        f" {max(own):.2f} in the article's draws"
    )
    return cases({"over many draws": bool((abs(measured - 1) < 0.01).all())}, note)


@quantity
def pushed_to_one(_: Tables) -> Answer:
    """The largest of five weights at d_k = 512, unscaled: exact mean."""
    mean = theory.attention_expectations(512, 5, 1.0).max_weight
    return cases({"above 0.9 on average": mean > 0.9}, f"on average {mean:.3f} (exact); 1.0000 in the article's draw")


@quantity
def scaled_deviation_is_one(_: Tables) -> Answer:
    """The standard deviation of scaled scores in the article's table, and exactly."""
    own = [comparison(d_k)[1] for d_k in COMPARED]
    note = f"exactly 1 over all draws; {min(own):.2f} to {max(own):.2f} in the article's, of 25 scores each"
    return cases(
        {
            "over all draws": math.isclose(theory.score_variance(512, math.sqrt(512)), 1),
            "in its own table to 5 percent": max(abs(x - 1) for x in own) < 0.05,
        },
        note,
    )


@quantity
def scaled_largest_is_moderate(_: Tables) -> Answer:
    """The largest weights under scaling in the article's table, and exactly."""
    own = [comparison(d_k)[3] for d_k in COMPARED]
    mean = theory.attention_expectations(512, 5, math.sqrt(512)).max_weight
    return cases(
        {"below 0.6": max(own) < 0.6 and mean < 0.6}, f"{min(own):.3f} to {max(own):.3f}; on average {mean:.3f} (exact)"
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
    own = [comparison(d_k)[2] for d_k in COMPARED]
    note = f"exact means {shown(means, 3)}; the article's draws {shown(own, 3)}"
    return cases(
        {"on average": bool((np.diff(means) > 0).all()), "in its own table": bool((np.diff(own) > 0).all())}, note
    )


# The module, Out[36]


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
    """Whether the module's row sums are 1 to the last bit."""
    return _exactly_one(module()[1])


@quantity
def parts_of_the_module(_: Tables) -> Answer:
    """What the module is made of: projections, attention, and weights of the stated variance."""
    attention = ScaledDotProductAttention(300, 200, 100, np.random.default_rng(0))
    shapes = [weights.shape for weights in (attention.W_Q, attention.W_K, attention.W_V)]
    return cases(
        {
            "three projections": shapes == [(300, 200), (300, 200), (300, 100)],
            "initialised": abs(attention.W_Q.var() * 250 - 1) < 0.03,
        }
    )
