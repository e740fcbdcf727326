"""The second, plain kernel of a stack of attention layers: inputs, rows, pairs of rows, and
products of tokens.
"""

import itertools
import math
from collections.abc import Mapping

import numpy as np

from experiments.plain.rows import Floats, difference, softmax_of

_ROUNDINGS = 64  # of a sum of products, in units of that of its largest term


class PlainStack:
    """The factor X of the products of tokens C = X X^T that a run carries, compared layer by layer.

    Queries and keys are the rows of X Z, with Z standard normal. With weights A, the tokens (a x, A
    x) after a layer have the products a^2 C + A C A^T, over the lengths of both tokens.
    """

    def __init__(self, n_keys: int, token_cosine: float, residual: float, measured: int) -> None:
        self._residual, self._measured, self._tolerance = residual, measured, 0.0
        self._factor = np.hstack(
            [np.full((n_keys, 1), math.sqrt(token_cosine)), np.zeros((n_keys, n_keys))]
        )
        np.fill_diagonal(self._factor[:, 1:], math.sqrt(1 - token_cosine))
        self._products = np.where(np.eye(n_keys, dtype=bool), 1.0, token_cosine)

    def compare_inputs(self, vectors: Floats, drawn: Floats) -> None:
        """Compare the queries or keys of a layer, (tokens, d_k), with the normal numbers behind
        them, (columns, d_k).

        Raises:
            ArithmeticError: an entry differs by more than rounding explains.
        """
        for token, (vector, weights) in enumerate(zip(vectors, self._factor, strict=False)):
            expected = np.einsum("m,md->d", weights[: len(drawn)], drawn[: len(weights)])
            rounding = _ROUNDINGS * np.finfo(float).eps * len(weights) * np.abs(drawn).max()
            for entry in np.flatnonzero(np.abs(vector - expected) > rounding):
                raise difference(f"entry {entry} of token {token}", expected[entry], vector[entry])

    def compare(
        self,
        queries: Floats,
        keys: Floats,
        divisor: float,
        found: Mapping[str, float],
        factor: Floats,
    ) -> None:
        """Compare the values of a layer, and the factor after it, and go on to the next layer.

        Args:
            queries: of the layer, (rows, d_k).
            keys: of the layer, (n_keys, d_k).
            divisor: of the scores.
            found: means over the first tokens by metric: collision, overlap, own_weight and cosine.
            factor: X after the layer, (rows, columns).

        Raises:
            ArithmeticError: a value or a product of tokens differs by more than rounding explains.
        """
        rows = np.array([softmax_of(keys @ query / divisor) for query in queries])
        lengths = np.vecdot(queries, queries).max() * np.vecdot(keys, keys).max()
        largest = math.sqrt(float(lengths)) / divisor  # possible score
        self._tolerance += _ROUNDINGS * float(np.finfo(float).eps) * len(keys) * (1 + largest)
        own = self._residual**2 * self._products[: len(rows), : len(rows)]
        products = rows @ self._products @ rows.T + own
        self._products = products / np.sqrt(np.outer(products.diagonal(), products.diagonal()))
        self._factor = factor
        for name, value in self._means(rows).items():
            if not abs(found[name] - value) <= self._tolerance:
                raise difference(name, value, found[name])
        for i, j in np.argwhere(np.abs(factor @ factor.T - self._products) > self._tolerance):
            raise difference(
                f"product of tokens {i} and {j}", self._products[i, j], factor[i] @ factor[j]
            )

    def _means(self, rows: Floats) -> dict[str, float]:
        """The metrics of a layer from its rows and the products of tokens after it."""
        shown = range(self._measured)
        pairs = list(itertools.combinations(shown, 2))
        return {
            "collision": float(np.mean([rows[i] @ rows[i] for i in shown])),
            "overlap": float(np.mean([rows[i] @ rows[j] for i, j in pairs])),
            "own_weight": float(np.mean([rows[i, i] for i in shown])),
            "cosine": float(np.mean([self._products[i, j] for i, j in pairs])),
        }
