"""Initialisation: the variance of projected tokens."""

import numpy as np

from experiments.statements.answer import Answer, cases
from experiments.statements.cutoffs import ABOUT
from experiments.statements.declare import statement
from sdpa import ScaledDotProductAttention
from sdpa.initialisation import SCHEMES

D_MODEL, D_K = 768, 64  # of GPT-2


def projected_variance(d_in: int, d_out: int) -> float:
    """The variance of queries of unit-variance tokens, from the weights of 300 modules: to about 1%."""
    rng = np.random.default_rng(0)
    modules = [ScaledDotProductAttention(d_in, d_out, 1, rng=rng) for _ in range(300)]
    return float(np.mean([(module.W_Q**2).sum(axis=0).mean() for module in modules]))


@statement(
    "qa-22b article-16",
    says="After the usual initialisation the entries of q and k have variance 1.",
    severity="conceptual error",
)
def unit_variance_of_projections() -> Answer:
    """The variances of the entries of q and of k under every scheme of the suite, exactly, for unit-variance tokens."""
    found = {name: [D_MODEL * float(v) for v in one.variances(D_MODEL, D_K)] for name, one in SCHEMES.items()}
    listed = "; ".join(f"{name}, {query:.3g} and {key:.3g}" for name, (query, key) in found.items())
    note = (
        f"For tokens of unit variance, d_model = {D_MODEL} and d_k = {D_K}, the exact variances of the entries of q and"
        f" k are: {listed}. sdpa/initialisation.py names the origin of each scheme"
    )
    conditions = {
        f"the entries of q and k have variance 1 under {name}": all(abs(v - 1) < ABOUT.value for v in variances)
        for name, variances in found.items()
    }
    return cases(conditions, note)


@statement(
    "article-135", says="Xavier initialisation keeps variance through the projections.", severity="conceptual error"
)
def xavier_keeps_variance() -> Answer:
    """The variance of projected unit-variance tokens, d_in 2 / (d_in + d_out)."""
    square, narrow = projected_variance(32, 32), projected_variance(32, 16)
    conditions = {
        "a projection from width 32 to 32 keeps the variance": abs(square - 1) < ABOUT.value,
        "a projection from width 32 to 16 keeps the variance": abs(narrow - 1) < ABOUT.value,
    }
    note = (
        f"From width 32 to 32, a projection multiplies the variance by {square:.2f}; from width 32 to 16, by"
        f" {narrow:.2f}"
    )
    return cases(conditions, note)
