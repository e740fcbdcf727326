"""Shuffled tokens: the outputs shuffle along, so attention without a mask ignores the order of words.

With P a permutation of the rows, softmax(P S P^T) P V = P softmax(S) V: the weights of a row move with their keys. The
sums of a row then have another order, so outputs are equal only up to rounding, and differences are shown to 12
decimals.
"""

import numpy as np

from experiments.examples import dog_bites_man, four_words
from experiments.examples.example import QUESTIONS, Example, Floats, Step, rounded, table
from experiments.examples.walkthrough import from_scores, numbers_of
from sdpa import trace

ORDER = (2, 0, 3, 1)
SWAP = (2, 1, 0)


def _steps() -> list[Step]:
    last = (
        "Without a mask attention cannot tell dog bites man from man bites dog. "
        "The tokens themselves must carry their position."
    )
    return [*_shuffled(), *_swapped(), Step("reading", "What it means", last)]


def _shuffled() -> list[Step]:
    """The four words in another order."""
    words, drawn = four_words.WORDS, four_words.projected_words()
    other = tuple(words[i] for i in ORDER)
    tokens = drawn.tokens[list(ORDER)]
    before = drawn.trace().output
    after = trace(tokens @ drawn.w_q, tokens @ drawn.w_k, tokens @ drawn.w_v).output
    return [
        _outputs("outputs", "The cat sat down: outputs", "Each word's output, from its token.", before, words),
        _outputs("shuffled", "Sat The down cat: outputs", "The same tokens in another order.", after, other),
        _difference("difference", before, after, words, other),
    ]


def _swapped() -> list[Step]:
    """Dog and man, swapped."""
    words, scores, values = dog_bites_man.WORDS, dog_bites_man.SCORES, dog_bites_man.VALUES
    other, order = tuple(words[i] for i in SWAP), list(SWAP)
    before = from_scores(scores, values).output
    after = from_scores(scores[np.ix_(order, order)], values[order]).output
    return [
        _outputs("dog_bites_man", "Dog bites man: outputs", "Each word's output, from its scores.", before, words),
        _outputs("man_bites_dog", "Man bites dog: outputs", "Dog and man swap places.", after, other),
        _difference("swap_difference", before, after, words, other),
    ]


def _outputs(name: str, heading: str, text: str, output: Floats | None, words: tuple[str, ...]) -> Step:
    """A step with the output of each word."""
    return numbers_of(name, heading, text, np.asarray(output), words, 4)


def _difference(
    name: str, before: Floats | None, after: Floats | None, words: tuple[str, ...], other: tuple[str, ...]
) -> Step:
    """The largest difference between each word's two outputs.

    Args:
        name: of the step.
        before, after: outputs in the order of `words` and of `other`.
        words, other: the two orders.
    """
    back = np.asarray(after)[[other.index(word) for word in words]]
    apart = rounded(abs(back - np.asarray(before)).max(axis=1))
    text = "The largest difference between each word's two outputs, to 12 decimals: every word keeps its output."
    grid = table([*apart[:, None], [apart.max()]], (*words, "all"), ("largest difference",), 12)
    return Step(
        name,
        "Each word's output, before and after",
        text,
        grid,
    )


_SOURCES = f"the article by M. Brenndoerfer (2025), and {QUESTIONS} Our order."
EXAMPLE = Example("Shuffled words keep their outputs", _SOURCES, _steps)
