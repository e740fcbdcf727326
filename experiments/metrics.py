"""The metrics of scores and of softmax rows, each declared once for columns, verdicts, figures and tests.

A metric of rows comes from the kernel's diagnostics (`OfRows`) or, more slowly, from the weights (`OfWeights`). The
module `experiments.score_metrics` declares the metrics of scores. `METRICS` lists all of them, in the order of the
columns of a saturation table.

With w a softmax row of n weights, g a standard normal gradient to the weights, and E over rows and draws:

    max_weight            E max_j w_j                   from 1/n to 1
    entropy               E[-sum_j w_j ln w_j], nats    from 0 to ln n
    jacobian_trace        E[1 - sum_j w_j^2]            from 0 to 1 - 1/n
    jacobian_norm         sqrt(E |J|_F^2)               J = diag(w) - w w^T, from 0 to 1/2
    query_gradient_norm   sqrt(E |dL/dq|^2)             dL/dq = K^T J g / divisor, from 0
    saturated_rows        P(max_j w_j > 0.99)           from 0 to 1

Both norms also have the quantiles `_p10`, `_median` and `_p90` of their rows, for which theory knows no exact value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.harness.experiment import Cell
from experiments.harness.metric import Exact, Metric, Theory
from experiments.score_metrics import known, law_of, score_metrics
from experiments.statistics.intervals import Limits
from sdpa import RowDiagnostics, softmax
from sdpa.metrics import SATURATED

Floats = npt.NDArray[np.floating]

QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9}
_INTEGRALS = "integral over a Gaussian row, then over |q| (sdpa.theory); empty unless inputs is gaussian"


@dataclass(frozen=True)
class OfRows:
    """A number per row, from the kernel.

    Attributes:
        function: from diagnostics to an array of shape (n_divisors, n_draws, n_queries).
        needs_gradient: True if the number depends on a gradient to the weights, which a measurement draws only then.
    """

    function: Callable[[RowDiagnostics], Floats]
    needs_gradient: bool = False

    def values(self, rows: RowDiagnostics, scores: Floats, divisors: Sequence[float]) -> Floats:
        """The number of each row, (n_divisors, n_draws, n_queries).

        Args:
            rows: the diagnostics under all divisors.
            scores, divisors: unused; `OfWeights.values` takes the same arguments.
        """
        del scores, divisors
        return self.function(rows)


@dataclass(frozen=True)
class OfWeights:
    """A number per row, from its weights.

    Attributes:
        function: from weights (n_draws, n_queries, n_keys) to an array (n_draws, n_queries).
        needs_gradient: as for `OfRows`.

    >>> collision = OfWeights(lambda weights: (weights**2).sum(axis=-1))
    >>> collision.values(None, np.zeros((1, 1, 4)), [1.0, 2.0]).shape
    (2, 1, 1)
    """

    function: Callable[[Floats], Floats]
    needs_gradient: bool = False

    def values(self, rows: RowDiagnostics, scores: Floats, divisors: Sequence[float]) -> Floats:
        """The number of each row, (n_divisors, n_draws, n_queries), from one softmax of all scores for each divisor.

        Args:
            rows: unused; `OfRows.values` takes the same arguments.
            scores: q.k before any divisor, (n_draws, n_queries, n_keys).
            divisors: numbers above 0.
        """
        del rows
        return np.stack([self.function(softmax(scores / divisor)) for divisor in divisors])


PerRow = OfRows | OfWeights


def _exact(metric: str, of_row: str) -> Exact:
    """The expectation over rows, if theory knows it, and bounds of the deviation of a trial.

    Rows that share keys depend on each other. In full dependence the mean of a trial varies like one row; theory knows
    the least dependence.

    Args:
        metric: name of the expectation in `AttentionExpectations`.
        of_row: name of the deviation in `AttentionDeviations`: of one row's value, or of its square for a root mean
            square.

    Returns:
        `Exact`; if theory does not know the rows of the law, its value is NaN and its bounds are 0 and infinity. A
        deviation too small for theory to compute gives an infinite upper bound.
    """

    def value(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.divisor, law_of(cell)
        return known(theory, "attention_expectations", *arguments, metric=metric)

    def least(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.n_queries, cell.divisor, law_of(cell)
        return known(theory, "least_draw_deviations", *arguments, metric=of_row, otherwise=0.0)

    def largest(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.divisor, law_of(cell)
        return known(theory, "attention_deviations", *arguments, metric=of_row, otherwise=math.inf) or math.inf

    return Exact(_INTEGRALS, value, least, largest)


def _norm_metrics(
    norm: str, meaning: str, formula: str, title: str, of: OfRows, of_row: str, high: float
) -> tuple[Metric, ...]:
    """The root mean square of a norm from 0 to `high`, and the quantiles of its rows.

    The root mean square follows rare large rows, and the median follows the typical row. Unscaled and at large d_k, the
    median of |dL/dq| falls with d_k while its root mean square rises, so a table has both.

    Args:
        norm: name of the first metric; the quantiles are called NORM_p10, NORM_median and NORM_p90.
        meaning, formula, title: of the norm of a row, completed here for each metric.
        of: computes the norm of each row.
        of_row: as in `_exact`.
        high: a bound of the norm, or infinity.
    """
    root = Metric(
        norm,
        "",
        f"{meaning}; root mean square over rows",
        f"sqrt(E {formula}^2)",
        f"{title}, r.m.s.",
        "root",
        of,
        exact=_exact(norm, of_row),
        limits=lambda _: Limits(0, high),
        is_precise=True,
        is_logarithmic=True,
    )
    quantiles = (
        Metric(
            f"{norm}_{name}",
            "",
            f"{meaning}; {share:.0%} quantile over rows",
            f"F^-1({share})",
            f"{title}, {name if name == 'median' else f'{share:.0%} quantile'}",
            "quantile",
            of,
            share,
            is_logarithmic=True,
        )
        for name, share in QUANTILES.items()
    )
    return (root, *quantiles)


METRICS = (
    *score_metrics(divided=True),
    Metric(
        "max_weight",
        "",
        "largest weight of a row; mean over rows",
        "E max_j w_j",
        "largest weight of a row",
        of=OfRows(lambda rows: rows.max_weight),
        exact=_exact("max_weight", "max_weight"),
        limits=lambda cells: Limits(1 / cells.n_keys, 1),
        is_precise=True,
        is_logarithmic=True,
    ),
    Metric(
        "entropy",
        "nats",
        "entropy of a row; mean over rows",
        "E[-sum_j w_j ln w_j]",
        "entropy of a row (nats)",
        of=OfRows(lambda rows: rows.entropy),
        exact=_exact("entropy", "entropy"),
        limits=lambda cells: Limits(0, np.log(cells.n_keys)),
        is_precise=True,
    ),
    Metric(
        "jacobian_trace",
        "",
        "trace of the softmax Jacobian; mean over rows",
        "E[1 - sum_j w_j^2]",
        "Jacobian trace $1-\\sum w^2$",
        of=OfRows(lambda rows: rows.jacobian_trace),
        exact=_exact("jacobian_trace", "jacobian_trace"),
        limits=lambda cells: Limits(0, 1 - 1 / cells.n_keys),
        is_precise=True,
    ),
    *_norm_metrics(
        "jacobian_norm",
        "Frobenius norm of the softmax Jacobian J = diag(w) - w w^T",
        "|J|_F",
        "Jacobian norm $|J|_F$",
        OfRows(lambda rows: rows.jacobian_norm),
        "jacobian_square",
        high=0.5,  # reached by a row with two equal weights
    ),
    *_norm_metrics(
        "query_gradient_norm",
        "norm of dL/dq = K^T J g / divisor, with a standard normal gradient g to the weights",
        "|dL/dq|",
        "$|dL/dq|$",
        OfRows(lambda rows: rows.query_gradient_norm, needs_gradient=True),
        "query_gradient_square",
        high=math.inf,
    ),
    Metric(
        "saturated_rows",
        "",
        f"share of rows with a weight above {SATURATED}",
        f"P(max_j w_j > {SATURATED})",
        f"share of rows with a weight > {SATURATED}",
        "share",
        of=OfRows(lambda rows: (rows.max_weight > SATURATED).astype(float)),
        exact=_exact("saturated_rows", "saturated_rows"),
        limits=lambda _: Limits(0, 1),
    ),
)
