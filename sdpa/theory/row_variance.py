"""The variance R = (1/n) sum_j (s_j - mean of s)^2 of the scaled scores of a row."""

import numpy as np

from sdpa.pairs import PairLaw, spectrum_of
from sdpa.scaling import Rule, Scaling
from sdpa.theory.integrals import check_sizes
from sdpa.theory.row_law import divisor_of_rows
from sdpa.theory.row_lengths import RowLengths, lengths_of
from sdpa.theory.scores import score_variance


def row_variance(
    d_k: float,
    n_keys: float,
    divisor: Rule,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
) -> float:
    """E R = (1 - 1/n) (A + B / n), with the symbols of `score_variance`:

        A = (sq^2 sk^2 sum_m lambda_m^2 + d_k mq^2 sk^2) / divisor^2
        B = rho^2 sq^2 sk^2 (d_k^2 + sum_m lambda_m^2) / divisor^2.

    A is the variance given q of a score with another key, for normalized vectors of any score. The
    score with the own key has the mean rho sq sk sum_m lambda_m a_m^2 and 1 - rho^2 of the
    variance; B is its excess.

    Arguments as in `attention_expectations`, n_keys from 1, and errors as in `score_variance`.

    >>> row_variance(d_k=64, n_keys=4, divisor=8.0)
    0.75
    """
    check_sizes(d_k, n_keys, fewest=1)
    divisor = divisor_of_rows(d_k, n_keys, divisor)
    return expected_row_variance(d_k, n_keys, divisor, law, shortest)


def expected_row_variance(
    d_k: float,
    n_keys: float,
    divisor: float | Scaling,
    law: PairLaw = PairLaw(),
    shortest: RowLengths = None,
) -> float:
    """As `row_variance`, for divisors of any size."""
    n = lengths_of(shortest, n_keys)
    relative = np.ones(len(n))
    if isinstance(divisor, Scaling):
        relative = np.array([divisor.divisor(d_k, n_keys, length) for length in n.tolist()])
        divisor = 1.0
    if law.normalize != "none":
        same = score_variance(d_k, 1.0, law) / divisor**2
        own = 0.0
    else:
        squares = d_k
        if law.spectrum:
            eigenvalues = spectrum_of(int(d_k), law.spectrum)
            squares = float((eigenvalues**2).sum())
        of_keys = (law.key_std / divisor) ** 2
        same = of_keys * (law.query_std**2 * squares + d_k * law.query_mean**2)
        own = of_keys * law.query_std**2 * law.correlation**2 * (d_k**2 + squares)
    by_length = (1 - 1 / n) * (same + own / n) / relative**2
    return float(by_length.mean())
