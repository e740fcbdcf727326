"""P(max w > threshold) of a softmax row of normal scores, for a threshold that no second weight can exceed.

It is the sum over the groups of n P(S < c X): X = e^s of one of their n scores s, S the sum of e^s over all others, and
c = (1 - threshold) / threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory._grids import MIN_SIGMA, STEP, gauss_panels, trapezoid
from sdpa.theory.groups import NormalLaw
from sdpa.theory.integrands import Integrands
from sdpa.theory.inversion import log_transform, sum_below, terms_for

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]

FEW_SIGMA = 0.4  # a deviation below which the real inversion loses digits
_DEVIATIONS = 9.5  # beyond them a normal law has 1e-21
_SADDLE_STEP = 0.35
_TRANSITION = np.array([-8.0, -3.0, 0.0, 3.0, 8.0])


class Kernel:
    """P(S < c X) = int kappa(u + ln c) G(u) du, G = E exp(-e^u S), for X = e^s of a normal law of deviation sigma.

    kappa has the Fourier transform e^(-sigma^2 w^2 / 2) / Gamma(1 - i w). G(u) = P(ln E - ln S > u) for an exponential
    E, and ln E has the characteristic function Gamma(1 + i w): kappa takes the law of ln E away and puts that of s in
    its place.

    Args:
        laws: of the row.
        integrands: of the row, which have G of each law.
        group: that of X; most: the greatest number of its scores.
        log_ratio: ln c.
    """

    def __init__(
        self, laws: Sequence[NormalLaw], integrands: Integrands, group: int, most: float, log_ratio: float
    ) -> None:
        self.group, law, u = group, laws[group], integrands.u
        sigma, shift = law.deviation, log_ratio + law.mean
        low = min(sigma * special.ndtri(1e-17 / most) - shift - 4, -math.log(most) - 4 * sigma - law.mean)
        low, high = max(low, u[0]), min(8.2 * sigma + 3 - shift, u[-1])
        inside = (low <= u) & (u <= high)
        u, self.log_g = u[inside], integrands.log_g[:, inside]
        step = integrands.weights if isinstance(integrands.weights, float) else integrands.weights[inside]
        # Beyond the frequency pi / step, e^(-sigma^2 w^2 / 2 + pi w / 2) times that of G is e^-36.
        widest = STEP * sigma if sigma >= 1 else math.pi**2 / (math.pi**2 / (2 * sigma**2) + 36)
        if low < high and np.max(step, initial=0) > widest:
            u, step = trapezoid(low, high, widest)
            self.log_g = np.array([law.log_g(u) for law in integrands.laws])
        self._kappa = step * kappa(u + shift, sigma)

    def probability(self, counts: Sequence[float]) -> float:
        """n P(S < c X) for so many scores of each law."""
        others = np.array(counts) - (np.arange(len(counts)) == self.group)
        return counts[self.group] * float(self._kappa @ np.exp(others @ self.log_g))


def kappa(t: FloatArray, sigma: float) -> FloatArray:
    """(1/2 pi) int exp(s t + sigma^2 s^2 / 2 - ln Gamma(1 + s)) dw at every t, with s = eta - i w for any eta.

    From t = psi(1) for eta = 0, by steps of w whose copies of kappa lie beyond it. Below, the integrand is largest and
    without oscillation at the saddle point, t = psi(1 + eta) - sigma^2 eta.
    """
    left = t < -np.euler_gamma
    return np.concatenate([_by_saddle(t[left], sigma), _by_fourier(t[~left], sigma)])


def _by_saddle(t: FloatArray, sigma: float) -> FloatArray:
    eta = -t / sigma**2
    for _ in range(6):
        eta = np.maximum((special.digamma(1 + eta) - t) / sigma**2, 0)
    width = 1 / np.sqrt(np.maximum(sigma**2 - special.polygamma(1, 1 + eta), 0.25 * sigma**2))
    nodes, step = trapezoid(0.0, _DEVIATIONS, _SADDLE_STEP)
    s = eta[:, None] - 1j * nodes * width[:, None]
    values = np.exp(s * t[:, None] + sigma**2 * s * s / 2 - special.loggamma(1 + s)).real
    return np.asarray((values.sum(axis=1) - values[:, 0] / 2) * width * (step / math.pi))


def _by_fourier(t: FloatArray, sigma: float) -> FloatArray:
    """The integrand falls like e^(-sigma^2 w^2 / 2 + pi w / 2), and kappa is negligible beyond 8.3 sigma + 3."""
    step, last = 2 * math.pi / (17 * sigma + 6), (1.6 + math.sqrt(2.5 + 78 * sigma**2)) / sigma**2
    w = np.arange(0, last + step, step)
    transform = np.exp(-((sigma * w) ** 2) / 2 - special.loggamma(1 - 1j * w))
    transform[0] /= 2
    return np.asarray((np.exp(-1j * np.outer(t, w)) @ transform).real * (step / math.pi))


def saturation_bound(laws: Sequence[NormalLaw], counts: Sequence[float], group: int, log_ratio: float) -> float:
    """An upper limit of n P(S < c X).

    S exceeds each of its terms, and, by the means of their logarithms, the number of its terms times e^(the mean of
    their scores); X and either are of a bivariate normal law.
    """
    others = [count - (place == group) for place, count in enumerate(counts)]
    of_x, number = laws[group], sum(others)
    mean = sum(count * law.mean for count, law in zip(others, laws, strict=True)) / number
    variance = sum(count * law.deviation**2 for count, law in zip(others, laws, strict=True)) / number**2
    limits = [(mean + math.log(number), variance)]
    limits += [(law.mean, law.deviation**2) for count, law in zip(others, laws, strict=True) if count]
    gaps = [
        (of_x.mean + log_ratio - above) / max(math.hypot(of_x.deviation, math.sqrt(spread)), MIN_SIGMA)
        for above, spread in limits
    ]
    return counts[group] * float(special.ndtr(min(gaps)))


def by_characteristic(sigma: float, n: float, c: float) -> float:
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


def by_inversion(laws: Sequence[NormalLaw], counts: Sequence[float], group: int, log_ratio: float) -> float:
    """P(S < c X), for X of a narrow law."""
    others = [(law, count - (place == group)) for place, (law, count) in enumerate(zip(laws, counts, strict=True))]
    others = [(law, count) for law, count in others if count]
    centre, width = _sum_of(others)
    law = laws[group]
    if law.deviation == 0:
        scores, chances = np.array([law.mean]), np.ones(1)
    else:
        low, high = law.mean - _DEVIATIONS * law.deviation, law.mean + _DEVIATIONS * law.deviation
        edges = np.linspace(low, high, 4)
        if width < law.deviation:
            edges = np.append(edges, centre - log_ratio + width * _TRANSITION)
        scores, weights = gauss_panels(np.unique(np.clip(edges, low, high)), 16)
        chances = weights * law.density(scores)
        scores, chances = scores[chances > 1e-17], chances[chances > 1e-17]
    of = math.exp(log_ratio), terms_for(width)
    transforms = [count * log_transform(law, scores, *of) for law, count in others]
    return float(chances @ sum_below(np.sum(transforms, axis=0)))


def _sum_of(others: Sequence[tuple[NormalLaw, float]]) -> tuple[float, float]:
    """ln E S of a sum of e^s, and the standard deviation of S over its mean, at most 1."""
    logs = [math.log(count) + law.mean + law.deviation**2 / 2 for law, count in others]
    centre = float(special.logsumexp(logs))
    variance = sum(
        math.exp(2 * (log - centre)) / count * math.expm1(min(law.deviation, 10.0) ** 2)
        for log, (law, count) in zip(logs, others, strict=True)
    )
    return centre, min(math.sqrt(variance), 1.0)
