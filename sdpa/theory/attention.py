"""Exact expectations and standard deviations of attention rows with Gaussian q and k, at finite d_k and n_keys.

Given a query q of standard deviation input_std, its scaled scores are independent N(0, sigma^2) with
sigma = input_std |q| / divisor, so that `GaussianRow` gives everything for that |q|; and |q|^2 / input_std^2 is
chi-squared with d_k degrees of freedom, over which these functions average:

    E f = int f(sigma(r)) r^(d/2) e^-r / Gamma(d/2) dx,   r = e^x = |q|^2 / (2 input_std^2)

with the trapezoidal rule in x. Each f is a smooth function of ln sigma, evaluated at Chebyshev nodes of each octave and
interpolated, because neighbouring d_k and divisors need the same sigma again.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.metrics import SATURATED
from sdpa.theory.rows import GaussianRow

FloatArray = npt.NDArray[np.float64]
ValuesOf = Callable[[GaussianRow], list[float]]

_NODES = 12
_OCTAVE = math.log(2)
# The integral omits the shortest queries, this share of all: f varies by less than n_keys over them.
_SHORTEST, _LONGEST = 1e-9, 1e-14
_MIN_VARIANCE = 2e-8


@dataclass(frozen=True)
class AttentionExpectations:
    """Exact values of the metrics, by their names, for Gaussian inputs."""

    max_weight: float
    entropy: float
    jacobian_trace: float
    jacobian_norm: float
    query_gradient_norm: float
    saturated_rows: float


@dataclass(frozen=True)
class AttentionDeviations:
    """Standard deviations of the metrics of one row, for Gaussian inputs; for the norms, those of their squares."""

    max_weight: float
    entropy: float
    jacobian_trace: float
    jacobian_square: float
    query_gradient_square: float
    saturated_rows: float


@cache
def attention_expectations(d_k: float, n_keys: float, divisor: float, input_std: float = 1.0) -> AttentionExpectations:
    """E max w, E H, E tr J, sqrt(E |J|_F^2), P(max w > SATURATED), and sqrt(E |dL/dq|^2) with

        E |dL/dq|^2 = ((d_k - 1) E |J|_F^2 + E |J z|^2) input_std^2 / divisor^2.

    The last: dL/dq = K^T J g / divisor. Split every key into its part along q, input_std z_i, and the d_k - 1 parts
    across it, which are independent of the scores: K^T v has the mean square (z.v)^2 + (d_k - 1) |v|^2 over them,
    times input_std^2, and for v = J g with standard normal g these have the means |J z|^2 and |J|_F^2.

    Args:
        d_k: width of q and k, from 1; like n_keys any real number.
        n_keys: keys, from 2.
        divisor: above 0.
        input_std: standard deviation of the entries of q and k, above 0.

    Raises:
        ValueError: an argument out of its range.

    >>> round(attention_expectations(d_k=64, n_keys=64, divisor=8.0).max_weight, 5)
    0.10717
    """
    sigma, share = _queries(d_k, divisor, input_std)
    max_weight, entropy, trace, square, score_square = (float(mean) for mean in share @ _row_values(sigma, n_keys))
    saturated = float(share @ _saturated(sigma, n_keys))
    gradient = math.sqrt((d_k - 1) * square + score_square) * input_std / divisor
    return AttentionExpectations(max_weight, entropy, trace, math.sqrt(square), gradient, saturated)


@cache
def attention_deviations(d_k: float, n_keys: int, divisor: float, input_std: float = 1.0) -> AttentionDeviations:
    """Standard deviations of max w, H, tr J, |J|_F^2, |dL/dq|^2 and 1[max w > SATURATED] of one row.

    Each variance is the mean over |q| of the variance given |q| plus the variance over |q| of the mean given |q|. For
    |dL/dq|^2 = Q input_std^2 / divisor^2, given w, the scores and v = J g, Q = (z.v)^2 + |v|^2 chi^2 of d_k - 1
    degrees of freedom, and for standard normal g

        E Q^2 = 3 E |J z|^4 + 2 (d_k - 1) E[|J z|^2 |J|_F^2 + 2 |J^2 z|^2] + (d_k^2 - 1) E[|J|_F^4 + 2 tr J^4].

    The mean of N rows of different queries and keys has a standard error of these / sqrt(N). A variance that is below
    2e-8 of the mean square comes out as 0: it is a difference of two moments that are good to 1e-9.

    Args:
        d_k: width of q and k, from 1; any real number.
        n_keys: keys, a whole number from 2.
        divisor: above 0.
        input_std: standard deviation of the entries of q and k, above 0.

    Raises:
        ValueError: an argument out of its range.

    >>> round(attention_deviations(d_k=64, n_keys=64, divisor=8.0).max_weight, 5)
    0.04808
    """
    if n_keys != int(n_keys):
        raise ValueError(f"expected a whole number of keys, got {n_keys}")
    sigma, share = _queries(d_k, divisor, input_std)
    means, spreads = _row_values(sigma, n_keys), _row_spreads(sigma, n_keys)
    spread = share @ (spreads[:, :4] + (means[:, :4] - share @ means[:, :4]) ** 2)
    variances = _known(spread, share @ means[:, :4] ** 2)
    square, along = means[:, 3], means[:, 4]
    fourth_along, both, twice, fourth, trace_fourth = spreads[:, 4:].T
    across = d_k - 1
    mean = across * square + along
    second = 3 * fourth_along + 2 * across * (both + 2 * twice) + across * (d_k + 1) * (fourth + 2 * trace_fourth)
    of_gradient = _known(share @ (second - mean**2 + (mean - share @ mean) ** 2), share @ mean**2)
    gradient = math.sqrt(of_gradient) * input_std**2 / divisor**2
    saturated = float(share @ _saturated(sigma, n_keys))
    max_weight, entropy, trace, jacobian = (float(deviation) for deviation in np.sqrt(variances))
    bernoulli = math.sqrt(saturated * (1 - saturated))
    return AttentionDeviations(max_weight, entropy, trace, jacobian, gradient, bernoulli)


def _known(variance: Any, square: Any) -> Any:
    """Variances, 0 where their share of the mean square is so small that rounding errors reach it."""
    return np.where(variance > _MIN_VARIANCE * square, variance, 0.0)


def _queries(d_k: float, divisor: float, input_std: float) -> tuple[FloatArray, FloatArray]:
    """sigma at the nodes of ln |q|^2 and the probability of each."""
    if not (d_k >= 1 and 0 < divisor < math.inf and 0 < input_std < math.inf):
        got = f"{d_k}, {divisor} and {input_std}"
        raise ValueError(f"expected d_k of at least 1, and divisor and input_std above 0, got {got}")
    half = d_k / 2
    low, high = math.log(special.gammaincinv(half, _SHORTEST)), math.log(special.gammainccinv(half, _LONGEST))
    x = np.linspace(low, high, math.ceil((high - low) / min(0.3, 0.45 / math.sqrt(half))) + 1)
    weights = np.exp(half * (x - math.log(half)) - np.exp(x) + half)
    return input_std**2 / divisor * np.sqrt(2 * np.exp(x)), weights / weights.sum()


def _row_values(sigma: FloatArray, n_keys: float) -> FloatArray:
    """Max weight, entropy, tr J, |J|_F^2 and |J z|^2 expected of rows at each sigma, (len(sigma), 5)."""
    return _interpolated(sigma, n_keys, _row_means)


def _row_spreads(sigma: FloatArray, n_keys: float) -> FloatArray:
    """Variances of max weight, entropy, tr J and |J|_F^2, and the means in E Q^2, of rows at each sigma; 9 columns."""
    return _interpolated(sigma, n_keys, _row_variances)


def _saturated(sigma: FloatArray, n_keys: float) -> FloatArray:
    """P(max w > SATURATED) = n Phi(y / sigma) of rows at each sigma, by interpolation of y.

    It falls like e^(-c / sigma^2) towards small sigma, where y is nearly constant: within 1e-8 of the truth relatively,
    or within 1e-10, since lower octaves of sigma, in which it stays below that, count as 0.
    """
    result = np.zeros(len(sigma))
    some = sigma >= 2.0 ** _first_saturated_octave(n_keys)
    if some.any():
        y = _interpolated(sigma[some], n_keys, _saturation)[:, 0]
        result[some] = n_keys * special.ndtr(y / sigma[some])
    return result


@cache
def _first_saturated_octave(n_keys: float) -> int:
    """The lowest octave of sigma in which P(max w > SATURATED) reaches 1e-10."""
    return next(
        i for i in itertools.count(-2) if GaussianRow(2.0 ** (i + 1), n_keys).max_weight_survival(SATURATED) > 1e-10
    )


def _row_means(row: GaussianRow) -> list[float]:
    return [
        row.max_weight(),
        row.entropy(),
        row.jacobian_trace(),
        row.jacobian_square(),
        row.score_gradient_square(),
    ]


def _row_variances(row: GaussianRow) -> list[float]:
    moments = [
        (row.max_weight(), row.max_weight_square()),
        (row.jacobian_trace(), row.metric_mean("(tr J)^2")),
        (row.jacobian_square(), row.metric_mean("|J|^4")),
    ]
    variances = [second - mean**2 for mean, second in moments]
    variances.insert(1, row.entropy_variance())
    return variances + [row.metric_mean(name) for name in ("|Jx|^4", "|Jx|^2 |J|^2", "|JJx|^2", "|J|^4", "tr J^4")]


def _saturation(row: GaussianRow) -> list[float]:
    return [row.sigma * float(special.ndtri(row.max_weight_survival(SATURATED) / row.n_keys))]


def _interpolated(sigma: FloatArray, n_keys: float, values_of: ValuesOf) -> FloatArray:
    """Values of a function of rows at each sigma, (len(sigma), values)."""
    place = np.log(sigma) / _OCTAVE
    octaves = np.floor(place)
    pieces = []
    for octave in np.unique(octaves):  # in rising order, as sigma is
        coefficients = _octave_coefficients(int(octave), n_keys, values_of)
        pieces.append(np.polynomial.chebyshev.chebval(2 * (place[octaves == octave] - octave) - 1, coefficients).T)
    return np.concatenate(pieces)


@cache
def _octave_coefficients(octave: int, n_keys: float, values_of: ValuesOf) -> FloatArray:
    """Chebyshev coefficients in ln sigma over sigma from 2^octave to 2^(octave + 1), (nodes, values)."""
    nodes = np.polynomial.chebyshev.chebpts1(_NODES)
    values = [values_of(GaussianRow(2.0 ** (octave + (node + 1) / 2), n_keys)) for node in nodes]
    return np.asarray(np.polynomial.chebyshev.chebfit(nodes, np.array(values), _NODES - 1))
