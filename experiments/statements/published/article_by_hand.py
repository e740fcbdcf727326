"""The article's three tokens in two dimensions, computed by hand."""

import math

import numpy as np

from experiments.examples.abc import KEYS, QUERIES, VALUES, tiny
from experiments.statements.answer import Answer, cases, numbers, parse_claimed, shown, values
from experiments.statements.cutoffs import DOMINANT, TENTH
from experiments.statements.declare import statement
from experiments.statements.shared import Floats, tempered
from sdpa import softmax

_PROSE_WEIGHTS = "0.37 0.32 0.31"  # of A


def _outputs() -> Floats:
    """The outputs of A, B and C."""
    return np.asarray(tiny().output)


@statement(
    "article-86",
    says="Three tokens with queries, keys and values of width 2.",
    claimed="3 2 3 2 3 2",
    rule="shape",
    severity="wrong number",
)
def shapes_by_hand() -> Answer:
    return numbers(QUERIES.shape, KEYS.shape, VALUES.shape)


@statement(
    "article-87",
    says="The queries of A, B and C point east, northeast and north.",
    claimed="0.0 45.0 90.0",
    rule="digits",
    severity="wrong number",
)
def angles_of_queries() -> Answer:
    """Directions of the three queries, in degrees from east."""
    return numbers(np.degrees(np.arctan2(QUERIES[:, 1], QUERIES[:, 0])))


@statement("article-88", says="The keys are spread like the queries, with different lengths.", severity="wrong number")
def directions_of_keys() -> Answer:
    """Directions and lengths of the three keys."""
    angles, lengths = np.degrees(np.arctan2(KEYS[:, 1], KEYS[:, 0])), np.linalg.norm(KEYS, axis=1)
    note = f"The angles are {shown(angles, 3)} degrees, the lengths {shown(lengths, 3)}"
    return cases(
        {
            "they have the order of the queries": (np.diff(angles) > 0).all(),
            "their lengths differ": len(set(lengths.round(6))) == 3,
        },
        note,
    )


@statement("article-89", says="The values are two orthogonal unit vectors and their midpoint.", severity="wrong number")
def values_by_hand() -> Answer:
    return cases(
        {
            "two are orthogonal unit vectors": (VALUES[:2] @ VALUES[:2].T == np.eye(2)).all(),
            "the third is their midpoint": (VALUES[2] == VALUES[:2].mean(0)).all(),
        }
    )


@statement(
    "article-90 article-91 article-92",
    says="A and C align best with their own keys, B moderately with all.",
    severity="wrong number",
)
def alignment_by_hand() -> Answer:
    """With which key each query is aligned: cosines, and scores for B."""
    cosines = QUERIES @ KEYS.T / np.linalg.norm(QUERIES, axis=1)[:, None] / np.linalg.norm(KEYS, axis=1)
    note = f"Row by row, the cosines are {shown(cosines, 3)}; the scores of B are {shown(tiny().scores[1], 2)}"
    return cases(
        {
            "A aligns best with its own key": cosines[0].argmax() == 0,
            "C aligns best with its own key": cosines[2].argmax() == 2,
            "B has the same score with all keys": np.ptp(tiny().scores[1]) < 1e-12,
        },
        note,
    )


@statement("article-94", says="The scores of A.", claimed="0.80 0.30 0.10", rule="digits", severity="wrong number")
def scores_of_a() -> Answer:
    return numbers(tiny().scores[0])


@statement(
    "article-95",
    says="The nine scores of A, B and C.",
    claimed="0.8 0.3 0.1 0.5 0.5 0.5 0.2 0.7 0.9",
    rule="digits",
    severity="wrong number",
)
def scores_by_hand() -> Answer:
    return numbers(tiny().scores)


@statement("article-96", says="A is most similar to the key of A and least to that of C.", severity="wrong number")
def order_of_a() -> Answer:
    row = tiny().scores[0]
    return cases({"its largest score is with A": row.argmax() == 0, "its smallest is with C": row.argmin() == 2})


@statement("article-98", says="In two dimensions scaling changes little.", severity="wrong number")
def effect_in_two_dimensions() -> Answer:
    """The largest weight of A without and with scaling."""
    before, after = softmax(tiny().scores[0]).max(), tiny().weights[0].max()
    return cases(
        {"the largest weight of A changes by less than a tenth": before - after < TENTH.value},
        f"The largest weight of A is {before:.3f} without scaling and {after:.3f} with it",
    )


@statement("article-99", says="The scale is 0.7071.", claimed="0.7071", rule="digits", severity="wrong number")
def scale_by_hand() -> Answer:
    return numbers(1 / math.sqrt(2))


@statement(
    "article-100",
    says="The nine scaled scores of A, B and C.",
    claimed="0.5657 0.2121 0.0707 0.3536 0.3536 0.3536 0.1414 0.4950 0.6364",
    rule="digits",
    severity="wrong number",
)
def scaled_by_hand() -> Answer:
    return numbers(tiny().scaled_scores)


@statement("article-101", says="Scaling halves the variance.", claimed="2.000", rule="digits", severity="wrong number")
def variance_by_hand() -> Answer:
    return numbers(tiny().scores.var() / tiny().scaled_scores.var())


@statement(
    "article-102", says="A score of 0.8 becomes about 0.57.", claimed="0.57", rule="about", severity="wrong number"
)
def scaled_point_eight() -> Answer:
    return numbers(0.8 / math.sqrt(2))


@statement(
    "article-103", says="Scaling keeps the order of scores and shrinks their differences.", severity="wrong number"
)
def order_after_scaling() -> Answer:
    """Order of scores before and after scaling, and the ratio of their differences."""
    scores, scaled = tiny().scores, tiny().scaled_scores
    ratio = np.ptp(scaled, axis=1)[[0, 2]] / np.ptp(scores, axis=1)[[0, 2]]
    same = (np.argsort(scores[[0, 2]]) == np.argsort(scaled[[0, 2]])).all()
    return cases(
        {"the order is kept": same, "the differences shrink": (ratio < 1).all()},
        f"Differences shrink to {ratio[0]:.3f} of their size",
    )


@statement(
    "article-104",
    says="The exponentials of A's scaled scores.",
    claimed="1.7607 1.2363 1.0733",
    rule="digits",
    severity="wrong number",
)
def exponentials_of_a() -> Answer:
    return numbers(np.exp(tiny().scaled_scores[0]))


@statement(
    "article-105",
    says="The sum of the exponentials of A's scaled scores.",
    claimed="4.0702",
    rule="digits",
    severity="wrong number",
)
def partition_of_a() -> Answer:
    return numbers(np.exp(tiny().scaled_scores[0]).sum())


@statement(
    "article-106", says="The weights of A.", claimed="0.4326 0.3037 0.2637", rule="digits", severity="wrong number"
)
def weights_of_a() -> Answer:
    return numbers(tiny().weights[0])


@statement(
    "article-107",
    says="The nine weights of A, B and C.",
    claimed="0.4326 0.3037 0.2637 0.3333 0.3333 0.3333 0.2460 0.3504 0.4036",
    rule="digits",
    severity="wrong number",
)
def weights_by_hand() -> Answer:
    return numbers(tiny().weights)


@statement(
    "article-108",
    says="Row sums of the nine weights.",
    claimed="1.0000000 1.0000000 1.0000000",
    rule="digits",
    severity="wrong number",
)
def sums_by_hand() -> Answer:
    return numbers(tiny().weights.sum(axis=1))


@statement("article-109", says="A attends most to itself, but softly.", severity="wrong number")
def a_attends_softly() -> Answer:
    """The weight that A gives itself, and those of the others."""
    row = tiny().weights[0]
    return cases(
        {
            "A gives itself the largest weight": row.argmax() == 0,
            "this weight is below one half": row.max() < DOMINANT.value,
            "every other weight is above a tenth": row.min() > TENTH.value,
        },
        f"The weights are {shown(row, 3)}",
    )


@statement("article-110", says="The output of A.", claimed="0.5644 0.4356", rule="digits", severity="wrong number")
def output_of_a() -> Answer:
    return numbers(_outputs()[0])


@statement(
    "article-111",
    says="The three outputs of A, B and C.",
    claimed="0.5644 0.4356 0.5000 0.5000 0.4478 0.5522",
    rule="digits",
    severity="wrong number",
)
def outputs_by_hand() -> Answer:
    return numbers(_outputs())


@statement(
    "article-112",
    says="In prose: the output of A is approximately [0.52, 0.48].",
    claimed="0.52 0.48",
    rule="about",
    severity="wrong number",
)
def prose_output_of_a() -> Answer:
    """The output of A, and the origin of the weights in the prose."""
    weights = parse_claimed(_PROSE_WEIGHTS)
    note = (
        "The article itself prints the right output. The output in the prose follows from the weights"
        f" {values(weights)}, {tempered(tiny().scores[0], weights)}"
    )
    return numbers(_outputs()[0], note=note)


@statement(
    "article-113 article-114 article-115",
    says="In prose: A gives A about 0.37, B about 0.32 and C about 0.31.",
    claimed=_PROSE_WEIGHTS,
    rule="about",
    severity="wrong number",
)
def prose_weights_of_a() -> Answer:
    return numbers(tiny().weights[0], note="The article itself prints the right weights a few lines above")


@statement(
    "article-116",
    says="Rows of the heatmap are distributions and the bars show blends of the values.",
    severity="wrong number",
)
def blends_by_hand() -> Answer:
    """Rows of weights are distributions, and outputs lie between the values."""
    weights, outputs = tiny().weights, _outputs()
    return cases(
        {
            "every row sums to 1": np.allclose(weights.sum(1), 1),
            "every output lies between the values": bool(((outputs >= 0) & (outputs <= 1)).all()),
        }
    )
