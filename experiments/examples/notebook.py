"""A notebook of three tokens of width 4: numbers of NumPy's legacy generator, with and without scaling."""

import numpy as np

from experiments.examples.steps import NOTEBOOK, Example, Floats, Step, attention, numbered
from sdpa import trace


def draw() -> tuple[Floats, Floats]:
    """Q and K (3, 4), in this order, of seed 42 of the legacy generator."""
    rng = np.random.RandomState(42)
    return rng.standard_normal((3, 4)), rng.standard_normal((3, 4))


def _steps() -> list[Step]:
    return list(attention(trace(*draw()), numbered(3, "q"), numbered(3, "k")).values())


_DRAWS = "scores undivided_weights weights"
EXAMPLE = Example("Three tokens of width 4, with and without scaling", NOTEBOOK, _steps, _DRAWS)
