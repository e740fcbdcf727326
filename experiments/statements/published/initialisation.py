"""Initialisation: the variance of projected tokens."""

import numpy as np

from experiments.statements.answer import Answer, cases
from experiments.statements.cutoffs import ABOUT
from experiments.statements.declare import statement
from sdpa import ScaledDotProductAttention


def projected_variance(d_in: int, d_out: int) -> float:
    """The variance of queries of unit-variance tokens, from the weights of 300 modules: to about 1%."""
    rng = np.random.default_rng(0)
    modules = [ScaledDotProductAttention(d_in, d_out, 1, rng=rng) for _ in range(300)]
    return float(np.mean([(module.W_Q**2).sum(axis=0).mean() for module in modules]))


@statement(
    "article-16", says="Under usual initialisation the entries of q and k have variance 1.", severity="conceptual error"
)
def unit_variance_of_projections() -> Answer:
    """The variance of queries that a projection made of unit-variance tokens, and of their scaled scores."""
    xavier, square = projected_variance(32, 16), projected_variance(32, 32)
    small = 8 * 0.1**2
    note = (
        f"From tokens of unit variance, Xavier projections from width 32 to 16 make queries of variance {xavier:.2f}"
        f" and scaled scores of variance {xavier**2:.2f}; normal weights times 0.1, from width 8, make queries of"
        f" variance {small:.2f} and scaled scores of variance {small**2:.4f}"
    )
    return cases(
        {
            "square Xavier projections give variance 1": abs(square - 1) < ABOUT,
            "Xavier projections from width 32 to 16 give variance 1": abs(xavier - 1) < ABOUT,
            "normal weights times 0.1 from width 8 give variance 1": abs(small - 1) < ABOUT,
        },
        note,
    )


@statement(
    "article-135", says="Xavier initialisation keeps variance through the projections.", severity="conceptual error"
)
def xavier_keeps_variance() -> Answer:
    """The variance of projected unit-variance tokens, d_in 2 / (d_in + d_out)."""
    square, narrow = projected_variance(32, 32), projected_variance(32, 16)
    conditions = {
        "a projection from width 32 to 32 keeps the variance": abs(square - 1) < ABOUT,
        "a projection from width 32 to 16 keeps the variance": abs(narrow - 1) < ABOUT,
    }
    note = f"From width 32 to 32, a projection multiplies it by {square:.2f}; from width 32 to 16, by {narrow:.2f}"
    return cases(conditions, note)
