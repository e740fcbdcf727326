"""Four words from their tokens: projections, queries, keys, values, scores, weights and output.

The article draws its numbers from NumPy's legacy generator with seed 123, and so does the example.
"""

from typing import NamedTuple

import numpy as np

from experiments.examples.steps import ARTICLE, Example, Floats, Names, Step, attention, chosen, step
from sdpa import Trace, trace

WORDS = ("The", "cat", "sat", "down")


class Projected(NamedTuple):
    """Tokens X, (n, width), and the projections W to queries, keys and values, (width, d)."""

    tokens: Floats
    w_q: Floats
    w_k: Floats
    w_v: Floats

    def trace(self, mask: np.ndarray[tuple[int, int], np.dtype[np.bool_]] | None = None) -> Trace:
        """Attention of q = X W_q, k = X W_k and v = X W_v under the default divisor sqrt(d_k)."""
        return trace(self.tokens @ self.w_q, self.tokens @ self.w_k, self.tokens @ self.w_v, mask=mask)

    def steps(self, words: Names) -> list[Step]:
        """Tokens and projections as steps."""
        projections = {"q": self.w_q, "k": self.w_k, "v": self.w_v}
        of_projections = [
            step(f"w_{name}", f"{name.upper()} = X times this.", w, digits=3) for name, w in projections.items()
        ]
        return [step("x", "Tokens X: one row per token.", self.tokens, words, digits=3), *of_projections]


def draw(rng: np.random.RandomState) -> Projected:
    """Four tokens of width 8, with standard deviation 0.5, then W_q, W_k and W_v to width 4, with 0.3."""
    tokens = rng.standard_normal((4, 8)) * 0.5
    return Projected(tokens, *(rng.standard_normal((8, 4)) * 0.3 for _ in range(3)))


def projected_words() -> Projected:
    """The four words of seed 123 of the legacy generator."""
    return draw(np.random.RandomState(123))


def _steps() -> list[Step]:
    drawn = projected_words()
    steps = attention(drawn.trace(), WORDS, WORDS, digits=3)
    names = "q k v scores divisor scaled_scores exponentials weights output divisor_effect"
    return [*drawn.steps(WORDS), *chosen(steps, names)]


EXAMPLE = Example("Four words, from tokens to output", ARTICLE, _steps, "scaled_scores weights output")
