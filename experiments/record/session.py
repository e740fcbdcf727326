"""An article's whole session, from top to bottom, on the legacy generator that it uses; what it says of its outputs.

Numbers are drawn in the article's order: seed 42 for the running example, whose stream the variance sweep goes on with,
seed 123 for the example of four words, whose stream the batch goes on with, and seed 42 again for each comparison of
scalings and for the module.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from sdpa import ScaledDotProductAttention, scaled_dot_product_attention, softmax

Floats = npt.NDArray[np.floating]

SWEPT = (8, 32, 64, 128, 256, 512)
COMPARED = (4, 16, 64, 256, 512)
SMALL = np.array([1.0, 0.8, 0.5, 0.2])
LARGE = 20 * SMALL
WORDS = ("The", "cat", "sat", "down")
QUERIES = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
KEYS = np.array([[0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
VALUES = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])


@dataclass(frozen=True)
class Session:
    """The arrays of the session that its printed blocks are of."""

    tokens: Floats
    queries: Floats
    keys: Floats
    values: Floats
    variances: Floats
    example_scores: Floats
    example_weights: Floats
    batch: tuple[Floats, Floats, Floats]


@cache
def session() -> Session:
    """Every number that the article draws up to its module, in its order."""
    rng = np.random.RandomState(42)
    tokens = rng.standard_normal((4, 8))
    projections = [rng.standard_normal((8, 6)) * 0.1 for _ in range(3)]
    variances = []
    for d_k in SWEPT:
        q, k = rng.standard_normal((10_000, d_k)), rng.standard_normal((10_000, d_k))
        variances.append(np.var((q * k).sum(axis=1)))
    rng = np.random.RandomState(123)
    words = rng.standard_normal((4, 8)) * 0.5
    q, k, _ = (words @ (rng.standard_normal((8, 4)) * 0.3) for _ in range(3))
    batch = rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6))
    scores = q @ k.T / 2
    queries, keys, values = (tokens @ projection for projection in projections)
    return Session(tokens, queries, keys, values, np.array(variances), scores, softmax(scores), batch)


@cache
def comparison(d_k: int) -> tuple[float, float, float, float]:
    """Of five queries and keys of seed 42: deviations of scores, then mean largest weights, unscaled and scaled."""
    rng = np.random.RandomState(42)
    q, k = rng.standard_normal((5, d_k)), rng.standard_normal((5, d_k))
    unscaled = q @ k.T
    scaled = unscaled / math.sqrt(d_k)
    largest = [float(softmax(scores).max(axis=-1).mean()) for scores in (unscaled, scaled)]
    return float(unscaled.std()), float(scaled.std()), largest[0], largest[1]


@cache
def module() -> tuple[Floats, Floats]:
    """Output and weights of the module of seed 42 for eight tokens of the same stream."""
    rng = np.random.RandomState(42)
    attention = ScaledDotProductAttention(32, 16, 16, rng)
    return attention(rng.standard_normal((8, 32)), return_weights=True)


def running() -> tuple[Floats, Floats]:
    """Output and weights of the running example."""
    s = session()
    return scaled_dot_product_attention(s.queries, s.keys, s.values, return_weights=True)


def tiny() -> tuple[Floats, Floats, Floats, Floats]:
    """Scores, scaled scores, weights and outputs of A, B and C in two dimensions."""
    scores = QUERIES @ KEYS.T
    scaled = scores / math.sqrt(2)
    weights = softmax(scaled)
    return scores, scaled, weights, weights @ VALUES
