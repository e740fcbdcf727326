"""A second, plain kernel: the softmax of a row and its Jacobian written out, to compare with the fast one.

Theory has no exact values for most laws of q and k. So every chunk compares a few of its rows with these definitions,
value by value. With w the softmax of the scores s over the divisor c, and J = diag(w) - w w^T:

    J_ii = w_i sum_{j != i} w_j,   |J|_F^2 = sum_i w_i^2 ((sum_{j != i} w_j)^2 + sum_{j != i} w_j^2)
    K^T J has the columns w_i (k_i - m) with m = sum_j w_j k_j,   |dL/dq| = |K^T J|_F / c

The sums over j != i leave the largest weight out, instead of subtracting it from 1: saturated rows keep their digits.
"""

import math

import numpy as np
import numpy.typing as npt

from sdpa import RowDiagnostics

Floats = npt.NDArray[np.floating]

# Relative, by the precision of the scores: above the rounding of both kernels in any row that a config allows.
_RELATIVE = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-2}
_ROUNDINGS = 1e3  # of the squared lengths of keys
_CACHED = 2**16  # numbers of keys at a time
_TINY = 1e-280  # smaller numbers lose digits in double precision


def plain_row(scores: Floats, divisor: float, keys: Floats, own_key: int) -> dict[str, float]:
    """The attributes of `sdpa.RowDiagnostics` of one row of scores q.k (n_keys,), -inf where masked, by name.

    >>> row = plain_row(np.zeros(2), 1.0, np.array([[3.0], [1.0]]), 0)
    >>> row["max_weight"], row["jacobian_norm"], round(row["query_gradient_norm"], 9)
    (0.5, 0.5, 0.707106781)
    """
    top = scores.argmax()
    w = np.exp((scores - scores[top]) / divisor)
    w /= w.sum()
    largest, own = float(w[top]), float(w[own_key])
    # The other weights in units of the largest of them, whose squares may leave the range of a double.
    w[top] = 0.0
    unit = float(w.max()) or 1.0
    others, rest = w / unit, float(w.sum())
    squares, collision = others * others, largest**2 + float(w @ w)
    of_top = largest**2 * (float(others.sum()) ** 2 + float(squares.sum()))
    entropy = -float(w @ np.log(np.where(w > 0, w, 1.0))) - largest * math.log1p(-rest)
    return {
        "max_weight": largest,
        "entropy": entropy,
        "jacobian_trace": largest * rest + float(w @ (1 - w)),
        "jacobian_norm": unit * math.sqrt(of_top + float(squares @ ((1 - w) ** 2 + collision - w * w))),
        "query_gradient_norm": unit * math.sqrt(_spread(others, unit, largest, keys, keys[top])) / divisor,
        "row_variance": float(np.var(scores[np.isfinite(scores)])) / divisor / divisor,
        "own_weight": own,
        "effective_keys": math.exp(entropy),
        "collision": collision,
        "participation": 1 / collision,
    }


def _spread(others: Floats, unit: float, largest: float, keys: Floats, top: Floats) -> float:
    """sum_i w_i^2 |k_i - m|^2 / unit^2, with keys less the one of the largest weight, a part of them at a time."""
    size = max(1, _CACHED // keys.shape[-1])
    parts = [slice(first, first + size) for first in range(0, len(keys), size)]
    mean = np.sum([others[part] @ (keys[part] - top) for part in parts], axis=0)
    total = largest**2 * float(mean @ mean)
    for part in parts:
        from_mean = keys[part] - top
        from_mean -= unit * mean
        total += float(others[part] ** 2 @ np.vecdot(from_mean, from_mean))
    return total


def compare_row(query: Floats, keys: Floats, scores: Floats, own_key: int, divisor: float, row: RowDiagnostics) -> None:
    """Compare the scores of one row, and its numbers from the fast kernel, with the definitions.

    Raises:
        ArithmeticError: a score or a number of the row differs by more than rounding explains.
    """
    relative, eps = _RELATIVE[scores.dtype], float(np.finfo(scores.dtype).eps)
    query, keys, scores = (array.astype(np.float64, copy=False) for array in (query, keys, scores))
    seen = np.isfinite(scores)
    products, squares = keys @ query, np.vecdot(keys, keys)
    rounding = 2 * len(query) * eps * np.sqrt(squares * (query @ query))
    for key in np.flatnonzero(seen & (np.abs(scores - products) > rounding)):
        raise _difference(f"score of key {key}", products[key], scores[key])
    # Differences of squares give distances of keys, and the mean of the scores is rounded.
    of_jacobian = float(row.jacobian_norm[0]) * math.sqrt(_ROUNDINGS * eps) + _TINY
    of_mean = 4 * math.sqrt(len(scores)) * eps * float(np.abs(scores[seen]).max()) / divisor
    absolute = {
        "query_gradient_norm": of_jacobian * math.sqrt(squares[seen].max()) / divisor,
        "row_variance": of_mean**2 + _TINY,
    }
    for name, expected in plain_row(scores, divisor, keys, own_key).items():
        for found in getattr(row, name):
            if not abs(found - expected) <= relative * expected + absolute.get(name, _TINY):
                raise _difference(name, expected, float(found))


def _difference(what: str, expected: float, got: float) -> ArithmeticError:
    written_out = "from the softmax and its Jacobian written out"
    return ArithmeticError(f"{what}: expected {expected:.10g} {written_out}, got {got:.10g} from the kernel")
