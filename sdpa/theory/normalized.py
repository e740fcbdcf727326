"""Rows of normalized queries and keys: scores are a gain times cosines, independent given the query."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.metrics import SATURATED
from sdpa.pairs import PairLaw
from sdpa.theory.cosine_rows import cosine_row
from sdpa.theory.unknown import UnknownError

FloatArray = npt.NDArray[np.float64]

_MAX_GAIN = 1e5


def normalized_means(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> tuple[FloatArray, FloatArray]:
    """The means of `attention.OF_ROWS` for vectors of length 1 (`l2`) or sqrt(d_k) (`rms`) in isotropic directions.

    The scores are length^2 t / divisor with the cosines t of `CosineGroup`. The gradient is that to the normalized
    query: K^T v, v = J g, has the part length t.v along the query, and across it independent parts of mean square
    length^2 v_j^2 (1 - t_j^2), so that

        E |dL/dq|^2 = (E |J t|^2 + E sum_j (J^2)_jj (1 - t_j^2)) length^2 / divisor^2.

    Args:
        d_k, n_keys: whole numbers.
        divisor, law: as in `attention_expectations`.

    Returns:
        The means; and the mean squares that `deviation_limits` uses, in its order.

    Raises:
        UnknownError: the directions are not isotropic, or the gain length^2 / divisor is above 1e5.
        ValueError: d_k or n_keys is not whole.
    """
    if law.entries.name != "gaussian" or law.query_mean or law.key_mean or law.spectrum:
        raise UnknownError("normalized vectors are known only for gaussian entries of mean 0 without a spectrum")
    if d_k != int(d_k) or n_keys != int(n_keys):
        raise ValueError(f"expected whole numbers beside a normalization, got {d_k} and {n_keys}")
    square = 1.0 if law.normalize == "l2" else float(d_k)
    gain = square / divisor
    if gain > _MAX_GAIN:
        raise UnknownError(f"rows of normalized vectors are unknown for a gain above {_MAX_GAIN:g}")
    values = (_signs if d_k == 1 else _cosines)(int(d_k), int(n_keys), gain)
    max_weight, entropy, trace, jacobian, gradient, saturated, collision, *squares = values
    scale = square / divisor**2
    # All weights of a row are alike, so that any one has the mean 1 / n and the mean square E sum w^2 / n.
    means = [max_weight, entropy, trace, jacobian, gradient * scale, saturated, collision, jacobian * scale, 1 / n_keys]
    return np.array(means), np.array([*squares, collision / n_keys])


@cache
def _cosines(d_k: int, n_keys: int, gain: float) -> tuple[float, ...]:
    """Means of the metrics of a row, for d_k from 2, in order.

    Max w, H, tr J, |J|_F^2, |J t|^2 + sum_j (J^2)_jj (1 - t_j^2), saturation and sum w^2; and the squares of max w,
    tr J and |J|_F^2.
    """
    row = cosine_row(gain, d_k, n_keys)
    return (
        row.max_weight(),
        row.entropy(),
        row.jacobian_trace(),
        row.jacobian_square(),
        row.score_gradient_square() + row.across_square(),
        row.max_weight_survival(SATURATED),
        row.power_sum(2),
        row.max_weight_square(),
        row.metric_mean("(tr J)^2"),
        row.metric_mean("|J|^4"),
    )


def _signs(_: int, n_keys: int, gain: float) -> tuple[float, ...]:
    """The same for d_k = 1, where every cosine is 1 or -1: sums over the number m of ones, binomial.

    A one has the weight a = 1 / (m + (n - m) r), r = e^(-2 gain), and a minus one r a.
    """
    n, m = n_keys, np.arange(n_keys + 1.0)
    chance = np.exp(special.gammaln(n + 1) - special.gammaln(m + 1) - special.gammaln(n - m + 1) - n * math.log(2))
    r = np.where(m > 0, math.exp(-2 * gain), 1.0)  # without a one all weights are equal
    a = 1 / (m + (n - m) * r)
    low = r * a
    power_sums = [m * a**k + (n - m) * low**k for k in (1, 2, 3)]
    entropy = m * special.entr(a) + (n - m) * special.entr(low)
    # sum_i (w_i - w_i^2) and sum_i (w_i^2 - 2 w_i^3 + w_i^2 sum w^2), in which nothing cancels for m = 1.
    rest_a, rest_low = (m - 1) * a + (n - m) * low, m * a + (n - m - 1) * low
    trace = m * a * rest_a + (n - m) * low * rest_low
    square = m * a**2 * (rest_a**2 + power_sums[1] - a**2) + (n - m) * low**2 * (rest_low**2 + power_sums[1] - low**2)
    # t_i - sum w t is 2 (n - m) r a for a one and -2 m a for a minus one.
    along = 4 * m * (n - m) * a**2 * low**2 * (n - m + m)
    largest = np.maximum(a, low)
    means = (largest, entropy, trace, square, along, 1.0 * (a > SATURATED), power_sums[1])
    values = (*means, largest**2, trace**2, square**2)
    return tuple(float(chance @ value) for value in values)
