"""Rows of independent scores behind a soft cap, beside a sink, or under the sigmoid, exactly.

Given an independent Gaussian query q, scaled scores are s = sigma z with independent standard
normal z, sigma = key_std
|q| / divisor. A cap makes them softcap tanh(s / softcap), still independent, with the slope t. A sink of the logit b
adds e^b to the partition sum, and so the factor e^(-t e^b) to its Laplace transform. So, with the
transforms

    G(u) = E exp(-e^y),   M_kf(u) = E[f(z) e^(ky) exp(-e^y)],   D(u) = exp(-e^(u + b)),   y = u + capped score

expectations over the n keys are E[w_i^k f_i w_j^l h_j ...] = int M_kf M_lh ... G^(n - indices) D du
/ (k + l ... - 1)!. The largest weight is that of z if all others lie below:

    E max w = n int E[e^y exp(-e^y) C(u, z)^(n-1)] D du,   C(u, z) = E[exp(-e^y'), z' < z].

With J the Jacobian to the scores before the cap, x = t z and c = t^2, K split along and across q as
in `attention_expectations`:

    |J|_F^2  = sum_i c_i w_i^2 (1 - 2 w_i + sum_j w_j^2)
    |dL/dq|^2 = (|(diag(w) - w w^T) x|^2 + (d_k - 1) |J|_F^2) key_std^2 / divisor^2   in the mean.

The weights of the sigmoid do not depend on each other, so that its integrals are over z alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from sdpa.pairs import PairLaw
from sdpa.row_maps import RowMap
from sdpa.theory.attention import attention_expectations
from sdpa.theory.gaussian_rows import interpolated, mean_over_lengths
from sdpa.theory.integrals import (
    HIGHEST,
    RANGE,
    FloatArray,
    UnknownError,
    check_sizes,
    gauss_panels,
)
from sdpa.theory.normal_rows import normal_density
from sdpa.theory.row_metrics import check_arguments
from sdpa.theory.rows import GaussianRow
from sdpa.theory.score_law import gaussian_queries

_ORDER, _STEP = 8, 0.22  # nodes of a panel, and the step of u
_DEVIATIONS = 10.0
_LEAST_SIGMA = 1e-9
_MOST_NODES = 200_000  # beyond, a row takes seconds
_AT_ONCE = 64  # nodes of u, 14 wide in all
_ZERO = 7.0  # exp(-e^7) is 0
# Integrals from the start of a panel to each node, of the polynomial through values at its nodes
# times their weights.
_X, _W = np.polynomial.legendre.leggauss(_ORDER)
_LEGENDRE = np.polynomial.legendre.legvander(_X, _ORDER)
_BELOW = np.column_stack(
    [1 + _X, *((_LEGENDRE[:, m + 1] - _LEGENDRE[:, m - 1]) / (2 * m + 1) for m in range(1, _ORDER))]
)
_WITHIN = _BELOW @ np.diag((2 * np.arange(_ORDER) + 1) / 2) @ _LEGENDRE[:, :_ORDER].T
# |J|_F^2 and |(diag(w) - w w^T) x|^2 over different indices: coefficients, and (k, f) of each, f of
# 1, x, x^2, c.
_ONE, _X1, _X2, _C = range(4)
_SQUARE = ((1, ((2, _C),)), (-2, ((3, _C),)), (1, ((4, _C),)), (1, ((2, _C), (2, _ONE))))
_ALONG = (
    (1, ((2, _X2),)),
    (-2, ((3, _X2),)),
    (-2, ((1, _X1), (2, _X1))),
    (1, ((4, _X2),)),
    (1, ((2, _X2), (2, _ONE))),
    (2, ((3, _X1), (1, _X1))),
    (1, ((1, _X1), (1, _X1), (2, _ONE))),
)


class MappedExpectations(NamedTuple):
    """Exact values of the metrics of the experiment `mechanisms`, by their names; NaN where
    unknown.
    """

    visible_mass: float
    max_weight: float
    entropy: float
    jacobian_norm: float
    query_gradient_norm: float


def mapped_expectations(
    d_k: float,
    n_keys: int,
    divisor: float,
    law: PairLaw,
    row_map: RowMap,
    shortest: int | None,
    window: float,
) -> MappedExpectations:
    """E sum w, E max w, E H of w / sum w, sqrt(E |J|_F^2) and sqrt(E |dL/dq|^2) under a row map.

    Args:
        d_k, n_keys, divisor, law: as in `attention_expectations`, of isotropic vectors also after a
            rotation (RoPE).
        row_map: with the normalizer `softmax` or `sigmoid`.
        shortest: with a causal mask, the number of keys that the first query sees, were there no
            window; else None.
        window: the most keys that a query sees, infinite for all.

    Raises:
        UnknownError: rows of this law under this map are unknown.

    >>> found = mapped_expectations(64, 64, 8.0, PairLaw(), RowMap(sink=0.0), None, math.inf)
    >>> round(found.visible_mass, 5), round(found.max_weight, 5)
    (0.99034, 0.10617)
    """
    check_sizes(d_k, n_keys)
    check_arguments(d_k, divisor)
    most = int(min(n_keys, window))
    means = _plain_means if row_map.is_plain else _mapped_means
    found = means(
        d_k,
        most,
        n_keys,
        divisor,
        law,
        row_map,
        None if shortest is None or shortest >= most else shortest,
    )
    if (
        shortest is not None and shortest < most < n_keys
    ):  # one row of each length, but many of the longest
        longest = means(d_k, most, n_keys, divisor, law, row_map, None)
        found = ((most - shortest + 1) * found + (n_keys - most) * longest) / (
            n_keys - shortest + 1
        )
    return MappedExpectations(*found[:3].tolist(), *np.sqrt(found[3:]).tolist())


def _plain_means(
    d_k: float, n_keys: int, _: int, divisor: float, law: PairLaw, __: RowMap, shortest: int | None
) -> FloatArray:
    found = attention_expectations(d_k, n_keys, divisor, law, shortest)
    return np.array(
        [1.0, found.max_weight, found.entropy, found.jacobian_norm**2, found.query_gradient_norm**2]
    )


@cache
def _mapped_means(
    d_k: float,
    n_keys: int,
    of_bias: int,
    divisor: float,
    law: PairLaw,
    row_map: RowMap,
    shortest: int | None,
) -> FloatArray:
    """Means over rows of `shortest` to n_keys keys, or of n_keys alone; `of_bias` is the n of the
    sigmoid.
    """
    if row_map.normalizer not in ("softmax", "sigmoid"):
        raise UnknownError(f"rows of {row_map.normalizer} are unknown")
    if law.key_mean:
        raise UnknownError("capped scores and those beside a sink are unknown for keys with a mean")
    lengths = gaussian_queries(d_k, law, halvings=1)
    sigma = law.query_std * law.key_std / divisor * lengths.length

    def values(n: float) -> FloatArray:
        rows = _of_softmax(sigma, n, row_map) if row_map.normalizer == "softmax" else None
        if rows is None:
            rows = np.array([one_by_one(s, n, row_map.softcap, math.log(of_bias)) for s in sigma])
        rows[:, 4] = (rows[:, 4] + (d_k - 1) * rows[:, 3]) * (law.key_std / divisor) ** 2
        return np.asarray(lengths.share @ rows)

    return mean_over_lengths(values, np.zeros(5) if shortest != 1 else values(1), n_keys, shortest)


def _of_softmax(sigma: FloatArray, n_keys: float, row_map: RowMap) -> FloatArray:
    """The means of `mapped_row` at each sigma, rising, (rows, 5), from two keys by
    interpolation.
    """
    if n_keys >= 2:
        return interpolated(sigma, n_keys, _functions(row_map))
    if row_map.sink is None:
        return np.tile([1.0, 1.0, 0.0, 0.0, 0.0], (len(sigma), 1))
    # The only key and the sink: the weight is a sigmoid of the score less the logit of the sink.
    alone = np.array([one_by_one(s, 1, row_map.softcap, row_map.sink) for s in sigma])
    alone[:, 2] = 0.0
    return alone


@cache
def _functions(row_map: RowMap) -> tuple[Callable[[GaussianRow], float], ...]:
    """Functions of sigma and n_keys of a row, the same objects for the same map."""

    @lru_cache(1)
    def means(sigma: float, n_keys: float) -> FloatArray:
        return mapped_row(sigma, n_keys, row_map.softcap, row_map.sink)

    return tuple(lambda row, i=i: float(means(row.sigma, row.n_keys)[i]) for i in range(5))


def capped(z: FloatArray, sigma: float, softcap: float) -> tuple[FloatArray, FloatArray]:
    """The capped scores of standard normal z, and their slope t in the scores."""
    if not softcap:
        return sigma * z, np.ones_like(z)
    small = np.exp(-2 * np.abs(sigma * z / softcap))
    return softcap * np.tanh(sigma * z / softcap), 4 * small / (1 + small) ** 2


def _z_nodes(
    sigma: float, softcap: float, low: float, high: float
) -> tuple[FloatArray, FloatArray]:
    """Nodes of a standard normal z in panels on which scores from low to high change by at most 1,
    and their slope.
    """
    edges = [np.linspace(-_DEVIATIONS, _DEVIATIONS, 41)]
    if softcap:
        edges.append(softcap / sigma * np.linspace(-20, 20, 61))
        low, high = max(low, -softcap), min(high, softcap)
    low, high = max(low, -_DEVIATIONS * sigma), min(high, _DEVIATIONS * sigma)
    if low < high:
        inside = np.linspace(low, high, math.ceil(high - low) + 1)
        edges.append(
            softcap / sigma * np.arctanh(0.999999 * inside / softcap) if softcap else inside / sigma
        )
    z, weights = gauss_panels(
        np.unique(np.clip(np.concatenate(edges), -_DEVIATIONS, _DEVIATIONS)), _ORDER
    )
    chances = weights * normal_density(z)
    return z, chances / chances.sum()


def mapped_row(
    sigma: float, n_keys: float, softcap: float = 0.0, sink: float | None = None
) -> FloatArray:
    """E sum w, E max w, E H of w / sum w, E |J|_F^2 and E |(diag(w) - w w^T) x|^2 of a softmax row,
    n_keys from 2.

    >>> row, expected = mapped_row(2.0, 64), GaussianRow(2.0, 64)
    >>> bool(abs(row[2] - expected.entropy()) < 1e-9), bool(abs(row[1] - expected.max_weight()) < 1e-9)
    (True, True)
    """
    sigma = max(sigma, _LEAST_SIGMA)
    ends = np.array(
        [special.ndtri_exp(-RANGE / max(n_keys - 3, 1)), -special.ndtri(1e-17 / n_keys)]
    )
    (least, most), _ = capped(ends, sigma, softcap)
    low, high = -most - math.log(n_keys) - RANGE - 9, HIGHEST + 9 - least
    u, step = np.linspace(low, high, math.ceil((high - low) / _STEP), retstep=True)
    z, chances = _z_nodes(sigma, softcap, -math.inf, math.inf)
    s, slope = capped(z, sigma, softcap)
    if len(u) + len(z) > _MOST_NODES:
        raise UnknownError(f"rows of scores with a deviation of {sigma:g} are unknown")
    x = slope * z
    functions = np.array([np.ones_like(z), x, x**2, slope**2])
    step, found = float(step), []
    for first in range(0, len(u), _AT_ONCE):
        part = u[first : first + _AT_ONCE]
        # Whole panels of the nodes at which exp(-e^y) is neither 1 nor 0 at all these u.
        start, end = np.searchsorted(s, (-RANGE - 1 - part[-1], HIGHEST - part[0]))
        near = slice(start // _ORDER * _ORDER, -(-end // _ORDER) * _ORDER)
        sides = chances[: near.start].sum(), chances[near.stop :].sum()
        found.append(
            _at(part[:, None] + s[near], functions[:, near], chances[near], *sides, n_keys)
        )
    log_g, largest, of_entropy, *moments = np.concatenate(found, axis=1)
    of_sink = np.zeros_like(u) if sink is None else -np.exp(np.minimum(u + sink, 700.0))

    def mean(terms: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]) -> float:
        total = 0.0
        for coefficient, factors in terms:
            tuples = math.prod(n_keys - i for i in range(len(factors)))
            if tuples > 0:
                values = np.prod([moments[4 * (k - 1) + f] for k, f in factors], axis=0)
                integral = step * float(values @ np.exp((n_keys - len(factors)) * log_g + of_sink))
                total += (
                    coefficient * tuples * integral / math.factorial(sum(k for k, _ in factors) - 1)
                )
        return total

    max_weight = n_keys * step * float(largest @ np.exp(of_sink))
    entropy = n_keys * step * float(of_entropy @ np.exp((n_keys - 1) * log_g))
    return np.array([mean(((1, ((1, _ONE),)),)), max_weight, entropy, mean(_SQUARE), mean(_ALONG)])


def _at(
    y: FloatArray, functions: FloatArray, chances: FloatArray, below: float, above: float, n: float
) -> FloatArray:
    """Of nodes of u: ln G, the integrands of the largest weight and of the entropy, and M_kf for k
    to 4, (19, nodes).

    y are (nodes of u, nodes), and `below` and `above` the chances of lower and higher y, whose
    exp(-e^y) is 1 and 0.
    """
    e = np.exp(np.minimum(y, _ZERO))
    kernel = chances * np.exp(-e)
    missing = above - np.expm1(-e) @ chances
    panels = kernel.reshape(len(kernel), -1, _ORDER)
    sums = panels.sum(axis=-1)
    g = below + sums.sum(axis=-1)
    log_g = np.where(
        missing < 0.5, np.log1p(-np.minimum(missing, 0.5)), np.log(np.maximum(g, 1e-300))
    )
    before = below + np.cumsum(sums, axis=-1) - sums
    lower = (before[..., None] + panels @ _WITHIN.T).reshape(kernel.shape)
    largest = np.vecdot(kernel * e, np.maximum(lower, 0.0) ** (n - 1))
    of_entropy = np.vecdot(kernel * e, special.digamma(1.0) - y)
    moments = [(kernel * e**k) @ functions.T for k in range(1, 5)]
    return np.array([log_g, largest, of_entropy, *np.concatenate(moments, axis=1).T])


def one_by_one(sigma: float, n_keys: float, softcap: float, bias: float) -> FloatArray:
    """The means of `mapped_row` for n_keys weights 1 / (1 + e^(bias - s)); NaN for the entropy,
    which is unknown.

    >>> round(float(one_by_one(1.0, 64, 0.0, math.log(64))[0]), 5)
    1.54919
    """
    sigma = max(sigma, _LEAST_SIGMA)
    z, chances = _z_nodes(sigma, softcap, bias - RANGE, bias + RANGE)
    s, slope = capped(z, sigma, softcap)
    w = special.expit(s - bias)
    squares = (slope * w * special.expit(bias - s)) ** 2
    largest = n_keys * float((chances * special.ndtr(z) ** (n_keys - 1)) @ w)
    of_squares = n_keys * float(chances @ squares), n_keys * float((chances * squares) @ z**2)
    return np.array([n_keys * float(chances @ w), largest, math.nan, *of_squares])
