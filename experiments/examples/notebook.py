"""A notebook of three tokens of width 4: numbers of NumPy's legacy generator, with and without scaling."""

import numpy as np

from experiments.examples.example import NOTEBOOK, Example, Floats, Step
from experiments.examples.walkthrough import Walkthrough
from sdpa import trace

QUERIES, KEYS = ("q1", "q2", "q3"), ("k1", "k2", "k3")


def draw() -> tuple[Floats, Floats]:
    """Q and K (3, 4), in this order, of seed 42 of the legacy generator."""
    rng = np.random.RandomState(42)
    return rng.standard_normal((3, 4)), rng.standard_normal((3, 4))


def _steps() -> list[Step]:
    told = Walkthrough(trace(*draw()), QUERIES, KEYS)
    return [*told.attention(), *told.effect()]


EXAMPLE = Example("Three tokens of width 4, with and without scaling", NOTEBOOK, _steps)
