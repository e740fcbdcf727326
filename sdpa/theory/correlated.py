"""Rows of Gaussian queries that correlate with their own key: one score of another law than the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from sdpa.metrics import SATURATED
from sdpa.pairs import PairLaw
from sdpa.theory._grids import span
from sdpa.theory.groups import NormalLaw
from sdpa.theory.normal_rows import normal_rows
from sdpa.theory.queries import query_lengths
from sdpa.theory.rows import Row
from sdpa.theory.unknown import UnknownError

FloatArray = npt.NDArray[np.float64]

_HALVINGS, _ACCURACY = 7, 1e-9
_SHORTEST = 1e-14  # almost all unsaturated rows of a strong correlation are those of short queries


@cache
def correlated_means(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> tuple[FloatArray, FloatArray]:
    """The means of `attention.OF_ROWS` with a correlation rho of a query and its own key, entry by entry.

    Given q, in units of sigma = key_std |q| / divisor and up to a shift of all, the scores of other keys are N(0, 1),
    and that of the own key is N(rho |q| / query_std, 1 - rho^2). Across the query, the entries of the own key have the
    variance (1 - rho^2) key_std^2, so that with c = 1 - rho^2 for it and 1 for the others

        E |dL/dq|^2 = (E |J x|^2 + (d_k - 1) E sum_j (J^2)_jj c_j) key_std^2 / divisor^2.

    Args:
        d_k, divisor, law: as in `attention_expectations`.
        n_keys: a whole number.

    Returns:
        The means; and the mean squares that `deviation_limits` uses, in its order.

    Raises:
        UnknownError: the law has a spectrum.
        ValueError: n_keys is not whole.
    """
    if law.spectrum:
        raise UnknownError("softmax rows are unknown for entries of unequal variance")
    if n_keys != int(n_keys):
        raise ValueError(f"expected a whole number of keys beside a correlation, got {n_keys}")
    scale = law.key_std / divisor

    def of_length(length: float) -> list[float]:
        return _row_means(law.query_std * scale * length, length, law.correlation, n_keys)

    def saturation(group: int, length: float) -> list[float]:
        row = _row(law.query_std * scale * length, length, law.correlation, n_keys)
        return [row.saturated_by(group, SATURATED)]

    max_weight, entropy, trace, square, along, across, of_keys, collision, own, *squares = _mean(d_k, of_length)
    saturated = sum(float(_mean(d_k, partial(saturation, group))[0]) for group in (0, 1))
    gradient = (along + (d_k - 1) * across) * scale**2
    of_keys *= (law.query_std / divisor) ** 2
    means = np.array([max_weight, entropy, trace, square, gradient, saturated, collision, of_keys, own])
    return means, np.array(squares)


def _mean(d_k: float, function: Callable[[float], list[float]]) -> FloatArray:
    """E of smooth functions of |q|.

    The steps between nodes are halved until steps of twice the width give the same within 3e-5: the errors of the
    trapezoidal rule fall like those of a Gaussian law, or at least by e^(-c / step), and are then below 1e-9.
    """
    lengths = query_lengths(d_k, halvings=0, shortest=_SHORTEST)
    values = np.array([function(length) for length in lengths.length])
    for halvings in range(1, _HALVINGS + 1):
        mean = lengths.share @ values
        twice = lengths.share[::2] @ values[::2] / lengths.share[::2].sum()
        most = np.maximum(np.abs(values).max(axis=0), 1e-3)
        if (np.abs(mean - twice) <= np.sqrt(_ACCURACY * most * np.maximum(np.abs(mean), 1e-6 * most))).all():
            break
        lengths = query_lengths(d_k, halvings=halvings, shortest=_SHORTEST)
        finer = np.empty((len(lengths.length), values.shape[1]))
        finer[::2], finer[1::2] = values, [function(length) for length in lengths.length[1::2]]
        values = finer
    return np.asarray(lengths.share @ values)


def _row_means(sigma: float, length: float, rho: float, n_keys: float) -> list[float]:
    """Means of the metrics of a row given |q|, in order.

    Max w, H, tr J, |J|_F^2, |J x|^2, sum_j (J^2)_jj c_j, |J|_F^2 |q|^2, sum w^2, own weight; and the squares of max w,
    tr J, |J|_F^2 and own weight.
    """
    row = _row(sigma, length, rho, n_keys)
    return [
        row.max_weight(),
        row.entropy(),
        row.jacobian_trace(),
        row.jacobian_square(),
        row.score_gradient_square(),
        row.across_square(),
        row.jacobian_square() * length**2,
        row.power_sum(2),
        row.group_power_sum(0, 1),
        row.max_weight_square(),
        row.metric_mean("(tr J)^2"),
        row.metric_mean("|J|^4"),
        row.group_power_sum(0, 2),
    ]


def _row(sigma: float, length: float, rho: float, n_keys: float) -> Row:
    """A row given |q|, its own key first."""
    rest = 1.0 - float(rho) ** 2
    own = NormalLaw(sigma, rho * length, math.sqrt(rest), rest)
    return Row(normal_rows((own, NormalLaw(sigma)), ((1.0, 1.0), span(n_keys - 1))), (1, n_keys - 1))
