"""A strip of eight weights under a slider: the divisor goes from 1 to d_k, as d_k to the power of 0 to 1.

Each of nine positions is a row of the softmax of the same scores. At the divisor 1 the largest weight is 0.75; at d_k
it is 0.14, close to an even share of 1/8.
"""

import numpy as np

from experiments.examples.steps import TEXTBOOK, Example, Floats, Step, step
from sdpa import Scaling, entropy, jacobian_norm, softmax

D_K, KEYS = 64, 8
RULES = ("unscaled", "d_k^1/8", "d_k^1/4", "d_k^3/8", "d_k^1/2", "d_k^5/8", "d_k^3/4", "d_k^7/8", "d_k^1")


def strip_scores() -> Floats:
    """The scores of one query and eight keys of width 64, of NumPy's default generator with seed 42."""
    rng = np.random.default_rng(42)
    query = rng.standard_normal(D_K)
    return np.asarray(rng.standard_normal((KEYS, D_K)) @ query)


def _steps() -> list[Step]:
    scores = strip_scores()
    divisors = np.array([Scaling.parse(rule).divisor(D_K, KEYS) for rule in RULES])
    weights = softmax(scores / divisors[:, None])
    measures = np.column_stack([divisors, weights.max(axis=1), entropy(weights), jacobian_norm(weights)])
    columns = ("divisor", "largest", "entropy", "Jacobian |J|")
    return [
        step("scores", "One row of scores at d_k = 64: standard normal q and k of seed 42.", [scores], ("score",)),
        step("weights", "The weights under each divisor, from undivided scores to scores over d_k.", weights, RULES),
        step("measures", "Properties of each row; |J| is the norm of the softmax Jacobian.", measures, RULES, columns),
    ]


EXAMPLE = Example("A strip of weights under a slider", f"{TEXTBOOK}; the scores are ours", _steps, "weights ~measures")
