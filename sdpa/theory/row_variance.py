"""The variance of the scaled scores within a row, exact for any law of independent entries."""

from __future__ import annotations

import math

import numpy as np

from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory.scores import score_variance
from sdpa.theory.unknown import UnknownError


def row_variance(
    d_k: float, n_keys: float, divisor: float, law: PairLaw = PairLaw(), shortest: int | None = None
) -> float:
    """E (1/n) sum_j (s_j - mean of s)^2 = (1 - 1/n) (A + B / n), in the units of the scaled scores, squared.

    A is the variance of a score of a given query with another's key, without the shift that the mean of the keys gives
    to all scores of a row:

        A = (sq^2 sk^2 sum_m lambda_m^2 + d_k mq^2 sk^2) / divisor^2

    with the symbols of `score_variance`; for normalized vectors the variance of a score. Given q, the score with the
    own key of correlation rho has the mean rho sq sk sum_m lambda_m a_m^2 and 1 - rho^2 of the variance. Its excess
    over the others is B = rho^2 sq^2 sk^2 (d_k^2 + 2 sum lambda^2 - sum lambda^2) / divisor^2.

    Args:
        d_k: width of q and k, from 1.
        n_keys: keys of a row, from 1.
        divisor: above 0.
        law: of queries and keys.
        shortest: as in `attention_expectations`.

    Raises:
        UnknownError: as in `score_variance`.

    >>> row_variance(d_k=64, n_keys=4, divisor=8.0)
    0.75
    """
    n = np.array([n_keys]) if shortest is None else np.arange(shortest, n_keys + 1)
    if law.normalize != "none":
        same, own = score_variance(d_k, divisor, law), 0.0
    else:
        squares = float((spectrum_of(int(d_k), law.spectrum) ** 2).sum()) if law.spectrum else d_k
        of_keys = (law.key_std / divisor) ** 2
        same = of_keys * (law.query_std**2 * squares + d_k * law.query_mean**2)
        own = of_keys * law.query_std**2 * law.correlation**2 * (d_k**2 + squares)
    return float(((1 - 1 / n) * (same + own / n)).mean())


def row_variance_deviation(
    d_k: float, n_keys: int, divisor: float, law: PairLaw = PairLaw(), shortest: int | None = None
) -> float:
    """Standard deviation of the variance of the scaled scores of one row, for every law that `row_variance` knows.

    For rows of several lengths, the root of the mean variance over them. A mean over the rows of a draw, which share
    its keys, has at most this deviation, and at least this over sqrt(n_queries): the variances of two rows do not fall
    together with a rise of the other, since longer keys raise both.

    Raises:
        UnknownError: as in `score_variance`; or a correlation with a spectrum.

    >>> round(row_variance_deviation(d_k=64, n_keys=2, divisor=8.0), 6)  # of (s_1 - s_2)^2 / 4
    0.72349
    """
    lengths = range(shortest or n_keys, n_keys + 1)
    return math.sqrt(sum(spread_of_row_variance(d_k, n, divisor, law) for n in lengths) / len(lengths))


def spread_of_row_variance(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> float:
    """Var of the variance R of the scaled scores of one row.

    Given q, independent scores of variance sigma^2 and fourth cumulant kappa have E R = k sigma^2 with k = 1 - 1/n, and

        Var R = k^2 (Var sigma^2 + E kappa / n + 2 E sigma^4 / (n - 1))

    over q, where sigma^2 = sum_m q_m^2 v_m and kappa = (m4 - 3) sum_m q_m^4 v_m^2 with m4 the fourth moment of an entry
    and v_m the variance of entry m of a key. With a correlation, one score has another law: with m2 = E|q|^4 =
    d_k (d_k + 2) and m3 = E|q|^6 = m2 (d_k + 4) of standard normal entries and c = query_std key_std / divisor, R given
    q has the mean c^2 k (a |q|^2 + b |q|^4), a = 1 - rho^2 / n, b = rho^2 / n, and the variance

        c^4 (2 |q|^4 (n - 1 - 2 rho^2 k + rho^4 k^2) + 4 rho^2 |q|^6 k (1 - rho^2 k)) / n^2.

    Scores of normalized vectors are independent given q, with the same second and fourth moments for every q.

    Args:
        d_k, divisor, law: as in `row_variance`.
        n_keys: keys of a row, from 1.

    Raises:
        UnknownError: as in `row_variance_deviation`.
    """
    n, d = n_keys, d_k
    if n <= 1:
        return 0.0
    if law.normalize != "none":
        gain = (1.0 if law.normalize == "l2" else d) / divisor
        second, fourth = score_variance(d_k, divisor, law), 3 * gain**4 / (d * (d + 2))
        return (n - 1) ** 2 / n**3 * (fourth - second**2 * (n - 3) / (n - 1))
    if not law.correlation:
        return _of_independent_scores(d_k, n_keys, divisor, law)
    if law.spectrum:
        raise UnknownError("the spread of the variance of rows is unknown for a correlation with a spectrum")
    rho, scale = law.correlation, (law.query_std * law.key_std / divisor) ** 4
    k, a, b, m2 = 1 - 1 / n, 1 - rho**2 / n, rho**2 / n, d * (d + 2)
    of_query = k**2 * (2 * d * a**2 + 8 * m2 * a * b + 8 * m2 * (d + 3) * b**2)
    of_keys = 2 * m2 * (n - 1 - 2 * rho**2 * k + rho**4 * k**2) + 4 * rho**2 * m2 * (d + 4) * k * (1 - rho**2 * k)
    return scale * (of_query + of_keys / n**2)


def least_shared_row_variance(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> float:
    """A lower limit of the covariance of the variances R of two rows of the same keys and of independent queries.

    With S the covariance of the n keys of a draw (over n) and second moments a_m = E q_m^2, E[R | K] is
    sum_m a_m S_mm / divisor^2, plus terms of the mean of q that are uncorrelated with this sum and left out. For
    independent entries of fourth moment m4, Var S_mm = v_m^2 (n - 1) ((n - 1) m4 - n + 3) / n^3. Normalized vectors of
    length |k| have the trace |k|^2 - |mean of k|^2, and Var |mean of k|^2 = 2 |k|^4 (n - 1) / (n^3 d_k).

    Args:
        d_k, n_keys, divisor, law: as in `row_variance`.

    Returns:
        The limit; 0, which always holds, beside a correlation.

    >>> round(least_shared_row_variance(1, 3, 1.0, PairLaw(normalize="l2")), 6)  # 8/9 in 3 of 4 draws, otherwise 0
    0.148148
    """
    n, d = n_keys, d_k
    if law.correlation or n <= 1:
        return 0.0
    if law.normalize != "none":
        gain = (1.0 if law.normalize == "l2" else d) / divisor
        return gain**4 * 2 * (n - 1) / (n**3 * d**3)
    eigenvalues, times = (spectrum_of(int(d_k), law.spectrum), 1.0) if law.spectrum else (np.ones(1), d_k)
    second_powers = law.query_mean**2 + law.query_std**2 * eigenvalues
    of_keys = (law.key_std**2 * eigenvalues) ** 2 * (n - 1) * ((n - 1) * law.entries.moments[1] - n + 3) / n**3
    return times * float((second_powers**2 * of_keys).sum()) / divisor**4


def _of_independent_scores(d_k: float, n: float, divisor: float, law: PairLaw) -> float:
    third, fourth = law.entries.moments[:2]
    eigenvalues, times = (spectrum_of(int(d_k), law.spectrum), 1.0) if law.spectrum else (np.ones(1), d_k)
    deviation, mean, of_keys = law.query_std * np.sqrt(eigenvalues), law.query_mean, law.key_std**2 * eigenvalues
    second_powers = mean**2 + deviation**2
    fourth_powers = mean**4 + 6 * (mean * deviation) ** 2 + 4 * mean * deviation**3 * third + deviation**4 * fourth
    variance = times * float((of_keys**2 * (fourth_powers - second_powers**2)).sum())
    square = variance + (times * float((of_keys * second_powers).sum())) ** 2
    cumulant = (fourth - 3) * times * float((of_keys**2 * fourth_powers).sum())
    return ((1 - 1 / n) / divisor**2) ** 2 * (variance + cumulant / n + 2 * square / (n - 1))
