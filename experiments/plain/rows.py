"""A second, plain kernel: the definitions of the numbers of a row, to compare with what a run
reports.

Theory has no exact values for most laws of q and k, and for most row maps. So every chunk compares
all numbers of a few of its rows with these definitions. With w the weights, J their Jacobian
(diag(a) - b a a^T) diag(t) of `sdpa.row_maps` (a = w, b = t = 1 for softmax), and c the divisor:

    |J|_F^2 = sum_j t_j^2 a_j^2 ((1 - b a_j)^2 + b^2 sum_{i != j} a_i^2)
    |dL/dq|^2 = sum_i a_i^2 |t_i k_i - b m|^2 / c^2,   m = sum_j a_j t_j k_j

Where b is not 0, 1 - b a_j of the largest a is b times the sum of the others: saturated rows keep
their digits. The weights of sparsemax and entmax come from bisection.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sdpa.metrics import SATURATED
from sdpa.row_maps import PLAIN, RowMap

Floats = npt.NDArray[np.floating]
# by metric: a number of a row, and the absolute error that it may have
Expected = dict[str, tuple[float, float]]

_EPS = float(np.finfo(float).eps)
_CACHED = 2**17  # numbers of keys at once; copies of thousands of wide keys take long
_RELATIVE = 1e-8  # above the rounding of both kernels in any row that a config allows
_ROUNDINGS = 1e3  # of the squared lengths of keys
_DIVISIONS = 16  # roundings of scaled scores, in units of the largest
_TINY = 1e-150  # squares of smaller numbers leave the range of a double
_VANISHING = 1e-300  # weights that may round to 0 in one kernel alone
_LOST = 1e-14  # of an entropy, as a sum of terms up to 1
_NEAR = 1e-9  # of the limit of saturated rows
_HALVINGS = 60  # of the interval from -1 to 0 that has the threshold
# sparse weights this near 0 may be 0 in the other kernel, which then has another Jacobian
_EDGE = 1e-12


@dataclass(frozen=True)
class DrawnRow:
    """One row of a draw under one divisor."""

    query: Floats  # (d_k,)
    keys: Floats  # (n_keys, d_k)
    scores: Floats  # q.k before any divisor, (n_keys,); -inf where masked
    divisor: float
    own_key: int
    rows_per_key: float
    # arrays (n_keys,) from `AttentionCell.extra_arrays`
    extra_arrays: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def scaled(self) -> Floats:
        """The scores over the divisor."""
        return self.scores / self.divisor


@dataclass(frozen=True)
class _Mapped:
    """The weights of a row, and the parts of their Jacobian, each (n_keys,) but the coupling."""

    weights: Floats
    log_weights: Floats  # up to a constant
    slopes: Floats  # a
    coupling: float  # b
    rest: Floats  # 1 - b a
    steepness: Floats  # t
    # True if rounding decides whether a sparse weight is 0, which changes J
    is_at_edge: bool = False

    def norm_through(self, keys: Floats) -> float:
        """|K^T J^T|_F; at the largest slope, t k - b m is (1 - b a) t k - b sum of a_j t_j k_j over
        the others.
        """
        parts = np.array_split(keys, keys.size // _CACHED + 1, axis=1)
        return float(np.linalg.norm([self._norm_through(part) for part in parts]))

    def _norm_through(self, keys: Floats) -> float:
        """As `norm_through`, of some of the d_k columns of the keys."""
        distances = self.steepness[:, None] * keys
        mean = self.coupling * (self.slopes @ distances)
        top = self.slopes.argmax()
        others = self.slopes.copy()
        others[top] = 0.0
        of_top = self.rest[top] * distances[top] - self.coupling * (others @ distances)
        distances -= mean
        distances[top] = of_top
        distances *= self.slopes[:, None]
        return float(np.linalg.norm(distances))


def plain_row(row: DrawnRow, row_map: RowMap = PLAIN, bias: Floats | float = 0.0) -> Expected:
    """The numbers of one row by metric of rows, without derivatives where a sparse weight is at the
    edge of 0.

    >>> found = plain_row(DrawnRow(np.ones(1), np.array([[3.0], [1.0]]), np.zeros(2), 1.0, 0, 1.0))
    >>> found["max_weight"][0], found["jacobian_norm"][0], round(found["query_gradient_norm"][0], 9)
    (0.5, 0.5, 0.707106781)
    """
    mapped = _mapped(row.scaled, row_map, bias)
    visible = np.isfinite(row.scores)
    w = mapped.weights
    seen = row.scores[visible]
    of_seen = w[visible]
    largest = float(w.max())
    collision = float(w @ w)
    entropy = entropy_of(softmax_of(mapped.log_weights))
    norm = jacobian_norm(mapped.slopes, mapped.coupling, mapped.rest, mapped.steepness)
    keys = row.keys
    # Differences of squares give distances of keys, and the mean of the scores is rounded.
    squares = np.vecdot(keys, keys)[visible]
    longest = math.sqrt(float(squares.max()))
    of_distance = (norm * math.sqrt(_ROUNDINGS * _EPS) + _TINY) * longest / row.divisor
    largest_score = float(np.abs(seen).max())
    of_mean = 4 * math.sqrt(len(w)) * _EPS * largest_score / row.divisor
    square_of_query = float(row.query @ row.query)
    to_key = math.sqrt(row.rows_per_key * square_of_query) / row.divisor
    variance = float(np.var(seen)) / row.divisor / row.divisor

    expected: Expected = {
        "visible_mass": (float(w.sum()), 0.0),
        "max_weight": (largest, 0.0),
        "own_weight": (float(w[row.own_key]), _TINY),
        "saturated_rows": (float(largest > SATURATED), float(abs(largest - SATURATED) < _NEAR)),
        "entropy": (entropy, _LOST),
        "effective_keys": (math.exp(entropy), 0.0),
        "participation": (1 / collision if collision else math.inf, 0.0),
        "output_std": (math.sqrt(collision), 0.0),
        "value_gradient_norm": (math.sqrt(row.rows_per_key * collision), 0.0),
        "row_variance": (variance, of_mean**2 + _TINY),
    }
    if mapped.is_at_edge:
        return expected

    return expected | {
        "zero_weights": (
            float((of_seen == 0).mean()),
            float(((of_seen > 0) & (of_seen < _VANISHING)).mean()),
        ),
        "jacobian_trace": (float((mapped.slopes * mapped.steepness) @ mapped.rest), _TINY),
        "jacobian_norm": (norm, _TINY),
        "query_gradient_norm": (mapped.norm_through(keys) / row.divisor, of_distance),
        "key_gradient_norm": (norm * to_key, _TINY * to_key),
    }


def _mapped(scaled: Floats, row_map: RowMap, bias: Floats | float) -> _Mapped:
    """The row map at scaled scores, -inf where masked."""
    steepness = np.ones(len(scaled))
    capped = scaled
    if cap := row_map.softcap:
        ratio = scaled / cap
        capped = np.where(np.isfinite(scaled), cap * np.tanh(ratio), -np.inf)
        # 1 / cosh^2, without overflow.
        steepness = np.exp(2 * (math.log(2) - np.logaddexp(ratio, -ratio)))
    z = capped + bias
    if row_map.normalizer == "softmax":
        logits = z if row_map.sink is None else np.append(z, row_map.sink)
        w = softmax_of(logits)
        visible = w[: len(z)]
        return _Mapped(visible, z, visible, 1.0, remainders(w)[: len(z)], steepness)
    if row_map.normalizer == "sigmoid":
        shifted = z - math.log(len(z))
        log_w = -np.logaddexp(0, -shifted)
        log_rest = -np.logaddexp(0, shifted)
        weights = np.exp(log_w)
        slopes = np.exp(log_w + log_rest)
        return _Mapped(weights, log_w, slopes, 0.0, np.ones(len(z)), steepness)
    share, power = (1.0, 1) if row_map.normalizer == "sparsemax" else (0.5, 2)
    scores = share * (z - z.max())
    threshold = -0.5
    for halvings in range(2, _HALVINGS):
        total = (np.maximum(scores - threshold, 0.0) ** power).sum()
        threshold += 0.5**halvings * np.sign(total - 1)
    roots = np.maximum(scores - threshold, 0.0)
    slopes = np.where(roots > 0, roots ** (power - 1), 0.0)
    weights = roots**power
    log_weights = np.full(len(z), -np.inf)
    np.log(weights, out=log_weights, where=roots > 0)
    coupling = 1 / float(slopes.sum())
    is_at_edge = bool((np.abs(scores - threshold) < _EDGE).any())
    return _Mapped(
        weights,
        log_weights,
        slopes,
        coupling,
        remainders(coupling * slopes),
        steepness,
        is_at_edge,
    )


def remainders(shares: Floats) -> Floats:
    """1 - x of each of some shares that sum to 1; of the largest, the sum of the others."""
    rest = 1 - shares
    top = shares.argmax()
    rest[top] = np.delete(shares, top).sum()
    return rest


def jacobian_norm(slopes: Floats, coupling: float, rest: Floats, steepness: Floats) -> float:
    """|J|_F of (diag(a) - b a a^T) diag(t), with 1 - b a in `rest`."""
    squares = slopes**2
    top = slopes.argmax()
    others = squares.sum() - squares
    others[top] = np.delete(squares, top).sum()
    of_columns = rest**2 + coupling**2 * others
    square = (steepness**2 * squares) @ of_columns
    return math.sqrt(float(square))


def softmax_of(scores: Floats) -> Floats:
    """The softmax of the scores of one row."""
    exponentials = np.exp(scores - scores.max())
    return np.asarray(exponentials / exponentials.sum())


def entropy_of(w: Floats) -> float:
    """The entropy of weights that sum to 1, in nats."""
    top = w.argmax()
    others = np.delete(w, top)
    logarithms = np.log(others, out=np.zeros_like(others), where=others > 0)
    of_others = others @ logarithms
    of_top = w[top] * math.log1p(-float(others.sum()))
    return float(-of_others - of_top)


def compare(row: DrawnRow, reported: Mapping[str, float], expected: Expected) -> None:
    """Compare the scores of a row with q.k, and its reported numbers with the expected ones.

    Raises:
        ArithmeticError: a score or a number of the row differs by more than rounding explains.
    """
    query = row.query
    keys = row.keys
    scores = row.scores
    products = keys @ query
    squares = np.vecdot(keys, keys)
    rounding = 2 * len(query) * _EPS * np.sqrt(squares * (query @ query))
    visible = np.isfinite(scores)
    for key in np.flatnonzero(visible & (np.abs(scores - products) > rounding)):
        raise difference(f"score of key {key}", products[key], scores[key])
    largest = float(np.abs(row.scaled[visible]).max())
    relative = _RELATIVE + _DIVISIONS * _EPS * largest
    for name, (value, absolute) in expected.items():
        tolerance = relative * abs(value) + absolute
        if name in reported and not abs(reported[name] - value) <= tolerance:
            raise difference(name, value, reported[name])


def difference(what: str, expected: float, got: float) -> ArithmeticError:
    """The error of a number that is not what its definition gives."""
    return ArithmeticError(
        f"{what}: expected {expected:.10g} from the definition, got {got:.10g} from the kernel"
    )
