"""The metrics of rounded rows, each declared once for columns, figures and tests.

The numbers per row behind them come from `experiments.rounding.compared_rows`, by name.
"""

import math
from typing import Literal

from experiments.harness.experiment import Cell
from experiments.harness.metric import ErrorBound, Exact, Metric, OfCell, Theory
from experiments.metrics import METRICS, SHARE_BOUNDS, at_least_independent, deviation_of_share, from_theory

# Of the rows without rounding; the means have exact values.
_UNROUNDED = (
    "max_weight",
    "entropy",
    "jacobian_norm",
    "jacobian_norm_median",
    "query_gradient_norm",
    "query_gradient_norm_median",
)
# Of the metrics of rows with an error, the value in a row.
_SYMBOLS = {
    "row_variance": "Var s",
    "max_weight": "max w",
    "own_weight": "w_i",
    "entropy": "H",
    "effective_keys": "e^H",
    "output_std": "sqrt(sum w^2)",
    "jacobian_trace": "tr J",
    "jacobian_norm": "|J|_F",
}
_INTEGRALS = (
    "integral over the scores of a row, then over |q| (sdpa.theory.formats); empty unless inputs is gaussian, and with "
    "a mean of the keys, a spectrum, a correlation or a normalization"
)


def _value(metric: str) -> OfCell:
    """The probability of that name in `sdpa.theory.OutOfRange`."""
    return from_theory(
        "out_of_range",
        lambda cell: (cell.d_k, cell.n_keys, cell.divisor, cell.arithmetic, cell.law, cell.shortest_row),
        metric,
    )


def _of_rows(metric: str) -> Exact:
    """A probability of rows; bounds of the deviation as in `experiments.metrics` for saturated rows.

    Rows of several lengths have probabilities p_i of their own. If their sum is at most 1/2, so is each of them, and
    the variance of independent rows, sum_i p_i (1 - p_i), is at least half the sum. A row with one key is certain to
    have a weight of 1.
    """
    value = _value(metric)
    largest = deviation_of_share(value)
    of_equal_rows = at_least_independent(lambda *_: 0.0, largest)

    def least(theory: Theory, cell: Cell) -> float:
        if not cell.has_mask:
            return of_equal_rows(theory, cell)
        certain = 1 / cell.n_queries if metric == "nearly_one_rows" and cell.shortest_row == 1 else 0.0
        rare = max(value(theory, cell) - certain, 0.0)
        return math.sqrt(rare / 2 / cell.n_queries) if 2 * cell.n_queries * rare <= 1 else 0.0

    return Exact(_INTEGRALS, value, least, largest, SHARE_BOUNDS[1:])


def _of_weights() -> Exact:
    """The probability p of a tiny weight, and bounds of the deviation of a trial.

    A row has a whole number of tiny weights, so the variance of their share is at least p / n - p^2; it is also at
    least that over |q|. Given the keys, rows are independent and alike, so they vary together rather than in turn.
    """
    value = _value("tiny_weights")

    def least(theory: Theory, cell: Cell) -> float:
        share, spread, n = value(theory, cell), _value("spread_of_tiny_weights")(theory, cell), cell.n_keys
        of_counts = share / n - share**2
        if cell.has_mask:  # rows of several lengths, each with at most n_queries p
            of_counts = share / (2 * n) if 2 * n * cell.n_queries * share <= 1 else 0.0
        return math.sqrt(max(of_counts, spread**2, 0.0) / cell.n_queries)

    return Exact(_INTEGRALS, value, least, deviation_of_share(value), (ErrorBound(1e-7, 1e-12),))


def _share(
    name: str,
    meaning: str,
    formula: str,
    title: str,
    exact: Exact | None = None,
    *,
    kind: Literal["share", "mean"] = "share",
) -> Metric:
    """A share of rows or, as a mean over rows, of their weights or gradients."""
    return Metric(name, meaning, formula, title, kind, exact=exact, within=(0, 1))


def _root_of_error(name: str, of: str, meaning: str, square: str, title: str, unit: str = "") -> Metric:
    """The root mean square over rows of an error, whose formula is that of its square in a row."""
    meaning = f"{meaning}; root mean square over rows"
    within = 0, math.inf
    return Metric(name, meaning, f"sqrt(E {square})", title, "root", unit, of=of, within=within, is_logarithmic=True)


def _errors(metric: Metric, symbol: str) -> tuple[Metric, Metric]:
    """The mean and the root mean square of the error of a metric, whose value in a row has that symbol."""
    name, unit, title = metric.name, metric.unit, metric.title.removesuffix(", r.m.s.")
    meaning, error, bias = f"rounded minus exact {name}", f"{symbol}_rounded - {symbol}", f"{name}_bias"
    return (
        Metric(bias, f"{meaning}; mean over rows", f"E[{error}]", f"bias of the {title}", unit=unit),
        _root_of_error(f"{name}_error", bias, meaning, f"({error})^2", f"error of the {title}", unit),
    )


ROUNDING_METRICS = (
    *(metric for metric in METRICS if metric.name in _UNROUNDED),
    _share(
        "tiny_weights",
        "share of the exact weights that the format rounds to 0",
        "P(w < half the smallest number)",
        "share of exact weights that round to 0",
        _of_weights(),
        kind="mean",
    ),
    _share(
        "nearly_one_rows",
        "share of rows whose exact largest weight the format rounds to 1",
        "P(1 - max w < 2^-(p + 1)), p binary digits",
        "share of rows with a weight that rounds to 1",
        _of_rows("nearly_one_rows"),
    ),
    _share(
        "large_rows",
        "share of rows whose exact scores overflow in e^s without subtracting the maximum",
        "P(max s > ln(largest number))",
        "share of rows with e^s beyond the largest number",
        _of_rows("large_rows"),
    ),
    _share(
        "zero_weights",
        "share of the rounded weights that are 0",
        "P(w = 0)",
        "share of weights equal to 0",
        kind="mean",
    ),
    _share(
        "subnormal_weights",
        "share of the rounded weights above 0 and below the smallest normal number, which have fewer digits",
        "P(0 < w < smallest normal number)",
        "share of subnormal weights",
        kind="mean",
    ),
    _share("one_rows", "share of rows with a rounded weight of 1", "P(max w = 1)", "share of rows with a weight of 1"),
    _share(
        "overflowing_rows",
        "share of rows in which e^s of rounded scores, stored in the format, is infinite or not a number without "
        "subtracting the maximum",
        "P(e^(max s) not finite)",
        "share of rows that overflow",
    ),
    _share(
        "zero_gradients",
        "share of the entries of the rounded dL/dS, for standard normal gradients to the weights, that are 0",
        "P(dL/dS_ij = 0)",
        "share of gradients to scores equal to 0",
        kind="mean",
    ),
    _share(
        "zero_gradient_rows",
        "share of rows whose rounded gradient to the query is 0",
        "P(dL/dq = 0)",
        "share of queries without a gradient",
    ),
    _share(
        "wrong_gradient_rows",
        "share of rows whose rounded gradient to the query differs from the exact one by more than half of its length",
        "P(|dL/dq_rounded - dL/dq| > |dL/dq| / 2)",
        "share of queries with a wrong gradient",
    ),
    _share(
        "lost_rows",
        "share of rows with weights or gradients that are infinite or not a number, as after a score beyond the "
        "largest number; their weights and gradients count as 0 elsewhere",
        "P(w or dL/dq not finite)",
        "share of lost rows",
    ),
    *(error for metric in METRICS if metric.name in _SYMBOLS for error in _errors(metric, _SYMBOLS[metric.name])),
    _root_of_error(
        "query_gradient_error",
        "query_gradient_error",
        "norm of rounded minus exact dL/dq, for standard normal gradients to the weights",
        "|dL/dq_rounded - dL/dq|^2",
        "error of $dL/dq$",
    ),
)
