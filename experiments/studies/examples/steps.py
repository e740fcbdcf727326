"""Named matrices as steps of an example, and the steps of attention."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from sdpa import Trace, entropy, softmax, trace

Names = Sequence[str]


class Step(NamedTuple):
    """A named matrix of an example, and a sentence about it."""

    name: str
    says: str
    table: pd.DataFrame


Steps = Callable[[], list[Step]]


class Example(NamedTuple):
    """A worked example: title, source of its numbers, its picture, and what computes all steps.

    `draws` has the names of the steps in the picture, separated by spaces: a heat map of each, or,
    after a colon, the quantity of its columns to draw over d_k.
    """

    title: str
    source: str
    draws: str
    steps: Steps


def numbered(count: int, letter: str = "") -> tuple[str, ...]:
    """Names for what has none: 1, 2, 3."""
    return tuple(f"{letter}{i + 1}" for i in range(count))


def step(
    name: str,
    says: str,
    values: npt.ArrayLike,
    rows: Names = (),
    columns: Names = (),
) -> Step:
    """A step with numbers for names where these are missing."""
    values = np.asarray(values, dtype=float)
    height, width = values.shape
    table = pd.DataFrame(values, rows or numbered(height), columns or numbered(width))
    return Step(name, says, table)


def attention(
    traced: Trace,
    queries: Names,
    keys: Names,
    *,
    rule: str = "d_k^1/2",
    widths: Names = (),
    outputs: Names = (),
) -> dict[str, Step]:
    """The steps of attention on two axes by name; those of values only if there are values.

    Args:
        traced: the attention.
        queries, keys: a name for each.
        rule: the scaling rule that gave the divisor.
        widths, outputs: names of columns of q and k, and of the output; numbers without them.
    """
    # Without the divisor; hidden keys stay hidden.
    undivided = softmax(np.where(np.isinf(traced.scaled_scores), -np.inf, traced.scores))
    both = (undivided, traced.weights)
    largest = [weights.max(axis=-1) for weights in both]
    effects = ("largest without", "largest with", "entropy without", "entropy with")
    effect = np.transpose([*largest, *map(entropy, both)])
    exponentials = np.column_stack([traced.exponentials, traced.sums])
    contents: dict[str, tuple[Any, ...]] = {
        "q": ("Queries Q: one row per query.", traced.q, queries, widths),
        "k": ("Keys K: one row per key.", traced.k, keys, widths),
        "v": ("Values V: one row per key.", traced.v, keys, outputs),
        "scores": (
            "Scores S = Q Kᵀ: dot products of queries (rows) and keys.",
            traced.scores,
            queries,
            keys,
        ),
        "divisor": ("The divisor of each score.", [[traced.divisor]], (rule,), ("divisor",)),
        "scaled_scores": (
            "Scores over the divisor; −∞: hidden by the mask.",
            traced.scaled_scores,
            queries,
            keys,
        ),
        "exponentials": (
            "Softmax: exp(scaled score − largest of the row).",
            exponentials,
            queries,
            (*keys, "sum"),
        ),
        "weights": (
            "Weights W: each exponential over the sum of its row.",
            traced.weights,
            queries,
            keys,
        ),
        "output": ("Output W V: values, blended by weights.", traced.output, queries, outputs),
        "undivided_weights": ("The softmax of the undivided scores.", undivided, queries, keys),
        "divisor_effect": (
            "Largest weights, and entropies in nats: 0 to ln n.",
            effect,
            queries,
            effects,
        ),
    }
    return {
        name: step(name, *content) for name, content in contents.items() if content[1] is not None
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


def blend(
    traced: Trace,
    name: str,
    row: int,
    keys: Names,
    outputs: Names,
) -> Step:
    """The output of one query, term by term: weights, and each key's values times its weight."""
    weights = traced.weights[row]
    terms = np.column_stack([weights, weights[:, None] * np.asarray(traced.v)])
    blended = [*terms, terms.sum(axis=0)]
    says = f"The output of {name}, term by term: weights, and values times weights."
    return step(f"blend_{name}", says, blended, (*keys, "sum"), ("weight", *outputs))


def spread(weights: npt.ArrayLike, rows: Names) -> Step:
    """The largest weight and the entropy of each row."""
    values = np.column_stack([np.max(weights, axis=-1), entropy(weights)])
    says = "Largest weight of each row, and entropy in nats."
    return step("spread", says, values, rows, ("largest", "entropy"))


def long_table(example: str, steps: Sequence[Step]) -> pd.DataFrame:
    """The numbers of an example: example, step, row, column, value."""
    cells = [
        (example, name, row, column, value)
        for name, _, table in steps
        for row, values in table.iterrows()
        for column, value in values.items()
    ]
    return pd.DataFrame(cells, columns=["example", "step", "row", "column", "value"])
