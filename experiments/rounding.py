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
from dataclasses import astuple, dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from experiments.harness.columns import Meaning
from experiments.other_words import OTHER_WORDS
from experiments.rounding_metrics import ROUNDING_METRICS
from experiments.row_statistics import RowStatistics
from experiments.row_statistics import seconds_per_trial as seconds_of_rows
from experiments.sampling import NAMED, Floats, block_queries, block_trials
from experiments.sampling import Cell as SampledCell
from sdpa.arithmetic import Arithmetic, RoundedRows, rounded_rows
from sdpa.gradients import other_weights

_WRONG = 0.5  # relative error of a gradient from which on its direction is lost
# Nanoseconds for rounding, per score and scaling and per entry of q and k, on a server core of 2025.
_PER_SCORE, _PER_ENTRY = 60.0, 10.0
_SCORE_ARRAYS = 14  # arrays of a block's scores in memory at once; a test compares them with a measured peak


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid, with the format of its rounded rows."""

    # Without a default: in float64, a sweep that forgets it would measure last digits alone.
    arithmetic: Annotated[Arithmetic, Meaning("number format of the rounded rows")] = field(kw_only=True)

    def stamp(self) -> dict[str, Any]:
        """The values and code behind the names in a cell."""
        code = [Arithmetic, rounded_rows, *astuple(self.arithmetic)]
        return {"arithmetic": code, **super().stamp()}


def compared_draws(
    cell: Cell, rows: slice, queries: Floats, keys: Floats, scores: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """As `RowStatistics.further`: the numbers behind the metrics, from rounded and exact rows of the same draws."""
    gradient, visible = rng.standard_normal(scores.shape), cell.visible(rows)
    arithmetic = cell.arithmetic
    rounded_keys, rounded_gradient = arithmetic.round(keys), arithmetic.round(gradient)
    products = arithmetic.product(arithmetic.round(queries), rounded_keys.swapaxes(-1, -2))
    exact_scores = scores if visible is None else np.where(visible, scores, -np.inf)
    found: dict[str, list[Floats]] = {}
    for divisor in cell.divisors():
        exact = exact_rows(exact_scores / divisor, keys, gradient, divisor)
        rounded = rounded_rows(products, rounded_keys, rounded_gradient, divisor, arithmetic, visible)
        for name, values in compared_rows(arithmetic, exact, rounded, visible, cell.own_keys(rows)).items():
            found.setdefault(name, []).append(values)
    return {name: np.stack(values) for name, values in found.items()}


@dataclass(frozen=True)
class ExactRows:
    """Rows in double precision.

    Attributes:
        scores: s, (..., n_queries, n_keys); -inf where masked.
        log_weights: ln w, of the same shape.
        weights: w, of the same shape.
        query_gradient: dL/dq, (..., n_queries, d_k).
    """

    scores: Floats
    log_weights: Floats
    weights: Floats
    query_gradient: Floats


def exact_rows(scores: Floats, keys: Floats, gradient: Floats, divisor: float) -> ExactRows:
    """Rows of scaled scores; dL/dS without cancellation in saturated rows.

    With t the key of the largest weight, g_i - sum_j w_j g_j = (g_i - g_t) + sum over j != t of w_j (g_t - g_j).

    Args:
        scores: divided by the divisor, (..., n_queries, n_keys); -inf where masked.
        keys: (..., n_keys, d_k).
        gradient: dL/dw, of the shape of scores.
        divisor: above 0.
    """
    shifted = scores - scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=-1, keepdims=True)
    weights = exponentials / total
    from_top = gradient - np.take_along_axis(gradient, weights.argmax(axis=-1, keepdims=True), axis=-1)
    centred = from_top - np.vecdot(other_weights(weights), from_top)[..., None]
    to_scores = weights * centred / divisor
    return ExactRows(scores, shifted - np.log(total), weights, to_scores @ keys)


def compared_rows(
    arithmetic: Arithmetic,
    exact: ExactRows,
    rounded: RoundedRows,
    visible: npt.NDArray[np.bool_] | None,
    own_keys: npt.NDArray[np.intp],
) -> dict[str, Floats]:
    """The numbers per row behind `experiments.rounding_metrics`, by name; NAME_bias is rounded minus exact.

    A lost row has scores, weights and gradients of 0.

    Args:
        arithmetic: the format.
        exact, rounded: the same rows without and with rounding.
        visible: True where a query sees a key, (n_queries, n_keys); None if all see all keys.
        own_keys: of each query, (n_queries,).

    Returns:
        Arrays (..., n_queries): an event as 0 or 1, a share of visible keys, or a number rounded minus exact.
    """
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
        **{f"{name}_bias": of_rounded[name] - of_exact[name] for name in of_exact},
        "wrong_gradient_rows": 1.0 * (error > _WRONG * np.linalg.norm(exact.query_gradient, axis=-1)),
        "query_gradient_error": error,
    }


def _row_metrics(
    scores: Floats, weights: Floats, seen: npt.NDArray[np.bool_], own_keys: npt.NDArray[np.intp]
) -> dict[str, Floats]:
    """The metrics of rows that have errors, of weights whose sum need not be 1.

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


STATISTICS = RowStatistics(ROUNDING_METRICS, compared_draws)


def seconds_per_trial(cell: Cell) -> float:
    """As in `row_statistics`, with the time of rounding."""
    scores, vectors = cell.n_queries * cell.n_keys, (cell.n_queries + cell.n_keys) * cell.d_k
    return seconds_of_rows(cell) + 1e-9 * (_PER_SCORE * len(cell.scaling) * scores + _PER_ENTRY * vectors)


def memory(cell: Cell) -> int:
    """As `RowStatistics.memory`, with the arrays of rounded and of exact rows."""
    scores = block_trials(cell) * block_queries(cell) * cell.n_keys
    return STATISTICS.memory(cell) + 8 * _SCORE_ARRAYS * scores + 8 * block_trials(cell) * cell.entries


EXPERIMENT = STATISTICS.experiment(
    "rounding",
    Cell,
    named=(*NAMED, Arithmetic),
    other_words=OTHER_WORDS,
    seconds_per_trial=seconds_per_trial,
    memory=memory,
)
