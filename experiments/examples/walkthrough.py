"""The steps of attention, made from its trace: each with a heading, an explanation and its numbers.

Examples choose among these steps and add their own. All arrays have two axes: no batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.examples.example import Floats, Step, sizes, table
from sdpa import Trace, entropy, softmax, trace


def from_scores(scaled: npt.ArrayLike, v: npt.ArrayLike | None = None, divisor: float = 1.0) -> Trace:
    """The trace of attention from known scaled scores, with unknown queries and keys.

    With the unit matrix as keys, the scores equal the queries.

    Args:
        scaled: scores after division, (n_queries, n_keys).
        v: values, (n_keys, d_v), or None.
        divisor: of the trace; its undivided scores are scaled times divisor.

    >>> from_scores([[1.0, 2.0]], divisor=3.0).scores
    array([[3., 6.]])
    """
    scores = np.asarray(scaled, dtype=float) * divisor
    return trace(scores, np.eye(scores.shape[-1]), v, scaling=divisor)


def spread(weights: npt.ArrayLike, rows: Sequence[str]) -> Step:
    """The largest weight and the entropy of each row."""
    values = np.column_stack([np.max(weights, axis=-1), entropy(weights)])
    text = "The entropy, in nats, is 0 if one key gets all the weight, and ln n if n keys share it equally."
    return Step("spread", "Largest weight and entropy of each row", text, table(values, rows, ("largest", "entropy")))


@dataclass(frozen=True)
class Walkthrough:
    """Attention with names for its queries and keys, as steps.

    Attributes:
        trace: the arrays of attention on two axes.
        queries: one name per query.
        keys: one name per key.
        rule: the scaling rule that gave the divisor.
        digits: the decimals of q, k, v, scores and output; weights and exponentials have four.
        widths: names of the columns of q and k; numbers in their absence.
        outputs: names of the columns of v and of the output; numbers in their absence.
    """

    trace: Trace
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    rule: str = "d_k^1/2"
    digits: int = 4
    widths: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def attention(self) -> list[Step]:
        """The steps from queries, keys and values to the output; without values they end at the weights."""
        inputs = [self.q(), self.k()] if self.trace.v is None else [self.q(), self.k(), self.v()]
        output = [] if self.trace.v is None else [self.output()]
        softmax = [self.divisor(), self.scaled_scores(), self.exponentials(), self.weights()]
        return [*inputs, self.scores(), *softmax, *output]

    def effect(self) -> list[Step]:
        """The steps that show the effect of the divisor: the weights without it, and largest weights and entropies."""
        return [self.undivided(), self.divisor_effect()]

    def q(self) -> Step:
        """The queries."""
        return self._inputs("q", "Queries Q", "One row per query.", self.trace.q, self.queries)

    def k(self) -> Step:
        """The keys."""
        return self._inputs("k", "Keys K", "One row per key.", self.trace.k, self.keys)

    def v(self) -> Step:
        """The values."""
        values = table(self._v, self.keys, self._outputs, self.digits)
        return Step("v", f"Values V {sizes(self._v)}", "One row per key: the content that the output blends.", values)

    def scores(self) -> Step:
        """The products of queries and keys."""
        text = "Rows are queries, columns are keys. Each score is the dot product of a query and a key."
        return self._square("scores", "Scores S = Q Kᵀ", text, self.trace.scores, self.digits)

    def divisor(self) -> Step:
        """The number that the scores are divided by."""
        text = "This number divides each score."
        return Step("divisor", "Divisor", text, table([[self.trace.divisor]], (self.rule,), ("divisor",)))

    def scaled_scores(self) -> Step:
        """The scores over the divisor."""
        text = "Each score, divided by the divisor."
        if np.isinf(self.trace.scaled_scores).any():
            text += " −∞ marks a key that the mask hides from the query."
        return self._square("scaled_scores", "Scaled scores", text, self.trace.scaled_scores, self.digits)

    def exponentials(self) -> Step:
        """The exponentials of each row, and their sum."""
        values = np.column_stack([self.trace.exponentials, self.trace.sums])
        columns = (*self.keys, "sum")
        text = "Each row has exp(scaled score − largest one of the row), and the sum. The shift changes no weight."
        return Step("exponentials", "Softmax, row by row: exponentials", text, table(values, self.queries, columns))

    def weights(self) -> Step:
        """The weights."""
        text = "Each exponential, divided by the sum of its row. Every row sums to one."
        return self._square("weights", "Weights W", text, self.trace.weights, 4)

    def output(self) -> Step:
        """The output."""
        output = np.asarray(self.trace.output)
        text = "Each row blends the rows of V with the weights of its query."
        values = table(output, self.queries, self._outputs, self.digits)
        return Step("output", f"Output W V {sizes(output)}", text, values)

    def blend(self, query: str) -> Step:
        """The output of one query, term by term: a row per key, and their sum.

        Args:
            query: one of the names in `queries`.
        """
        weights = self.trace.weights[self.queries.index(query)]
        terms = weights[:, None] * self._v
        values = np.vstack([np.column_stack([weights, terms]), [weights.sum(), *terms.sum(axis=0)]])
        text = f"Each row has the weight that {query} gives a key, and the key's values times that weight."
        grid = table(values, (*self.keys, "sum"), ("weight", *self._outputs))
        return Step(f"blend_{query}", f"The output of {query}, term by term", text, grid)

    def undivided(self) -> Step:
        """The weights of the same scores without the divisor."""
        text = "The softmax of the undivided scores."
        return self._square("undivided_weights", "Weights without the divisor", text, self._undivided, 4)

    def divisor_effect(self) -> Step:
        """Largest weight and entropy of each row, without and with the divisor."""
        both = self._undivided, self.trace.weights
        values = [*(weights.max(axis=-1) for weights in both), *map(entropy, both)]
        columns = ("largest without", "largest with", "entropy without", "entropy with")
        text = (
            "Each row has its largest weight and its entropy. Entropy is in nats: 0 if one key gets all the weight,"
            " ln n if n keys share it equally."
        )
        return Step(
            "divisor_effect", "What the divisor changed", text, table(np.transpose(values), self.queries, columns)
        )

    @property
    def _v(self) -> Floats:
        return np.asarray(self.trace.v)

    @property
    def _outputs(self) -> tuple[str, ...]:
        return self.outputs or numbered(self._v.shape[1])

    @property
    def _undivided(self) -> Floats:
        """The weights without the divisor; hidden keys stay hidden."""
        return softmax(np.where(np.isinf(self.trace.scaled_scores), -np.inf, self.trace.scores))

    def _inputs(self, name: str, heading: str, text: str, values: Floats, rows: tuple[str, ...]) -> Step:
        columns = self.widths or numbered(values.shape[1])
        return Step(name, f"{heading} {sizes(values)}", text, table(values, rows, columns, self.digits))

    def _square(self, name: str, heading: str, text: str, values: Floats, digits: int) -> Step:
        return Step(name, f"{heading} {sizes(values)}", text, table(values, self.queries, self.keys, digits))


def numbered(count: int) -> tuple[str, ...]:
    """Names for unnamed columns: 1, 2, 3."""
    return tuple(str(i + 1) for i in range(count))


def numbers_of(name: str, heading: str, text: str, values: Floats, rows: tuple[str, ...], digits: int = 3) -> Step:
    """A matrix whose columns have numbers for names: tokens, a projection, an output."""
    return Step(name, f"{heading} {sizes(values)}", text, table(values, rows, numbered(values.shape[1]), digits))
