"""A notebook of three tokens of width 4: numbers of NumPy's legacy generator, with and without scaling."""

import numpy as np
from scipy import stats

from experiments.examples.notebook import draw
from experiments.statements.answer import Answer, cases, numbers, shown
from experiments.statements.cutoffs import UNLIKELY
from experiments.statements.declare import statement
from sdpa import attention_weights


@statement(
    "notebook-01", says="The example has width 4 and 3 tokens.", claimed="4 3", rule="count", severity="wrong number"
)
def sizes_of_the_notebook() -> Answer:
    q, _k = draw()
    return numbers(q.shape[1], q.shape[0])


@statement(
    "notebook-02 notebook-05",
    says="Q and then K are standard normal draws of NumPy's legacy generator with seed 42.",
    severity="wrong number",
)
def draws_of_the_notebook() -> Answer:
    """The first row of Q and of K, that stand in the note; as draws they cannot be told from normal ones."""
    q, k = draw()
    p_value = stats.kstest(np.concatenate([q, k]).ravel(), "norm").pvalue
    return cases(
        {"they pass a test for normality": p_value >= UNLIKELY}, f"Q begins with {shown(q[0])}, K with {shown(k[0])}"
    )


@statement("notebook-20", says="In the example scaling makes the weights smoother.", severity="wrong number")
def notebook_is_smoother() -> Answer:
    """Largest weight and entropy of each row before and after scaling."""
    before, after = (attention_weights(*draw(), scaling=scaling) for scaling in ("unscaled", "d_k^1/2"))
    note = f"The largest weights are {shown(before.max(-1), 3)} before and {shown(after.max(-1), 3)} after"
    return cases(
        {
            "every largest weight falls": (after.max(-1) < before.max(-1)).all(),
            "every entropy rises": (stats.entropy(after, axis=-1) > stats.entropy(before, axis=-1)).all(),
        },
        note,
    )
