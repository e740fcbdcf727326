"""What worked examples share: named matrices as steps, and the steps of attention from its trace."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from sdpa import Trace, entropy, softmax, trace

Floats = npt.NDArray[np.floating]
Names = Sequence[str]

ARTICLE = "the article by M. Brenndoerfer, Scaled Dot-Product Attention (2025)"
LESSON = "the lesson Softmax & Attention Output, on The cat sat down"
NOTEBOOK = "the notebook Understanding the Division by sqrt(d) in the Attention Mechanism"
QUESTIONS = "the Q&A Why divide by sqrt(d_k)?"
TEXTBOOK = "the textbook chapter Scaled Dot-Product Attention"


class Step(NamedTuple):
    """A named matrix of an example, a sentence about it, and the decimals to print."""

    name: str
    says: str
    table: pd.DataFrame
    digits: int


class Example(NamedTuple):
    """A worked example.

    Attributes:
        title: what it shows, in a few words.
        source: where its numbers come from.
        steps: computes its steps, when needed.
        draws: names of the steps in its picture, separated by spaces; a name with a `~` is drawn as lines.
    """

    title: str
    source: str
    steps: Callable[[], list[Step]]
    draws: str


def numbered(count: int, letter: str = "") -> tuple[str, ...]:
    """Names for what has none: 1, 2, 3."""
    return tuple(f"{letter}{i + 1}" for i in range(count))


def step(name: str, says: str, values: npt.ArrayLike, rows: Names = (), columns: Names = (), digits: int = 4) -> Step:
    """A step with numbers for names where these are missing; ValueError if names repeat or do not fit the values."""
    values = np.asarray(values, dtype=float)
    table = pd.DataFrame(values, rows or numbered(len(values)), columns or numbered(values.shape[1]))
    if not (table.index.is_unique and table.columns.is_unique):
        raise ValueError(f"{name}: expected unique names, got {[*table.index]} and {[*table.columns]}")
    return Step(name, says, table, digits)


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
    """The steps of attention by name, in their order; those of values only if there are values.

    Args:
        found: attention on two axes.
        queries, keys: one name for each.
        rule: the scaling rule that gave the divisor.
        digits: decimals of q, k, v, scores and output.
        widths, outputs: names of the columns of q and k, and of v and the output; numbers without them.
    """
    # Without the divisor; hidden keys stay hidden.
    undivided = softmax(np.where(np.isinf(found.scaled_scores), -np.inf, found.scores))
    both = undivided, found.weights
    effect = np.transpose([*(weights.max(axis=-1) for weights in both), *map(entropy, both)])
    exponentials = np.column_stack([found.exponentials, found.sums])
    steps = [
        step("q", "Queries Q: one row per query.", found.q, queries, widths, digits),
        step("k", "Keys K: one row per key.", found.k, keys, widths, digits),
        step(
            "scores", "Scores S = Q Kᵀ: dot products of queries (rows) and keys.", found.scores, queries, keys, digits
        ),
        step("divisor", "The divisor of each score.", [[found.divisor]], (rule,), ("divisor",)),
        step(
            "scaled_scores",
            "Scores over the divisor; −∞: hidden by the mask.",
            found.scaled_scores,
            queries,
            keys,
            digits,
        ),
        step("exponentials", "Softmax: exp(scaled score − largest of the row).", exponentials, queries, (*keys, "sum")),
        step("weights", "Weights W: each exponential over the sum of its row.", found.weights, queries, keys),
        step("undivided_weights", "The softmax of the undivided scores.", undivided, queries, keys),
        step("divisor_effect", "Largest weights, and entropies in nats: 0 to ln n.", effect, queries, _EFFECT),
    ]
    if found.v is not None:
        steps.insert(2, step("v", "Values V: one row per key.", found.v, keys, outputs, digits))
        output = step(
            "output", "Output W V: values, blended by weights.", np.asarray(found.output), queries, outputs, digits
        )
        steps.insert(-2, output)
    return {each.name: each for each in steps}


_EFFECT = ("largest without", "largest with", "entropy without", "entropy with")


def chosen(steps: dict[str, Step], names: str) -> list[Step]:
    """The steps of these names, separated by spaces."""
    return [steps[name] for name in names.split()]


def from_scores(scaled: npt.ArrayLike, v: npt.ArrayLike | None = None, divisor: float = 1.0) -> Trace:
    """The trace of attention from known scaled scores, with the unit matrix as keys.

    >>> from_scores([[1.0, 2.0]], divisor=3.0).scores
    array([[3., 6.]])
    """
    scores = np.asarray(scaled, dtype=float) * divisor
    return trace(scores, np.eye(scores.shape[-1]), v, scaling=divisor)


def blend(found: Trace, name: str, row: int, keys: Names, outputs: Names) -> Step:
    """The output of one query, term by term: its weights, and each key's values times its weight."""
    weights = found.weights[row]
    terms = np.column_stack([weights, weights[:, None] * np.asarray(found.v)])
    says = f"The output of {name}, term by term: weights, and values times weights."
    sums = np.vstack([terms, [weights.sum(), *terms[:, 1:].sum(axis=0)]])
    return step(f"blend_{name}", says, sums, (*keys, "sum"), ("weight", *outputs))


def spread(weights: npt.ArrayLike, rows: Names) -> Step:
    """The largest weight and the entropy of each row."""
    values = np.column_stack([np.max(weights, axis=-1), entropy(weights)])
    return step("spread", "Largest weight of each row, and entropy in nats.", values, rows, ("largest", "entropy"))


def long_table(example: str, steps: Sequence[Step]) -> pd.DataFrame:
    """The numbers of an example: example, step, row, column, value."""
    parts = [
        each.table.rename_axis("row").reset_index().melt("row", var_name="column", ignore_index=False) for each in steps
    ]
    parts = [
        part.sort_index(kind="stable").assign(example=example, step=each.name)
        for each, part in zip(steps, parts, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)[["example", "step", "row", "column", "value"]]
