"""The second, plain kernel for rows in a number format: their shares and errors, one row at a time.

The rounded products q.k are those of the run, because sums in another order round otherwise. All that follows from
them, and the same row without rounding, is computed here.
"""

import math

import numpy as np

from experiments.measuring.second_kernel import DrawnRow, Expected, Floats, jacobian_norm, remainders, softmax_of
from sdpa.arithmetic import Arithmetic, rounded_rows

_RELATIVE, _ABSOLUTE = 1e-12, 1e-14  # of a number with and without rounding, of which an error is the difference


def plain_rounded_row(row: DrawnRow, arithmetic: Arithmetic, prescale: float) -> Expected:
    """The numbers of one row by metric, with `behind`: products R(q.k), and gradient to the weights, (n_keys,) each.

    A lost row, with an infinite number or NaN, counts as scores, weights and gradients of 0.
    """
    seen, round_to, of_products = np.isfinite(row.scores), arithmetic.round, arithmetic.of_products
    keys, gradient, own = row.keys[seen], row.behind["gradient"], int(seen[: row.own_key].sum())
    scores = row.scaled[seen]
    weights = softmax_of(scores)
    given = row.behind["products"][None], round_to(row.keys), round_to(gradient)[None]
    rounded = rounded_rows(*given, row.divisor, arithmetic, seen, prescale)
    results = rounded.weights[0, seen], rounded.score_gradient[0, seen], rounded.query_gradient[0]
    is_lost = not all(np.isfinite(values).all() for values in results)
    s, w, to_scores, to_query = (
        np.where(is_lost, 0.0, values.astype(np.float64)) for values in (rounded.scores[0, seen], *results)
    )

    # Of equal gradients at all keys, nothing is left: so those less the one at the largest weight.
    from_top = gradient[seen] - gradient[seen][weights.argmax()]
    exact_to_query = (weights * (from_top - weights @ from_top) / row.divisor) @ keys
    error, length = float(np.linalg.norm(to_query - exact_to_query)), float(np.linalg.norm(exact_to_query))
    # Sums over keys in another order differ, and may round an entry of dL/dq to the next number.
    of_sums = 4 * math.sqrt(len(keys)) * float(np.finfo(arithmetic.accumulator).eps)
    step = of_sums * float(np.linalg.norm(np.abs(to_scores) @ np.abs(keys)))
    step += float(np.abs(to_query).max()) * 2.0 ** (1 - of_products.digits) + of_products.smallest

    eights = arithmetic.has_8_bits
    shifted, log_smallest = scores - scores.max(), math.log(arithmetic.smallest) - math.log(2 * prescale)
    tiny = (shifted if eights else shifted - math.log(float(np.exp(shifted).sum()))) < log_smallest
    least_normal = (1 - 1e-6) * arithmetic.smallest_normal / prescale * (w.max() if eights else 1.0)
    kept = arithmetic.weights(np.exp(shifted), prescale)
    with np.errstate(over="ignore"):
        overflows = not np.isfinite(round_to(np.exp(rounded.scores[0].max())))
    shares = {
        "tiny_weights": tiny.mean(),
        "nearly_one_rows": remainders(weights).min() < 2.0 ** -(of_products.digits + 1),
        "large_rows": scores.max() > math.log(arithmetic.largest),
        "zero_weights": (w == 0).mean(),
        "subnormal_weights": ((w > 0) & (w < least_normal)).mean(),
        "one_rows": w.max() == 1,
        "overflowing_rows": overflows,
        "zero_gradients": (to_scores == 0).mean(),
        "zero_gradient_rows": not to_query.any(),
        "lost_rows": is_lost,
    }
    expected: Expected = {name: (float(share), 0.0) for name, share in shares.items()}
    expected["wrong_gradient_rows"] = float(error > length / 2), float(abs(error - length / 2) <= step)
    expected["query_gradient_error"] = error, step
    expected["rounding_loss"] = 1 - float(kept.sum(dtype=np.float64)), _ABSOLUTE
    expected["lost_mass"] = 1 - float(w.sum()), _ABSOLUTE
    limited = np.clip(s, -of_products.largest, of_products.largest)
    exact = _metrics(scores, weights, remainders(weights), own)
    relative = _RELATIVE + 16 * np.finfo(float).eps * float(np.abs(scores).max())
    for name, value in _metrics(limited, w, 1 - w, own).items():
        tolerance = relative * (abs(value) + abs(exact[name])) + _ABSOLUTE
        expected |= dict.fromkeys((f"{name}_bias", f"{name}_error"), (value - exact[name], tolerance))
    return expected


def _metrics(scores: Floats, weights: Floats, rest: Floats, own: int) -> dict[str, float]:
    """The metrics that have errors, of weights that need not sum to 1, with 1 - w."""
    entropy = -float(weights @ np.log(weights, out=np.zeros_like(weights), where=weights > 0))
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
