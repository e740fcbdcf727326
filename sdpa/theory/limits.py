"""What the exact expectations of a Gaussian row tend to, in closed form: for small sigma, large n, large sigma.

sigma is the standard deviation of the scaled scores of a row of n keys. Each function says where it holds, and how
far it is from `GaussianRow` elsewhere.
"""

import math

import numpy as np
from scipy import special

from sdpa.theory._grids import trapezoid

_Z_STEP = 0.01  # well below 1 / sqrt(2 ln n), the width of what is integrated, at a billion keys


def small_sigma_entropy(sigma: float, n_keys: float) -> float:
    """E H ~ ln n - sigma^2 / 2, in nats, for sigma well below 1 and n well above 1.

    From E H = E ln Z - sigma^2 (1 - E sum w^2) with E ln Z ~ ln n + sigma^2 / 2. At n = 64 it is 0.02% low
    at sigma = 0.3, 0.7% at 1 and 18% at 2.

    >>> round(small_sigma_entropy(1.0, 64), 4)
    3.6589
    """
    return math.log(n_keys) - sigma**2 / 2


def small_sigma_collision(sigma: float, n_keys: float) -> float:
    """E sum w^2 ~ e^(sigma^2) / n, for e^(sigma^2) well below n: the ratio of the means of e^(2s) and (e^s)^2.

    At n = 64 it is 0.2% high at sigma = 0.3 and 9% at 1; at n = 4096 0.2% at 1 and 38% at 2.

    >>> round(small_sigma_collision(1.0, 64), 4)
    0.0425
    """
    return math.exp(sigma**2) / n_keys


def freezing_sigma(n_keys: float) -> float:
    """sigma_c = sqrt(2 ln n): above it, for large n, a few scores carry all weight (Derrida 1981, random energy model).

    Unscaled attention has sigma ~ sqrt(d_k), so that it freezes at d_k = 2 ln n.

    >>> round(freezing_sigma(64) ** 2, 2)
    8.32
    """
    return math.sqrt(2 * math.log(n_keys))


def frozen_entropy_share(ratio: float) -> float:
    """H / ln n -> 1 - (sigma / sigma_c)^2 below the freezing point and 0 above, for n to infinity.

    The limit is reached slowly: at sigma = sigma_c, where it is 0, H / ln n is 0.45 for n = 64 and 0.33 for n = 16384.

    Args:
        ratio: sigma / sigma_c, from 0.

    >>> frozen_entropy_share(0.5), frozen_entropy_share(1.5)
    (0.75, 0.0)
    """
    return max(1 - ratio**2, 0.0)


def frozen_collision(ratio: float) -> float:
    """sum w^2 -> 0 below the freezing point and 1 - sigma_c / sigma above, for n to infinity (Derrida 1981).

    As slow: at sigma = sigma_c, where it is 0, sum w^2 is 0.31 for n = 64 and 0.20 for n = 16384.

    Args:
        ratio: sigma / sigma_c, from 0.

    >>> frozen_collision(0.5), frozen_collision(2.0)
    (0.0, 0.5)
    """
    return max(1 - 1 / ratio, 0.0) if ratio > 0 else 0.0


def tie_density(n_keys: float) -> float:
    """f0 = n (n - 1) int phi(z)^2 Phi(z)^(n-2) dz: the density at 0 of the gap between the two largest of n normals.

    >>> round(tie_density(2), 6)  # of |z1 - z2|: 1 / sqrt(pi)
    0.56419
    """
    z, step = trapezoid(-12.0, 12.0, _Z_STEP)
    logarithm = -(z**2) + (n_keys - 2) * special.log_ndtr(z)
    return float(n_keys * (n_keys - 1) * step * np.exp(logarithm).sum() / (2 * math.pi))


def saturated_trace(sigma: float, n_keys: float) -> float:
    """E[1 - sum w^2] ~ f0(n) / sigma, for sigma well above sigma_c: only rows near a tie of two scores are unsaturated.

    With a gap x between the two largest scaled scores, 1 - sum w^2 = 2 w (1 - w), w = 1 / (1 + e^-x), whose integral
    over x from 0 is 1, times the density of the gap at 0, f0 / sigma. At n = 64 it is 1.6% high at sigma = 8 and
    0.02% at 64.

    >>> round(saturated_trace(64.0, 64), 4)
    0.0366
    """
    return tie_density(n_keys) / sigma


def saturated_attention_trace(d_k: float, n_keys: float, divisor: float, input_std: float = 1.0) -> float:
    """E[1 - sum w^2] ~ f0(n) divisor Gamma((d-1)/2) / (input_std^2 sqrt(2) Gamma(d/2)): averaged over |q|, d > 1.

    sigma = input_std |q| / divisor, and E 1/|q| = Gamma((d-1)/2) / (input_std sqrt(2) Gamma(d/2)) of a chi variable.

    At n = 64 and unscaled it is 1.7% high at d_k = 64 and 0.02% at 4096, and three times too high at d_k = 2.

    Raises:
        ValueError: d_k is not above 1, where the mean of 1/|q| is infinite.
    """
    if d_k <= 1:
        raise ValueError(f"expected d_k above 1, got {d_k}")
    inverse_length = math.exp(math.lgamma((d_k - 1) / 2) - math.lgamma(d_k / 2)) / math.sqrt(2)
    return tie_density(n_keys) * divisor / input_std**2 * inverse_length


def entropy_floor(score_norm: float, n_keys: float) -> float:
    """H >= ln(1 + (n-1) b) + |s| sqrt(n (n-1)) b / (1 + (n-1) b), b = exp(-|s| sqrt(n / (n-1))), in nats.

    For any one row whose scaled scores have the Euclidean norm |s| (Zhai et al. 2023, theorem 3.1); equal where one
    score stands out and the others are equal. A bound, not an estimate: Gaussian rows with |s| = sigma sqrt(n) lie far
    above it.

    >>> round(entropy_floor(0.0, 64), 4)
    4.1589
    """
    b = math.exp(-score_norm * math.sqrt(n_keys / (n_keys - 1)))
    partition = 1 + (n_keys - 1) * b
    return math.log(partition) + score_norm * math.sqrt(n_keys * (n_keys - 1)) * b / partition
