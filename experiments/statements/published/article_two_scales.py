"""The article's softmax of small and of large scores."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from experiments.examples.two_scales import LARGE, SMALL
from experiments.statements.answer import Answer, Claimed, cases, numbers, shown
from experiments.statements.cutoffs import ONE_HOT, SATURATED, TENTH
from experiments.statements.declare import statement
from experiments.statements.shared import Floats
from sdpa import jacobian_norm, softmax

# Of the small scores.
_PRINTED_LARGEST, _PRINTED_ENTROPY = "0.3479", "1.3434"


@statement(
    "article-31",
    says="The largest weight of [10, 1, 1, 1] is about 0.9999.",
    claimed="0.9999",
    rule="about",
    severity="wrong number",
)
def first_of_ten_and_ones(claimed: Sequence[Claimed]) -> Answer:
    """The largest weight, and what it leaves to the others."""
    weight, printed = float(softmax([10, 1, 1, 1])[0]), claimed[0]
    note = (
        f"The printed weight is {(printed.value - weight) / printed.unit:.1f} units of its last digit too large. It"
        f" leaves {1 - printed.value:.4f} to the other three weights, whose sum is {1 - weight:.5f}"
    )
    return numbers(weight, note=note)


@statement(
    "article-32",
    says="The other weights of [10, 1, 1, 1] are about 0.0001.",
    claimed="0.0001",
    rule="about",
    severity="wrong number",
)
def others_of_ten_and_ones() -> Answer:
    return numbers(softmax([10, 1, 1, 1])[1])


@statement(
    "article-33 textbook-12 lesson-20a",
    says="Where softmax saturates its gradient is about zero.",
    severity="conceptual error",
)
def gradient_where_saturated() -> Answer:
    """|J|_F at the small and the large scores, and the largest of many rows that have a weight above 0.99."""
    small, large = (float(jacobian_norm(softmax(scores))) for scores in (SMALL, LARGE))
    weights = softmax(30 * np.random.default_rng(0).standard_normal((20_000, 16)))
    saturated = jacobian_norm(weights[weights.max(-1) > SATURATED.value])
    note = (
        f"For the small scores |J|_F is {small:.3f}, for the large ones {large:.3f}, and in {len(saturated):,} rows"
        f" with a weight above 0.99 at most {saturated.max():.3f}. How many rows are saturated is another question"
    )
    conditions = {
        "|J|_F is below a tenth of that of the small scores in the example": large < TENTH.value * small,
        "the same holds in every row with a weight above 0.99": saturated.max() < TENTH.value * small,
    }
    return cases(conditions, note)


@statement("article-34", says="A saturated softmax cannot express soft attention.", severity="conceptual error")
def entropy_of_large_scores() -> Answer:
    """Entropy at the small and the large scores."""
    small, large = (float(stats.entropy(softmax(scores))) for scores in (SMALL, LARGE))
    note = f"The entropy is {small:.3f} nats for the small scores and {large:.3f} nats for the large ones"
    return cases({"less than a tenth of the entropy is left": large < TENTH.value * small}, note)


@statement(
    "article-36",
    says="Weights of the small scores.",
    claimed="0.3479 0.2848 0.2110 0.1563",
    rule="digits",
    severity="wrong number",
)
def small_weights() -> Answer:
    return numbers(softmax(SMALL))


@statement(
    "article-37",
    says="Largest weight of the small scores.",
    claimed=_PRINTED_LARGEST,
    rule="digits",
    severity="wrong number",
    given={"scores": SMALL},
)
@statement(
    "article-41",
    says="Largest weight of the large scores.",
    claimed="0.981970",
    rule="digits",
    severity="wrong number",
    given={"scores": LARGE},
)
def largest_weight(scores: Floats) -> Answer:
    return numbers(softmax(scores).max())


@statement(
    "article-38",
    says="Entropy of the small scores.",
    claimed=_PRINTED_ENTROPY,
    rule="digits",
    severity="wrong number",
    given={"scores": SMALL},
)
@statement(
    "article-42",
    says="Entropy of the large scores.",
    claimed="0.0906",
    rule="digits",
    severity="wrong number",
    given={"scores": LARGE},
)
def entropy_in_nats(scores: Floats) -> Answer:
    return numbers(stats.entropy(softmax(scores)))


@statement(
    "article-43",
    says="The small scores' largest weight is around 0.41.",
    claimed="0.41",
    rule="about",
    severity="wrong number",
)
@statement(
    "article-46",
    says="The small scores' largest weight is around 0.4.",
    claimed="0.4",
    rule="about",
    severity="wrong number",
)
def largest_weight_in_prose() -> Answer:
    return numbers(softmax(SMALL).max(), note=f"The article itself prints {_PRINTED_LARGEST}")


@statement(
    "article-44",
    says="The small scores' entropy is around 1.26.",
    claimed="1.26",
    rule="about",
    severity="wrong number",
)
def entropy_in_prose() -> Answer:
    return numbers(stats.entropy(softmax(SMALL)), note=f"The article itself prints {_PRINTED_ENTROPY}")


@statement(
    "article-39",
    says="The large scores are 20 times the small ones.",
    claimed="20.0 16.0 10.0 4.0",
    rule="digits",
    severity="wrong number",
)
def large_scores() -> Answer:
    return numbers(LARGE)


@statement(
    "article-40",
    says="Weights of the large scores, rounded to six decimals.",
    claimed="9.8197e-01 1.7985e-02 4.5000e-05 0.0000e+00",
    rule="digits",
    severity="wrong number",
)
def large_weights() -> Answer:
    """Weights of the large scores, rounded to six decimals as they are printed."""
    return numbers(np.round(softmax(LARGE), 6))


@statement(
    "article-45 article-48 article-49",
    says="Large scores put nearly all attention on the first position, with an entropy of nearly 0.",
    severity="wrong number",
)
def large_is_one_hot() -> Answer:
    """Largest weight, place, second weight and entropy of the large scores."""
    weights = softmax(LARGE)
    second, entropy = float(np.sort(weights)[-2]), float(stats.entropy(weights))
    note = f"The weights are {shown(weights, 3)} and the entropy is {entropy:.3f} nats"
    return cases(
        {
            "the first weight is above 0.9": weights[0] > ONE_HOT.value,
            "every other weight is below a tenth": second < TENTH.value,
            "the entropy is below a tenth": entropy < TENTH.value,
        },
        note,
    )


@statement("article-47", says="Small scores give every position a meaningful weight.", severity="wrong number")
def small_is_spread() -> Answer:
    """The smallest weight of the small scores."""
    smallest = softmax(SMALL).min()
    return cases({"every weight is above a tenth": smallest > TENTH.value}, f"The smallest weight is {smallest:.3f}")
