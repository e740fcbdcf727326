"""Questions and answers on sqrt(d_k): saturation triples, the weights and values of dog bites man."""

import math
from collections.abc import Sequence

import numpy as np

from experiments.examples.dog_bites_man import PRINTED, SCORES, VALUES, WORDS
from experiments.examples.triples import D_K, HUNDREDS, ONES, TENS
from experiments.statements.answer import Answer, Claimed, numbers, shown, values
from experiments.statements.declare import statement
from experiments.statements.measured import UNTRAINED
from experiments.statements.shared import share_beyond, tempered
from sdpa import softmax, theory


@statement(
    "qa-03",
    says="The softmax of [2, 1, 1].",
    claimed="0.50 0.25 0.25",
    rule="digits",
    severity="wrong number",
    given={"scores": ONES},
)
@statement(
    "qa-04",
    says="The softmax of [20, 10, 10].",
    claimed="0.99 0.005 0.005",
    rule="digits",
    severity="wrong number",
    given={"scores": TENS},
)
@statement(
    "qa-11",
    says="The softmax of [8.8, 4.4, 4.4].",
    claimed="0.90 0.05 0.05",
    rule="digits",
    severity="wrong number",
    given={"scores": (8.8, 4.4, 4.4)},
)
@statement(
    "qa-24 qa-33",
    says="The weights of dog, also given as 44, 35 and 21 percent.",
    claimed="0.44 0.35 0.21",
    rule="digits",
    severity="wrong number",
    given={"scores": SCORES[WORDS.index("dog")]},
)
@statement(
    "qa-25",
    says="The weights of bites.",
    claimed="0.38 0.41 0.21",
    rule="digits",
    severity="wrong number",
    given={"scores": SCORES[WORDS.index("bites")]},
)
@statement(
    "qa-26",
    says="The weights of man.",
    claimed="0.19 0.15 0.66",
    rule="digits",
    severity="wrong number",
    given={"scores": SCORES[WORDS.index("man")]},
)
def weights_of_scores(scores: Sequence[float], claimed: Sequence[Claimed]) -> Answer:
    return numbers(softmax(scores), note=f"The claimed weights are {tempered(scores, claimed)}")


@statement(
    "qa-05 qa-08",
    says="The softmax of [200, 100, 100].",
    claimed="1.00 0.00 0.00",
    rule="digits",
    severity="wrong number",
)
def triple_of_hundreds() -> Answer:
    return numbers(softmax(HUNDREDS))


@statement(
    "qa-07",
    says="Unscaled scores at d_k = 512 are about 200, 100 and 100.",
    claimed="200 100 100",
    rule="draw",
    severity="wrong number",
)
def scores_of_200(claimed: Sequence[Claimed]) -> Answer:
    """The standard deviation of a score, and how likely scores are beyond those claimed."""
    deviation = math.sqrt(theory.score_variance(D_K, 1.0))
    large, small, _ = values(claimed)
    beyond = share_beyond(large, D_K)
    note = (
        f"The absolute value of a score exceeds {large:g} with probability {beyond:.1g} and {small:g} with probability"
        f" {share_beyond(small, D_K):.1g}; its standard deviation is {deviation:.1f}, {UNTRAINED}"
    )
    return numbers((deviation,) * 3, p_value=beyond, note=note)


@statement(
    "qa-10",
    says="[200, 100, 100] over sqrt(512) is about [8.8, 4.4, 4.4].",
    claimed="8.8 4.4 4.4",
    rule="about",
    severity="wrong number",
)
def scaled_hundreds() -> Answer:
    return numbers(np.divide(HUNDREDS, math.sqrt(D_K)))


@statement(
    "qa-27",
    says="Each printed row of weights sums to 1.",
    claimed="1.00 1.00 1.00",
    rule="digits",
    severity="wrong number",
)
def sums_of_printed_rows() -> Answer:
    return numbers(PRINTED.sum(-1))


@statement(
    "qa-31",
    says="The printed weights of dog blend the values to the printed output.",
    claimed="0.550 0.282 0.050 0.143",
    rule="digits",
    severity="wrong number",
)
def blend_of_printed_weights() -> Answer:
    return numbers(PRINTED[0] @ VALUES)


@statement(
    "qa-32",
    says="The output of dog for the scores shown.",
    claimed="0.550 0.282 0.050 0.143",
    rule="digits",
    severity="wrong number",
)
def output_of_dog() -> Answer:
    """The output of dog from its scores; of all three words, and of the weights as printed, in the note."""
    outputs = softmax(SCORES) @ VALUES
    words = "; ".join(f"{word} {shown(row, 3)}" for word, row in zip(WORDS, outputs, strict=True))
    note = (
        f"The outputs from the scores are {words}. The error comes from the weights of dog (qa-24): as printed, they"
        f" blend to {shown(PRINTED[0] @ VALUES, 3)}"
    )
    return numbers(outputs[0], note=note)
