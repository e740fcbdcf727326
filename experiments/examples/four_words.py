"""Four words from their tokens: projections, queries, keys, values, scores, weights and output.

The article draws its numbers from NumPy's legacy generator with seed 123, and so does the example.
"""

from dataclasses import dataclass

import numpy as np

from experiments.examples.example import ARTICLE, Example, Floats, Step
from experiments.examples.walkthrough import Walkthrough, numbered, numbers_of
from sdpa import Trace, trace

WORDS = ("The", "cat", "sat", "down")


@dataclass(frozen=True)
class Projected:
    """Tokens, and the projections that turn them into queries, keys and values.

    Attributes:
        tokens: X, (n, width), one row per token.
        w_q, w_k, w_v: (width, d_k), (width, d_k) and (width, d_v).
    """

    tokens: Floats
    w_q: Floats
    w_k: Floats
    w_v: Floats

    def trace(self) -> Trace:
        """Attention of the tokens, with q = X W_q, k = X W_k and v = X W_v, under the default divisor sqrt(d_k)."""
        return trace(self.tokens @ self.w_q, self.tokens @ self.w_k, self.tokens @ self.w_v)

    def steps(self, words: tuple[str, ...]) -> list[Step]:
        """Tokens and projections as steps."""
        rows = numbered(self.w_q.shape[0])
        return [
            numbers_of("x", "Tokens X", "One row per token.", self.tokens, words),
            *(
                numbers_of(
                    f"w_{name}", f"Projection W_{name.upper()}", f"{name.upper()} = X W_{name.upper()}.", w, rows
                )
                for name, w in (("q", self.w_q), ("k", self.w_k), ("v", self.w_v))
            ),
        ]


def draw(rng: np.random.RandomState) -> Projected:
    """Four tokens of width 8, then their projections to width 4, from the generator.

    Standard deviations are 0.5 for tokens and 0.3 for projections, drawn in the order W_q, W_k, W_v.
    """
    tokens = rng.standard_normal((4, 8)) * 0.5
    return Projected(tokens, *(rng.standard_normal((8, 4)) * 0.3 for _ in range(3)))


def projected_words() -> Projected:
    """The four words of seed 123 of the legacy generator."""
    return draw(np.random.RandomState(123))


def _steps() -> list[Step]:
    drawn = projected_words()
    told = Walkthrough(drawn.trace(), WORDS, WORDS, digits=3)
    return [*drawn.steps(WORDS), *told.attention(), told.divisor_effect()]


EXAMPLE = Example("Four words, from tokens to output", ARTICLE, _steps)
