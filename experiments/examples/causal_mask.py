"""A causal mask: when a token changes, the outputs of earlier tokens stay identical to the bit.

A hidden key has the scaled score -inf and the weight 0, so its value adds 0 to the output. The example runs the four
words twice, with one token negated in the second run, with the mask and without it.
"""

import numpy as np

from experiments.examples.four_words import WORDS, projected_words
from experiments.examples.steps import ARTICLE, Example, Step, attention, chosen, step

MASK = np.tri(len(WORDS), dtype=bool)  # a word sees itself and the words before it


def _steps() -> list[Step]:
    drawn = projected_words()
    tokens = drawn.tokens.copy()
    tokens[WORDS.index("sat")] *= -1
    changed = drawn._replace(tokens=tokens)
    before, after = ([np.asarray(each.trace(mask).output) for mask in (MASK, None)] for each in (drawn, changed))

    steps = attention(drawn.trace(MASK), WORDS, WORDS, digits=3)
    moved = np.max(np.abs(np.subtract(after, before)), axis=2)
    return [
        step("x", "Tokens X: one row per token.", drawn.tokens, WORDS, digits=3),
        step("changed_x", "Tokens X after the change: the row of sat is negated.", tokens, WORDS, digits=3),
        step("mask", "The mask: 1 where a query may see a key, itself and earlier words.", MASK, WORDS, WORDS, 0),
        *chosen(steps, "scaled_scores exponentials weights output"),
        step("changed_output", "After the change, The and cat keep theirs.", after[0], WORDS, digits=3),
        step("moved", "Largest change of an entry; 0 before sat.", moved, ("with the mask", "without it"), WORDS),
        *chosen(steps, "undivided_weights divisor_effect"),
    ]


_SOURCE = f"{ARTICLE}; the mask is ours"
EXAMPLE = Example("A causal mask hides later words", _SOURCE, _steps, "weights output changed_output moved")
