"""The metrics of scores and of softmax rows, each declared once for columns, verdicts, figures and tests.

A metric of rows comes from the kernel's diagnostics (`OfRows`) or, more slowly, from the weights (`OfWeights`). The
module `experiments.score_metrics` declares the metrics of scores. `METRICS` lists all of them, in the order of the
columns of a saturation table.

With w a softmax row of n weights, s its scaled scores, g a standard normal gradient to the weights, o one to the
output, and E over rows and draws:

    row_variance          E (1/n) sum_j (s_j - mean)^2   from 0
    max_weight            E max_j w_j                    from 1/n to 1
    own_weight            E w_i, i the row's own key     from 0 to 1
    entropy               E[-sum_j w_j ln w_j], nats     from 0 to ln n
    effective_keys        E e^entropy                    from 1 to n
    participation         E 1 / sum_j w_j^2              from 1 to n
    output_std            sqrt(E sum_j w_j^2)            from 1 / sqrt(n) to 1
    jacobian_trace        E[1 - sum_j w_j^2]             from 0 to 1 - 1/n
    jacobian_norm         sqrt(E |J|_F^2)                J = diag(w) - w w^T, from 0 to 1/2
    query_gradient_norm   sqrt(E |dL/dq_i|^2)            dL/dq_i = K^T J_i g_i / divisor, from 0
    key_gradient_norm     sqrt(E |dL/dk_j|^2)            dL/dk_j = sum_i (J_i g_i)_j q_i / divisor, from 0
    value_gradient_norm   sqrt(E (dL/dv_ja)^2)           dL/dv_j = sum_i w_ij o_i, from 0
    saturated_rows        P(max_j w_j > 0.99)            from 0 to 1

The norms of dL/dq, dL/dk and dL/dv are expectations over g and o, given Q and K: that of dL/dq is |K^T J|_F / divisor
of a row. It and |J|_F also have the quantiles `_p10`, `_median` and `_p90` of their rows, whose exact values theory
knows for two keys only (`theory.two_key_quantile`).
"""

import math
from collections.abc import Callable

import numpy as np

from experiments.harness.experiment import Cell
from experiments.harness.metric import ErrorBound, Exact, Metric, Theory
from experiments.row_values import Block, Floats, OfBlock, OfRows
from experiments.score_metrics import known, score_metrics
from experiments.statistics.intervals import Limits
from sdpa.metrics import SATURATED

Bound = Callable[[Theory, Cell], float]
QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9}
# A value below its floor is lost in the inversion of Laplace transforms or the interpolation over lengths.
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
# Powers of weights of long rows change so fast around a deviation of 2 that their interpolation loses digits.
_MEAN_BOUNDS = (ErrorBound(1e-6, 0, "above 4096 keys", lambda cell: cell.n_keys > 4096), ErrorBound())
_POWER_BOUNDS = (
    ErrorBound(2e-5, 0, "above 4096 keys", lambda cell: cell.n_keys > 4096),
    ErrorBound(1e-6, 0, "65 to 4096 keys", lambda cell: cell.n_keys > 64),
    ErrorBound(),
)
_INTEGRALS = (
    "integral over the scores of a row, then over |q| (sdpa.theory); empty unless inputs is gaussian, and where means, "
    "a spectrum, a correlation or a normalization come together"
)


def _exact(
    metric: str, of_row: str, *, per_key: bool = False, bounds: tuple[ErrorBound, ...] = (ErrorBound(),)
) -> Exact:
    """The expectation over rows, and bounds of the deviation of a trial, where theory knows them.

    Rows that share keys depend on each other. In full dependence the mean of a trial varies like one row; theory knows
    the least dependence.

    Args:
        metric: name of the expectation in `AttentionExpectations`.
        of_row: name of the deviation in `AttentionDeviations`: of one row's value, or of its square for a root mean
            square.
        per_key: True for a root mean square over keys, which theory gives for as many queries as keys. Its mean square
            is n_queries / n_keys times that over rows.
        bounds: of the error, as in `Exact`.

    Returns:
        `Exact`; where theory knows nothing, its value is NaN and its bounds are 0 and infinity. A deviation too small
        for theory to compute gives an infinite upper bound.
    """

    def value(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.divisor, cell.law, cell.shortest_row
        factor = math.sqrt(cell.n_queries / cell.n_keys) if per_key else 1.0
        return factor * known(theory, "attention_expectations", *arguments, metric=metric)

    return Exact(_INTEGRALS, value, *_deviations(of_row, per_key=per_key), bounds)


def _deviations(of_row: str, *, per_key: bool = False) -> tuple[Bound, Bound]:
    """The least and the largest deviation of a trial; 0 and infinity where theory knows none. Arguments as in `_exact`.

    A deviation too small for theory to compute gives an infinite upper bound.
    """

    def least(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.n_queries, cell.divisor, cell.law, cell.shortest_row
        factor = cell.n_queries / cell.n_keys if per_key else 1.0
        return factor * known(theory, "least_draw_deviations", *arguments, metric=of_row, otherwise=0.0)

    def largest(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.divisor, cell.law, cell.shortest_row
        factor = cell.n_queries / cell.n_keys if per_key else 1.0
        return factor * known(theory, "attention_deviations", *arguments, metric=of_row, otherwise=math.inf) or math.inf

    return least, largest


def _saturated_rows() -> Exact:
    """As `_exact`, with bounds of the deviation from the share p of rows alone where theory knows no others.

    The deviation of one row is sqrt(p (1 - p)), and that of a draw is not larger. It is not smaller than if the rows of
    a draw were independent: rows that share keys saturate together rather than in turn.
    """
    known_bounds = _exact("saturated_rows", "saturated_rows")
    of_row = deviation_of_share(known_bounds.value)

    def largest(theory: Theory, cell: Cell) -> float:
        deviation = known_bounds.max_deviation(theory, cell)
        return deviation if math.isfinite(deviation) else of_row(theory, cell)

    least = at_least_independent(known_bounds.min_deviation, largest)
    return Exact(known_bounds.formula, known_bounds.value, least, largest, SHARE_BOUNDS)


def _row_variance() -> Exact:
    """E of the variance within a row and bounds of its deviation, known for more laws than the other metrics of rows.

    With V the variance of one row's value and C the covariance of two rows of the same keys, that of the mean of
    n_queries rows is (V + (n_queries - 1) C) / n_queries. Theory knows a lower limit of C, here 0 under a mask, and V
    is an upper limit.
    """
    of_rows, _ = _deviations("row_variance")

    def closer(theory: Theory, cell: Cell) -> float:
        of_row = largest(theory, cell)
        if cell.shortest_row is not None or not math.isfinite(of_row):
            return of_rows(theory, cell)
        shared = theory.least_shared_row_variance(cell.d_k, cell.n_keys, cell.divisor, cell.law)
        together = math.sqrt((of_row**2 + (cell.n_queries - 1) * shared) / cell.n_queries)
        return max(of_rows(theory, cell), together)

    def value(theory: Theory, cell: Cell) -> float:
        return known(theory, "row_variance", cell.d_k, cell.n_keys, cell.divisor, cell.law, cell.shortest_row)

    def largest(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.divisor, cell.law, cell.shortest_row
        return known(theory, "row_variance_deviation", *arguments, otherwise=math.inf) or math.inf

    formula = "(n - 1) / n times the variance of a score given the query, averaged over queries"
    return Exact(formula, value, at_least_independent(closer, largest), largest)


def deviation_of_share(share: Bound) -> Bound:
    """sqrt(p (1 - p)), the deviation of one row if a share p of rows has a property; infinite where it is 0 or 1.

    A p of 0 or 1 stands for one that theory cannot tell from it. Where p is unknown, so is the deviation (NaN).

    Args:
        share: p.
    """

    def deviation(theory: Theory, cell: Cell) -> float:
        p = share(theory, cell)
        return math.sqrt(max(p * (1 - p), 0.0)) or math.inf

    return deviation


def at_least_independent(closer: Bound, of_row: Bound) -> Bound:
    """The larger of a known lower bound and the deviation of a draw whose rows are independent.

    Args:
        closer: a lower bound of the deviation of a draw.
        of_row: the deviation of one row; where it is infinite, `closer` is the bound.
    """

    def least(theory: Theory, cell: Cell) -> float:
        deviation = of_row(theory, cell)
        independent = deviation / math.sqrt(cell.n_queries) if math.isfinite(deviation) else 0.0
        return max(closer(theory, cell), independent)

    return least


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
        exact=_exact(norm, of_row, bounds=_POWER_BOUNDS),
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


def _key_gradient_norms(block: Block) -> Floats:
    """sqrt(n_queries / n_keys) |J|_F |q| / divisor of each row; its mean square is that of dL/dk over keys."""
    lengths = np.sqrt(block.rows_per_key * np.vecdot(block.queries, block.queries))
    return np.asarray(block.rows.jacobian_norm * lengths / np.reshape(block.divisors, (-1, 1, 1)))


METRICS = (
    *score_metrics(divided=True),
    Metric(
        "row_variance",
        "",
        "variance of the scaled scores within a row, which alone changes its softmax; mean over rows",
        "E (1/n) sum_j (s_j - mean)^2",
        "variance within a row",
        of=OfRows(lambda rows: rows.row_variance, needs="variance"),
        exact=_row_variance(),
        limits=lambda _: Limits(0),
        scale_free=True,
        is_logarithmic=True,
    ),
    Metric(
        "max_weight",
        "",
        "largest weight of a row; mean over rows",
        "E max_j w_j",
        "largest weight of a row",
        of=OfRows(lambda rows: rows.max_weight),
        exact=_exact("max_weight", "max_weight", bounds=_MEAN_BOUNDS),
        limits=lambda cells: Limits(1 / cells.n_keys, 1),
        is_precise=True,
        is_logarithmic=True,
    ),
    Metric(
        "own_weight",
        "",
        "weight of the key at the position of the query; mean over rows",
        "E w_i",
        "weight of the own key",
        of=OfRows(lambda rows: rows.own_weight, needs="own key"),
        exact=_exact("own_weight", "own_weight"),
        limits=lambda _: Limits(0, 1),
        is_logarithmic=True,
    ),
    Metric(
        "entropy",
        "nats",
        "entropy of a row; mean over rows",
        "E[-sum_j w_j ln w_j]",
        "entropy of a row (nats)",
        of=OfRows(lambda rows: rows.entropy),
        exact=_exact("entropy", "entropy", bounds=_MEAN_BOUNDS),
        limits=lambda cells: Limits(0, np.log(cells.n_keys)),
        is_precise=True,
    ),
    Metric(
        "effective_keys",
        "",
        "number of equal weights with the entropy of a row; mean over rows",
        "E e^entropy",
        "effective number of keys",
        of=OfRows(lambda rows: rows.effective_keys),
        limits=lambda cells: Limits(1, cells.n_keys),
        is_logarithmic=True,
    ),
    Metric(
        "participation",
        "",
        "number of equal weights with the sum of squares of a row; mean over rows",
        "E 1 / sum_j w_j^2",
        "participation $1/\\sum w^2$",
        of=OfRows(lambda rows: rows.participation),
        limits=lambda cells: Limits(1, cells.n_keys),
        is_logarithmic=True,
    ),
    Metric(
        "output_std",
        "",
        "standard deviation of the attention output for independent values of variance 1",
        "sqrt(E sum_j w_j^2)",
        "standard deviation of the output",
        "root",
        of=OfRows(lambda rows: np.sqrt(rows.collision)),
        exact=_exact("output_std", "jacobian_trace", bounds=_POWER_BOUNDS),
        limits=lambda cells: Limits(1 / np.sqrt(cells.n_keys), 1),
        is_logarithmic=True,
    ),
    Metric(
        "jacobian_trace",
        "",
        "trace of the softmax Jacobian; mean over rows",
        "E[1 - sum_j w_j^2]",
        "Jacobian trace $1-\\sum w^2$",
        of=OfRows(lambda rows: rows.jacobian_trace),
        exact=_exact("jacobian_trace", "jacobian_trace", bounds=_MEAN_BOUNDS),
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
        "norm of dL/dq = K^T J g / divisor, root mean square over standard normal gradients g to the weights",
        "|dL/dq|",
        "$|dL/dq|$",
        OfRows(lambda rows: rows.query_gradient_norm, needs="gradient"),
        "query_gradient_square",
        high=math.inf,
    ),
    Metric(
        "key_gradient_norm",
        "",
        "norm of dL/dk, with standard normal gradients to the weights; root mean square over keys",
        "sqrt(E |dL/dk_j|^2)",
        "$|dL/dk|$, r.m.s.",
        "root",
        of=OfBlock(_key_gradient_norms),
        exact=_exact("key_gradient_norm", "key_gradient_square", per_key=True, bounds=_POWER_BOUNDS),
        limits=lambda _: Limits(0),
        is_logarithmic=True,
    ),
    Metric(
        "value_gradient_norm",
        "",
        "entries of dL/dv, with standard normal gradients to the output; root mean square over keys",
        "sqrt(E (dL/dv_ja)^2)",
        "entries of $dL/dv$, r.m.s.",
        "root",
        of=OfBlock(lambda block: np.sqrt(block.rows_per_key * block.rows.collision)),
        exact=_exact("value_gradient_norm", "jacobian_trace", per_key=True, bounds=_POWER_BOUNDS),
        limits=lambda cells: Limits(np.sqrt(cells.n_queries) / cells.n_keys, np.sqrt(cells.n_queries / cells.n_keys)),
        is_logarithmic=True,
    ),
    Metric(
        "saturated_rows",
        "",
        f"share of rows with a weight above {SATURATED}",
        f"P(max_j w_j > {SATURATED})",
        f"share of rows with a weight > {SATURATED}",
        "share",
        of=OfRows(lambda rows: (rows.max_weight > SATURATED).astype(float)),
        exact=_saturated_rows(),
        limits=lambda _: Limits(0, 1),
    ),
)
