"""Exact expectations of attention rows with Gaussian queries and keys, at finite d_k and n_keys.

Given a query q of standard deviation input_std, its scaled scores are independent N(0, sigma^2) with
sigma = input_std |q| / divisor, so that `GaussianRow` gives everything for that |q|; and |q|^2 / input_std^2 is
chi-squared with d_k degrees of freedom, over which these functions average:

    E f = int f(sigma(r)) r^(d/2) e^-r / Gamma(d/2) dx,   r = e^x = |q|^2 / (2 input_std^2)

with the trapezoidal rule in x. What is averaged is a smooth function of ln sigma, evaluated at Chebyshev nodes of
each octave and interpolated, since neighbouring d_k and divisors ask for the same sigma again.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory.rows import GaussianRow

FloatArray = npt.NDArray[np.float64]

_NODES = 12
_OCTAVE = math.log(2)
# Queries shorter than all but this share of them are left out: f varies by less than n_keys over them.
_SHORTEST, _LONGEST = 1e-9, 1e-14


@dataclass(frozen=True)
class AttentionExpectations:
    """Exact values of the metrics of that name, for Gaussian inputs."""

    max_weight: float
    entropy: float
    jacobian_trace: float
    jacobian_norm: float
    query_gradient_norm: float


@cache
def attention_expectations(d_k: float, n_keys: float, divisor: float, input_std: float = 1.0) -> AttentionExpectations:
    """E max w, E H, E tr J, sqrt(E |J|_F^2), and sqrt(E |dL/dq|^2) with

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
    if not (d_k >= 1 and 0 < divisor < math.inf and 0 < input_std < math.inf):
        got = f"{d_k}, {divisor} and {input_std}"
        raise ValueError(f"expected d_k from 1, divisor and input_std above 0, got {got}")
    half = d_k / 2
    low, high = math.log(special.gammaincinv(half, _SHORTEST)), math.log(special.gammainccinv(half, _LONGEST))
    x = np.linspace(low, high, math.ceil((high - low) / min(0.3, 0.45 / math.sqrt(half))) + 1)
    weights = np.exp(half * (x - math.log(half)) - np.exp(x) + half)
    sigma = input_std**2 / divisor * np.sqrt(2 * np.exp(x))
    means = weights / weights.sum() @ _row_values(sigma, n_keys)
    max_weight, entropy, trace, square, score_square = (float(mean) for mean in means)
    gradient = math.sqrt((d_k - 1) * square + score_square) * input_std / divisor
    return AttentionExpectations(max_weight, entropy, trace, math.sqrt(square), gradient)


def _row_values(sigma: FloatArray, n_keys: float) -> FloatArray:
    """Max weight, entropy, tr J, |J|_F^2 and |J z|^2 expected of rows at each sigma, (len(sigma), 5)."""
    place = np.log(sigma) / _OCTAVE
    octaves = np.floor(place)
    values = np.empty((len(sigma), 5))
    for octave in np.unique(octaves):
        inside = octaves == octave
        coefficients = _octave_coefficients(int(octave), n_keys)
        values[inside] = np.polynomial.chebyshev.chebval(2 * (place[inside] - octave) - 1, coefficients).T
    return values


@cache
def _octave_coefficients(octave: int, n_keys: float) -> FloatArray:
    """Chebyshev coefficients in ln sigma over sigma from 2^octave to 2^(octave + 1), (nodes, 5)."""
    nodes = np.polynomial.chebyshev.chebpts1(_NODES)
    rows = [GaussianRow(2.0 ** (octave + (node + 1) / 2), n_keys) for node in nodes]
    values = [
        [r.max_weight(), r.entropy(), r.jacobian_trace(), r.jacobian_square(), r.score_gradient_square()] for r in rows
    ]
    return np.asarray(np.polynomial.chebyshev.chebfit(nodes, np.array(values), _NODES - 1))
