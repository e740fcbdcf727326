"""Polynomials in the sums p_kqa = sum_i w_i^k x_i^q c_i^a of a row, and their expansion by which indices coincide.

p_kq stands for p_kq0; x_i is a score, and c_i the mean square of what key i has across its query.

The mean of a product of sums over i, j, ... is the sum, over every way in which the indices may coincide, of means
over different indices:

    E p_ab p_cd = E sum_i w_i^(a+c) x_i^(b+d) + E sum_(i != j) w_i^a x_i^b w_j^c x_j^d

and so on over all set partitions. The metrics are written here in homogeneous form, of one degree in w by factors of
p_10 = sum w = 1. Then they vanish term by term for a row that is one-hot: the coefficients of the terms in which all
indices coincide cancel as whole numbers, and nothing cancels in their means, however saturated the row is. And they
are unchanged by a shift of all x at the same w, for each value of the integration variable of `GaussianRow`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from functools import cache

Index = tuple[int, int, int]
Polynomial = Counter[tuple[Index, ...]]  # products of p_kqa, as sorted tuples of (k, q, a), and their coefficients


def expand(polynomial: Polynomial) -> list[tuple[tuple[Index, ...], int]]:
    """Terms (k, q, a), (l, r, b), ... over different indices i, j, ..., and their coefficients.

    >>> expand(_times(_p(1), _p(1)))
    [(((1, 0, 0), (1, 0, 0)), 1), (((2, 0, 0),), 1)]
    """
    terms: Polynomial = Counter()
    for factors, coefficient in polynomial.items():
        for blocks in partitions(factors):
            terms[tuple(sorted(blocks))] += coefficient
    return sorted((term, coefficient) for term, coefficient in terms.items() if coefficient)


@cache
def metric_expansion(name: str) -> list[tuple[tuple[Index, ...], int]]:
    """The expanded metric of that name in `metrics`.

    >>> metric_expansion("|J|^2")
    [(((1, 0, 0), (1, 0, 0), (2, 0, 0)), 1), (((2, 0, 0), (2, 0, 0)), 2)]
    """
    return expand(metrics()[name])


@cache
def metrics() -> dict[str, Polynomial]:
    """tr J, |J|_F^2, |J x|^2, sum_i (J^2)_ii c_i, tr J^4 and products, for J = S_1 diag(w) - w w^T.

    With S_k = p_k0 and m = p_11: tr J = S_1^2 - S_2, |J|_F^2 = S_1^2 S_2 - 2 S_1 S_3 + S_2^2,
    |J x|^2 = S_1^2 p_22 - 2 S_1 m p_21 + m^2 S_2, (J^2)_ii = w_i^2 (S_1^2 - 2 S_1 w_i + S_2), and the traces of words
    in S_1 diag(w) and w w^T for tr J^4.
    """
    s1, s2, s3, s4, s5 = map(_p, range(1, 6))
    m, p21, p22 = _p(1, 1), _p(2, 1), _p(2, 2)
    trace = _sum(_times(s1, s1), _times(s2, by=-1))
    square = _sum(_times(s1, s1, s2), _times(s1, s3, by=-2), _times(s2, s2))
    along = _sum(_times(s1, s1, p22), _times(s1, m, p21, by=-2), _times(m, m, s2))
    across = _sum(_times(s1, s1, _p(2, across=1)), _times(s1, _p(3, across=1), by=-2), _times(s2, _p(2, across=1)))
    fourth = _sum(
        _times(s1, s1, s1, s1, s4),
        _times(s1, s1, s1, s5, by=-4),
        _times(s1, s1, s2, s4, by=4),
        _times(s1, s1, s3, s3, by=2),
        _times(s1, s2, s2, s3, by=-4),
        _times(s2, s2, s2, s2),
    )
    return {
        "tr J": trace,
        "(tr J)^2": _times(trace, trace),
        "|J|^2": square,
        "|J|^4": _times(square, square),
        "|Jx|^2": along,
        "JJ.c": across,
        "|Jx|^4": _times(along, along),
        "|Jx|^2 |J|^2": _times(along, square),
        "tr J^4": fourth,
    }


def _p(k: int, q: int = 0, across: int = 0) -> Polynomial:
    """p_kqa = sum_i w_i^k x_i^q c_i^a."""
    return Counter({((k, q, across),): 1})


def _times(*factors: Polynomial, by: int = 1) -> Polynomial:
    product: Polynomial = Counter({(): by})
    for factor in factors:
        longer: Polynomial = Counter()
        for (a, x), (b, y) in itertools.product(product.items(), factor.items()):
            longer[tuple(sorted(a + b))] += x * y
        product = longer
    return product


def _sum(*terms: Polynomial) -> Polynomial:
    total: Polynomial = Counter()
    for term in terms:
        for product, coefficient in term.items():
            total[product] += coefficient
    return total


def partitions(factors: tuple[Index, ...]) -> Iterator[list[Index]]:
    """Set partitions of the factors, each block as the sums of its k, q and a."""
    if not factors:
        yield []
        return
    first, rest = factors[0], factors[1:]
    for blocks in partitions(rest):
        yield [first, *blocks]
        for place, other in enumerate(blocks):
            merged = (first[0] + other[0], first[1] + other[1], first[2] + other[2])
            yield [*blocks[:place], merged, *blocks[place + 1 :]]
