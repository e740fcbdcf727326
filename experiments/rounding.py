"""Attention rows in the number formats of accelerators, beside the same draws in double precision.

A draw of Q, K and standard normal gradients to the weights goes through attention twice: exactly, as in
`experiments.saturation`, and rounded to a format after every step (`sdpa.arithmetic`). A table has

- the probabilities that exact weights and scores are out of the format's range, with their exact values;
- the shares of weights, gradients and rows that are 0, 1 or lost in the format, which rounding before the last step
  moves away from these probabilities;
- the errors of metrics: rounded minus exact in the same draw, so that small errors are measurable.

All shares are over visible keys. A row is lost if the format has no number for one of its results: a score beyond the
largest number, positive, makes the weights of its row NaN, although the maximum is subtracted. Such a row counts as one
of zero weights and zero gradients. Overflow without subtracting the maximum is that of a number stored in the format;
an accumulator that keeps e^s overflows like float32.

No value of rounded rows has an exact one, and the check judges none.
"""

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from experiments.harness.columns import Meaning
from experiments.harness.metric import Exact, Metric, Theory
from experiments.metrics import METRICS, at_least_independent, deviation_of_share
from experiments.row_statistics import RowStatistics
from experiments.row_statistics import seconds_per_trial as seconds_of_rows
from experiments.row_values import OfBlock
from experiments.sampling import NAMED, OTHER_WORDS, Floats, block_queries, block_trials
from experiments.sampling import Cell as SaturationCell
from experiments.score_metrics import known
from experiments.statistics.intervals import Limits
from sdpa import softmax
from sdpa.arithmetic import Arithmetic, RoundedRows, rounded_rows
from sdpa.gradients import other_weights

# Of the rows without rounding; the means have exact values.
_UNROUNDED = (
    "max_weight",
    "entropy",
    "jacobian_norm",
    "jacobian_norm_median",
    "query_gradient_norm",
    "query_gradient_norm_median",
)
# Nanoseconds for rounding, per score and scaling and per entry of q and k, on a server core of 2025.
_PER_SCORE, _PER_ENTRY = 60.0, 10.0
_INTEGRALS = (
    "integral over the scores of a row, then over |q| (sdpa.theory.formats); empty unless inputs is gaussian, and with "
    "a mean of the keys, a spectrum, a correlation or a normalization"
)
_WRONG = 0.5  # relative error of a gradient from which on its direction is lost
_SCORE_ARRAYS = 14  # arrays of a block's scores in memory at once; a test compares them with a measured peak


@dataclass(frozen=True)
class Cell(SaturationCell):
    """One point of the grid, with the format of its rounded rows.

    Attributes:
        arithmetic: the format; the others are those of `experiments.sampling.Cell`.
    """

    # Without a default: in float64, a sweep that forgets it would measure last digits alone.
    arithmetic: Annotated[Arithmetic, Meaning("number format of the rounded rows")] = field(kw_only=True)

    def stamp(self) -> dict[str, Any]:
        """The values and code behind the names in a cell."""
        code = [Arithmetic, rounded_rows, *astuple(self.arithmetic)]
        return {"arithmetic": code, **super().stamp()}


def compared(
    cell: Cell, rows: slice, queries: Floats, keys: Floats, scores: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """As `RowStatistics.further`: the numbers behind the metrics below, from rounded and exact rows of the same draws.

    Args:
        cell: a point of the grid.
        rows: of the queries of a draw.
        queries, keys, scores: of a block of draws, without a divisor or mask.
        rng: draws the gradients to the weights.
    """
    gradient, visible = rng.standard_normal(scores.shape), cell.visible(rows)
    arithmetic = cell.arithmetic
    rounded_keys = arithmetic.round(keys)
    products = arithmetic.product(arithmetic.round(queries), rounded_keys.swapaxes(-1, -2))
    exact_scores = scores if visible is None else np.where(visible, scores, -np.inf)
    found: dict[str, list[Floats]] = {}
    for divisor in cell.divisors():
        exact = _exact_rows(exact_scores / divisor, keys, gradient, divisor)
        rounded = rounded_rows(products, rounded_keys, arithmetic.round(gradient), divisor, arithmetic, visible)
        for name, values in _compared(arithmetic, exact, rounded, visible, cell.own_keys(rows)).items():
            found.setdefault(name, []).append(values)
    return {name: np.stack(values) for name, values in found.items()}


@dataclass(frozen=True)
class _ExactRows:
    """Rows in double precision: ln w, w and the scaled scores, (..., n_queries, n_keys), and dL/dq."""

    scores: Floats
    log_weights: Floats
    weights: Floats
    query_gradient: Floats


def _exact_rows(scores: Floats, keys: Floats, gradient: Floats, divisor: float) -> _ExactRows:
    """Rows of scaled scores; dL/dS without cancellation in saturated rows.

    With t the key of the largest weight, g_i - sum_j w_j g_j = (g_i - g_t) + sum over j != t of w_j (g_t - g_j).
    """
    weights = softmax(scores)
    from_top = gradient - np.take_along_axis(gradient, weights.argmax(axis=-1, keepdims=True), axis=-1)
    centred = from_top - np.vecdot(other_weights(weights), from_top)[..., None]
    to_scores = weights * centred / divisor
    shifted = scores - scores.max(axis=-1, keepdims=True)
    log_weights = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return _ExactRows(scores, log_weights, weights, to_scores @ keys)


def _compared(
    arithmetic: Arithmetic,
    exact: _ExactRows,
    rounded: RoundedRows,
    visible: npt.NDArray[np.bool_] | None,
    own_keys: npt.NDArray[np.intp],
) -> dict[str, Floats]:
    """The numbers per row that the metrics below name; a lost row has scores, weights and gradients of 0."""
    seen = np.isfinite(exact.scores) if visible is not None else np.ones(exact.scores.shape, dtype=np.bool_)
    n_seen = seen.sum(axis=-1)
    results = rounded.weights, rounded.score_gradient, rounded.query_gradient
    is_lost = ~np.logical_and.reduce([np.isfinite(values).all(axis=-1) for values in results])
    # Metrics of rounded numbers are computed in double precision, so that their errors are those of the rows alone.
    weights, to_scores, to_query = (np.where(is_lost[..., None], 0.0, values.astype(np.float64)) for values in results)
    scores = np.where(is_lost[..., None], 0.0, rounded.scores.astype(np.float64))
    scores = np.clip(scores, -arithmetic.largest, arithmetic.largest)  # -inf has no weight, but no finite variance
    of_rounded = _row_metrics(scores, weights, seen, own_keys)
    of_exact = _row_metrics(exact.scores, exact.weights, seen, own_keys)

    def share(happens: npt.NDArray[np.bool_]) -> Floats:
        return np.asarray((happens & seen).sum(axis=-1) / n_seen)

    error = np.linalg.norm(to_query - exact.query_gradient, axis=-1)
    with np.errstate(over="ignore"):
        overflows = ~np.isfinite(arithmetic.round(np.exp(rounded.scores.max(axis=-1))))
    return {
        "tiny_weights": share(exact.log_weights < math.log(arithmetic.smallest) - math.log(2)),
        "nearly_one_rows": 1.0 * (other_weights(exact.weights).sum(axis=-1) < 2.0 ** -(arithmetic.digits + 1)),
        "large_rows": 1.0 * (exact.scores.max(axis=-1) > math.log(arithmetic.largest)),
        "zero_weights": share(weights == 0),
        "subnormal_weights": share((weights > 0) & (weights < arithmetic.smallest_normal)),
        "one_rows": 1.0 * (weights.max(axis=-1) == 1),
        "overflowing_rows": 1.0 * overflows,
        "zero_gradients": share(to_scores == 0),
        "zero_gradient_rows": 1.0 * (to_query == 0).all(axis=-1),
        "lost_rows": 1.0 * is_lost,
        **{name: of_rounded[name] - of_exact[name] for name in of_exact},
        "wrong_gradient_rows": 1.0 * (error > _WRONG * np.linalg.norm(exact.query_gradient, axis=-1)),
        "query_gradient_error": error,
    }


def _row_metrics(
    scores: Floats, weights: Floats, seen: npt.NDArray[np.bool_], own_keys: npt.NDArray[np.intp]
) -> dict[str, Floats]:
    """The metrics of rows in `_ERRORS`, of weights whose sum need not be 1.

    Without cancellation, tr J = sum_i w_i (1 - w_i), and |J|_F^2 = sum_i w_i^2 (1 - w_i)^2 + sum over i != j of
    w_i^2 w_j^2.
    """
    top, others, n_seen = weights.max(axis=-1), other_weights(weights), seen.sum(axis=-1)
    squares = others * others
    collision = squares.sum(axis=-1)
    of_pairs = 2 * top**2 * collision + collision**2 - (squares * squares).sum(axis=-1)
    diagonal = (top * (1 - top)) ** 2 + (squares * (1 - others) ** 2).sum(axis=-1)
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1.0))).sum(axis=-1)
    mean = np.where(seen, scores, 0.0).sum(axis=-1) / n_seen
    deviations = np.where(seen, scores - mean[..., None], 0.0)
    return {
        "row_variance": (deviations * deviations).sum(axis=-1) / n_seen,
        "max_weight": top,
        "own_weight": np.take_along_axis(weights, np.broadcast_to(own_keys, top.shape)[..., None], axis=-1)[..., 0],
        "entropy": entropy,
        "effective_keys": np.exp(entropy),
        "output_std": np.sqrt(top**2 + collision),
        "jacobian_trace": top * (1 - top) + (others * (1 - others)).sum(axis=-1),
        "jacobian_norm": np.sqrt(np.maximum(diagonal + of_pairs, 0.0)),
    }


def _value(metric: str) -> Callable[[Theory, Cell], float]:
    """The probability of that name in `sdpa.theory.OutOfRange`."""

    def value(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.divisor, cell.arithmetic, cell.law, cell.shortest_row
        return known(theory, "out_of_range", *arguments, metric=metric)

    return value


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

    return Exact(_INTEGRALS, value, least, largest)


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

    return Exact(_INTEGRALS, value, least, deviation_of_share(value))


def _share(name: str, meaning: str, formula: str, title: str, exact: Exact | None = None) -> Metric:
    """A share of rows."""
    of = OfBlock(lambda block: block.further[name])
    return Metric(name, "", meaning, formula, title, "share", of, exact=exact, limits=lambda _: Limits(0, 1))


def _mean(name: str, meaning: str, formula: str, title: str, exact: Exact | None = None) -> Metric:
    """A share of the weights or gradients of a row, in the mean over rows."""
    of = OfBlock(lambda block: block.further[name])
    return Metric(name, "", meaning, formula, title, "mean", of, exact=exact, limits=lambda _: Limits(0, 1))


def _errors(name: str, unit: str, symbol: str, title: str) -> tuple[Metric, Metric]:
    """The mean and the root mean square of a metric's error."""
    of = OfBlock(lambda block: block.further[name])
    meaning, formula = f"rounded minus exact {title}", f"{symbol}_rounded - {symbol}"
    return (
        Metric(f"{name}_bias", unit, f"{meaning}; mean over rows", f"E[{formula}]", f"bias of the {title}", "mean", of),
        Metric(
            f"{name}_error",
            unit,
            f"{meaning}; root mean square over rows",
            f"sqrt(E ({formula})^2)",
            f"error of the {title}",
            "root",
            of,
            limits=lambda _: Limits(0),
            is_logarithmic=True,
        ),
    )


# Metrics of rows with an error: name, unit, symbol and title.
_ERRORS = (
    ("row_variance", "", "Var s", "variance within a row"),
    ("max_weight", "", "max w", "largest weight"),
    ("own_weight", "", "w_i", "weight of the own key"),
    ("entropy", "nats", "H", "entropy"),
    ("effective_keys", "", "e^H", "effective number of keys"),
    ("output_std", "", "sqrt(sum w^2)", "standard deviation of the output"),
    ("jacobian_trace", "", "tr J", "Jacobian trace"),
    ("jacobian_norm", "", "|J|_F", "Jacobian norm"),
)
ROUNDED = (
    _mean(
        "tiny_weights",
        "share of the exact weights that the format rounds to 0",
        "P(w < half the smallest number)",
        "share of exact weights that round to 0",
        _of_weights(),
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
    _mean("zero_weights", "share of the rounded weights that are 0", "P(w = 0)", "share of weights equal to 0"),
    _mean(
        "subnormal_weights",
        "share of the rounded weights above 0 and below the smallest normal number, which have fewer digits",
        "P(0 < w < smallest normal number)",
        "share of subnormal weights",
    ),
    _share("one_rows", "share of rows with a rounded weight of 1", "P(max w = 1)", "share of rows with a weight of 1"),
    _share(
        "overflowing_rows",
        "share of rows in which e^s of rounded scores, stored in the format, is infinite or not a number without "
        "subtracting the maximum",
        "P(e^(max s) not finite)",
        "share of rows that overflow",
    ),
    _mean(
        "zero_gradients",
        "share of the entries of the rounded dL/dS, for standard normal gradients to the weights, that are 0",
        "P(dL/dS_ij = 0)",
        "share of gradients to scores equal to 0",
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
    *(metric for error in _ERRORS for metric in _errors(*error)),
    Metric(
        "query_gradient_error",
        "",
        "norm of rounded minus exact dL/dq, for standard normal gradients to the weights; root mean square over rows",
        "sqrt(E |dL/dq_rounded - dL/dq|^2)",
        "error of $dL/dq$",
        "root",
        OfBlock(lambda block: block.further["query_gradient_error"]),
        limits=lambda _: Limits(0),
        is_logarithmic=True,
    ),
)
METRICS_HERE = (*(metric for metric in METRICS if metric.name in _UNROUNDED), *ROUNDED)
STATISTICS = RowStatistics(METRICS_HERE, compared)


def seconds_per_trial(cell: Cell) -> float:
    """As in `row_statistics`, with the time of rounding."""
    scores, vectors = cell.n_queries * cell.n_keys, (cell.n_queries + cell.n_keys) * cell.d_k
    return seconds_of_rows(cell) + 1e-9 * (_PER_SCORE * len(cell.scaling) * scores + _PER_ENTRY * vectors)


def memory(cell: Cell) -> int:
    """As `RowStatistics.memory`, with the arrays of rounded and of exact rows."""
    scores = block_trials(cell) * block_queries(cell) * cell.n_keys
    return STATISTICS.memory(cell) + 8 * _SCORE_ARRAYS * scores + 8 * block_trials(cell) * cell.entries


EXPERIMENT = STATISTICS.experiment(
    Cell, named=(*NAMED, Arithmetic), other_words=OTHER_WORDS, seconds_per_trial=seconds_per_trial, memory=memory
)
