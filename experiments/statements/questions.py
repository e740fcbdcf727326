"""Questions and answers on sqrt(d_k): saturation triples, the weights and values of dog bites man."""

import math

import numpy as np

from experiments.examples.dog_bites_man import PRINTED, SCORES, VALUES, WORDS
from experiments.examples.triples import D_K, HUNDREDS, ONES, TENS
from experiments.statements.answers import Answer, Tables, numbers, quantity, shown, tempered
from experiments.statements.checks import UNTRAINED
from sdpa import softmax, theory


def _triple(scores: tuple[float, ...], claimed: list[float], unit: float) -> Answer:
    return numbers(softmax(scores), note=f"the claimed weights: {tempered(scores, claimed, unit)}")


@quantity
def triple_of_ones(_: Tables) -> Answer:
    """The softmax of [2, 1, 1]."""
    return _triple(ONES, [0.5, 0.25, 0.25], 0.01)


@quantity
def triple_of_tens(_: Tables) -> Answer:
    """The softmax of [20, 10, 10]."""
    return _triple(TENS, [0.99, 0.005, 0.005], 0.001)


@quantity
def triple_of_hundreds(_: Tables) -> Answer:
    """The softmax of [200, 100, 100]."""
    return numbers(softmax(HUNDREDS))


@quantity
def scores_of_200(_: Tables) -> Answer:
    """How likely scores of 200 and 100 are at d_k = 512, whose exact law has the standard deviation 22.6."""
    beyond = [2 * float(theory.score_survival(score, 512)) for score in (200, 100)]
    note = (
        f"a score is beyond 200 with probability {beyond[0]:.1g}, beyond 100 with {beyond[1]:.1g};"
        f" its standard deviation is 22.6, {UNTRAINED}"
    )
    return Answer(numbers=(math.sqrt(512),) * 3, p_value=min(beyond), note=note)


@quantity
def scaled_hundreds(_: Tables) -> Answer:
    """[200, 100, 100] / sqrt(512)."""
    return numbers(np.divide(HUNDREDS, math.sqrt(D_K)))


@quantity
def triple_after_scaling(_: Tables) -> Answer:
    """The softmax of [8.8, 4.4, 4.4]."""
    return _triple((8.8, 4.4, 4.4), [0.90, 0.05, 0.05], 0.01)


def _row(word: int) -> Answer:
    return numbers(
        softmax(SCORES[word]),
        note=f"the claimed weights: {tempered(SCORES[word].tolist(), PRINTED[word].tolist(), 0.01)}",
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
    return numbers(PRINTED.sum(-1))


@quantity
def claimed_blend(_: Tables) -> Answer:
    """The printed weights of dog times the values."""
    return numbers(PRINTED[0] @ VALUES)


@quantity
def output_of_dog(_: Tables) -> Answer:
    """The output of dog from its scores; of all three words, and of the weights as printed, in the note."""
    outputs = softmax(SCORES) @ VALUES
    words = "; ".join(f"{word} {shown(row, 3)}" for word, row in zip(WORDS, outputs, strict=True))
    note = (
        f"outputs from the scores: {words}. The error is that of the weights of dog (qa-24): as they are printed, they"
        f" blend to {shown(PRINTED[0] @ VALUES, 3)}"
    )
    return numbers(outputs[0], note=note)
