"""The frozen phase: weights of a row with sigma > sigma_c tend to Poisson-Dirichlet PD(m, 0).

m = sigma_c / sigma < 1, sigma_c = sqrt(2 ln n) (Ruelle 1987; Pitman and Yor 1997, Ann. Probab.
25:855). Convergence is slow, with corrections of the order ln ln n / ln n (Bovier, Kurkova and
Loewe 2002): docs/theory.md compares these limits with exact numbers.
"""

from math import exp, gamma, pi, sin

from scipy.integrate import quad
from scipy.special import digamma, gammainc


def entropy(m: float) -> float:
    """E H = psi(1) - psi(1 - m), in nats.

    It is the derivative at p = 1 of E sum_j w_j^p = Gamma(p - m) / (Gamma(p) Gamma(1 - m)).

    >>> from math import log
    >>> round(entropy(0.5) / log(4), 12)
    1.0
    """
    return float(digamma(1) - digamma(1 - m))


def jacobian_square(m: float) -> float:
    """E |J|_F^2 = m (1 - m) / 3.

    |J|_F^2 = s_2 - 2 s_3 + s_2^2 with s_p = sum_j w_j^p, E s_2 = 1 - m,
    E s_3 = (1 - m) (2 - m) / 2, and E s_2^2 = (1 - m) (3 - 2m) / 3 (Derrida and Toulouse 1985, J.
    Phys. Lett. 46:L223).

    >>> round(jacobian_square(0.5) * 12, 12)
    1.0
    """
    return m * (1 - m) / 3


def share_above(m: float, w: float) -> float:
    """P(max_j w_j > w) for w from 1/2, where one weight at most is above w.

    It is the integral from w to 1 of the density u^(-1 - m) (1 - u)^(m - 1) / (Gamma(m)
    Gamma(1 - m)) of weights, with the antiderivative -((1 - u) / u)^m / m.

    >>> round(share_above(0.5, 0.8), 12) == round(1 / pi, 12)
    True
    """
    if not 0.5 <= w <= 1:
        raise ValueError(f"w: expected 0.5 to 1, got {w}")
    odds = (1 - w) / w
    return float(odds**m * sin(pi * m) / (pi * m))


def max_weight(m: float) -> float:
    """E max_j w_j = int_0^inf e^-t / (Gamma(1 - m) t^m + m E_(1+m)(t)) dt.

    E_p is the exponential integral (Pitman and Yor).

    >>> round(max_weight(0.5), 4)
    0.6265
    """

    def integrand(t: float) -> float:
        # m E_(1+m)(t) = e^-t - t E_m(t), and t E_m(t) = t^m Gamma(1 - m, t): the sum is e^-t + t^m
        # gamma(1 - m, t).
        others = exp(t) * t**m * gamma(1 - m) * gammainc(1 - m, t)
        return float(1 / (1 + others))

    integral, _ = quad(integrand, 0, 60, epsabs=1e-12, limit=500)
    return float(integral)
