"""The article's three tokens in two dimensions, computed by hand: scores, weights, outputs, and what its prose says."""

import math

import numpy as np
import numpy.typing as npt

from experiments.examples.abc import KEYS, QUERIES, VALUES, tiny
from experiments.statements.answers import Answer, Tables, cases, numbers, quantity, shown, tempered
from experiments.statements.cutoffs import DOMINANT, TENTH
from sdpa import softmax

Floats = npt.NDArray[np.floating]


def _outputs() -> Floats:
    """The outputs of A, B and C."""
    return np.asarray(tiny().output)


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
    note = f"cosines {shown(cosines, 3)}, scores of B {shown(tiny().scores[1], 2)}"
    return cases(
        {
            "A best with its own key": cosines[0].argmax() == 0,
            "C best with its own key": cosines[2].argmax() == 2,
            "B the same with all": np.ptp(tiny().scores[1]) < 1e-12,
        },
        note,
    )


@quantity
def scores_of_a(_: Tables) -> Answer:
    """The scores of A."""
    return numbers(tiny().scores[0])


@quantity
def scores_by_hand(_: Tables) -> Answer:
    """The nine scores of A, B and C."""
    return numbers(tiny().scores)


@quantity
def order_of_a(_: Tables) -> Answer:
    """Which key A is most and least similar to."""
    row = tiny().scores[0]
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
    before, after = softmax(tiny().scores[0]).max(), tiny().weights[0].max()
    return cases(
        {"changes by less than a tenth": before - after < TENTH},
        f"largest weight of A {before:.3f} without, {after:.3f} with scaling",
    )


@quantity
def scaled_by_hand(_: Tables) -> Answer:
    """The nine scaled scores."""
    return numbers(tiny().scaled_scores)


@quantity
def variance_by_hand(_: Tables) -> Answer:
    """The variance of the nine scores over that of the scaled ones."""
    return numbers(tiny().scores.var() / tiny().scaled_scores.var())


@quantity
def scaled_point_eight(_: Tables) -> Answer:
    """0.8 / sqrt(2)."""
    return numbers(0.8 / math.sqrt(2))


@quantity
def order_after_scaling(_: Tables) -> Answer:
    """Order of scores before and after scaling, and the ratio of their differences."""
    scores, scaled = tiny().scores, tiny().scaled_scores
    ratio = np.ptp(scaled, axis=1)[[0, 2]] / np.ptp(scores, axis=1)[[0, 2]]
    same = (np.argsort(scores[[0, 2]]) == np.argsort(scaled[[0, 2]])).all()
    return cases(
        {"order is kept": same, "differences shrink": (ratio < 1).all()}, f"differences shrink to {ratio[0]:.3f}"
    )


@quantity
def exponentials_of_a(_: Tables) -> Answer:
    """Exponentials of the scaled scores of A."""
    return numbers(np.exp(tiny().scaled_scores[0]))


@quantity
def partition_of_a(_: Tables) -> Answer:
    """Their sum."""
    return numbers(np.exp(tiny().scaled_scores[0]).sum())


@quantity
def weights_of_a(_: Tables) -> Answer:
    """The weights of A."""
    return numbers(tiny().weights[0])


@quantity
def weights_by_hand(_: Tables) -> Answer:
    """The nine weights."""
    return numbers(tiny().weights)


@quantity
def sums_by_hand(_: Tables) -> Answer:
    """Row sums of the nine weights."""
    return numbers(tiny().weights.sum(axis=1))


@quantity
def a_attends_softly(_: Tables) -> Answer:
    """Whether A gives itself most, and how much the others get."""
    row = tiny().weights[0]
    return cases(
        {
            "most to itself": row.argmax() == 0,
            "less than half": row.max() < DOMINANT,
            "others more than a tenth": row.min() > TENTH,
        },
        f"weights {shown(row, 3)}",
    )


@quantity
def output_of_a(_: Tables) -> Answer:
    """The output of A."""
    return numbers(_outputs()[0])


@quantity
def outputs_by_hand(_: Tables) -> Answer:
    """The three outputs."""
    return numbers(_outputs())


@quantity
def prose_output_of_a(_: Tables) -> Answer:
    """The output of A, which the prose gives otherwise than the print, as it does its weights."""
    claimed = [0.37, 0.32, 0.31]
    return numbers(
        _outputs()[0],
        note=(
            f"as the article prints itself; the prose goes with weights {claimed}:"
            f" {tempered(tiny().scores[0].tolist(), claimed, 0.01)}"
        ),
    )


@quantity
def prose_weights_of_a(_: Tables) -> Answer:
    """The weights that A gives A, B and C, which the prose gives otherwise than the print."""
    return numbers(tiny().weights[0], note="as the article prints itself a few lines above")


@quantity
def blends_by_hand(_: Tables) -> Answer:
    """Rows of weights are distributions, and outputs lie between the values."""
    weights, outputs = tiny().weights, _outputs()
    return cases(
        {
            "rows are distributions": np.allclose(weights.sum(1), 1),
            "outputs within the values": bool(((outputs >= 0) & (outputs <= 1)).all()),
        }
    )
