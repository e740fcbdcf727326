"""A causal mask: when a token changes, the outputs of earlier tokens stay identical to the bit.

A hidden key has the scaled score -inf and the weight 0, so its value adds 0 to the output. The example runs
the four words twice, with one token negated in the second run, with the mask and without it.
"""

import numpy as np

from experiments.examples.example import ARTICLE, Example, Floats, Matrix, Step, table
from experiments.examples.four_words import WORDS, Projected, projected_words
from experiments.examples.walkthrough import Walkthrough, numbers_of
from sdpa import Trace, trace

CHANGED = WORDS.index("sat")
MASK = np.tri(len(WORDS), dtype=bool)  # a word sees itself and the words before it


def changed() -> Floats:
    """The tokens of the four words with the third one, `sat`, negated, (4, 8).

    >>> np.flatnonzero((changed() != projected_words().tokens).any(axis=1))
    array([2])
    """
    tokens = projected_words().tokens.copy()
    tokens[CHANGED] = -tokens[CHANGED]
    return tokens


def _steps() -> list[Step]:
    drawn, tokens = projected_words(), changed()
    before, after = _trace(drawn, drawn.tokens, MASK), _trace(drawn, tokens, MASK)
    told = Walkthrough(before, WORDS, WORDS, digits=3)
    open_before, open_after = drawn.trace(), _trace(drawn, tokens, None)
    moved = [_moved(before, after), _moved(open_before, open_after)]
    return [
        numbers_of("x", "Tokens X", "One row per token.", drawn.tokens, WORDS),
        numbers_of("changed_x", "Tokens X after the change", "The row of sat is negated.", tokens, WORDS),
        Step("mask", "Causal mask (4 x 4)", "1 where a query may see a key: itself and earlier words.", _mask()),
        told.scaled_scores(),
        told.exponentials(),
        told.weights(),
        told.output(),
        numbers_of(
            "changed_output",
            "Output after the change",
            "The words before sat, The and cat, keep their rows.",
            np.asarray(after.output),
            WORDS,
        ),
        Step(
            "moved",
            "How far each output moved",
            "The largest change of an entry. With the mask it is exactly 0 before sat; without it, nowhere 0.",
            table(moved, ("with the mask", "without it"), WORDS),
        ),
        *told.effect(),
    ]


def _trace(drawn: Projected, tokens: Floats, mask: np.ndarray[tuple[int, int], np.dtype[np.bool_]] | None) -> Trace:
    """Attention of these tokens under the projections of the four words, with a mask or without one."""
    return trace(tokens @ drawn.w_q, tokens @ drawn.w_k, tokens @ drawn.w_v, mask=mask)


def _moved(before: Trace, after: Trace) -> Floats:
    """The largest change of an entry of each word's output, (4,)."""
    return np.asarray(abs(np.asarray(after.output) - np.asarray(before.output)).max(axis=1))


def _mask() -> Matrix:
    return table(MASK, WORDS, WORDS, 0)


EXAMPLE = Example("A causal mask hides later words", f"{ARTICLE}; the mask is ours", _steps)
