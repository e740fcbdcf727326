"""The variance R = (1/n) sum_j (s_j - mean of s)^2 of the scaled scores of a row.

Given q, an independent score has the variance sigma^2 = sum_m q_m^2 v_m and the fourth cumulant
(m4 - 3) sum_m q_m^4 v_m^2, with v_m the variance of entry m of a key and m4 the fourth moment of an
entry. Scores of normalized vectors have the same moments for every q.
"""

from dataclasses import replace
from math import sqrt
from statistics import fmean

import numpy as np

from sdpa.pairs import PairLaw, spectrum_of
from sdpa.scaling import Rule, Scaling, resolve_divisor
from sdpa.theory.integrals import FloatArray, UnknownError, check_sizes
from sdpa.theory.row_law import RowLaw, divisor_of_rows
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


def row_variance_deviation(
    d_k: float,
    n_keys: int,
    divisor: Rule,
    law: PairLaw = PairLaw(),
    shortest: int | None = None,
) -> float:
    """sqrt(Var R), the standard deviation of R of one row, for every law that `row_variance` knows.

    For rows of several lengths this is the root of their mean variance. A mean over the rows of a
    draw, which share its keys, has at most this deviation, and at least this over sqrt(n_queries).
    UnknownError as in `score_variance`, and for a correlation with a spectrum.

    >>> round(row_variance_deviation(d_k=64, n_keys=2, divisor=8.0), 6)  # of (s_1 - s_2)^2 / 4
    0.72349
    """
    rows = RowLaw.checked(d_k, n_keys, divisor, law)
    lengths = lengths_of(shortest, n_keys).tolist()
    return sqrt(fmean(spread_of_row_variance(replace(rows, n_keys=n)) for n in lengths))


def spread_of_row_variance(rows: RowLaw) -> float:
    """Var R = k^2 (Var sigma^2 + E kappa / n + 2 E sigma^4 / (n - 1)), k = 1 - 1/n, n from 1.

    Given q, independent scores have the variance sigma^2 and the fourth cumulant kappa, and E R = k
    sigma^2; the other means are over q. Errors as in `row_variance_deviation`.
    """
    n = rows.n_keys
    law = rows.law
    if n <= 1:
        return 0.0
    if law.normalize != "none":
        return _spread_of_cosines(rows)
    if law.correlation:
        return _spread_with_own_key(rows)
    second_powers, fourth_powers, key_variances, times = _entry_powers(rows.d_k, law)
    squares = key_variances**2
    of_squares = fourth_powers - second_powers**2
    variance = times * float((squares * of_squares).sum())
    mean = times * float((key_variances * second_powers).sum())
    excess = law.entries.moments[1] - 3
    cumulant = excess * times * float((squares * fourth_powers).sum())
    spread = variance + cumulant / n + 2 * (variance + mean**2) / (n - 1)
    return ((1 - 1 / n) / rows.divisor**2) ** 2 * spread


def _spread_of_cosines(rows: RowLaw) -> float:
    d_k = rows.d_k
    n = rows.n_keys
    gain = (1.0 if rows.law.normalize == "l2" else d_k) / rows.divisor
    second = score_variance(d_k, 1.0, rows.law) / rows.divisor**2
    fourth = 3 * gain**4 / (d_k * (d_k + 2))
    excess = fourth - second**2 * (n - 3) / (n - 1)
    return (n - 1) ** 2 / n**3 * excess


def _spread_with_own_key(rows: RowLaw) -> float:
    """Var R if one score of the row is that of the query's own key.

    With m2 = E|q|^4 = d_k (d_k + 2) and m3 = E|q|^6 = m2 (d_k + 4) of standard normal entries and
    c = query_std key_std / divisor, R given q has the mean c^2 k (a |q|^2 + b |q|^4),
    a = 1 - rho^2 / n, b = rho^2 / n, k = 1 - 1 / n, and the variance

        c^4 (2 |q|^4 (n - 1 - 2 rho^2 k + rho^4 k^2) + 4 rho^2 |q|^6 k (1 - rho^2 k)) / n^2.
    """
    if rows.law.spectrum:
        combination = "a correlation with a spectrum"
        raise UnknownError(f"the spread of the variance of rows is unknown for {combination}")
    d = rows.d_k
    n = rows.n_keys
    rho = rows.law.correlation
    scale = rows.unit**4
    k = 1 - 1 / n
    a = 1 - rho**2 / n
    b = rho**2 / n
    m2 = d * (d + 2)
    of_length = 2 * d * a**2 + 8 * m2 * a * b + 8 * m2 * (d + 3) * b**2
    of_query = k**2 * of_length
    of_others = 2 * m2 * (n - 1 - 2 * rho**2 * k + rho**4 * k**2)
    of_own = 4 * rho**2 * m2 * (d + 4) * k * (1 - rho**2 * k)
    of_keys = of_others + of_own
    return scale * (of_query + of_keys / n**2)


def least_shared_row_variance(
    d_k: float,
    n_keys: float,
    divisor: float,
    law: PairLaw,
) -> float:
    """Var(sum_m a_m S_mm) / divisor^4, a lower limit of Cov(R, R') of two rows of the same keys.

    The queries are independent, with a_m = E q_m^2. S is the covariance of the n keys of a draw
    (over n), and E[R | K] is sum_m a_m S_mm / divisor^2 plus terms of the mean of q, which do not
    correlate with this sum. For independent entries of fourth moment m4, Var S_mm = v_m^2
    (n - 1) ((n - 1) m4 - n + 3) / n^3. The trace of normalized vectors is |k|^2 - |mean of k|^2,
    and Var |mean of k|^2 = 2 |k|^4 (n - 1) / (n^3 d_k). Under a correlation, the limit is 0, which
    always holds.

    >>> law = PairLaw(normalize="l2")
    >>> round(least_shared_row_variance(1, 3, 1.0, law), 6)  # 8/9 in 3 of 4 draws, else 0
    0.148148
    """
    divisor = resolve_divisor(divisor, d_k, n_keys)
    n = n_keys
    if law.correlation or n <= 1:
        return 0.0
    if law.normalize != "none":
        gain = (1.0 if law.normalize == "l2" else d_k) / divisor
        return gain**4 * 2 * (n - 1) / (n**3 * d_k**3)
    second_powers, _, key_variances, times = _entry_powers(d_k, law)
    fourth = (n - 1) * law.entries.moments[1] - n + 3
    of_keys = key_variances**2 * (n - 1) * fourth / n**3
    return times * float((second_powers**2 * of_keys).sum()) / divisor**4


def _entry_powers(d_k: float, law: PairLaw) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """E q_m^2, E q_m^4 and v_m of every different entry; and the number of entries like each."""
    third, fourth = law.entries.moments[:2]
    eigenvalues = spectrum_of(int(d_k), law.spectrum) if law.spectrum else np.ones(1)
    times = 1.0 if law.spectrum else d_k
    deviation = law.query_std * np.sqrt(eigenvalues)
    mean = law.query_mean
    fourth_powers = (
        mean**4
        + 6 * (mean * deviation) ** 2
        + 4 * mean * deviation**3 * third
        + deviation**4 * fourth
    )
    second_powers = mean**2 + deviation**2
    return second_powers, fourth_powers, np.asarray(law.key_std**2 * eigenvalues), times
