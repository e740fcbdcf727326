"""The article's running example: four tokens of seed 42 from projections to output, then a batch of three sequences.

The order of the draws is part of the example: `variance_sweep` continues the same stream of random numbers.
"""

import numpy as np

from experiments.examples import four_words
from experiments.examples.example import ARTICLE, Example, Floats, Step, table
from experiments.examples.four_words import Projected
from experiments.examples.walkthrough import Walkthrough
from sdpa import scaled_dot_product_attention

TOKENS = ("t1", "t2", "t3", "t4")


def draw(rng: np.random.RandomState) -> Projected:
    """Four tokens of width 8, then their projections to width 6, from the generator.

    Standard deviations are 1 for tokens and 0.1 for projections, drawn in the order W_q, W_k, W_v.
    """
    tokens = rng.standard_normal((4, 8))
    return Projected(tokens, *(rng.standard_normal((8, 6)) * 0.1 for _ in range(3)))


def running() -> Projected:
    """The running example of seed 42 of the legacy generator."""
    return draw(np.random.RandomState(42))


def batch() -> tuple[Floats, Floats, Floats]:
    """Queries, keys and values of three sequences: the next numbers of the generator of the four words.

    Returns:
        q, k and v, each (3, 4, 6): sequences, tokens, width.
    """
    rng = np.random.RandomState(123)
    four_words.draw(rng)
    return rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6))


def _steps() -> list[Step]:
    drawn = running()
    told = Walkthrough(drawn.trace(), TOKENS, TOKENS, digits=3)
    return [*drawn.steps(TOKENS), *_attention(told), told.divisor_effect(), _batch()]


def _attention(told: Walkthrough) -> list[Step]:
    """The steps of attention; the exponentials are left out because the example is long."""
    return [step for step in told.attention() if step.name != "exponentials"]


def _batch() -> Step:
    """The shapes of the arrays of a batch."""
    q, k, v = batch()
    output, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    arrays = {"Q": q, "K": k, "V": v, "weights": weights, "output": output}
    shapes = table([array.shape for array in arrays.values()], tuple(arrays), ("sequences", "rows", "columns"), 0)
    text = "Three sequences at once: attention acts on the last two axes."
    return Step("batch_shapes", "A batch: the shapes of its arrays", text, shapes)


EXAMPLE = Example("The article's running example, then a batch", ARTICLE, _steps)
