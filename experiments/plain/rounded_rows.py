"""The second, plain kernel for rows in a number format: their shares and errors, one row at a time.

Sums in another order round otherwise. So each stage of the rounded row (products, scores, weights,
gradients) is compared with the one before it, to the rounding of its format. Its numbers then come
from these stages and the exact row.
"""

import math

import numpy as np
import numpy.typing as npt

from experiments.plain.rows import (
    DrawnRow,
    Expected,
    Floats,
    difference,
    jacobian_norm,
    remainders,
    softmax_of,
)
from sdpa.arithmetic import Arithmetic, rounded_rows

_SMALLEST = 4  # units of the smallest number, by which numbers near it may be off
# of a number with and without rounding, of which an error is the difference
_RELATIVE = 1e-12
_ABSOLUTE = 1e-14


def plain_rounded_row(row: DrawnRow, arithmetic: Arithmetic, prescale: float) -> Expected:
    """The numbers of one row by metric; its `extra_arrays` are products R(q.k) and gradient to the
    weights, (n_keys,).

    A lost row, with an infinite number or NaN, counts as scores, weights and gradients of 0.

    Raises:
        ArithmeticError: a stage of the row is not what the stage before it gives.
    """
    seen = np.isfinite(row.scores)
    given = (
        row.extra_arrays["products"][None],
        arithmetic.round(row.keys),
        arithmetic.round(row.extra_arrays["gradient"])[None],
    )
    rounded = rounded_rows(*given, row.divisor, arithmetic, seen, prescale)
    over_keys = (rounded.scores, rounded.weights, rounded.score_gradient)
    of_row = [*(each[0, seen] for each in over_keys), rounded.query_gradient[0]]
    stages = tuple(each.astype(np.float64) for each in of_row)
    _check_stages(row, seen, stages, arithmetic, prescale)
    is_lost = not all(np.isfinite(each).all() for each in stages[1:])
    s, w, to_scores, to_query = (np.where(is_lost, 0.0, each) for each in stages)
    with np.errstate(over="ignore"):
        largest = np.exp(rounded.scores[0].max())
        overflows = not np.isfinite(arithmetic.round(largest))

    scores = row.scaled[seen]
    weights = softmax_of(scores)
    rest = remainders(weights)
    has_8_bits = arithmetic.has_8_bits
    of_products = arithmetic.of_products
    shifted = scores - scores.max()
    exponentials = np.exp(shifted)
    total = float(exponentials.sum())
    before = shifted if has_8_bits else shifted - math.log(total)
    half_smallest = math.log(arithmetic.smallest) - math.log(2 * prescale)

    least_normal = arithmetic.smallest_normal
    if has_8_bits:
        least_normal *= (1 - 1e-6) * w.max() / prescale

    shares = {
        "tiny_weights": (before < half_smallest).mean(),
        "nearly_one_rows": rest.min() < 2.0 ** -(of_products.digits + 1),
        "large_rows": scores.max() > math.log(arithmetic.largest),
        "zero_weights": (w == 0).mean(),
        "subnormal_weights": ((w > 0) & (w < least_normal)).mean(),
        "one_rows": w.max() == 1,
        "overflowing_rows": overflows,
        "zero_gradients": (to_scores == 0).mean(),
        "lost_rows": is_lost,
    }
    kept = arithmetic.weights(exponentials, prescale).sum(dtype=np.float64)
    expected: Expected = {name: (float(share), 0.0) for name, share in shares.items()}
    expected |= {
        "rounding_loss": (1 - float(kept), _ABSOLUTE),
        "lost_mass": (1 - float(w.sum()), _ABSOLUTE),
    }
    expected |= _errors_of_gradient(row, seen, weights, to_scores, to_query, arithmetic)
    own = int(seen[: row.own_key].sum())
    exact = _metrics(scores, weights, rest, own)
    largest_score = float(np.abs(scores).max())
    relative = _RELATIVE + 16 * np.finfo(float).eps * largest_score
    finite = np.clip(s, -of_products.largest, of_products.largest)
    for name, value in _metrics(finite, w, 1 - w, own).items():
        tolerance = relative * (abs(value) + abs(exact[name])) + _ABSOLUTE
        error = (value - exact[name], tolerance)
        expected |= {f"{name}_bias": error, f"{name}_error": error}
    return expected


def _check_stages(
    row: DrawnRow,
    seen: npt.NDArray[np.bool_],
    stages: tuple[Floats, ...],
    arithmetic: Arithmetic,
    prescale: float,
) -> None:
    """Compare each stage of a row with the one before it, to the rounding of the format and of its
    sums.
    """
    scores, weights, to_scores, to_query = stages
    divisor = row.divisor
    root = math.sqrt(len(scores))
    query, keys, gradient = (
        arithmetic.round(each).astype(np.float64)
        for each in (row.query, row.keys[seen], row.extra_arrays["gradient"][seen])
    )
    products = row.extra_arrays["products"][seen].astype(np.float64)
    unit = 2.0**-arithmetic.digits
    of_product = 2.0**-arithmetic.of_products.digits
    of_sum = 8 * float(np.finfo(arithmetic.accumulator).eps)
    least = _SMALLEST * arithmetic.smallest
    least_product = _SMALLEST * arithmetic.of_products.smallest
    with np.errstate(all="ignore"):  # of lost rows
        size = np.abs(keys) @ np.abs(query)
        absolute = of_sum * len(query) * size + least_product
        _compare("product", keys @ query, products, of_product, absolute)
        _compare("score", products / divisor, scores, of_product + of_sum, least_product)

        shifted = scores - scores.max()
        factor = 1.0
        if arithmetic.has_8_bits:
            factor = prescale * float(np.exp(shifted).sum())
        _compare(
            "weight",
            softmax_of(scores),
            weights,
            unit + of_sum * (root + np.abs(shifted)),
            least / factor,
        )

        sizes = np.abs(gradient)
        size = weights * (sizes + weights @ sizes)
        absolute = of_sum * root * size / divisor + least * (1 + 1 / divisor)
        centred = weights * (gradient - weights @ gradient) / divisor
        _compare("gradient to score", centred, to_scores, 2.1 * unit, absolute)

        size = np.abs(to_scores) @ np.abs(keys)
        absolute = of_sum * root * size + least_product
        _compare("gradient to entry", to_scores @ keys, to_query, of_product, absolute)


def _compare(
    name: str, expected: Floats, got: Floats, relative: Floats | float, absolute: Floats | float
) -> None:
    """ArithmeticError for a number beyond its tolerance; one that is infinite or NaN is not
    compared.
    """
    allowed = relative * np.abs(expected) + absolute
    is_beyond = np.abs(got - expected) > allowed
    for place in np.flatnonzero(is_beyond & np.isfinite(got) & np.isfinite(expected)):
        raise difference(f"rounded {name} {place}", expected[place], got[place])


def _errors_of_gradient(
    row: DrawnRow,
    seen: npt.NDArray[np.bool_],
    weights: Floats,
    to_scores: Floats,
    to_query: Floats,
    of: Arithmetic,
) -> Expected:
    """The error of the rounded dL/dq; sums over keys in another order differ, and may round to the
    next number.
    """
    keys = row.keys[seen]
    gradient = row.extra_arrays["gradient"][seen]
    # Of equal gradients at all keys, nothing is left: so those less the one at the largest weight.
    from_top = gradient - gradient[weights.argmax()]
    exact_to_scores = weights * (from_top - weights @ from_top) / row.divisor
    exact = exact_to_scores @ keys
    error = float(np.linalg.norm(to_query - exact))
    length = float(np.linalg.norm(exact))
    sums = (
        (to_scores, float(np.finfo(of.accumulator).eps)),
        (exact_to_scores, float(np.finfo(np.float64).eps)),
    )
    products = of.of_products
    largest = float(np.abs(to_query).max())
    step = largest * 2.0 ** (1 - products.digits) + products.smallest
    for terms, eps in sums:
        size = float(np.linalg.norm(np.abs(terms) @ np.abs(keys)))
        step += 16 * math.sqrt(len(keys)) * eps * size
    half = length / 2
    is_near_half = abs(error - half) <= step
    may_be_zero = to_scores.any() and np.linalg.norm(to_query) <= step
    return {
        "query_gradient_error": (error, step),
        "wrong_gradient_rows": (float(error > half), float(is_near_half)),
        "zero_gradient_rows": (float(not to_query.any()), float(may_be_zero)),
    }


def _metrics(scores: Floats, weights: Floats, rest: Floats, own: int) -> dict[str, float]:
    """The metrics that have errors, of weights that need not sum to 1, with 1 - w."""
    logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    entropy = -float(weights @ logarithms)
    return {
        "row_variance": float(np.var(scores)),
        "max_weight": float(weights.max()),
        "own_weight": float(weights[own]),
        "entropy": entropy,
        "effective_keys": math.exp(entropy),
        "output_std": float(np.linalg.norm(weights)),
        "jacobian_trace": float(weights @ rest),
        "jacobian_norm": jacobian_norm(weights, 1.0, rest, np.ones(len(weights))),
    }
