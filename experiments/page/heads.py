"""Exact values of heads of all sizes, between which the page interpolates for "Your head".

    python -m experiments.page.heads

computes heads.json again, in about a quarter of an hour; nothing else does. It has ln E max w, ln E H and
ln(median |dL/dq| / sigma) of textbook rows, by d_k, n_keys and the spread sigma = sqrt(d_k) /
divisor of the scaled scores. In wide heads sigma and n_keys decide alone; but at d_k = 64, a median
still differs by up to 15% from that of the widest.

The values are smooth in 1 / d_k, in (ln n_keys)^(1/4), and in ln(1 + sigma), along which there are
coefficients of Chebyshev polynomials, in units of 1 / `parts`. `ofHead` of attention.js interpolates.
"""

import json
import math
from itertools import product
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from numpy.polynomial.chebyshev import chebfit

from sdpa.theory import GaussianRow, attention_expectations, attention_medians

PATH = Path(__file__).parent / "heads.json"
RELATIVE_ERROR = 0.01  # of each of the three values
_WIDTHS = [8, 16, 64, 4096]  # from the least d_k with a known median
_LENGTHS = [2, 3, 7, 24, 128, 1024, 8192, 65536]
_WIDEST = 64  # spread, that of undivided scores at the largest d_k
_LEAST = 1e-4  # a smaller spread has the same values
_DEGREE = 20
_PARTS = 2000
_CURVES = ("max_weight", "entropy", "query_gradient")
_OTHERS = 64, 2**20  # lengths of rows whose entropy stands beside that of any head
_SHARES = np.linspace(0, 2, 33)  # of the critical spread, sqrt(2 ln n)


def logarithms(spread: float, d_k: int, n_keys: int) -> list[float]:
    """ln E max w, ln E H and ln(median |dL/dq| / spread) of a head."""
    spread = max(spread, _LEAST)
    divisor = math.sqrt(d_k) / spread
    means = attention_expectations(d_k, n_keys, divisor)
    median = attention_medians(d_k, n_keys, divisor).query_gradient_norm
    return [math.log(value) for value in (means.max_weight, means.entropy, median / spread)]


def entropy_shares(n_keys: int) -> list[float]:
    """Entropy over ln n of a row of this length, at `_SHARES` of the critical spread."""
    most = math.log(n_keys)
    rows = (GaussianRow(share * math.sqrt(2 * most), n_keys) for share in _SHARES)
    return [round(row.entropy() / most, 3) for row in rows]


def main() -> None:
    """Write the table."""
    places = -np.cos(np.linspace(0, np.pi, _DEGREE + 1))
    spreads = np.expm1(math.log1p(_WIDEST) * (1 + places) / 2).tolist()
    heads = product(spreads, _WIDTHS, _LENGTHS)
    with Pool() as pool:
        values = np.array(pool.starmap(logarithms, heads, chunksize=1))
    curves = chebfit(places, values.reshape(len(places), -1), _DEGREE)
    units = (_PARTS * curves).round().astype(int)
    by_head = units.reshape(len(places), len(_WIDTHS), len(_LENGTHS), len(_CURVES))
    of = {
        name: [
            [np.trim_zeros(curve, "b").tolist() for curve in by_length] for by_length in by_width
        ]
        for name, by_width in zip(_CURVES, by_head.transpose(3, 1, 2, 0), strict=True)
    }
    head = {
        "d_k": _WIDTHS,
        "n_keys": _LENGTHS,
        "spread": _WIDEST,
        "degree": _DEGREE,
        "parts": _PARTS,
        "of": of,
        "entropy_shares": {n: entropy_shares(n) for n in _OTHERS},
    }
    text = json.dumps(head, separators=(",", ":"))
    PATH.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
