"""The variance R = (1/n) sum_j (s_j - mean of s)^2 of the scaled scores of a row: its mean and limits of its spread.

Given q, an independent score has the variance sigma^2 = sum_m q_m^2 v_m and the fourth cumulant (m4 - 3) sum_m q_m^4
v_m^2, v_m the variance of entry m of a key and m4 the fourth moment of an entry. Scores of normalized vectors have the
same moments for every q.
"""

from __future__ import annotations

import math

import numpy as np

from sdpa.pairs import PairLaw, spectrum_of
from sdpa.scaling import Scaling, refuse_multiplier
from sdpa.theory.integrals import FloatArray, UnknownError, check_sizes
from sdpa.theory.scores import score_variance


def row_variance(
    d_k: float,
    n_keys: float,
    divisor: float | Scaling,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
) -> float:
    """E R = (1 - 1/n) (A + B / n), with the symbols of `score_variance`:

        A = (sq^2 sk^2 sum_m lambda_m^2 + d_k mq^2 sk^2) / divisor^2

    is the variance of a score with another's key given q, for normalized vectors of any score. The score with the own
    key has the mean rho sq sk sum_m lambda_m a_m^2 and 1 - rho^2 of the variance: its excess over the others is
    B = rho^2 sq^2 sk^2 (d_k^2 + sum_m lambda_m^2) / divisor^2.

    Arguments as in `attention_expectations`, n_keys from 1, and errors as in `score_variance`.

    >>> row_variance(d_k=64, n_keys=4, divisor=8.0)
    0.75
    """
    check_sizes(d_k, n_keys, fewest=1)
    if not isinstance(divisor, Scaling):
        refuse_multiplier("divisor", divisor, d_k)
    return expected_row_variance(d_k, n_keys, divisor, law, shortest)


def expected_row_variance(
    d_k: float,
    n_keys: float,
    divisor: float | Scaling,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
) -> float:
    """As `row_variance`, for divisors of any size."""
    n = np.array([n_keys]) if shortest is None else np.arange(shortest, n_keys + 1)
    relative = np.ones(len(n))
    if isinstance(divisor, Scaling):
        relative = np.array([divisor.divisor(d_k, n_keys, length) for length in n.tolist()])
        divisor = 1.0
    if law.normalize != "none":
        same, own = score_variance(d_k, 1.0, law) / divisor**2, 0.0
    else:
        squares = float((spectrum_of(int(d_k), law.spectrum) ** 2).sum()) if law.spectrum else d_k
        of_keys = (law.key_std / divisor) ** 2
        same = of_keys * (law.query_std**2 * squares + d_k * law.query_mean**2)
        own = of_keys * law.query_std**2 * law.correlation**2 * (d_k**2 + squares)
    return float(((1 - 1 / n) * (same + own / n) / relative**2).mean())


def row_variance_deviation(
    d_k: float,
    n_keys: int,
    divisor: float | Scaling,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
) -> float:
    """Standard deviation of R of one row, for every law that `row_variance` knows.

    For rows of several lengths, the root of the mean variance over them. A mean over the rows of a draw, which share
    its keys, has at most this deviation, and at least this over sqrt(n_queries). UnknownError as in `score_variance`,
    and for a correlation with a spectrum.

    >>> round(row_variance_deviation(d_k=64, n_keys=2, divisor=8.0), 6)  # of (s_1 - s_2)^2 / 4
    0.72349
    """
    if isinstance(divisor, Scaling):
        raise UnknownError(
            f"deviations of rows with divisors of their own are unknown, got {divisor}"
        )
    refuse_multiplier("divisor", divisor, d_k)
    lengths = range(shortest or n_keys, n_keys + 1)
    return math.sqrt(
        sum(spread_of_row_variance(d_k, n, divisor, law) for n in lengths) / len(lengths)
    )


def spread_of_row_variance(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> float:
    """Var R of one row of n_keys keys, from 1; errors as in `row_variance_deviation`.

    Given q, independent scores of variance sigma^2 and fourth cumulant kappa have E R = k sigma^2 with k = 1 - 1/n, and

        Var R = k^2 (Var sigma^2 + E kappa / n + 2 E sigma^4 / (n - 1))

    over q. With a correlation, one score has another law: with m2 = E|q|^4 = d_k (d_k + 2) and m3 = E|q|^6 =
    m2 (d_k + 4) of standard normal entries and c = query_std key_std / divisor, R given q has the mean
    c^2 k (a |q|^2 + b |q|^4), a = 1 - rho^2 / n, b = rho^2 / n, and the variance

        c^4 (2 |q|^4 (n - 1 - 2 rho^2 k + rho^4 k^2) + 4 rho^2 |q|^6 k (1 - rho^2 k)) / n^2.
    """
    n, d = n_keys, d_k
    if n <= 1:
        return 0.0
    if law.normalize != "none":
        gain = (1.0 if law.normalize == "l2" else d) / divisor
        second, fourth = score_variance(d_k, 1.0, law) / divisor**2, 3 * gain**4 / (d * (d + 2))
        return (n - 1) ** 2 / n**3 * (fourth - second**2 * (n - 3) / (n - 1))
    if not law.correlation:
        second_powers, fourth_powers, key_variances, times = _entry_powers(d_k, law)
        variance = times * float((key_variances**2 * (fourth_powers - second_powers**2)).sum())
        square = variance + (times * float((key_variances * second_powers).sum())) ** 2
        cumulant = (
            (law.entries.moments[1] - 3) * times * float((key_variances**2 * fourth_powers).sum())
        )
        return ((1 - 1 / n) / divisor**2) ** 2 * (variance + cumulant / n + 2 * square / (n - 1))
    if law.spectrum:
        raise UnknownError(
            "the spread of the variance of rows is unknown for a correlation with a spectrum"
        )
    rho, scale = law.correlation, (law.query_std * law.key_std / divisor) ** 4
    k, a, b, m2 = 1 - 1 / n, 1 - rho**2 / n, rho**2 / n, d * (d + 2)
    of_query = k**2 * (2 * d * a**2 + 8 * m2 * a * b + 8 * m2 * (d + 3) * b**2)
    of_keys = 2 * m2 * (n - 1 - 2 * rho**2 * k + rho**4 * k**2) + 4 * rho**2 * m2 * (d + 4) * k * (
        1 - rho**2 * k
    )
    return scale * (of_query + of_keys / n**2)


def least_shared_row_variance(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> float:
    """A lower limit of the covariance of R of two rows of the same keys and of independent queries.

    With S the covariance of the n keys of a draw (over n) and second moments a_m = E q_m^2, E[R | K] is
    sum_m a_m S_mm / divisor^2, plus terms of the mean of q that are uncorrelated with this sum and left out. For
    independent entries of fourth moment m4, Var S_mm = v_m^2 (n - 1) ((n - 1) m4 - n + 3) / n^3. Normalized vectors of
    length |k| have the trace |k|^2 - |mean of k|^2, and Var |mean of k|^2 = 2 |k|^4 (n - 1) / (n^3 d_k). Beside a
    correlation, the limit is 0, which always holds.

    >>> round(least_shared_row_variance(1, 3, 1.0, PairLaw(normalize="l2")), 6)  # 8/9 in 3 of 4 draws, otherwise 0
    0.148148
    """
    refuse_multiplier("divisor", divisor, d_k)
    n, d = n_keys, d_k
    if law.correlation or n <= 1:
        return 0.0
    if law.normalize != "none":
        gain = (1.0 if law.normalize == "l2" else d) / divisor
        return gain**4 * 2 * (n - 1) / (n**3 * d**3)
    second_powers, _, key_variances, times = _entry_powers(d_k, law)
    of_keys = key_variances**2 * (n - 1) * ((n - 1) * law.entries.moments[1] - n + 3) / n**3
    return times * float((second_powers**2 * of_keys).sum()) / divisor**4


def _entry_powers(d_k: float, law: PairLaw) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """E q_m^2, E q_m^4 and v_m of every different entry; and how many entries are like each."""
    third, fourth = law.entries.moments[:2]
    eigenvalues, times = (
        (spectrum_of(int(d_k), law.spectrum), 1.0) if law.spectrum else (np.ones(1), d_k)
    )
    deviation, mean = law.query_std * np.sqrt(eigenvalues), law.query_mean
    fourth_powers = (
        mean**4
        + 6 * (mean * deviation) ** 2
        + 4 * mean * deviation**3 * third
        + deviation**4 * fourth
    )
    return mean**2 + deviation**2, fourth_powers, np.asarray(law.key_std**2 * eigenvalues), times
