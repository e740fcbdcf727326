"""A notebook of three tokens of width 4: numbers of NumPy's legacy generator, with and without scaling."""

from scipy import stats

from experiments.examples.notebook import draw
from experiments.statements.answer import Answer, cases, shown
from experiments.statements.declare import statement
from sdpa import attention_weights


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
