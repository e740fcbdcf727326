"""Shuffled tokens: the outputs shuffle along, so attention without a mask ignores the order of words.

With P a permutation of the rows, softmax(P S P^T) P V = P softmax(S) V: the weights of a row move with their keys. The
sums of a row then have another order, so differences are shown to 12 decimals, which hides rounding.
"""

import numpy as np

from experiments.examples import dog_bites_man, four_words
from experiments.examples.steps import QUESTIONS, Example, Names, Step, from_scores, step
from sdpa import Trace


def _pair(names: str, words: Names, order: list[int], before: Trace, after: Trace) -> list[Step]:
    """The outputs of words in two orders, and the largest difference of each word's two outputs."""
    first, second, apart = names.split()
    one, other = np.asarray(before.output), np.asarray(after.output)
    away = np.round(abs(other - one[order]).max(axis=1)[np.argsort(order)], 12)
    says = "The largest difference of each word's two outputs: all words keep theirs."
    return [
        step(first, "Each word's output.", one, words),
        step(second, "The same words in another order.", other, [words[i] for i in order]),
        step(apart, says, [*away[:, None], [away.max()]], (*words, "all"), ("largest difference",), 12),
    ]


def _steps() -> list[Step]:
    drawn, order = four_words.projected_words(), [2, 0, 3, 1]
    shuffled = drawn._replace(tokens=drawn.tokens[order])
    scores, values, swap = dog_bites_man.SCORES, dog_bites_man.VALUES, [2, 1, 0]
    dog, man = from_scores(scores, values), from_scores(scores[np.ix_(swap, swap)], values[swap])
    return [
        *_pair("outputs shuffled difference", four_words.WORDS, order, drawn.trace(), shuffled.trace()),
        *_pair("dog_bites_man man_bites_dog swap_difference", dog_bites_man.WORDS, swap, dog, man),
    ]


_SOURCE = f"the article by M. Brenndoerfer (2025), and {QUESTIONS} Our order"
EXAMPLE = Example("Shuffled words keep their outputs", _SOURCE, _steps, "outputs shuffled dog_bites_man man_bites_dog")
