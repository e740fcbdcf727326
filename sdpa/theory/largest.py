"""The largest weight of a softmax row of n_keys independent N(0, sigma^2) scores: its moments and its tail."""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory._grids import HIGHEST, MIN_SIGMA, RANGE, STEP, log_g, normal_density, smoothing, trapezoid

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]

_DEVIATIONS = 9.5  # beyond them a normal law has 1e-21
_FEW_SIGMA = 0.4  # below it the real inversion loses digits


def max_weight_moments(sigma: float, n_keys: float) -> tuple[float, float]:
    """E max w and E (max w)^2: E (max w)^k = n int phi(m) int e^(k v - e^v) A(v, m)^(n-1) dv dm / (k-1)!.

    Given that the largest z is m, 1 / (1 + sum of e^(sigma (z - m)) over the others)^k is int t^(k-1) e^-t e^(-t sum)
    dt / (k-1)!, t = e^v, and each of the others, below m, gives A(v, m) = int_(z < m) phi(z) exp(-e^(v + sigma
    (z - m))) dz, which is Phi(m) minus the same integral of 1 - exp(...), over x = sigma (z - m).
    """
    n, sigma = n_keys, max(sigma, MIN_SIGMA)
    low = max(special.ndtri_exp(-RANGE / (n - 1)), -_DEVIATIONS)
    high = -special.ndtri(1e-17 / n)
    m, m_step = trapezoid(low, high, STEP / math.sqrt(1 + math.log(n) / 1.5))
    v, v_step = trapezoid(-RANGE, HIGHEST, STEP)
    x, x_weights = _graded_panels(min(RANGE + 5, 20 * sigma))
    missing = -np.expm1(-np.exp(v[:, None] + x))
    density = normal_density(m[:, None] + x / sigma) * (x_weights / sigma)
    others = np.maximum(special.ndtr(m) - missing @ density.T, 1e-300)
    inner = np.exp((n - 1) * np.log(others)) @ (n * normal_density(m) * m_step)
    first, second = (float((np.exp(k * v - np.exp(v)) * v_step) @ inner) for k in (1, 2))
    return first, second


def max_weight_survival(sigma: float, n_keys: float, threshold: float) -> float:
    """P(max w > threshold) = n P(S < c X), c = (1 - threshold) / threshold, X = e^(sigma z), S the sum of n - 1 others.

    From sigma = 0.4 by the real integral of `_by_kernel`. Below, a row of more than a few keys has no such weight:
    since S is at least n - 1 times the geometric mean of its terms, the probability is at most
    n Phi(-ln((n-1) / c) / (sigma sqrt(n / (n-1)))), and what that leaves is computed from `_by_characteristic`.

    Raises:
        ValueError: a threshold out of [1/2, 1).
    """
    if not 0.5 <= threshold < 1:
        raise ValueError(f"expected a threshold from 1/2 to below 1, got {threshold}")
    n, log_ratio = n_keys, math.log1p(-threshold) - math.log(threshold)
    if sigma >= _FEW_SIGMA:
        probability = _by_kernel(sigma, n, log_ratio)
    else:
        distance = (math.log(n - 1) - log_ratio) / math.sqrt(n / (n - 1))
        bound = n * special.ndtr(-distance / max(sigma, MIN_SIGMA))
        probability = min(_by_characteristic(sigma, n, math.exp(log_ratio)), bound) if bound > 1e-13 else 0.0
    return float(min(max(probability, 0.0), 1.0))


def _by_kernel(sigma: float, n: float, log_ratio: float) -> float:
    """P = n int kappa(u + ln c) G^(n-1)(u) du, kappa of Fourier transform e^(-sigma^2 w^2 / 2) / Gamma(1 - i w).

    G^(n-1)(u) = P(ln E - ln S > u) for an exponential E, and ln E has the characteristic function Gamma(1 + i w):
    kappa takes the law of ln E away and puts that of sigma z in its place. With s = eta - i w, for any eta,

        kappa(t) = (1/2 pi) int exp(s t + sigma^2 s^2 / 2 - ln Gamma(1 + s)) dw

    whose integrand is largest and without oscillation at the saddle point, t = psi(1 + eta) - sigma^2 eta.
    """
    fineness = STEP if sigma >= 1 else STEP / 2
    low = sigma * special.ndtri(1e-17 / n) - log_ratio - 4
    low = min(low, -math.log(n) - 4 * sigma)
    high = HIGHEST + (6 * sigma if n < 3 else -sigma * special.ndtri_exp(-RANGE / (n - 1)))
    u, step = trapezoid(low, high, fineness * min(smoothing(sigma, n), sigma))
    t = u + log_ratio
    eta = np.maximum(-t, 0) / sigma**2
    for _ in range(6):
        eta = np.maximum((special.digamma(1 + eta) - t) / sigma**2, -0.5)
    width = 1 / np.sqrt(np.maximum(sigma**2 - special.polygamma(1, 1 + eta), 0.25 * sigma**2))
    nodes, w_step = trapezoid(0.0, _DEVIATIONS, fineness)
    s = eta[:, None] - 1j * nodes * width[:, None]
    exponent = s * t[:, None] + sigma**2 * s * s / 2 - special.loggamma(1 + s)
    exponent += ((n - 1) * log_g(u, sigma) + math.log(n))[:, None]
    values = np.exp(exponent).real
    return float(step * w_step / math.pi * ((values.sum(axis=1) - values[:, 0] / 2) @ width))


def _by_characteristic(sigma: float, n: float, c: float) -> float:
    """P = n (1/2 - (1/pi) int Im E e^(i w (S - c X)) / w dw), w from 0 (Gil-Pelaez 1951), for sigma below 0.4.

    The midpoint rule in w, which is exact but for what lies further off than half of 2 pi / step. X and S are taken
    from 1 and n - 1 and in units of sigma; the path of z runs above the real axis, where e^(i w e^(sigma z)) decays.
    """
    sigma = max(sigma, MIN_SIGMA)
    step = 2 * math.pi / 250
    w = (np.arange(math.ceil(40 / step), dtype=np.float64) + 0.5) * step
    z, z_step = trapezoid(-10.0, 10.0, 0.02)
    raised = z + 1j * min(1.5, 0.5 / sigma)
    weights = np.exp(-0.5 * raised**2) * (z_step / math.sqrt(2 * math.pi))
    distance = np.expm1(sigma * raised) / sigma

    def log_characteristic(frequency: FloatArray) -> ComplexArray:
        value = np.exp(1j * np.outer(frequency, distance)) @ weights
        # The branch that starts at 0: n need not be whole.
        return np.asarray(np.log(np.abs(value)) + 1j * np.unwrap(np.angle(value)))

    log_product = (n - 1) * log_characteristic(w) + np.conj(log_characteristic(c * w))
    turning = np.exp(log_product + 1j * w * ((n - 1 - c) / sigma))
    return n * (0.5 - step / math.pi * float((turning.imag / w).sum()))


def _graded_panels(length: float) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [-length, 0], in panels that narrow towards 0."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = -length * np.array([1, 0.5, 0.22, 0.1, 0.04, 0.015, 0])
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()
