"""Tables shared by rows of normal scores of one or two laws, and P(a weight > threshold) of such rows.

With X = e^s of a score, S the sum of e^s over all others, and c = (1 - threshold) / threshold, n P(S
< c X) is the chance that a weight of a group of n exceeds the threshold.

Letters: scores s of a group are normal with a mean and the deviation sigma, in nats; u = ln t of the
Laplace variable t; G(u) = E exp(-e^u S) over the other scores. A *group* is the n scores of one
law: all keys, or the own key of a query (n = 1) beside the others.

    sigma from 0.4    P = int kappa(u + ln c) G(u) du over the real u, the G of all other integrals
                      (`_survival_kernel`)
    sigma below 0.4   Bromwich's integral for every X (`_by_inversion`, `sum_below`)
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import ceil, exp, expm1, hypot, log, pi, sqrt

import numpy as np
from scipy.special import digamma, loggamma, logsumexp, ndtr, ndtri, polygamma

from sdpa._arrays import FloatArray
from sdpa.theory.integrals import (
    FINE_STEP,
    RANGE,
    STEP,
    Quadrature,
    Span,
    gauss_panels,
    trapezoid,
)
from sdpa.theory.integrands import Integrands
from sdpa.theory.largest_weight import (
    GRADED,
    NODES,
    Candidates,
    log_below,
    log_transform,
    others,
    sum_below,
    terms_for,
)
from sdpa.theory.normal_law import DEVIATIONS, MIN_SIGMA, NormalLaw

# Effects below are relative ones, of values from 1e-6 on: E max w and P(a weight > 0.5 to 0.99) of
# twenty rows of 3 to 4,000 keys and sigma from 1e-3 to 3,000, ten of them with a key that correlates
# with the query.
_ROWS = 64  # in memory at once
# The deviation of the own key, over that of the others, below which 16 points stand for its law. A
# common grid would need steps as fine as this law; 0.03 changes E max w by 2e-15, and 0.6 by 5e-12.
_NARROW = 0.15
_PANELS = 6  # of the law of the others; 3 change E max w by 2e-11, and 12 by 2e-15
_LEAST_CHANCE = 1e-18  # of a candidate that counts; 1e-14 changes E max w by 8e-11, 1e-24 by 4e-15
# The deviation below which the real inversion loses digits: at 0.2 it gives 0 in place of 9e-6. The
# complex one would do up to 1.5, to 3e-10, but needs whole numbers of keys.
_FEW_SIGMA = 0.4
_LEAST_SURVIVAL = 1e-13  # smaller chances are 0: the inversion is good to about 1e-11
_SADDLE_STEP = 0.35  # of the Gaussian width of the saddle; 0.7 changes P by 7e-9, and 0.2 by 3e-16
# Edges in widths of S around the score at which P(S < c X) rises. Without those at 3, P changes by
# 9e-9; without those at 8, too, a P of 2e-7 by 8e-11.
_TRANSITION = np.array([-8.0, -3.0, 0.0, 3.0, 8.0])
_LEAST_OF_SCORE = 1e-17  # chance of a node that counts; 1e-12 changes P by 1e-12, 1e-25 by 1e-17

Rest = Sequence[tuple[NormalLaw, float]]  # the other scores: their laws and counts


class NormalRows:
    """Tables shared by rows of the same laws, for counts of scores within given ranges."""

    def __init__(
        self,
        laws: Sequence[NormalLaw],
        counts: Sequence[Span],
    ) -> None:
        self.laws = laws
        self.counts = counts
        self._kernels: dict[tuple[int, float], Quadrature] = {}

    @cached_property
    def integrands(self) -> Integrands:
        """Integrands at nodes u from the least that matters to any group to where a G vanishes."""
        ends = np.array([law.ends(of) for law, of in zip(self.laws, self.counts, strict=True)])
        is_needed = ends[:, 0] < ends[:, 1].min()
        u, weights = _row_nodes(*ends[is_needed].T)
        return Integrands(self.laws, self.laws[0].unit, u, weights)

    @cached_property
    def candidates(self) -> list[Candidates]:
        """Scores that may be the largest, on a grid for all groups."""
        own, *rest = self.laws
        if rest and own.deviation < _NARROW * rest[0].deviation:
            return _candidates_beside_points(own, rest[0], self.counts[1])
        ranges = [law.largest(of) for law, of in zip(self.laws, self.counts, strict=True)]
        lows, highs, steps = np.array(ranges).T
        scores, step = trapezoid(lows.max(), highs.max(), steps.min())
        logs = np.array([log_below(law, scores) for law in self.laws])
        return [
            Candidates(group, law.density(scores) * step, logs)
            for group, law in enumerate(self.laws)
        ]

    def survival(
        self,
        group: int,
        counts: Sequence[float],
        log_ratio: float,
    ) -> float:
        """n P(S < c X) for X of a group, ln c at most 0.

        For scores of a deviation from 0.4 by `_survival_kernel`. Below, by inversion of a Laplace
        transform to 1e-10, unless the bound shows that no row has such a weight.
        """
        law = self.laws[group]
        beside = others(counts, group)
        if law.deviation < _FEW_SIGMA:
            rest = [pair for pair in zip(self.laws, beside.tolist(), strict=True) if pair[1]]
            return _narrow_survival(law, counts[group], rest, log_ratio)
        key = group, log_ratio
        if key not in self._kernels:
            most = self.counts[group][1]
            self._kernels[key] = _survival_kernel(self.integrands, law, most, log_ratio)
        weights, log_g = self._kernels[key]
        return counts[group] * float(weights @ np.exp(beside @ log_g))


def _row_nodes(
    low: FloatArray,
    high: FloatArray,
    width: FloatArray,
) -> tuple[FloatArray, float | FloatArray]:
    """Nodes u from the least low end to the least high end, and their weights or their step."""
    last = high.min()
    step = FINE_STEP * width
    if step.max() < 4 * step.min():
        return trapezoid(low.min(), last, step.min())
    # Groups of very different widths have panels of their own.
    pieces = []
    for start, end, spacing in zip(low, high, step, strict=True):
        stop = min(end, last)
        panels = ceil((stop - start) / (10 * spacing))
        pieces.append(np.linspace(start, stop, panels + 1))
    return gauss_panels(np.unique(np.concatenate(pieces)), 16)


def _candidates_beside_points(
    own: NormalLaw,
    rest: NormalLaw,
    count: Span,
) -> list[Candidates]:
    """Candidates if the law of the single score is so narrow that a few points stand for it."""
    points, shares = own.points()
    logs_of_points = [np.zeros((len(points), len(NODES))), log_below(rest, points)]
    beside_points = Candidates(0, shares, np.array(logs_of_points))
    low, high, _ = rest.largest(count)
    # The weight of a score varies with its distance from the point on a scale of 1, its law with
    # the deviation.
    near = points[:, None] + (RANGE + 5) * GRADED
    wide = np.tile(np.linspace(low, high, _PANELS + 1), (len(points), 1))
    edges = np.sort(np.concatenate([near, wide], axis=1))
    lowest = np.maximum(points, low)[:, None]
    scores, weights = gauss_panels(np.clip(edges, lowest, high), 16)
    chances = shares[:, None] * weights * rest.density(scores)
    point, node = np.nonzero(chances > _LEAST_CHANCE)
    if not len(point):
        return [beside_points]
    scores = scores[point, node]
    log_own = -np.exp(NODES + (points[point] - scores)[:, None])
    logs = np.array([log_own, log_below(rest, scores)])
    return [beside_points, Candidates(1, chances[point, node], logs)]


normal_rows = lru_cache(_ROWS)(NormalRows)


def _survival_kernel(
    integrands: Integrands,
    law: NormalLaw,
    most: float,
    log_ratio: float,
) -> Quadrature:
    """Weights, and ln G of each law, (laws, nodes), of P(S < c X) = int _kappa(u + ln c) G(u) du.

    G tells the law of ln S blurred by ln E of an exponential variable E:

        G(u) = E exp(-e^u S) = P(E > e^u S) = P(ln E - ln S > u).

    Wanted is P(s - ln S > -ln c): the blur of s in place of that of ln E. ln E has the characteristic
    function Gamma(1 + i w), and s, less its mean, e^(-sigma^2 w^2 / 2). So kappa has their ratio as
    its Fourier transform, e^(-sigma^2 w^2 / 2) / Gamma(1 - i w): a smooth function, which falls off
    to both sides and may be negative.

          1 |----- G
            |     '.       .-. kappa
            |       '.   .'   '.
            +--------'---------'---> u
               low            high

    The integral is over low..high alone. Kappa is 0 below `kappa_start` and above 8.2 sigma + 3, counted
    from u = -shift. G is 0 above u[-1]. A small sigma makes kappa narrow. If the nodes of G are then
    too far apart, G is computed at closer ones.
    """
    u, step = integrands.u, integrands.weights
    sigma = law.deviation
    shift = log_ratio + law.mean
    kappa_start = sigma * ndtri(1e-17 / most) - shift - 4
    others_start = -log(most) - 4 * sigma - law.mean
    low = max(min(kappa_start, others_start), u[0])
    high = min(8.2 * sigma + 3 - shift, u[-1])
    inside = (low <= u) & (u <= high)
    step = step if isinstance(step, float) else step[inside]
    u, log_g = u[inside], integrands.log_g[:, inside]
    if low < high and np.max(step, initial=0) > _widest_step(sigma):
        u, step = trapezoid(low, high, _widest_step(sigma))
        # A law of one score has no other scores beside it.
        is_alone = [member is law and most == 1 for member in integrands.laws]
        pairs = zip(integrands.laws, is_alone, strict=True)
        log_g = np.array(
            [np.zeros_like(u) if alone else member.log_g(u) for member, alone in pairs]
        )
    return step * _kappa(u + shift, sigma), log_g


def _widest_step(sigma: float) -> float:
    """The step of u that resolves kappa.

    From w = pi / step on, e^(-sigma^2 w^2 / 2 + pi w / 2) is below e^-36.
    """
    if sigma >= 1:
        return STEP * sigma
    return pi**2 / (pi**2 / (2 * sigma**2) + 36)


def _kappa(t: FloatArray, sigma: float) -> FloatArray:
    """(1/2 pi) int exp(s t + sigma^2 s^2 / 2 - ln Gamma(1 + s)) dw, s = eta - i w, for any eta.

        Im s
          |         :         1 / Gamma(1 + s) has no pole, so that the line Re s = eta along which
          |         :  w      w runs may move freely.
          0---------o-----> Re s
          |        eta        t >= psi(1): eta = 0, and kappa is of order 1
          |         :         t <  psi(1): kappa is tiny; at eta = 0 it would be the rest of large
          |         :         terms that cancel

    For these smaller t, eta is at the saddle point t = psi(1 + eta) - sigma^2 eta, where the
    integrand does not oscillate, and e^(eta t + ...) has the size of the result.
    """
    is_left = t < -np.euler_gamma
    left = _kappa_left(t[is_left], sigma)
    right = _kappa_right(t[~is_left], sigma)
    return np.concatenate([left, right])


def _kappa_left(t: FloatArray, sigma: float) -> FloatArray:
    # Six steps of the fixed point eta = (psi(1 + eta) - t) / sigma^2; it need not be exact.
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
    # The integrand falls like e^(-sigma^2 w^2 / 2 + pi w / 2), which is e^-39 at `last`. Steps of w
    # repeat kappa with the period 2 pi / step; kappa is negligible beyond 8.3 sigma + 3, less than
    # half of it.
    step = 2 * pi / (17 * sigma + 6)
    last = (1.6 + sqrt(2.5 + 78 * sigma**2)) / sigma**2
    w = np.arange(0, last + step, step)
    transform = np.exp(-((sigma * w) ** 2) / 2 - loggamma(1 - 1j * w))
    transform[0] /= 2
    waves = np.exp(-1j * np.outer(t, w))
    return np.asarray((waves @ transform).real * (step / pi))


def _narrow_survival(
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
        expected = f"a whole number of keys below a deviation of {_FEW_SIGMA}"
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
    kept = chances > _LEAST_OF_SCORE
    return scores[kept], chances[kept]


def _log_mean_and_width(rest: Rest) -> tuple[float, float]:
    """ln E S of a sum of e^s, and the standard deviation of S over its mean, at most 1."""
    logs = [log(count) + law.mean + law.deviation**2 / 2 for law, count in rest]
    centre = float(logsumexp(logs))
    variance = 0.0
    for log_mean, (law, count) in zip(logs, rest, strict=True):
        relative = expm1(min(law.deviation, 10.0) ** 2)
        variance += exp(2 * (log_mean - centre)) / count * relative
    return centre, min(sqrt(variance), 1.0)
