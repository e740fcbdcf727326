"""Moments of scaled scores.

Everywhere the entries of q and k are independent with mean 0 and variance input_std^2.
"""


def score_mean() -> float:
    """E[q.k / divisor] = 0: the entries of q have mean 0 and are independent of those of k.

    >>> score_mean()
    0.0
    """
    return 0.0


def score_variance(d_k: float, divisor: float, input_std: float = 1.0) -> float:
    """Var[q.k / divisor] = d_k input_std^4 / divisor^2.

    A sum of d_k uncorrelated products, each of variance E q^2 E k^2 = input_std^4 (Vaswani et al. 2017, footnote 4).
    With divisor = d_k^p and input_std = 1 it is d_k^(1 - 2p). In the units of the scaled scores, squared.

    >>> score_variance(d_k=64, divisor=8.0)
    1.0
    """
    return float(d_k * input_std**4 / divisor**2)


def score_kurtosis(d_k: float, fourth_moment: float = 3.0) -> float:
    """E[(q.k)^4] / Var^2 - 3 = (m4^2 - 3) / d_k, with m4 = E x^4 of a unit-variance entry (3 if Gaussian).

    A product of two entries has fourth moment m4^2, so excess kurtosis m4^2 - 3; the excess kurtosis of a sum of
    d_k independent equal terms is 1/d_k of it. For Gaussian entries 6 / d_k. No divisor changes it.

    >>> score_kurtosis(d_k=4)
    1.5
    """
    return (fourth_moment**2 - 3) / d_k
