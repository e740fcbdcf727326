"""The article's running example: four tokens of seed 42 from projections to output, then a batch of three sequences.

The order of the draws is part of the example: `variance_sweep` continues the same stream of random numbers.
"""

import numpy as np

from experiments.examples import four_words
from experiments.examples.four_words import Projected
from experiments.examples.steps import ARTICLE, Example, Floats, Step, attention, chosen, numbered, step
from sdpa import scaled_dot_product_attention

TOKENS = numbered(4, "t")


def draw(rng: np.random.RandomState) -> Projected:
    """Four tokens of width 8, with standard deviation 1, then W_q, W_k and W_v to width 6, with 0.1."""
    tokens = rng.standard_normal((4, 8))
    return Projected(tokens, *(rng.standard_normal((8, 6)) * 0.1 for _ in range(3)))


def running() -> Projected:
    """The running example of seed 42 of the legacy generator."""
    return draw(np.random.RandomState(42))


def batch() -> tuple[Floats, Floats, Floats]:
    """q, k and v of three sequences, each (3, 4, 6): the next numbers of the generator of the four words."""
    rng = np.random.RandomState(123)
    four_words.draw(rng)
    return rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6))


def _steps() -> list[Step]:
    drawn = running()
    steps = attention(drawn.trace(), TOKENS, TOKENS, digits=3)
    q, k, v = batch()
    output, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    shapes = [array.shape for array in (q, k, v, weights, output)]
    rows, columns = ("Q", "K", "V", "weights", "output"), ("sequences", "rows", "columns")
    return [
        *drawn.steps(TOKENS),
        *chosen(steps, "q k v scores divisor scaled_scores weights output divisor_effect"),
        step("batch_shapes", "A batch: attention acts on the last two axes.", shapes, rows, columns, 0),
    ]


_DRAWS = "scores scaled_scores weights output"
EXAMPLE = Example("The article's running example, then a batch", ARTICLE, _steps, _DRAWS)
