"""Rows of the softmax: distributions, order, derivatives, stability."""

from decimal import Decimal, localcontext

import numpy as np

from experiments.examples.triples import HUNDREDS, ONES
from experiments.statements.answer import Answer, cases, shown
from experiments.statements.cutoffs import TENTH
from experiments.statements.declare import statement
from experiments.statements.shared import normals
from sdpa import softmax, softmax_jacobian


@statement(
    "qa-23 textbook-16 lesson-25 article-30 article-62",
    says="Softmax makes every row of scores a distribution: no weight negative, their sum 1.",
    severity="conceptual error",
)
def rows_are_distributions() -> Answer:
    """Weights of a softmax row: none negative, their sum 1."""
    weights = softmax(5 * normals(50, 9))
    return cases(
        {
            "no weight is negative": (weights >= 0).all(),
            "every sum is 1": np.allclose(weights.sum(-1), 1, rtol=0, atol=1e-14),
        }
    )


@statement("lesson-29", says="Every softmax weight lies strictly between 0 and 1.", severity="slip")
def open_interval() -> Answer:
    """Weights strictly between 0 and 1, as a function of real numbers; what doubles make of it is in the note."""
    scores = [0.0, -800.0]
    with localcontext() as context:
        context.prec = 1000  # digits: e^-800 has 347 zeros after the point
        exponentials = [Decimal(score).exp() for score in scores]
        real = [x / sum(exponentials) for x in exponentials]
        inside = all(0 < weight < 1 for weight in real)
    note = (
        f"The second weight of [0, -800] is {real[1]:.1e}; double precision rounds the row to {shown(softmax(scores))}"
    )
    return cases({"as real numbers, the weights of [0, -800] do": inside}, note)


@statement("lesson-30", says="Softmax keeps order: a larger score gets a larger weight.", severity="conceptual error")
def monotone() -> Answer:
    """Order of scores and weights, and d w_i / d s_i = w_i (1 - w_i)."""
    scores = normals(40, 6)
    weights = softmax(scores)
    return cases(
        {
            "the order is kept": (np.argsort(scores) == np.argsort(weights)).all(),
            "the derivative is positive": all((np.diag(softmax_jacobian(row)) > 0).all() for row in weights),
        }
    )


@statement("lesson-31", says="Softmax is differentiable everywhere.", severity="conceptual error")
def softmax_is_differentiable() -> Answer:
    """Central differences of the softmax against diag(w) - w w^T."""
    scores, step = normals(6), 1e-6
    differences = [(softmax(scores + step * e) - softmax(scores - step * e)) / (2 * step) for e in np.eye(6)]
    return cases(
        {
            "finite differences agree with the Jacobian": np.allclose(
                differences, softmax_jacobian(softmax(scores)), atol=1e-9
            )
        }
    )


@statement("article-35", says="Softmax with the maximum subtracted is numerically stable.", severity="conceptual error")
def stable_softmax() -> Answer:
    """Softmax of scores of 10^4."""
    return cases({"the weights of scores of 10,000 are finite": np.isfinite(softmax([1e4, 0.0, -1e4])).all()})


@statement(
    "qa-06",
    says="A token that attends to a single other token gathers nothing from the rest.",
    severity="conceptual error",
)
def effective_number() -> Answer:
    """The change of an output with the values of all tokens but the first, for a one-hot row and for a spread one."""
    values, others = normals(3, 4), normals(3, 4, seed=1)
    others[0] = values[0]
    moved = {name: abs(softmax(row) @ (others - values)).max() for name, row in {"one": HUNDREDS, "all": ONES}.items()}
    return cases(
        {
            "the output of a one-hot row ignores the rest": moved["one"] < 1e-12,
            "that of a spread row does not": moved["all"] > TENTH.value,
        },
        f"The rest moves the output by {moved['one']:.1g} for scores {shown(HUNDREDS)}, and by {moved['all']:.2f} for"
        f" {shown(ONES)}",
    )
