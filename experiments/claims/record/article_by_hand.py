"""Statements of the article on A, B and C, by hand: article-86 to article-116."""

from math import sqrt

import numpy as np

from experiments.claims.entry import Cases, about, digits, in_example, shape
from experiments.claims.measured import Given
from experiments.claims.words import shown, tempered
from experiments.examples.examples import ABC, degrees
from sdpa import softmax

_SCORES = ABC.scores
_SCALED = ABC.scaled_scores
_WEIGHTS = ABC.weights
_VALUES = np.asarray(ABC.v)
_OUTPUT = np.asarray(ABC.output)
_OF_A = _WEIGHTS[0]


shape(
    "article-86",
    "Three tokens with queries, keys and values of width 2.",
    "3 2 3 2 3 2",
    [ABC.q.shape, ABC.k.shape, _VALUES.shape],
)
digits(
    "article-87",
    "The queries of A, B and C point east, northeast and north.",
    "0.0 45.0 90.0",
    degrees(ABC.q),
)


@in_example("article-88")
def keys_are_spread_like_queries(_: Given) -> Cases:
    """The keys are spread like the queries, with different lengths."""
    angles = degrees(ABC.k)
    lengths = np.linalg.norm(ABC.k, axis=1)
    return {
        "they have the order of the queries": (np.diff(angles) > 0).all(),
        "their lengths differ": np.unique(lengths.round(6)).size == 3,
    }, f"The angles are {shown(angles, 3)} degrees, the lengths {shown(lengths, 3)}"


@in_example("article-89")
def values_are_two_axes_and_their_midpoint(_: Given) -> Cases:
    """The values are two orthogonal unit vectors and their midpoint."""
    first, second, third = _VALUES
    products = np.array([first, second]) @ np.transpose([first, second])
    return {
        "two are orthogonal unit vectors": np.array_equal(products, np.eye(2)),
        "the third is their midpoint": np.array_equal(third, (first + second) / 2),
    }, ""


@in_example("article-90 article-91 article-92")
def a_and_c_align_with_themselves(_: Given) -> Cases:
    """A and C align best with their own keys, B moderately with all."""
    of_queries = np.linalg.norm(ABC.q, axis=1)[:, None]
    of_keys = np.linalg.norm(ABC.k, axis=1)
    cosines = _SCORES / of_queries / of_keys
    return (
        {
            "A aligns best with its own key": cosines[0].argmax() == 0,
            "C aligns best with its own key": cosines[2].argmax() == 2,
            "B has the same score with all keys": np.ptp(_SCORES[1]) < 1e-12,
        },
        f"Row by row, the cosines are {shown(cosines, 3)}; the scores of B are"
        f" {shown(_SCORES[1], 2)}",
    )


digits("article-94", "The scores of A.", "0.80 0.30 0.10", _SCORES[0])
digits(
    "article-95",
    "The nine scores of A, B and C.",
    "0.8 0.3 0.1 0.5 0.5 0.5 0.2 0.7 0.9",
    _SCORES,
)


@in_example("article-96")
def a_is_most_similar_to_itself(_: Given) -> Cases:
    """A is most similar to the key of A and least to that of C."""
    return {
        "its largest score is with A": _SCORES[0].argmax() == 0,
        "its smallest is with C": _SCORES[0].argmin() == 2,
    }, ""


about("article-97", "The square root of 2 is about 1.41.", "1.41", sqrt(2))


@in_example("article-98")
def scaling_changes_little(given: Given) -> Cases:
    """In two dimensions scaling changes little."""
    before = softmax(_SCORES[0]).max()
    after = _OF_A.max()
    return {
        "the largest weight of A changes by less than a tenth": before - after < given.tenth,
    }, f"The largest weight of A is {before:.3f} without scaling and {after:.3f} with it"


digits("article-99", "The scale is 0.7071.", "0.7071", 1 / sqrt(2))
digits(
    "article-100",
    "The nine scaled scores of A, B and C.",
    "0.5657 0.2121 0.0707 0.3536 0.3536 0.3536 0.1414 0.4950 0.6364",
    _SCALED,
)
digits("article-101", "Scaling halves the variance.", "2.000", _SCORES.var() / _SCALED.var())
about("article-102", "A score of 0.8 becomes about 0.57.", "0.57", 0.8 / sqrt(2))


@in_example("article-103")
def scaling_keeps_order(_: Given) -> Cases:
    """Scaling keeps the order of scores and shrinks their differences."""
    before, after = _SCORES[[0, 2]], _SCALED[[0, 2]]  # all scores of B are equal
    ranges = np.ptp(before, axis=1), np.ptp(after, axis=1)
    return {
        "the order is kept": np.array_equal(np.argsort(before), np.argsort(after)),
        "the differences shrink": (ranges[1] < ranges[0]).all(),
    }, f"Differences shrink to {ranges[1][0] / ranges[0][0]:.3f} of their size"


digits(
    "article-104",
    "The exponentials of A's scaled scores.",
    "1.7607 1.2363 1.0733",
    np.exp(_SCALED[0]),
)
digits(
    "article-105",
    "The sum of the exponentials of A's scaled scores.",
    "4.0702",
    np.exp(_SCALED[0]).sum(),
)
digits("article-106", "The weights of A.", "0.4326 0.3037 0.2637", _OF_A)
digits(
    "article-107",
    "The nine weights of A, B and C.",
    "0.4326 0.3037 0.2637 0.3333 0.3333 0.3333 0.2460 0.3504 0.4036",
    _WEIGHTS,
)
digits(
    "article-108",
    "Row sums of the nine weights.",
    "1.0000000 1.0000000 1.0000000",
    _WEIGHTS.sum(axis=1),
)


@in_example("article-109")
def a_attends_softly(given: Given) -> Cases:
    """A attends most to itself, but softly."""
    return {
        "A gives itself the largest weight": _OF_A.argmax() == 0,
        "this weight is below one half": _OF_A.max() < given.dominant,
        "every other weight is above a tenth": _OF_A.min() > given.tenth,
    }, f"The weights are {shown(_OF_A, 3)}"


digits("article-110", "The output of A.", "0.5644 0.4356", _OUTPUT[0])
digits(
    "article-111",
    "The three outputs of A, B and C.",
    "0.5644 0.4356 0.5000 0.5000 0.4478 0.5522",
    _OUTPUT,
)
about(
    "article-112",
    "In prose: the output of A is approximately [0.52, 0.48].",
    "0.52 0.48",
    _OUTPUT[0],
    "The article itself prints the right output. The output in the prose follows from the weights"
    f" [0.37, 0.32, 0.31], {tempered(_SCORES[0], '0.37 0.32 0.31')}",
)
about(
    "article-113 article-114 article-115",
    "In prose: A gives A about 0.37, B about 0.32 and C about 0.31.",
    "0.37 0.32 0.31",
    _OF_A,
    "The article itself prints the right weights a few lines above",
)


@in_example("article-116")
def rows_are_distributions(_: Given) -> Cases:
    """Rows of the heatmap are distributions and the bars show blends of the values."""
    return {
        "every row sums to 1": np.allclose(_WEIGHTS.sum(axis=1), 1),
        "every output lies between the values": ((_OUTPUT >= 0) & (_OUTPUT <= 1)).all(),
    }, ""
