"""Questions and answers on sqrt(d_k): saturation triples, the weights and values of dog bites man."""

import math

import numpy as np

from experiments.record.answers import Answer, Tables, cases, numbers, quantity, shown, tempered
from sdpa import softmax, theory

# Scores of a sentence of three words, and the weights and values beside them, as they are printed.
WORDS = ("dog", "bites", "man")
SCORES = np.array([[1.25, 0.80, -0.20], [0.80, 1.09, -0.40], [-0.20, -0.40, 1.16]])
CLAIMED = np.array([[0.44, 0.35, 0.21], [0.38, 0.41, 0.21], [0.19, 0.15, 0.66]])
VALUES = np.array([[0.9, 0.1, -0.3, 0.5], [0.2, 0.8, 0.1, -0.4], [0.4, -0.2, 0.7, 0.3]])


def _triple(scores: list[float], claimed: list[float], unit: float) -> Answer:
    return numbers(softmax(scores), note=f"the claimed weights: {tempered(scores, claimed, unit)}")


@quantity
def triple_of_ones(_: Tables) -> Answer:
    """The softmax of [2, 1, 1]."""
    return _triple([2, 1, 1], [0.5, 0.25, 0.25], 0.01)


@quantity
def triple_of_tens(_: Tables) -> Answer:
    """The softmax of [20, 10, 10]."""
    return _triple([20, 10, 10], [0.99, 0.005, 0.005], 0.001)


@quantity
def triple_of_hundreds(_: Tables) -> Answer:
    """The softmax of [200, 100, 100]."""
    return numbers(softmax([200, 100, 100]))


@quantity
def scores_of_200(_: Tables) -> Answer:
    """How likely scores of 200 and 100 are at d_k = 512, whose exact law has the standard deviation 22.6."""
    beyond = [2 * float(theory.score_survival(score, 512)) for score in (200, 100)]
    note = (
        f"a score is beyond 200 with probability {beyond[0]:.1g}, beyond 100 with {beyond[1]:.1g};"
        f" its standard deviation is 22.6"
    )
    return Answer(numbers=(math.sqrt(512),) * 3, p_value=min(beyond), note=note)


@quantity
def scaled_hundreds(_: Tables) -> Answer:
    """[200, 100, 100] / sqrt(512)."""
    return numbers(np.array([200, 100, 100]) / np.sqrt(512))


@quantity
def triple_after_scaling(_: Tables) -> Answer:
    """The softmax of [8.8, 4.4, 4.4]."""
    return _triple([8.8, 4.4, 4.4], [0.90, 0.05, 0.05], 0.01)


@quantity
def smooth_after_scaling(tables: Tables) -> Answer:
    """The largest weight after scaling: of unit-variance scores, and of the example given."""
    rows = tables["scaling"]
    measured = float(rows[(rows["scaling"] == "d_k^1/2") & (rows["d_k"] == 512)]["max_weight"].iloc[0])
    example = softmax(np.array([200, 100, 100]) / np.sqrt(512)).max()
    note = f"scaling.csv, d_k^1/2, d_k = 512: mean largest of 64 weights {measured:.2f}; {example:.3f} in the example"
    return cases({"of unit variance scores": measured < 0.5, "in the example given": example < 0.9}, note)


def _row(word: int) -> Answer:
    return numbers(
        softmax(SCORES[word]),
        note=f"the claimed weights: {tempered(SCORES[word].tolist(), CLAIMED[word].tolist(), 0.01)}",
    )


@quantity
def weights_of_dog(_: Tables) -> Answer:
    """The softmax of the scores of dog."""
    return _row(0)


@quantity
def weights_of_bites(_: Tables) -> Answer:
    """The softmax of the scores of bites."""
    return _row(1)


@quantity
def weights_of_man(_: Tables) -> Answer:
    """The softmax of the scores of man."""
    return _row(2)


@quantity
def sums_of_claimed_rows(_: Tables) -> Answer:
    """Sums of the weights as printed."""
    return numbers(CLAIMED.sum(-1))


@quantity
def claimed_blend(_: Tables) -> Answer:
    """The printed weights of dog times the values."""
    return numbers(CLAIMED[0] @ VALUES)


@quantity
def output_of_dog(_: Tables) -> Answer:
    """The output of dog from its scores; of all three words in the note."""
    outputs = softmax(SCORES) @ VALUES
    words = "; ".join(f"{word} {shown(row, 3)}" for word, row in zip(WORDS, outputs, strict=True))
    return numbers(outputs[0], note=f"outputs from the scores: {words}")


@quantity
def percents_of_dog(_: Tables) -> Answer:
    """The weights of dog from its scores, in percent."""
    return numbers(100 * softmax(SCORES[0]), note="percent, from the scores")
