"""Attention rows in the number formats of accelerators, beside the same draws in double precision.

A draw of Q, K and standard normal gradients to the weights goes through attention twice: exactly,
as in `experiments.kinds.saturation`, and rounded to a format after every step (`sdpa.arithmetic`).
A table has

- the probabilities that exact weights and scores are out of the format's range, with their exact
  values;
- the shares of weights, gradients and rows that are 0, 1 or lost in the format, which differ from
  these probabilities, because earlier steps round, too;
- the errors of metrics: rounded minus exact in the same draw, so that small errors are measurable.

All shares are over visible keys. A row is lost if the format has no number for one of its results:
a score beyond the largest number, positive, makes the weights of its row NaN, although the maximum
is subtracted. Such a row counts as one of zero weights and zero gradients. Overflow without
subtracting the maximum is that of a number stored in the format; an accumulator that keeps e^s
overflows like float32. No value of rounded rows has an exact one.
"""

import math
from dataclasses import astuple, dataclass, field
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from experiments.measuring.batch import RowMetric, RowsMetric
from experiments.measuring.columns import Meaning
from experiments.measuring.exact import from_theory
from experiments.measuring.metric import Exact, Metric
from experiments.measuring.row_metrics import METRICS
from experiments.measuring.row_statistics import RowStatistics
from experiments.measuring.rules import Floats
from experiments.measuring.sampling import SampledCell
from sdpa.arithmetic import Arithmetic, RoundedRows, rounded_rows
from sdpa.gradients import other_weights

Flags: TypeAlias = npt.NDArray[np.bool_]

_WRONG = 0.5  # relative error of a gradient from which on its direction is lost


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid, with the format of its rounded rows."""

    # Without a default: in float64, a sweep that forgets it would measure last digits alone.
    arithmetic: Annotated[Arithmetic, Meaning("number format of the rounded rows")] = field(
        kw_only=True
    )
    prescale = 1.0
    takes_8_bits = False
    score_arrays = 20

    def problem(self) -> str | None:
        """As `SampledCell.problem`, or a format of another experiment."""
        if self.arithmetic.has_8_bits == self.takes_8_bits:
            return super().problem()
        expected, other = (
            ("8 bits", "rounding") if self.takes_8_bits else ("16 bits or more", "eight_bits")
        )
        return (
            f"arithmetic: expected a format of {expected}, got {self.arithmetic}; the "
            f"experiment {other} takes it"
        )

    def stamp(self) -> dict[str, Any]:
        """As `SampledCell.stamp`, with the code and the numbers of the format."""
        code = [Arithmetic, rounded_rows, *astuple(self.arithmetic)]
        return {"arithmetic": code, **super().stamp()}

    def extra_arrays(
        self, queries: Floats, keys: Floats, scores: Floats, rng: np.random.Generator
    ) -> dict[str, Floats]:
        """As `AttentionCell.extra_arrays`: gradients to the weights, and rounded scores before the
        divisor.
        """
        round_to = self.arithmetic.round
        return {
            "gradient": rng.standard_normal(scores.shape),
            "products": self.arithmetic.product(round_to(queries), round_to(keys).swapaxes(-1, -2)),
        }

    def extra_values(
        self, rows: slice, keys: Floats, scores: Floats, gradient: Floats, products: Floats
    ) -> dict[str, Floats]:
        """As `AttentionCell.extra_values`: from rounded and exact rows of the same draws."""
        visible = self.visible(rows)
        rounded_keys, rounded_gradient = map(self.arithmetic.round, (keys, gradient))
        scores = scores if visible is None else np.where(visible, scores, -np.inf)
        found = []
        for divisor in self.divisors():
            of_rows = divisor, self.arithmetic, visible, self.prescale
            rounded = rounded_rows(products, rounded_keys, rounded_gradient, *of_rows)
            exact = _exact_rows(scores / divisor, keys, gradient, divisor)
            found.append(_compared(self, self.own_keys(rows), rounded, exact))
        return {name: np.stack([values[name] for values in found]) for name in found[0]}


class _Exact(NamedTuple):
    """Exact rows, (..., n_queries, n_keys), and the gradients to their queries."""

    scores: Floats  # divided; -inf where masked
    shifted: Floats  # s - max s
    exponentials: Floats  # e^(s - max s)
    weights: Floats
    log_weights: Floats
    to_query: Floats


class _Rounded(NamedTuple):
    """Rounded rows in double precision, so that the errors of their metrics are those of the rows
    alone. A lost row has scores, weights and gradients of 0.
    """

    is_lost: Flags
    scores: Floats  # clipped to the largest number, because -inf has no finite variance
    weights: Floats
    to_scores: Floats
    to_query: Floats


def _compared(
    cell: Cell, own_keys: npt.NDArray[np.intp], rounded: RoundedRows, exact: _Exact
) -> dict[str, Floats]:
    """The numbers per row behind `ROUNDING_METRICS` under one divisor, by name.

    Returns:
        Arrays (..., n_queries): an event as 0 or 1, a share of visible keys, or NAME_bias, a number
            rounded minus exact.
    """
    seen = np.isfinite(exact.scores)
    read = _in_double(rounded, cell.arithmetic)
    of_rounded = _row_metrics(read.scores, read.weights, seen, own_keys)
    of_exact = _row_metrics(exact.scores, exact.weights, seen, own_keys)
    return {
        **_out_of_range(cell, exact, seen),
        "overflowing_rows": _overflows(rounded.scores, cell.arithmetic),
        **_limits(cell, read, seen),
        **{f"{name}_bias": of_rounded[name] - of_exact[name] for name in of_exact},
        **_gradient_errors(read.to_query, exact.to_query),
        **_losses(cell, read, exact),
    }


def _exact_rows(scores: Floats, keys: Floats, gradient: Floats, divisor: float) -> _Exact:
    """Exact rows of divided scores.

    With t the key of the largest weight, g_i - sum_j w_j g_j = (g_i - g_t) + sum over j != t of w_j
    (g_t - g_j), without cancellation in saturated rows.
    """
    shifted = scores - scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=-1, keepdims=True)
    weights = exponentials / total
    top = weights.argmax(axis=-1, keepdims=True)
    from_top = gradient - np.take_along_axis(gradient, top, axis=-1)
    centred = from_top - np.vecdot(other_weights(weights), from_top)[..., None]
    to_query = (weights * centred / divisor) @ keys
    return _Exact(scores, shifted, exponentials, weights, shifted - np.log(total), to_query)


def _in_double(rounded: RoundedRows, arithmetic: Arithmetic) -> _Rounded:
    results = rounded.weights, rounded.score_gradient, rounded.query_gradient
    is_lost = ~np.logical_and.reduce([np.isfinite(values).all(axis=-1) for values in results])
    scores, *others = (
        np.where(is_lost[..., None], 0.0, values.astype(np.float64))
        for values in (rounded.scores, *results)
    )
    largest = arithmetic.of_products.largest
    return _Rounded(is_lost, np.clip(scores, -largest, largest), *others)


def _share_of_seen(happens: Flags, seen: Flags) -> Floats:
    """The share of visible keys at which something happens."""
    return np.asarray((happens & seen).sum(axis=-1) / seen.sum(axis=-1))


def _out_of_range(cell: Cell, exact: _Exact, seen: Flags) -> dict[str, Floats]:
    """Exact weights and scores that the format has no number for."""
    arithmetic = cell.arithmetic
    # Formats of 8 bits round e^(s - max s), by which the largest weight is divided.
    before = exact.shifted if arithmetic.has_8_bits else exact.log_weights
    least = math.log(arithmetic.smallest) - math.log(2) - math.log(cell.prescale)
    half_a_digit = 2.0 ** -(arithmetic.of_products.digits + 1)
    return {
        "tiny_weights": _share_of_seen(before < least, seen),
        "nearly_one_rows": 1.0 * (other_weights(exact.weights).sum(axis=-1) < half_a_digit),
        "large_rows": 1.0 * (exact.scores.max(axis=-1) > math.log(arithmetic.largest)),
    }


def _overflows(rounded_scores: Floats, arithmetic: Arithmetic) -> Floats:
    """1 for rows whose e^(max s) is beyond the largest number."""
    with np.errstate(over="ignore"):
        return 1.0 * ~np.isfinite(arithmetic.round(np.exp(rounded_scores.max(axis=-1))))


def _limits(cell: Cell, read: _Rounded, seen: Flags) -> dict[str, Floats]:
    """Rounded weights and gradients that are 0, 1, subnormal or lost."""
    weights, least_normal = read.weights, np.asarray(cell.arithmetic.smallest_normal)
    top = weights.max(axis=-1)
    if cell.arithmetic.has_8_bits:
        least_normal = (1 - 1e-6) * least_normal / cell.prescale * top[..., None]
    return {
        "zero_weights": _share_of_seen(weights == 0, seen),
        "subnormal_weights": _share_of_seen((weights > 0) & (weights < least_normal), seen),
        "one_rows": 1.0 * (top == 1),
        "zero_gradients": _share_of_seen(read.to_scores == 0, seen),
        "zero_gradient_rows": 1.0 * (read.to_query == 0).all(axis=-1),
        "lost_rows": 1.0 * read.is_lost,
    }


def _gradient_errors(rounded: Floats, exact: Floats) -> dict[str, Floats]:
    """The length of the error of a gradient to a query, and 1 where its direction is lost."""
    error = np.linalg.norm(rounded - exact, axis=-1)
    is_wrong = error > _WRONG * np.linalg.norm(exact, axis=-1)
    return {"wrong_gradient_rows": 1.0 * is_wrong, "query_gradient_error": error}


def _losses(cell: Cell, read: _Rounded, exact: _Exact) -> dict[str, Floats]:
    """The mass that formats of 8 bits lose: of exact weights, and of all rounded steps."""
    if not cell.arithmetic.has_8_bits:
        return {}
    kept = cell.arithmetic.weights(exact.exponentials, cell.prescale)
    return {
        "rounding_loss": 1 - kept.sum(axis=-1, dtype=np.float64),
        "lost_mass": 1 - read.weights.sum(axis=-1),
    }


def _row_metrics(
    scores: Floats, weights: Floats, seen: Flags, own_keys: npt.NDArray[np.intp]
) -> dict[str, Floats]:
    """The metrics of rows that have errors, of weights whose sum need not be 1.

    Without cancellation, tr J = sum_i w_i (1 - w_i), and |J|_F^2 = sum_i w_i^2 (1 - w_i)^2 + sum
    over i != j of w_i^2 w_j^2.
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
        "own_weight": np.take_along_axis(
            weights, np.broadcast_to(own_keys, top.shape)[..., None], axis=-1
        )[..., 0],
        "entropy": entropy,
        "effective_keys": np.exp(entropy),
        "output_std": np.sqrt(top**2 + collision),
        "jacobian_trace": top * (1 - top) + (others * (1 - others)).sum(axis=-1),
        "jacobian_norm": np.sqrt(np.maximum(diagonal + of_pairs, 0.0)),
    }


# Of the rows without rounding; the means have exact values.
_UNROUNDED = (
    *("max_weight", "entropy", "jacobian_norm", "jacobian_norm_median"),
    *("query_gradient_norm", "query_gradient_norm_median"),
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
INTEGRALS = (
    "integral over the scores of a row, then over |q| (sdpa.theory.formats); empty unless inputs "
    "is gaussian, and with a mean of the keys, a spectrum, a correlation or a normalization"
)


def arguments(cell: Any) -> tuple[Any, ...]:
    """The arguments of `sdpa.theory.out_of_range` and `rounding_loss`."""
    return (
        cell.d_k,
        cell.n_keys,
        cell.divisor,
        cell.arithmetic,
        cell.law,
        cell.shortest_row,
        cell.prescale,
    )


def _probability(metric: str) -> Exact:
    """The probability of that name in `sdpa.theory.OutOfRange`."""
    return Exact(INTEGRALS, from_theory("out_of_range", arguments, metric), 1e-7)


_share_of_rows = partial(RowMetric, kind="share", within=(0, 1))
# Of the weights or gradients of a row, as a mean over rows.
_share_within_rows = partial(RowMetric, within=(0, 1))


def _root_of_error(
    name: str, of: str, meaning: str, square: str, title: str, unit: str = ""
) -> RowMetric:
    """The root mean square over rows of an error, whose formula is that of its square in a row."""
    return RowMetric(
        name,
        f"{meaning}; root mean square over rows",
        f"sqrt(E {square})",
        title,
        "root",
        unit,
        compute=of,
        within=(0, math.inf),
        is_logarithmic=True,
    )


def _errors(metric: Metric, symbol: str) -> tuple[RowMetric, RowMetric]:
    """The mean and the root mean square of the error of a metric, whose value in a row has that
    symbol.
    """
    title = metric.title.removesuffix(", r.m.s.")
    meaning = f"rounded minus exact {metric.name}"
    error = f"{symbol}_rounded - {symbol}"
    bias = RowMetric(
        f"{metric.name}_bias",
        f"{meaning}; mean over rows",
        f"E[{error}]",
        f"bias of the {title}",
        unit=metric.unit,
    )
    root = _root_of_error(
        f"{metric.name}_error",
        bias.name,
        meaning,
        f"({error})^2",
        f"error of the {title}",
        metric.unit,
    )
    return bias, root


ROUNDING_METRICS: tuple[RowsMetric, ...] = (
    *(metric for metric in METRICS if metric.name in _UNROUNDED),
    _share_within_rows(
        "tiny_weights",
        "share of the exact weights that the format rounds to 0",
        "P(w < half the smallest number), or P(p w / max w < half the smallest number) in 8 bits",
        "share of exact weights that round to 0",
        exact=_probability("tiny_weights"),
    ),
    _share_of_rows(
        "nearly_one_rows",
        "share of rows whose exact largest weight the format rounds to 1",
        "P(1 - max w < 2^-(p + 1)), p binary digits, 24 in 8 bits",
        "share of rows with a weight that rounds to 1",
        exact=_probability("nearly_one_rows"),
    ),
    _share_of_rows(
        "large_rows",
        "share of rows whose exact scores overflow in e^s without subtracting the maximum",
        "P(max s > ln(largest number))",
        "share of rows with e^s beyond the largest number",
        exact=_probability("large_rows"),
    ),
    _share_within_rows(
        "zero_weights",
        "share of the rounded weights that are 0",
        "P(w = 0)",
        "share of weights equal to 0",
    ),
    _share_within_rows(
        "subnormal_weights",
        (
            "share of the rounded weights above 0 and below the smallest normal number, which have "
            "fewer digits"
        ),
        "P(0 < w < smallest normal number)",
        "share of subnormal weights",
    ),
    _share_of_rows(
        "one_rows",
        "share of rows with a rounded weight of 1",
        "P(max w = 1)",
        "share of rows with a weight of 1",
    ),
    _share_of_rows(
        "overflowing_rows",
        "share of rows in which e^s of rounded scores, stored in the format, is infinite or not a "
        "number without subtracting the maximum",
        "P(e^(max s) not finite)",
        "share of rows that overflow",
    ),
    _share_within_rows(
        "zero_gradients",
        (
            "share of the entries of the rounded dL/dS, for standard normal gradients to the "
            "weights, that are 0"
        ),
        "P(dL/dS_ij = 0)",
        "share of gradients to scores equal to 0",
    ),
    _share_of_rows(
        "zero_gradient_rows",
        "share of rows whose rounded gradient to the query is 0",
        "P(dL/dq = 0)",
        "share of queries without a gradient",
    ),
    _share_of_rows(
        "wrong_gradient_rows",
        (
            "share of rows whose rounded gradient to the query differs from the exact one by more "
            "than half of its length"
        ),
        "P(|dL/dq_rounded - dL/dq| > |dL/dq| / 2)",
        "share of queries with a wrong gradient",
    ),
    _share_of_rows(
        "lost_rows",
        "share of rows with weights or gradients that are infinite or not a number, as after a "
        "score beyond the largest number; their weights and gradients count as 0 elsewhere",
        "P(w or dL/dq not finite)",
        "share of lost rows",
    ),
    *(
        error
        for metric in METRICS
        if metric.name in _SYMBOLS
        for error in _errors(metric, _SYMBOLS[metric.name])
    ),
    _root_of_error(
        "query_gradient_error",
        "query_gradient_error",
        "norm of rounded minus exact dL/dq, for standard normal gradients to the weights",
        "|dL/dq_rounded - dL/dq|^2",
        "error of $dL/dq$",
    ),
)

STATISTICS = RowStatistics(ROUNDING_METRICS)
EXPERIMENT = STATISTICS.experiment("rounding", Cell)
