"""Metrics of a row as polynomials in p_kqa = sum_i w_i^k x_i^q c_i^a, and their means.

x are the scores of the row in its unit, and c the mean squares of its keys across the query. The
mean of a product of sums is, over all set partitions of its factors, the sum of means over
different indices:

    E p_ab p_cd = E sum_i w_i^(a+c) x_i^(b+d) + E sum_(i != j) w_i^a x_i^b w_j^c x_j^d.

Factors p_1 = 1 give all terms of a polynomial one degree. A one-hot row then has exactly 0: the
coefficients of terms in which all indices coincide cancel as whole numbers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

Index = tuple[int, int, int]  # (k, q, a)
Indices = tuple[Index, ...]
Polynomial = Mapping[Indices, int]  # coefficients of products of p_kqa

# With S_k = p_k, m = p_11 and J = S_1 diag(w) - w w^T: (J^2)_ii = w_i^2 (S_1^2 - 2 S_1 w_i + S_2).
_S1, _S2, _S3 = ((k, 0, 0) for k in range(1, 4))
_M = (1, 1, 0)
_P21 = (2, 1, 0)
_P22 = (2, 2, 0)
_C2 = (2, 0, 1)
_C3 = (3, 0, 1)
_TRACE: Polynomial = {(_S1, _S1): 1, (_S2,): -1}
_SQUARE: Polynomial = {(_S1, _S1, _S2): 1, (_S1, _S3): -2, (_S2, _S2): 1}
_ALONG: Polynomial = {(_S1, _S1, _P22): 1, (_S1, _M, _P21): -2, (_M, _M, _S2): 1}
METRICS: dict[str, Polynomial] = {
    "tr J": _TRACE,
    "|J|^2": _SQUARE,
    "|Jx|^2": _ALONG,
    "JJ.c": {(_S1, _S1, _C2): 1, (_S1, _C3): -2, (_S2, _C2): 1},
    # Over the keys beside a sink, where p_1 is less than 1, with c and x of `capped_rows`.
    "sum w": {(_S1,): 1},
    "|J|^2 of keys": {(_C2,): 1, (_C3,): -2, (_S2, _C2): 1},
    "|Jx|^2 of keys": {(_P22,): 1, (_M, _P21): -2, (_M, _M, _S2): 1},
}


@cache
def metric_expansion(name: str) -> list[tuple[Indices, int]]:
    """Terms of a metric over different indices, each as its (k, q, a), and their coefficients.

    >>> metric_expansion("|J|^2")
    [(((1, 0, 0), (1, 0, 0), (2, 0, 0)), 1), (((2, 0, 0), (2, 0, 0)), 2)]
    """
    terms: Counter[Indices] = Counter()
    for factors, coefficient in METRICS[name].items():
        for parts in _partitions(factors):
            terms[tuple(sorted(parts))] += coefficient
    return sorted((term, coefficient) for term, coefficient in terms.items() if coefficient)


def _partitions(factors: Indices) -> Iterator[list[Index]]:
    """Set partitions of the factors, each part as the sums of its k, q and a."""
    if not factors:
        yield []
        return
    first = factors[0]
    k, q, a = first
    for parts in _partitions(factors[1:]):
        yield [first, *parts]
        for place, (other_k, other_q, other_a) in enumerate(parts):
            merged = (k + other_k, q + other_q, a + other_a)
            yield [*parts[:place], merged, *parts[place + 1 :]]
