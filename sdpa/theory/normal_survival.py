"""n P(S < c X) for normal scores: X = e^s of a score, S the sum of e^s over all others.

With c = (1 - threshold) / threshold this is P(a weight of the group > threshold).
"""

from collections.abc import Sequence
from math import exp, expm1, hypot, log, pi, sqrt

import numpy as np
from scipy.special import digamma, loggamma, logsumexp, ndtr, ndtri, polygamma

from sdpa.theory.integrals import STEP, FloatArray, Quadrature, gauss_panels, trapezoid
from sdpa.theory.integrands import Integrands
from sdpa.theory.inversion import log_transform, sum_below, terms_for
from sdpa.theory.normal_law import DEVIATIONS, MIN_SIGMA, NormalLaw

FEW_SIGMA = 0.4  # a deviation below which the real inversion loses digits
_LEAST_SURVIVAL = 1e-13
_SADDLE_STEP = 0.35
_TRANSITION = np.array([-8.0, -3.0, 0.0, 3.0, 8.0])
_LEAST_CHANCE = 1e-17

Rest = Sequence[tuple[NormalLaw, float]]  # the other scores: their laws and counts


def survival_kernel(
    integrands: Integrands,
    law: NormalLaw,
    most: float,
    log_ratio: float,
) -> Quadrature:
    """Weights, and ln G of each law, (laws, nodes), of P(S < c X) = int kappa(u + ln c) G(u) du.

    G = E exp(-e^u S) = P(ln E - ln S > u) for an exponential E, whose ln E has the characteristic
    function Gamma(1 + i w). Divide by it and multiply by that of s: kappa has the Fourier transform
    e^(-sigma^2 w^2 / 2) / Gamma(1 - i w).
    """
    u, step = integrands.u, integrands.weights
    sigma = law.deviation
    shift = log_ratio + law.mean
    of_kappa = sigma * ndtri(1e-17 / most) - shift - 4
    of_others = -log(most) - 4 * sigma - law.mean
    low = max(min(of_kappa, of_others), u[0])
    high = min(8.2 * sigma + 3 - shift, u[-1])
    inside = (low <= u) & (u <= high)
    step = step if isinstance(step, float) else step[inside]
    u, log_g = u[inside], integrands.log_g[:, inside]
    if low < high and np.max(step, initial=0) > widest_step(sigma):
        u, step = trapezoid(low, high, widest_step(sigma))
        log_g = np.array([each.log_g(u) for each in integrands.laws])
    return step * kappa(u + shift, sigma), log_g


def widest_step(sigma: float) -> float:
    """The step of u that resolves kappa.

    From w = pi / step on, e^(-sigma^2 w^2 / 2 + pi w / 2) is below e^-36.
    """
    if sigma >= 1:
        return STEP * sigma
    return pi**2 / (pi**2 / (2 * sigma**2) + 36)


def kappa(t: FloatArray, sigma: float) -> FloatArray:
    """(1/2 pi) int exp(s t + sigma^2 s^2 / 2 - ln Gamma(1 + s)) dw, s = eta - i w, for any eta.

    From t = psi(1) on, eta is 0. For smaller t, eta is at the saddle point
    t = psi(1 + eta) - sigma^2 eta, where the integrand does not oscillate.
    """
    is_left = t < -np.euler_gamma
    left = _kappa_left(t[is_left], sigma)
    right = _kappa_right(t[~is_left], sigma)
    return np.concatenate([left, right])


def _kappa_left(t: FloatArray, sigma: float) -> FloatArray:
    eta = -t / sigma**2
    for _ in range(6):
        eta = np.maximum((digamma(1 + eta) - t) / sigma**2, 0)
    curvature = sigma**2 - polygamma(1, 1 + eta)
    width = 1 / np.sqrt(np.maximum(curvature, 0.25 * sigma**2))
    nodes, step = trapezoid(0.0, DEVIATIONS, _SADDLE_STEP)
    s = eta[:, None] - 1j * nodes * width[:, None]
    exponent = s * t[:, None] + sigma**2 * s * s / 2 - loggamma(1 + s)
    values = np.exp(exponent).real
    total = values.sum(axis=1) - values[:, 0] / 2
    return np.asarray(total * width * (step / pi))


def _kappa_right(t: FloatArray, sigma: float) -> FloatArray:
    # The integrand falls like e^(-sigma^2 w^2 / 2 + pi w / 2); kappa is negligible beyond 8.3 sigma
    # + 3.
    step = 2 * pi / (17 * sigma + 6)
    last = (1.6 + sqrt(2.5 + 78 * sigma**2)) / sigma**2
    w = np.arange(0, last + step, step)
    transform = np.exp(-((sigma * w) ** 2) / 2 - loggamma(1 - 1j * w))
    transform[0] /= 2
    waves = np.exp(-1j * np.outer(t, w))
    return np.asarray((waves @ transform).real * (step / pi))


def narrow_survival(
    law: NormalLaw,
    count: float,
    rest: Rest,
    log_ratio: float,
) -> float:
    """n P(S < c X) for X of a narrow law with n scores, and whole counts of the rest."""
    bound = count * _survival_bound(law, rest, log_ratio)
    if _number(rest) == 1:
        return bound
    if bound < _LEAST_SURVIVAL:
        return 0.0
    return count * _by_inversion(law, rest, log_ratio)


def _number(rest: Rest) -> float:
    return sum(count for _, count in rest)


def _survival_bound(law: NormalLaw, rest: Rest, log_ratio: float) -> float:
    """An upper limit of P(S < c X); the exact value if S has one term.

    S exceeds each of its terms, and their number times e^(their mean).
    """
    number = _number(rest)
    mean = sum(count * of.mean for of, count in rest) / number
    variance = sum(count * of.deviation**2 for of, count in rest) / number**2
    limits = [(of.mean, of.deviation**2) for of, _ in rest]
    limits.append((mean + log(number), variance))
    gaps = []
    for limit, spread in limits:
        deviation = max(hypot(law.deviation, sqrt(spread)), MIN_SIGMA)
        gaps.append((law.mean + log_ratio - limit) / deviation)
    return float(ndtr(min(gaps)))


def _by_inversion(law: NormalLaw, rest: Rest, log_ratio: float) -> float:
    """P(S < c X) from the Laplace transform of S."""
    if any(count % 1 for _, count in rest):
        expected = f"a whole number of keys below a deviation of {FEW_SIGMA}"
        raise ValueError(f"expected {expected}, got {_number(rest) + 1}")
    centre, width = _log_mean_and_width(rest)
    scores, chances = _nodes_of_x(law, centre - log_ratio, width)
    c, terms = exp(log_ratio), terms_for(width)
    logs = [count * log_transform(of, scores, c, terms) for of, count in rest]
    return float(chances @ sum_below(np.sum(logs, axis=0)))


def _nodes_of_x(law: NormalLaw, transition: float, width: float) -> Quadrature:
    """Scores of a narrow law and their probabilities; P(S < c X) rises around the transition."""
    if law.deviation == 0:
        return np.array([law.mean]), np.ones(1)
    low = law.mean - DEVIATIONS * law.deviation
    high = law.mean + DEVIATIONS * law.deviation
    edges = np.linspace(low, high, 4)
    if width < law.deviation:
        edges = np.append(edges, transition + width * _TRANSITION)
    edges = np.unique(np.clip(edges, low, high))
    scores, weights = gauss_panels(edges, 16)
    chances = weights * law.density(scores)
    kept = chances > _LEAST_CHANCE
    return scores[kept], chances[kept]


def _log_mean_and_width(rest: Rest) -> tuple[float, float]:
    """ln E S of a sum of e^s, and the standard deviation of S over its mean, at most 1."""
    logs = [log(count) + law.mean + law.deviation**2 / 2 for law, count in rest]
    centre = float(logsumexp(logs))
    variance = 0.0
    for of_law, (law, count) in zip(logs, rest, strict=True):
        relative = expm1(min(law.deviation, 10.0) ** 2)
        variance += exp(2 * (of_law - centre)) / count * relative
    return centre, min(sqrt(variance), 1.0)
