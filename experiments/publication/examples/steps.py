"""Named matrices as steps of an example, and the steps of attention."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from sdpa import Trace, entropy, softmax, trace

Names = Sequence[str]

_EFFECT = ("largest without", "largest with", "entropy without", "entropy with")


class Step(NamedTuple):
    """A named matrix of an example, a sentence about it, and the decimals to print."""

    name: str
    says: str
    table: pd.DataFrame
    digits: int


class Example(NamedTuple):
    """A worked example: title, source of its numbers, its picture, and what computes all steps.

    `draws` has the names of the steps in the picture, separated by spaces. A name alone is drawn
    as a heat map, `lines:name:quantity` as the columns of a quantity over d_k, and `arrows:q` as
    the queries and keys in two dimensions.
    """

    title: str
    source: str
    draws: str
    steps: Callable[[], list[Step]]


def numbered(count: int, letter: str = "") -> tuple[str, ...]:
    """Names for what has none: 1, 2, 3."""
    return tuple(f"{letter}{i + 1}" for i in range(count))


def step(
    name: str,
    says: str,
    values: npt.ArrayLike,
    rows: Names = (),
    columns: Names = (),
    digits: int = 4,
) -> Step:
    """A step with numbers for names where these are missing."""
    values = np.asarray(values, dtype=float)
    height, width = values.shape
    table = pd.DataFrame(values, rows or numbered(height), columns or numbered(width))
    return Step(name, says, table, digits)


_TEXTS = {
    "q": "Queries Q: one row per query.",
    "k": "Keys K: one row per key.",
    "v": "Values V: one row per key.",
    "scores": "Scores S = Q Kᵀ: dot products of queries (rows) and keys.",
    "divisor": "The divisor of each score.",
    "scaled_scores": "Scores over the divisor; −∞: hidden by the mask.",
    "exponentials": "Softmax: exp(scaled score − largest of the row).",
    "weights": "Weights W: each exponential over the sum of its row.",
    "output": "Output W V: values, blended by weights.",
    "undivided_weights": "The softmax of the undivided scores.",
    "divisor_effect": "Largest weights, and entropies in nats: 0 to ln n.",
}


def attention(
    found: Trace,
    queries: Names,
    keys: Names,
    *,
    rule: str = "d_k^1/2",
    digits: int = 4,
    widths: Names = (),
    outputs: Names = (),
) -> dict[str, Step]:
    """The steps of attention on two axes by name; those of values only if there are values.

    Args:
        found: the attention.
        queries, keys: a name for each.
        rule: the scaling rule that gave the divisor.
        digits: the decimals of q, k, v, scores and output.
        widths, outputs: names of columns of q and k, and of the output; numbers without them.
    """
    # Without the divisor; hidden keys stay hidden.
    undivided = softmax(np.where(np.isinf(found.scaled_scores), -np.inf, found.scores))
    both = (undivided, found.weights)
    largest = [weights.max(axis=-1) for weights in both]
    effect = np.transpose([*largest, *map(entropy, both)])
    exponentials = np.column_stack([found.exponentials, found.sums])
    of_scores = (queries, keys, digits)
    parts: dict[str, tuple[Any, ...]] = {
        "q": (found.q, queries, widths, digits),
        "k": (found.k, keys, widths, digits),
        "v": (found.v, keys, outputs, digits),
        "scores": (found.scores, *of_scores),
        "divisor": ([[found.divisor]], (rule,), ("divisor",)),
        "scaled_scores": (found.scaled_scores, *of_scores),
        "exponentials": (exponentials, queries, (*keys, "sum")),
        "weights": (found.weights, queries, keys),
        "output": (found.output, queries, outputs, digits),
        "undivided_weights": (undivided, queries, keys),
        "divisor_effect": (effect, queries, _EFFECT),
    }
    return {
        name: step(name, _TEXTS[name], *part) for name, part in parts.items() if part[0] is not None
    }


def chosen(steps: dict[str, Step], names: str) -> list[Step]:
    """The steps of these names, separated by spaces."""
    return [steps[name] for name in names.split()]


def from_scores(
    scaled: npt.ArrayLike,
    v: npt.ArrayLike | None = None,
    divisor: float = 1.0,
) -> Trace:
    """The trace of attention from known scaled scores, with the unit matrix as keys.

    >>> from_scores([[1.0, 2.0]], divisor=3.0).scores
    array([[3., 6.]])
    """
    scores = np.asarray(scaled, dtype=float) * divisor
    return trace(scores, np.eye(scores.shape[-1]), v, scaling=divisor)


def blend(found: Trace, name: str, row: int, keys: Names, outputs: Names) -> Step:
    """The output of one query, term by term: weights, and each key's values times its weight."""
    weights = found.weights[row]
    of_values = weights[:, None] * np.asarray(found.v)
    terms = np.column_stack([weights, of_values])
    sums = [weights.sum(), *terms[:, 1:].sum(axis=0)]
    says = f"The output of {name}, term by term: weights, and values times weights."
    blended = np.vstack([terms, sums])
    return step(f"blend_{name}", says, blended, (*keys, "sum"), ("weight", *outputs))


def spread(weights: npt.ArrayLike, rows: Names) -> Step:
    """The largest weight and the entropy of each row."""
    values = np.column_stack([np.max(weights, axis=-1), entropy(weights)])
    says = "Largest weight of each row, and entropy in nats."
    return step("spread", says, values, rows, ("largest", "entropy"))


def long_table(example: str, steps: Sequence[Step]) -> pd.DataFrame:
    """The numbers of an example: example, step, row, column, value."""
    cells = [
        (example, each.name, row, column, value)
        for each in steps
        for row, values in each.table.iterrows()
        for column, value in values.items()
    ]
    return pd.DataFrame(cells, columns=["example", "step", "row", "column", "value"])
