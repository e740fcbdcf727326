"""Attention at initialisation: layer-normed tokens through W_Q and W_K of a named scheme.

Per trial, the tokens of a sequence and the weights of one head are drawn. All tokens give keys, the
last ones also queries. The variances of q, k and q.k are exact (`sdpa.initialisation`), under any
mask: tokens have one length, so that every pair of them, also of a token with itself, has the same
variance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from experiments.measuring.cells import RULE_COLUMNS, for_cells
from experiments.measuring.columns import Column, Meaning
from experiments.measuring.kernel import Kernel
from experiments.measuring.metric import Exact
from experiments.measuring.row_metrics import METRICS, PerRow, RowMetric
from experiments.measuring.sampling import AnyMask, AttentionCell, MaskName
from sdpa._arrays import FloatArray
from sdpa.initialisation import Scheme
from sdpa.scaling import Scaling

_Size = Annotated[int, Ge(1), Le(2**20)]


@dataclass(frozen=True)
class Cell(AttentionCell):
    """One point of the grid: a scheme and the sizes of a layer.

    >>> cell = Cell(d_model=768, n_heads=12, n_keys=64, scheme=Scheme.parse("gpt2"), scaling=())
    >>> cell.d_k, round(cell.variances[0], 9)
    (64, 0.3072)
    """

    d_model: Annotated[_Size, Ge(2), Meaning("width of the layer-normed tokens")]
    n_heads: Annotated[_Size, Meaning("heads of the layer: d_k = d_model / n_heads")]
    n_keys: Annotated[_Size, Ge(2), Meaning("keys per draw: the tokens of a sequence")]
    scheme: Annotated[Scheme, Meaning("initial weights W_Q and W_K")]
    scaling: tuple[Scaling, ...]
    n_queries: Annotated[_Size, Meaning("queries per draw: the last tokens of the sequence")] = 64
    mask: AnyMask = MaskName("none")  # noqa: RUF009

    shows = Column("d_k", "int", "width of queries and keys: d_model / n_heads"), *RULE_COLUMNS

    @property
    def d_k(self) -> int:  # type: ignore[override]  # follows from the fields
        """Width of queries and keys, d_model / n_heads."""
        return self.d_model // self.n_heads

    @property
    def directions(self) -> float:
        """As `AttentionCell.directions`: one for each entry of the queries."""
        return float(self.d_k)

    @property
    def variances(self) -> tuple[float, float]:
        """Exact variances of the entries of q and of k: those of the weights, times d_model."""
        query, key = self.scheme.variances(self.d_model, self.d_k)
        return self.d_model * query, self.d_model * key

    def problem(self) -> str | None:
        """As `BaseCell.problem`: heads of unequal width, or more queries than tokens."""
        if self.d_model % self.n_heads:
            return f"n_heads: expected a divisor of d_model, got {self.n_heads} and {self.d_model}"
        if self.n_queries > self.n_keys:
            return f"n_queries: expected at most n_keys, got {self.n_queries} and {self.n_keys}"
        return None

    def draw(
        self, trials: int, rng: np.random.Generator
    ) -> tuple[FloatArray, Callable[[slice], FloatArray]]:
        """As `AttentionCell.draw`: tokens, W_Q and W_K in this order, then keys and queries without
        further draws.
        """
        tokens = _layer_normed_tokens(rng, (trials, self.n_keys, self.d_model))
        shape = trials, self.d_model, self.d_k
        variances = self.scheme.variances(self.d_model, self.d_k)
        to_queries, to_keys = (self.scheme.matrix(rng, value, shape) for value in variances)
        last = tokens[:, self.n_keys - self.n_queries :]
        return tokens @ to_keys, lambda query_slice: last[:, query_slice] @ to_queries

    @property
    def numbers(self) -> int:
        """As `AttentionCell.numbers`: tokens and weights."""
        return self.n_keys * self.d_model + 2 * self.d_model * self.d_k

    @property
    def entries(self) -> int:
        """As `AttentionCell.entries`: tokens, weights, queries and keys."""
        return self.numbers + (self.n_queries + self.n_keys) * self.d_k


def _layer_normed_tokens(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Tokens (..., d_model): standard normal entries, shifted and scaled to mean 0 and variance 1."""
    tokens = rng.standard_normal(shape)
    tokens -= tokens.mean(axis=-1, keepdims=True)
    tokens /= np.sqrt(np.vecdot(tokens, tokens) / shape[-1])[..., None]
    return tokens


@for_cells(Cell)
def _variances(cell: Cell) -> tuple[float, float]:
    return cell.variances


@for_cells(Cell)
def _score_variance(cell: Cell) -> float:
    return cell.d_k * math.prod(cell.variances) / cell.divisor**2


def _variance_of(name: str, title: str, place: int, compute: PerRow) -> RowMetric:
    """The variance of the entries of the queries or keys, with its exact value."""
    return RowMetric(
        name,
        f"variance of the entries of {title}",
        f"E {title}_a^2",
        f"variance of {title}",
        compute=compute,
        exact=Exact(
            "d_model times the variance of the weights", lambda cell: _variances(cell)[place]
        ),
        within=(0, math.inf),
        is_logarithmic=True,
    )


_KNOWN = {
    "score_mean": Exact("0", lambda _: 0.0),
    "score_variance": Exact("d_k Var[q_a] Var[k_a] / divisor^2", _score_variance),
}
# The metrics of `saturation`; at initialisation, theory knows the mean and the variance of scores.
_METRICS = (
    _variance_of("query_variance", "q", 0, lambda batch: (batch.queries**2).mean(axis=-1)),
    _variance_of(
        "key_variance", "k", 1, lambda batch: (batch.keys**2).mean(axis=(-2, -1))[:, None]
    ),
    *(replace(metric, exact=_KNOWN.get(metric.name)) for metric in METRICS),
)
KERNEL = Kernel[Cell](_METRICS)

EXPERIMENT = KERNEL.experiment("initialisation", Cell)
