"""A notebook of three tokens of width 4: numbers of NumPy's legacy generator, with and without scaling."""

import numpy as np
from scipy import stats

from experiments.examples.notebook import draw
from experiments.statements.answers import Answer, Tables, cases, numbers, quantity, shown
from experiments.statements.cutoffs import UNLIKELY
from sdpa import attention_weights


@quantity
def sizes_of_the_notebook(_: Tables) -> Answer:
    """Tokens and their width."""
    q, _k = draw()
    return numbers(q.shape[1], q.shape[0])


@quantity
def draws_of_the_notebook(_: Tables) -> Answer:
    """The first row of Q and of K, that stand in the note; as draws they cannot be told from normal ones."""
    q, k = draw()
    p_value = stats.kstest(np.concatenate([q, k]).ravel(), "norm").pvalue
    return cases({"normal by a test": p_value >= UNLIKELY}, f"Q begins {shown(q[0])}, K {shown(k[0])}")


def _weights(scaling: str) -> Answer:
    weights = attention_weights(*draw(), scaling=scaling)
    return cases(
        {"rows are distributions": np.allclose(weights.sum(-1), 1)}, f"weights, row by row: {shown(weights, 3)}"
    )


@quantity
def notebook_unscaled(_: Tables) -> Answer:
    """Weights without scaling."""
    return _weights("unscaled")


@quantity
def notebook_scaled(_: Tables) -> Answer:
    """Weights with scaling."""
    return _weights("d_k^1/2")


@quantity
def notebook_is_smoother(_: Tables) -> Answer:
    """Largest weight and entropy of each row before and after scaling."""
    before, after = (attention_weights(*draw(), scaling=scaling) for scaling in ("unscaled", "d_k^1/2"))
    note = f"largest weights {shown(before.max(-1), 3)} before and {shown(after.max(-1), 3)} after"
    return cases(
        {
            "every largest weight falls": (after.max(-1) < before.max(-1)).all(),
            "every entropy rises": (stats.entropy(after, axis=-1) > stats.entropy(before, axis=-1)).all(),
        },
        note,
    )
