"""The metrics of scores and of softmax rows, in the order of the columns of a saturation table.

Formulas use w for a softmax row of n weights, s for its scaled scores, J = diag(w) - w w^T, g for a
standard normal gradient to the weights, o for one to the output, and E over rows and draws. The
norms of dL/dq, dL/dk and dL/dv are expectations over g and o, given Q and K: that of dL/dq is |K^T
J|_F / divisor of a row. It and |J|_F also have the quantiles `_p10`, `_median` and `_p90` of their
rows; theory knows the medians (`experiments.kinds.saturation`).
"""

import math
from typing import Any

import numpy as np

from experiments.measuring.batch import RowMetric, RowsMetric
from experiments.measuring.exact import from_theory
from experiments.measuring.experiment import AnyCell
from experiments.measuring.metric import End, ErrorBound, Exact, OfCell, Theory
from experiments.measuring.score_metrics import score_metrics
from sdpa.metrics import SATURATED

# A value below its floor is lost in the inversion of Laplace transforms or the interpolation over
# lengths.
SHARE_BOUNDS = (
    ErrorBound(
        1e-7,
        1e-10,
        "with a correlation or normalized vectors",
        lambda cell: cell.law.correlation or cell.law.normalize != "none",
    ),
    ErrorBound(1e-7, 1e-12, "with a causal mask", lambda cell: cell.has_mask),
    ErrorBound(1e-7, 1e-40),
)
# Powers of weights of long rows change so fast around a deviation of 2 that their interpolation
# loses digits.
_MEAN_BOUNDS = (
    ErrorBound(1e-6, 0, "above 4096 keys", lambda cell: cell.n_keys > 4096),
    ErrorBound(),
)
_POWER_BOUNDS = (
    ErrorBound(2e-5, 0, "above 4096 keys", lambda cell: cell.n_keys > 4096),
    ErrorBound(1e-6, 0, "65 to 4096 keys", lambda cell: cell.n_keys > 64),
    ErrorBound(),
)
_INTEGRALS = (
    "integral over the scores of a row, then over |q| (sdpa.theory); empty unless inputs is "
    "gaussian, and where means, a spectrum, a correlation or a normalization come together"
)


def row_arguments(cell: AnyCell) -> tuple[Any, ...]:
    """The arguments of functions of one row."""
    return cell.d_k, cell.n_keys, _divisor(cell), cell.law, cell.shortest_row


def _draw(cell: AnyCell) -> tuple[Any, ...]:
    """The arguments of functions of the rows of a draw."""
    return cell.d_k, cell.n_keys, cell.n_queries, _divisor(cell), cell.law, cell.shortest_row


def _divisor(cell: AnyCell) -> Any:
    """The divisor of a cell with one rule; the rule itself where rows have divisors of their
    own.
    """
    (rule,) = cell.scaling
    return rule if rule.is_by_row and cell.has_mask else cell.divisor


def _exact(
    metric: str,
    of_row: str,
    bounds: tuple[ErrorBound, ...] = (ErrorBound(),),
    *,
    per_key: bool = False,
) -> Exact:
    """The expectation over rows, and bounds of the deviation of a trial, where theory knows them.

    The lower bound has the least dependence of rows that share keys. At the upper bound, a trial
    varies like one row; it is infinite where that deviation is unknown or 0.

    Args:
        metric: name of the expectation in `AttentionExpectations`.
        of_row: name of the deviation in `RowMetrics`: of one row's value, or of its square for a
            root mean square.
        bounds: of the error, as in `Exact`.
        per_key: True for a root mean square over keys, which theory gives for as many queries as
            keys. Its mean square is n_queries / n_keys times that over rows.
    """
    value = from_theory("attention_expectations", row_arguments, metric)
    least = from_theory("least_draw_deviations", _draw, of_row, 0.0)
    largest = from_theory("attention_deviations", row_arguments, of_row, math.inf)

    def share(cell: AnyCell) -> float:
        return cell.n_queries / cell.n_keys if per_key else 1.0

    return Exact(
        _INTEGRALS,
        lambda theory, cell: math.sqrt(share(cell)) * value(theory, cell),
        lambda theory, cell: share(cell) * least(theory, cell),
        lambda theory, cell: share(cell) * largest(theory, cell) or math.inf,
        bounds,
    )


def _saturated_rows() -> Exact:
    """As `_exact`; where theory knows no deviations, those of a share of rows, which saturate
    together or alone.
    """
    exact = _exact("saturated_rows", "saturated_rows")
    of_share = deviation_of_share(exact.value)

    def largest(theory: Theory, cell: AnyCell) -> float:
        deviation = exact.max_deviation(theory, cell)
        return deviation if math.isfinite(deviation) else of_share(theory, cell)

    least = at_least_independent(exact.min_deviation, largest)
    return Exact(exact.formula, exact.value, least, largest, SHARE_BOUNDS)


def _row_variance() -> Exact:
    """E of the variance within a row and bounds of its deviation, known for more laws than the
    other metrics of rows.

    With V the variance of one row's value and C the covariance of two rows of the same keys, that
    of the mean of n_queries rows is (V + (n_queries - 1) C) / n_queries. Theory knows a lower limit
    of C, here 0 under a mask, and V is an upper limit.
    """
    least = _exact("row_variance", "row_variance").min_deviation
    of_row = from_theory("row_variance_deviation", row_arguments, otherwise=math.inf)

    def largest(theory: Theory, cell: AnyCell) -> float:
        return of_row(theory, cell) or math.inf

    def closer(theory: Theory, cell: AnyCell) -> float:
        deviation = largest(theory, cell)
        if cell.shortest_row is not None or not math.isfinite(deviation):
            return least(theory, cell)
        shared = theory.least_shared_row_variance(cell.d_k, cell.n_keys, cell.divisor, cell.law)
        together = math.sqrt((deviation**2 + (cell.n_queries - 1) * shared) / cell.n_queries)
        return max(least(theory, cell), together)

    formula = "(n - 1) / n times the variance of a score given the query, averaged over queries"
    return Exact(
        formula,
        from_theory("row_variance", row_arguments),
        at_least_independent(closer, largest),
        largest,
    )


def deviation_of_share(share: OfCell) -> OfCell:
    """sqrt(p (1 - p)), the deviation of one row if a share p of rows has a property, and the
    largest of a draw.

    Infinite where p is 0 or 1, which stand for a p that theory cannot tell from them; NaN where p
    is unknown.
    """

    def deviation(theory: Theory, cell: AnyCell) -> float:
        p = share(theory, cell)
        return math.sqrt(max(p * (1 - p), 0.0)) or math.inf

    return deviation


def at_least_independent(closer: OfCell, of_row: OfCell) -> OfCell:
    """The larger of a known lower bound of a draw's deviation and that of independent rows, from
    `of_row` if finite.

    Rows that share keys vary together rather than in turn.
    """

    def least(theory: Theory, cell: AnyCell) -> float:
        deviation = of_row(theory, cell)
        independent = deviation / math.sqrt(cell.n_queries) if math.isfinite(deviation) else 0.0
        return max(closer(theory, cell), independent)

    return least


def _norm_metrics(
    norm: str, meaning: str, formula: str, title: str, of_row: str, high: End = math.inf
) -> tuple[RowMetric, ...]:
    """The root mean square of a norm of rows, which follows rare large rows, and quantiles, for the
    typical row.
    """
    root = RowMetric(
        norm,
        f"root mean square over rows of the {meaning}",
        f"sqrt(E {formula}^2)",
        f"{title}, r.m.s.",
        "root",
        exact=_exact(norm, of_row, _POWER_BOUNDS),
        within=(0, high),
        is_precise=True,
        is_logarithmic=True,
    )
    quantiles = (
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
    return (root, *quantiles)


METRICS: tuple[RowsMetric, ...] = (
    *score_metrics(divided=True),
    RowMetric(
        "row_variance",
        "variance of the scaled scores within a row; mean over rows",
        "E (1/n) sum_j (s_j - mean)^2",
        "variance within a row",
        exact=_row_variance(),
        within=(0, math.inf),
        scale_free=True,
        is_logarithmic=True,
    ),
    RowMetric(
        "max_weight",
        "largest weight of a row; mean over rows",
        "E max_j w_j",
        "largest weight of a row",
        exact=_exact("max_weight", "max_weight", _MEAN_BOUNDS),
        within=(lambda cells: 1 / cells.n_keys, 1),
        is_precise=True,
        is_logarithmic=True,
    ),
    RowMetric(
        "own_weight",
        "weight of the key at the position of the query; mean over rows",
        "E w_i",
        "weight of the own key",
        exact=_exact("own_weight", "own_weight"),
        within=(0, 1),
        is_logarithmic=True,
    ),
    RowMetric(
        "entropy",
        "entropy of a row; mean over rows",
        "E[-sum_j w_j ln w_j]",
        "entropy of a row (nats)",
        unit="nats",
        exact=_exact("entropy", "entropy", _MEAN_BOUNDS),
        within=(0, lambda cells: np.log(cells.n_keys)),
        is_precise=True,
    ),
    RowMetric(
        "effective_keys",
        "number of equal weights with the entropy of a row; mean over rows",
        "E e^entropy",
        "effective number of keys",
        within=(1, lambda cells: cells.n_keys),
        is_logarithmic=True,
    ),
    RowMetric(
        "participation",
        "number of equal weights with the sum of squares of a row; mean over rows",
        "E 1 / sum_j w_j^2",
        "participation $1/\\sum w^2$",
        within=(1, lambda cells: cells.n_keys),
        is_logarithmic=True,
    ),
    RowMetric(
        "output_std",
        "standard deviation of the attention output for independent values of variance 1",
        "sqrt(E sum_j w_j^2)",
        "standard deviation of the output",
        "root",
        compute=lambda batch: np.sqrt(batch.rows.collision),
        exact=_exact("output_std", "jacobian_trace", _POWER_BOUNDS),
        within=(lambda cells: 1 / np.sqrt(cells.n_keys), 1),
        is_logarithmic=True,
    ),
    RowMetric(
        "jacobian_trace",
        "trace of the softmax Jacobian; mean over rows",
        "E[1 - sum_j w_j^2]",
        "Jacobian trace $1-\\sum w^2$",
        exact=_exact("jacobian_trace", "jacobian_trace", _MEAN_BOUNDS),
        within=(0, lambda cells: 1 - 1 / cells.n_keys),
        is_precise=True,
    ),
    *_norm_metrics(
        "jacobian_norm",
        "Frobenius norm of the softmax Jacobian J = diag(w) - w w^T",
        "|J|_F",
        "softmax Jacobian $|J|_F$",
        "jacobian_square",
        high=0.5,  # reached by a row with two equal weights
    ),
    *_norm_metrics(
        "query_gradient_norm",
        (
            "norm of dL/dq = K^T J g / divisor (r.m.s. over standard normal gradients g to the "
            "weights)"
        ),
        "|dL/dq|",
        "$|dL/dq|$",
        "query_gradient_square",
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
            batch.rows.jacobian_norm
            * np.sqrt(batch.rows_per_key * np.vecdot(batch.queries, batch.queries))
            / batch.divisors
        ),
        exact=_exact("key_gradient_norm", "key_gradient_square", _POWER_BOUNDS, per_key=True),
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
        compute=lambda batch: np.sqrt(batch.rows_per_key * batch.rows.collision),
        exact=_exact("value_gradient_norm", "jacobian_trace", _POWER_BOUNDS, per_key=True),
        within=(
            lambda cells: np.sqrt(cells.n_queries) / cells.n_keys,
            lambda cells: np.sqrt(cells.n_queries / cells.n_keys),
        ),
        is_logarithmic=True,
    ),
    RowMetric(
        "saturated_rows",
        f"share of rows with a weight above {SATURATED}",
        f"P(max_j w_j > {SATURATED})",
        f"share of rows with a weight > {SATURATED}",
        "share",
        compute=lambda batch: (batch.rows.max_weight > SATURATED).astype(float),
        exact=_saturated_rows(),
        within=(0, 1),
    ),
)
