"""The metrics of scores and of softmax rows, in the order of the columns of a saturation table.

Formulas use w for a softmax row of n weights, s for its scaled scores, J = diag(w) - w w^T, g for a
standard normal gradient to the weights, o for one to the output, and E over rows and draws. Mean
squares of dL/dq, dL/dk and dL/dv are expectations over g and o, given Q and K: that of dL/dq is
|K^T J|_F^2 / divisor^2 of a row. |J|_F and |dL/dq| also have the quantiles `_p10`, `_median` and
`_p90` over rows; those of |dL/dq| are of one drawn g for each row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import sdpa
from experiments.measuring.cells import ACCURACY, for_cells
from experiments.measuring.metric import End, Exact, Metric, from_theory
from experiments.measuring.sampling import AttentionCell, SampledCell
from experiments.measuring.score_metrics import SCORE_METRICS, ScoreMetric
from sdpa._arrays import FloatArray
from sdpa.metrics import SATURATED, row_variance
from sdpa.row_maps import MappedRows
from sdpa.softmax_rows import RowDiagnostics

# Relative errors of exact values: of interpolations over lengths and deviations, and of inversions
# of Laplace transforms.
_MEAN_ACCURACY, _ROOT_ACCURACY, _SHARE_ACCURACY = 1e-6, 2e-5, 1e-7
_INTEGRALS = (
    "integral over the scores of a row, then over |q| (sdpa.theory); empty unless inputs is "
    "gaussian, and where means, a spectrum, a correlation or a normalization come together"
)


@dataclass(frozen=True)
class Batch:
    """Rows of some draws under all divisors, and what is behind them."""

    cell: AttentionCell
    query_slice: slice  # of the queries of a draw
    queries: FloatArray  # (n_draws, n_queries, d_k)
    keys: FloatArray  # (n_draws, n_keys, d_k)
    scores: FloatArray  # q.k, -inf where masked, (n_draws, n_queries, n_keys)
    rows: RowDiagnostics | MappedRows  # numbers per row, (n_divisors, n_draws, n_queries)

    @property
    def divisors(self) -> FloatArray:
        """The divisors of the cell, (n_divisors, 1, 1)."""
        return np.reshape(self.cell.divisors(), (-1, 1, 1))

    @property
    def rows_per_key(self) -> float:
        """The number of queries of a whole draw over its number of keys."""
        return self.cell.n_queries / self.cell.n_keys

    def values(self, source: "PerRow") -> FloatArray:
        """A number per row, (n_divisors, n_draws, n_queries)."""
        if callable(source):
            shape = len(self.divisors), *self.queries.shape[:2]
            return np.broadcast_to(source(self), shape)
        return np.asarray(getattr(self.rows, source))


def _own_weight(batch: Batch) -> FloatArray:
    """exp((s_own - s_max) / divisor) max w."""
    own = batch.cell.own_keys(batch.query_slice)[None, :, None]
    gap = batch.scores.max(axis=-1) - np.take_along_axis(batch.scores, own, axis=-1)[..., 0]
    return np.asarray(batch.values("max_weight") * np.exp(-gap / batch.divisors))


PerRow = str | Callable[[Batch], FloatArray]


@dataclass(frozen=True)
class RowMetric(Metric):
    """A metric with one value per row.

    Attributes:
        compute: a field of `Batch.rows`, or a function of a `Batch` that returns
            (n_divisors, n_draws, n_queries), or what broadcasts to it; None for the number of its
            own name.
    """

    compute: PerRow | None = None

    @property
    def source(self) -> PerRow:
        """The number per row behind the metric."""
        return self.name if self.compute is None else self.compute


KernelMetric = RowMetric | ScoreMetric


@for_cells(SampledCell)
def row_arguments(cell: SampledCell) -> tuple[object, ...]:
    """The arguments of functions of rows."""
    rows = sdpa.theory.row_law.rows_under(cell.mask, cell.n_queries, cell.n_keys)
    return cell.d_k, cell.n_keys, cell.divisor, cell.law, rows


def _exact(metric: str, accuracy: float = ACCURACY, *, per_key: bool = False) -> Exact:
    """The expectation over rows, where theory knows it.

    Args:
        metric: name of the expectation in `AttentionExpectations`.
        accuracy: as in `Exact`.
        per_key: True for a root mean square over keys, which theory gives for as many queries as
            keys. Its mean square is n_queries / n_keys times that over rows.
    """
    value = from_theory("attention_expectations", row_arguments, metric)

    @for_cells(AttentionCell)
    def cell_value(cell: AttentionCell) -> float:
        share = cell.n_queries / cell.n_keys if per_key else 1.0
        return math.sqrt(share) * value(cell)

    return Exact(_INTEGRALS, cell_value, accuracy)


def _root(
    norm: str, meaning: str, formula: str, title: str, source: str, high: End = math.inf
) -> RowMetric:
    """The root mean square of a norm of rows, which follows rare large rows, from `source`."""
    return RowMetric(
        norm,
        f"root mean square over rows of the {meaning}",
        f"sqrt(E {formula}^2)",
        f"{title}, r.m.s.",
        "root",
        compute=source,
        exact=_exact(norm, _ROOT_ACCURACY),
        within=(0, high),
        is_precise=True,
        is_logarithmic=True,
    )


def _quantiles(norm: str, meaning: str, title: str) -> tuple[RowMetric, ...]:
    """Quantiles of a norm over rows, for the typical row."""
    return tuple(
        RowMetric(
            f"{norm}_{name}",
            f"{words} over rows of the {meaning}",
            f"F^-1({share})",
            f"{title}, {words}",
            "quantile",
            compute=norm,
            share=share,
            is_logarithmic=True,
        )
        for name, share, words in (
            ("p10", 0.1, "10% quantile"),
            ("median", 0.5, "median"),
            ("p90", 0.9, "90% quantile"),
        )
    )


_JACOBIAN = (
    "Frobenius norm of the softmax Jacobian J = diag(w) - w w^T",
    "size of the softmax Jacobian",
)
_GRADIENT = "norm of dL/dq = K^T J g / divisor"
METRICS: tuple[KernelMetric, ...] = (
    *SCORE_METRICS,
    RowMetric(
        "row_variance",
        "variance of the scaled scores within a row; mean over rows",
        "E (1/n) sum_j (s_j - mean)^2",
        "variance within a row",
        compute=lambda batch: row_variance(batch.scores) / batch.divisors / batch.divisors,
        exact=Exact(
            "(n - 1) / n times the variance of a score given the query, averaged over queries",
            from_theory("row_variance", row_arguments),
        ),
        within=(0, math.inf),
        is_logarithmic=True,
    ),
    RowMetric(
        "max_weight",
        "largest weight of a row; mean over rows",
        "E max_j w_j",
        "largest weight of a row",
        exact=_exact("max_weight", _MEAN_ACCURACY),
        within=(lambda sizes: 1 / sizes.n_keys, 1),
        is_precise=True,
        is_logarithmic=True,
    ),
    RowMetric(
        "own_weight",
        "weight of the key at the position of the query; mean over rows",
        "E w_i",
        "weight of the own key",
        compute=_own_weight,
        exact=_exact("own_weight"),
        within=(0, 1),
        is_logarithmic=True,
    ),
    RowMetric(
        "entropy",
        "entropy of a row; mean over rows",
        "E[-sum_j w_j ln w_j]",
        "entropy of a row (nats)",
        unit="nats",
        exact=_exact("entropy", _MEAN_ACCURACY),
        within=(0, lambda sizes: np.log(sizes.n_keys)),
        is_precise=True,
    ),
    RowMetric(
        "effective_keys",
        "number of equal weights with the entropy of a row; mean over rows",
        "E e^entropy",
        "effective number of keys",
        within=(1, lambda sizes: sizes.n_keys),
        is_logarithmic=True,
    ),
    RowMetric(
        "participation",
        "number of equal weights with the sum of squares of a row; mean over rows",
        "E 1 / sum_j w_j^2",
        "participation $1/\\sum w^2$",
        within=(1, lambda sizes: sizes.n_keys),
        is_logarithmic=True,
    ),
    RowMetric(
        "output_std",
        "standard deviation of the attention output for independent values of variance 1",
        "sqrt(E sum_j w_j^2)",
        "standard deviation of the output",
        "root",
        compute=lambda batch: np.sqrt(batch.values("collision")),
        exact=_exact("output_std", _ROOT_ACCURACY),
        is_of_squares=True,
        within=(lambda sizes: 1 / np.sqrt(sizes.n_keys), 1),
        is_logarithmic=True,
    ),
    RowMetric(
        "jacobian_trace",
        "trace of the softmax Jacobian; mean over rows",
        "E[1 - sum_j w_j^2]",
        "Jacobian trace $1-\\sum w^2$",
        exact=_exact("jacobian_trace", _MEAN_ACCURACY),
        is_of_squares=True,
        within=(0, lambda sizes: 1 - 1 / sizes.n_keys),
        is_precise=True,
    ),
    # An entry of 0.5 is reached by a row with two equal weights.
    _root("jacobian_norm", _JACOBIAN[0], "|J|_F", _JACOBIAN[1], "jacobian_norm", high=0.5),
    *_quantiles("jacobian_norm", *_JACOBIAN),
    *_quantiles(
        "weight_jacobian_norm",
        "Frobenius norm of dw/dq = J K / divisor, the Jacobian of the weights to the query",
        "Jacobian of the weights to the query, $|dw/dq|_F$",
    ),
    # E |dL/dq|^2 over g is |dw/dq|_F^2, which has less noise than drawn gradients.
    _root(
        "query_gradient_norm",
        f"{_GRADIENT}, and over standard normal gradients g to the weights",
        "|dL/dq|",
        "size of the gradient at a query",
        "weight_jacobian_norm",
    ),
    *_quantiles(
        "query_gradient_norm",
        f"{_GRADIENT}, with one standard normal gradient g to the weights of each row",
        "size of the gradient at a query",
    ),
    RowMetric(
        "key_gradient_norm",
        "norm of dL/dk, with standard normal gradients to the weights; root mean square over keys",
        "sqrt(E |dL/dk_j|^2)",
        "$|dL/dk|$, r.m.s.",
        "root",
        # |J|_F |q| / divisor of each row: the mean square is that of dL/dk_j = sum_i (J_i g_i)_j
        # q_i / divisor.
        compute=lambda batch: (
            batch.values("jacobian_norm")
            * np.sqrt(batch.rows_per_key * np.vecdot(batch.queries, batch.queries))
            / batch.divisors
        ),
        exact=_exact("key_gradient_norm", _ROOT_ACCURACY, per_key=True),
        within=(0, math.inf),
        is_logarithmic=True,
    ),
    RowMetric(
        "value_gradient_norm",
        (
            "entries of dL/dv, with standard normal gradients to the output; root mean square over "
            "keys"
        ),
        "sqrt(E (dL/dv_ja)^2)",
        "entries of $dL/dv$, r.m.s.",
        "root",
        # dL/dv_j = sum_i w_ij o_i
        compute=lambda batch: np.sqrt(batch.rows_per_key * batch.values("collision")),
        exact=_exact("value_gradient_norm", _ROOT_ACCURACY, per_key=True),
        is_of_squares=True,
        within=(
            lambda sizes: np.sqrt(sizes.n_queries) / sizes.n_keys,
            lambda sizes: np.sqrt(sizes.n_queries / sizes.n_keys),
        ),
        is_logarithmic=True,
    ),
    RowMetric(
        "saturated_rows",
        f"share of rows with a weight above {SATURATED}",
        f"P(max_j w_j > {SATURATED})",
        f"share of rows with one weight above {SATURATED}",
        "share",
        compute=lambda batch: (batch.values("max_weight") > SATURATED).astype(float),
        exact=_exact("saturated_rows", _SHARE_ACCURACY),
        within=(0, 1),
    ),
)
