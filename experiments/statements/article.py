"""The article's session block by block: the running example, the sweep, softmax at two scales, four words, a batch."""

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from experiments.examples import session
from experiments.examples.four_words import WORDS, words
from experiments.examples.two_scales import LARGE, SMALL
from experiments.examples.variance_sweep import SWEPT, variances
from experiments.statements.answers import Answer, Tables, cases, numbers, quantity, shown
from experiments.statements.checks import UNTRAINED, example, least_likely
from experiments.statements.cutoffs import BROAD, DOMINANT, ONE_HOT, SATURATED, STRONGLY, TENTH, TYPICAL, UNLIKELY
from sdpa import Trace, jacobian_norm, scaled_dot_product_attention, softmax, theory, trace_shapes

Floats = npt.NDArray[np.floating]


def _running() -> Trace:
    """Attention of the running example."""
    return session.running().trace()


@quantity
def shapes_of_the_session(_: Tables) -> Answer:
    """Shapes of X, Q, K and V."""
    found = _running()
    return numbers(*(np.asarray(array).shape for array in (session.running().tokens, found.q, found.k, found.v)))


@quantity
def shape_of_the_scores(_: Tables) -> Answer:
    """The shape of the score matrix."""
    return numbers(_running().scores.shape)


@quantity
def scores_of_the_session(_: Tables) -> Answer:
    """The sixteen raw scores."""
    return numbers(_running().scores)


@quantity
def signs_of_the_scores(_: Tables) -> Answer:
    """How many of the sixteen scores are positive and negative."""
    scores = _running().scores
    positive = int((scores > 0).sum())
    return cases(
        {"some positive": positive > 0, "some negative": positive < 16},
        f"{positive} positive, {16 - positive} negative",
    )


@quantity
def one_product_for_all(_: Tables) -> Answer:
    """One matrix product against sixteen dot products."""
    found = _running()
    dots = np.array([q @ k for q in found.q for k in found.k])
    return cases(
        {"equal": np.allclose(found.scores, dots.reshape(4, 4), rtol=0, atol=1e-15)},
        f"{len(dots)} dot products",
    )


@quantity
def shapes_of_the_output(_: Tables) -> Answer:
    """Shapes of input, output and weights."""
    found = _running()
    return numbers(session.running().tokens.shape, np.asarray(found.output).shape, found.weights.shape)


@quantity
def shape_of_the_output(_: Tables) -> Answer:
    """The shape of the output."""
    return numbers(np.asarray(_running().output).shape)


@quantity
def weights_of_the_session(_: Tables) -> Answer:
    """The sixteen weights."""
    return numbers(_running().weights)


@quantity
def sums_of_the_session(_: Tables) -> Answer:
    """Row sums of the weights."""
    return numbers(_running().weights.sum(axis=1))


def exactly_one(weights: Floats) -> Answer:
    """Whether rows of weights sum to 1, to the rounding of doubles; how far from the last bit is in the note."""
    sums = weights.sum(axis=1)
    note = f"row sums in double precision differ from 1 by up to {abs(sums - 1).max():.1g}"
    return cases({"to the rounding of doubles": np.allclose(sums, 1, rtol=0, atol=1e-15)}, note)


@quantity
def exact_sums_of_the_session(_: Tables) -> Answer:
    """Whether row sums are exactly 1."""
    return exactly_one(_running().weights)


@quantity
def sweep_of_the_session(_: Tables) -> Answer:
    """The variance of 10,000 scores at each dimension, of the session's stream."""
    return numbers(variances(), note="the article's own draws, which it shows as a figure")


@quantity
def sweep_at_512(_: Tables) -> Answer:
    """The variance of 10,000 scores at d_k = 512, of the session's stream."""
    return numbers(variances()[-1], note="the article's own draw; the variance of the law is 512")


@quantity
def sweep_follows_the_law(_: Tables) -> Answer:
    """How far the sweep's variances are from d_k, in the standard errors of such samples, sqrt(2 + 6 / d_k) / 100."""
    d_k = np.array(SWEPT)
    away = abs(variances() / d_k - 1)
    errors = away / np.sqrt((2 + 6 / d_k) / 10_000)
    chance = least_likely(2 * stats.norm.sf(errors))
    note = (
        f"the variance of the law is d_k; the samples are up to {away.max():.1%} off, at most {errors.max():.1f}"
        f" standard errors of 10,000 scores: chance goes so far with probability {chance:.2f}"
    )
    conditions = {
        "the law": all(theory.score_variance(d, 1.0) == d for d in SWEPT),
        "the samples, to sampling error": chance >= UNLIKELY,
    }
    return cases(conditions, note)


@quantity
def within_50(_: Tables) -> Answer:
    """The share of scores within 50 at d_k = 512."""
    share = 1 - 2 * float(theory.score_survival(50.0, 512))
    return cases({"more than 19 in 20": share > TYPICAL}, f"{share:.1%} of scores lie within 50, {UNTRAINED}")


@quantity
def root_of_512(_: Tables) -> Answer:
    """sqrt(512)."""
    return numbers(math.sqrt(512))


@quantity
def beyond_30(_: Tables) -> Answer:
    """The share of scores beyond 30 at d_k = 512."""
    share = 2 * float(theory.score_survival(30.0, 512))
    return cases({"more than 1 in 10": share > TENTH}, f"{share:.1%} of scores lie beyond 30, {UNTRAINED}")


@quantity
def first_of_ten_and_ones(_: Tables) -> Answer:
    """The largest weight of [10, 1, 1, 1]."""
    weight, printed = float(softmax([10, 1, 1, 1])[0]), 0.9999
    note = (
        f"the printed weight is {(printed - weight) / 1e-4:.1f} units of its last digit too large, and leaves"
        f" {1 - printed:.4f} to the other three, which have {1 - weight:.5f}"
    )
    return numbers(weight, note=note)


@quantity
def others_of_ten_and_ones(_: Tables) -> Answer:
    """The other weights of [10, 1, 1, 1]."""
    return numbers(softmax([10, 1, 1, 1])[1])


@quantity
def gradient_where_saturated(_: Tables) -> Answer:
    """|J|_F at the small and the large scores, and the largest of many rows that have a weight above 0.99."""
    small, large = (float(jacobian_norm(softmax(scores))) for scores in (SMALL, LARGE))
    weights = softmax(30 * np.random.default_rng(0).standard_normal((20_000, 16)))
    saturated = jacobian_norm(weights[weights.max(-1) > SATURATED])
    note = (
        f"|J| {small:.3f} at the small scores, {large:.3f} at the large; at most"
        f" {saturated.max():.3f} in {len(saturated)} rows"
        " with a weight above 0.99. How many rows are saturated is another question"
    )
    conditions = {
        "in the example": large < TENTH * small,
        "in every row with a weight above 0.99": saturated.max() < TENTH * small,
    }
    return cases(conditions, note)


@quantity
def entropy_of_large_scores(_: Tables) -> Answer:
    """Entropy at the small and the large scores."""
    small, large = (float(stats.entropy(softmax(scores))) for scores in (SMALL, LARGE))
    return cases({"less than a tenth is left": large < TENTH * small}, f"entropy {small:.3f} and {large:.3f} nats")


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
            "first position above 0.9": weights[0] > ONE_HOT,
            "others below a tenth": second < TENTH,
            "entropy below a tenth": entropy < TENTH,
        },
        note,
    )


@quantity
def small_is_spread(_: Tables) -> Answer:
    """The smallest weight of the small scores."""
    smallest = softmax(SMALL).min()
    return cases({"above one tenth": smallest > TENTH}, f"smallest weight {smallest:.3f}")


@quantity
def bounds_of_four_words(_: Tables) -> Answer:
    """The smallest and the largest scaled score of the four words."""
    scores = words().trace().scaled_scores
    return cases({"within 1": abs(scores).max() <= 1}, f"from {scores.min():.3f} to {scores.max():.3f}")


@quantity
def range_of_four_words(_: Tables) -> Answer:
    """The smallest and the largest scaled score of the four words, as numbers."""
    scores = words().trace().scaled_scores
    return numbers(scores.min(), scores.max(), note="smallest and largest of the article's own scaled scores")


@quantity
def centre_of_four_words(_: Tables) -> Answer:
    """Mean and standard deviation of the scaled scores of the four words."""
    scores = words().trace().scaled_scores
    note = f"mean {scores.mean():.3f}, standard deviation {scores.std():.3f}"
    return cases(
        {"mean well within a standard deviation": abs(scores.mean()) < scores.std() / 2, "moderate": scores.std() < 1},
        note,
    )


@quantity
def cat_to_sat(_: Tables) -> Answer:
    """The weight that cat gives sat, over that of a uniform row."""
    row = words().trace().weights[WORDS.index("cat")]
    uniform = 1 / len(WORDS)
    times = row[WORDS.index("sat")] / uniform
    given = ", ".join(f"{word} {weight:.3f}" for word, weight in zip(WORDS, row, strict=True))
    note = f"cat gives {given}: to sat {times:.2f} times the uniform weight of {uniform:g}"
    return cases({"twice the uniform weight": times >= STRONGLY}, note)


@quantity
def sharp_rows_of_four_words(_: Tables) -> Answer:
    """The largest weight of each row of the four words."""
    largest = words().trace().weights.max(axis=-1)
    return cases(
        {"some row has a weight above one half": largest.max() > DOMINANT}, f"largest weights {shown(largest, 3)}"
    )


@quantity
def broad_rows_of_four_words(_: Tables) -> Answer:
    """The entropy of each row of the four words, over ln 4."""
    share = stats.entropy(words().trace().weights, axis=-1) / math.log(4)
    return cases({"some row above nine tenths": share.max() > BROAD}, f"entropy over ln 4: {shown(share, 3)}")


@quantity
def sums_of_four_words(_: Tables) -> Answer:
    """Row sums of the four words' weights."""
    return numbers(words().trace().weights.sum(axis=1))


@quantity
def seven_shapes(_: Tables) -> Answer:
    """Shapes through attention for n = 100 and d_k = d_v = 64, of arrays that went it; dividing keeps a shape."""
    shapes = trace_shapes(*(example(100, 64, seed=seed) for seed in range(3)))
    return numbers(*(shape for step, shape in shapes.items() if step != "scaled scores"))


@quantity
def batch_shapes(_: Tables) -> Answer:
    """Shapes of the batch of queries and of its output."""
    q, k, v = session.batch()
    return numbers(q.shape, scaled_dot_product_attention(q, k, v).shape)


@quantity
def batch_is_loop(_: Tables) -> Answer:
    """The batch at once against its sequences one by one."""
    q, k, v = session.batch()
    loop = [scaled_dot_product_attention(*one) for one in zip(q, k, v, strict=True)]
    return cases({"equal": np.allclose(scaled_dot_product_attention(q, k, v), loop, rtol=0, atol=1e-14)})
