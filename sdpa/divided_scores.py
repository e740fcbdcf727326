"""Attention with and without its divisor, for one draw of queries and keys, beside the exact
expectations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from sdpa._arrays import FloatArray
from sdpa.attention import softmax
from sdpa.inputs import NormalSource, normal_source
from sdpa.metrics import entropy, max_weight
from sdpa.scaling import Rule, resolve_divisor


@dataclass(frozen=True)
class DividedScores:
    """The scores of one draw over a divisor, their softmax, and the exact values over all draws."""

    divisor: float  # 1 means no scaling
    scores: FloatArray  # q k^T / divisor, (n_queries, n_keys)
    weights: FloatArray
    score_std: float  # standard deviation of all scores of the draw, about their mean
    max_weight: float  # mean over the rows
    entropy: float  # mean over the rows, in nats
    # Of a single score, sqrt(d_k) / divisor; the deviation of the scores of one draw about their
    # mean is smaller on average, because they share queries and keys (for five of each by 5% at d_k
    # = 4, by 3% at 512).
    exact_score_std: float
    exact_max_weight: float  # expectations for a row
    exact_entropy: float


@dataclass(frozen=True)
class ScalingComparison:
    """One draw of queries and keys of width d_k, with undivided and with divided scores."""

    d_k: int
    unscaled: DividedScores
    scaled: DividedScores


def compare_scaling(
    d_k: int,
    *,
    n_queries: int = 5,
    n_keys: int = 5,
    scaling: Rule = "d_k^1/2",
    seed: int | None = None,
    rng: NormalSource | None = None,
) -> ScalingComparison:
    """softmax(q k^T) beside softmax(q k^T / divisor), for standard normal q, drawn first, and k.

    Args:
        d_k, n_queries: at least 1.
        n_keys: at least 2.
        scaling: a rule, its name (`unscaled`, `d_k^1/2`, ...), or the divisor itself as a number.
        seed, rng: as in `ScaledDotProductAttention`.

    Raises:
        ValueError, TypeError: an argument is out of its range or of another type, or both seed and
            rng are given.

    >>> at_64 = compare_scaling(64)
    >>> round(at_64.unscaled.max_weight, 4), round(at_64.scaled.max_weight, 4)
    (0.7899, 0.4319)
    >>> round(at_64.unscaled.exact_max_weight, 4), round(at_64.scaled.exact_max_weight, 4)
    (0.8982, 0.4604)
    """
    for name, size, fewest in (("d_k", d_k, 1), ("n_queries", n_queries, 1), ("n_keys", n_keys, 2)):
        if not isinstance(size, Integral) or size < fewest:
            raise ValueError(f"{name}: expected a whole number of at least {fewest}, got {size!r}")
    divisor = resolve_divisor(scaling, d_k, n_keys)
    source = normal_source(seed, rng)
    q, k = source.standard_normal((n_queries, d_k)), source.standard_normal((n_keys, d_k))
    scores = q @ k.T
    return ScalingComparison(d_k, _divided(scores, d_k, 1.0), _divided(scores, d_k, divisor))


def _divided(scores: FloatArray, d_k: int, divisor: float) -> DividedScores:
    from sdpa.theory import (  # not at the top: theory loads SciPy
        attention_expectations,
        score_variance,
    )

    scaled = scores / divisor
    weights = softmax(scaled)
    exact = attention_expectations(d_k, scores.shape[-1], divisor)
    return DividedScores(
        divisor=divisor,
        scores=scaled,
        weights=weights,
        score_std=float(scaled.std()),
        max_weight=float(max_weight(weights).mean()),
        entropy=float(entropy(weights).mean()),
        exact_score_std=math.sqrt(score_variance(d_k, divisor)),
        exact_max_weight=exact.max_weight,
        exact_entropy=exact.entropy,
    )
