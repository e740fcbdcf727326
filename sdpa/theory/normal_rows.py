"""Rows of normal scores of one or two laws: G(u) = E exp(-e^(u + s)), nodes, candidates for the
largest, survival.

P(a weight > threshold) is n P(S < c X) for a group of n scores: X = e^s of one of them, S the sum
of e^s over all others, and c = (1 - threshold) / threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import special

from sdpa.theory.integrals import (
    FINE_STEP,
    HIGHEST,
    RANGE,
    STEP,
    FloatArray,
    Integrands,
    Nodes,
    Span,
    gauss_panels,
    hermite_rule,
    trapezoid,
)
from sdpa.theory.largest_weight import (
    GRADED,
    Candidates,
    V,
    log_below,
    log_transform,
    sum_below,
    terms_for,
)

_DEVIATIONS = 9.5  # beyond them a normal law has 1e-21
_MIN_SIGMA = 1e-9  # below it a row is uniform to the precision of a double
_BREAKS = np.linspace(-_DEVIATIONS, _DEVIATIONS, 8)
_POINTS = 16
_ONE_STEP = 0.7
FEW_SIGMA = 0.4  # a deviation below which the real inversion loses digits
_ROWS = 64  # in memory at once
_LEAST_SURVIVAL = 1e-13
_SADDLE_STEP = 0.35
_TRANSITION = np.array([-8.0, -3.0, 0.0, 3.0, 8.0])
_NARROW = 0.15  # as a share of the other deviation
_PANELS = 6
_LEAST_CHANCE = 1e-18


@dataclass(frozen=True)
class NormalLaw:
    """Scores unit (offset + scale z) with standard normal z, in the unit of the row; c of their
    keys.
    """

    unit: float
    offset: float = 0.0
    scale: float = 1.0
    across: float = 1.0

    @property
    def mean(self) -> float:
        """Mean of the scores."""
        return self.unit * self.offset

    @property
    def deviation(self) -> float:
        """Standard deviation of the scores."""
        return self.unit * self.scale

    @property
    def _sigma(self) -> float:
        return max(self.deviation, _MIN_SIGMA)

    def log_g(self, u: FloatArray) -> FloatArray:
        """ln G at every u."""
        return log_g(u + self.mean, self.deviation)

    def nodes(self, u: FloatArray) -> Nodes:
        """Nodes of y where the deviation of the scores is at least 1, of z below."""
        y, z, weights = _score_nodes(u + self.mean, self.deviation)
        of_y = (y[0] if len(y) == 1 else y) / self.unit if self.unit >= 1 else None
        return Nodes(
            y, self.offset + self.scale * z if of_y is None else of_y, weights, self.across
        )

    def ends(self, counts: Span) -> tuple[float, float, float]:
        """The least and the greatest u that matter to so many scores, and a width on which no
        integrand varies.
        """
        (fewest, most), sigma = counts, self.deviation
        # No integrand over u varies faster than e^(-e^u) does on 1.
        width = 1 + 0.5 * sigma / math.sqrt(2 * math.log(most) + 2)
        lowest = sigma * special.ndtri(1e-17 / most) - math.log(most) - RANGE - 9 * width
        highest = -sigma * special.ndtri_exp(-RANGE / max(fewest - 3, 1)) + HIGHEST + 9 * width
        return lowest - self.mean, highest - self.mean, width

    def largest(self, counts: Span) -> tuple[float, float, float]:
        """The least and the greatest score that may be the largest of so many, and a step that
        resolves its law.
        """
        fewest, most = counts
        low = max(float(special.ndtri_exp(-RANGE / max(fewest - 1, 1e-9))), -_DEVIATIONS)
        high = -float(special.ndtri(1e-17 / most))
        step = FINE_STEP / math.sqrt(1 + math.log(most) / 1.5) if most > 1 else _ONE_STEP
        return self.mean + self._sigma * low, self.mean + self._sigma * high, self._sigma * step

    @property
    def lowest(self) -> float:
        """The least score that counts."""
        return self.mean - _DEVIATIONS * self._sigma

    @property
    def resolution(self) -> float:
        """The greatest width of a panel that resolves the density."""
        return 5 * self._sigma

    def density(self, score: FloatArray) -> FloatArray:
        """The density of a score."""
        return normal_density((score - self.mean) / self._sigma) / self._sigma

    def cdf(self, score: FloatArray) -> FloatArray:
        """P(s < score)."""
        return np.asarray(special.ndtr((score - self.mean) / self._sigma))

    def between(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores between the first and last of falling edges, and their probabilities, where no
        panel resolves s.
        """
        low, high = edges.min(axis=-1, keepdims=True), edges.max(axis=-1, keepdims=True)
        s, weights = gauss_panels(np.clip(self.mean + self._sigma * _BREAKS, low, high), 16)
        return s, weights * self.density(s)

    def points(self) -> tuple[FloatArray, FloatArray]:
        """Scores in the place of a narrow law, and their probabilities."""
        nodes, weights = hermite_rule(_POINTS if self.deviation else 1)
        return self.mean + self.deviation * nodes, weights


def normal_density(z: FloatArray) -> FloatArray:
    """phi(z) = e^(-z^2 / 2) / sqrt(2 pi), of any shape."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


def log_g(u: FloatArray, sigma: float) -> FloatArray:
    """ln G(u) = ln E exp(-e^(u + sigma z)), precise where G is near 1 and where it is near 0;
    (nodes of u,).
    """
    low = u > -0.4  # there G is below about 1/2
    if sigma >= 1:  # G is the mean of P(u + sigma z < y) over the density e^(y - e^y) of y
        y, step = trapezoid(-RANGE - 1, HIGHEST, STEP)
        density = step * np.exp(y - np.exp(y))
        missing = special.ndtr((u[~low, None] - y) / sigma) @ density
        present = special.ndtr((y - u[low, None]) / sigma) @ density
    else:
        y, _, weights = _score_nodes(u, sigma)
        exponential = np.exp(y)
        missing = -np.expm1(-exponential[~low]) @ weights[0]
        present = np.exp(-exponential[low]) @ weights[0]
    result = np.empty(len(u))
    result[~low] = np.log1p(-missing)
    result[low] = np.log(np.maximum(present, 1e-300))
    return result


def _score_nodes(u: FloatArray, sigma: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """y = u + sigma z, (1 or nodes of u, nodes), z, (nodes,), and the weights of an expectation
    over z.
    """
    if sigma >= 1:  # nodes of y, the same for every u, and y / sigma in the place of z
        y, step = trapezoid(-RANGE - 1, HIGHEST, FINE_STEP)
        return y[None], y / sigma, normal_density((y - u[:, None]) / sigma) * (step / sigma)
    sigma = max(sigma, _MIN_SIGMA)
    # The mode of e^(8 sigma z) phi(z) is at 8 sigma; no order is above 8.
    z, step = trapezoid(-10.0, 10.0 + 8 * sigma, min(0.35, FINE_STEP / sigma))
    return u[:, None] + sigma * z, z, normal_density(z)[None] * step


class NormalRows:
    """What rows of one law share, or of that of a single score and that of the others; `counts` are
    those of scores.
    """

    def __init__(self, laws: Sequence[NormalLaw], counts: Sequence[Span]) -> None:
        self.laws, self.counts = laws, counts
        self._kernels: dict[tuple[int, float], tuple[FloatArray, FloatArray]] = {}

    @cached_property
    def integrands(self) -> Integrands:
        """Nodes u from the least that matters to any group to the greatest at which no G
        vanishes.
        """
        ends = np.array([law.ends(of) for law, of in zip(self.laws, self.counts, strict=True)])
        return Integrands(
            self.laws, self.laws[0].unit, *_row_nodes(*ends[ends[:, 0] < ends[:, 1].min()].T)
        )

    @cached_property
    def candidates(self) -> list[Candidates]:
        """Scores that may be the largest, on a grid for all groups."""
        if len(self.laws) == 2 and self.laws[0].deviation < _NARROW * self.laws[1].deviation:
            return _candidates_beside_points(self.laws[0], self.laws[1], self.counts[1])
        lows, highs, steps = np.array(
            [law.largest(of) for law, of in zip(self.laws, self.counts, strict=True)]
        ).T
        scores, step = trapezoid(lows.max(), highs.max(), steps.min())
        logs = np.array([log_below(law, scores) for law in self.laws])
        return [
            Candidates(group, law.density(scores) * step, logs)
            for group, law in enumerate(self.laws)
        ]

    def survival(self, group: int, counts: Sequence[float], log_ratio: float) -> float:
        """n P(S < c X) for X of a group, ln c at most 0.

        From a deviation of 0.4 of the scores by `_kernel`; below, by inversion of a Laplace
        transform to 1e-10, unless the bound shows that no row has such a weight.
        """
        if self.laws[group].deviation >= FEW_SIGMA:
            if (group, log_ratio) not in self._kernels:
                self._kernels[group, log_ratio] = self._kernel(group, log_ratio)
            weights, log_g = self._kernels[group, log_ratio]
            others = np.array(counts) - (np.arange(len(counts)) == group)
            return counts[group] * float(weights @ np.exp(others @ log_g))
        bound = _survival_bound(self.laws, counts, group, log_ratio)
        if sum(counts) == 2:
            return bound
        if bound < _LEAST_SURVIVAL:
            return 0.0
        return counts[group] * _by_inversion(self.laws, counts, group, log_ratio)

    def _kernel(self, group: int, log_ratio: float) -> tuple[FloatArray, FloatArray]:
        """Weights and ln G of each law, (laws, nodes), of P(S < c X) = int kappa(u + ln c) G(u) du,
        G = E exp(-e^u S).

        kappa has the Fourier transform e^(-sigma^2 w^2 / 2) / Gamma(1 - i w): G(u) = P(ln E - ln S
        > u) for an exponential E, whose ln E has the characteristic function Gamma(1 + i w) and
        gives place to s.
        """
        law, most, u, step = (
            self.laws[group],
            self.counts[group][1],
            self.integrands.u,
            self.integrands.weights,
        )
        sigma, shift = law.deviation, log_ratio + law.mean
        low = min(
            sigma * special.ndtri(1e-17 / most) - shift - 4, -math.log(most) - 4 * sigma - law.mean
        )
        low, high = max(low, u[0]), min(8.2 * sigma + 3 - shift, u[-1])
        inside = (low <= u) & (u <= high)
        step = step if isinstance(step, float) else step[inside]
        u, log_g = u[inside], self.integrands.log_g[:, inside]
        if low < high and np.max(step, initial=0) > widest_step(sigma):
            u, step = trapezoid(low, high, widest_step(sigma))
            log_g = np.array([law.log_g(u) for law in self.laws])
        return step * kappa(u + shift, sigma), log_g


def _row_nodes(
    low: FloatArray, high: FloatArray, width: FloatArray
) -> tuple[FloatArray, float | FloatArray]:
    """Nodes u from the least low to the least high end, and their weights, or the step between
    all.
    """
    first, last, step = low.min(), high.min(), FINE_STEP * width
    if step.max() < 4 * step.min():
        return trapezoid(first, last, step.min())
    # Groups of very different widths have panels of their own.
    pieces = [
        np.linspace(start, min(end, last), math.ceil((min(end, last) - start) / (10 * each)) + 1)
        for start, end, each in zip(low, high, step, strict=True)
    ]
    return gauss_panels(np.unique(np.concatenate(pieces)), 16)


def _candidates_beside_points(own: NormalLaw, rest: NormalLaw, count: Span) -> list[Candidates]:
    """Candidates if the law of the single score is narrow: for that score at each of a few
    points.
    """
    points, shares = own.points()
    of_points = Candidates(
        0, shares, np.array([np.zeros((len(points), len(V))), log_below(rest, points)])
    )
    low, high, _ = rest.largest(count)
    # The weight of a score depends on its distance from the point on a scale of 1, its law on that
    # of the deviation.
    near = points[:, None] + (RANGE + 5) * GRADED
    edges = np.sort(
        np.concatenate(
            [near, np.tile(np.linspace(low, high, _PANELS + 1), (len(points), 1))], axis=1
        )
    )
    scores, weights = gauss_panels(np.clip(edges, np.maximum(points, low)[:, None], high), 16)
    chances = shares[:, None] * weights * rest.density(scores)
    point, node = np.nonzero(chances > _LEAST_CHANCE)
    if not len(point):
        return [of_points]
    scores = scores[point, node]
    log_own = -np.exp(V + (points[point] - scores)[:, None])
    return [
        of_points,
        Candidates(1, chances[point, node], np.array([log_own, log_below(rest, scores)])),
    ]


normal_rows = lru_cache(_ROWS)(NormalRows)


def widest_step(sigma: float) -> float:
    """The step of u at which kappa is resolved: beyond pi / step, e^(-sigma^2 w^2 / 2 + pi w / 2)
    is below e^-36.
    """
    return STEP * sigma if sigma >= 1 else math.pi**2 / (math.pi**2 / (2 * sigma**2) + 36)


def kappa(t: FloatArray, sigma: float) -> FloatArray:
    """(1/2 pi) int exp(s t + sigma^2 s^2 / 2 - ln Gamma(1 + s)) dw at every t, with s = eta - i w
    for any eta.

    From t = psi(1) with eta = 0; below, at the saddle point t = psi(1 + eta) - sigma^2 eta, without
    oscillation.
    """
    left, right = t[t < -np.euler_gamma], t[t >= -np.euler_gamma]
    eta = -left / sigma**2
    for _ in range(6):
        eta = np.maximum((special.digamma(1 + eta) - left) / sigma**2, 0)
    width = 1 / np.sqrt(np.maximum(sigma**2 - special.polygamma(1, 1 + eta), 0.25 * sigma**2))
    nodes, step = trapezoid(0.0, _DEVIATIONS, _SADDLE_STEP)
    s = eta[:, None] - 1j * nodes * width[:, None]
    values = np.exp(s * left[:, None] + sigma**2 * s * s / 2 - special.loggamma(1 + s)).real
    by_saddle = (values.sum(axis=1) - values[:, 0] / 2) * width * (step / math.pi)
    # The integrand falls like e^(-sigma^2 w^2 / 2 + pi w / 2), and kappa is negligible beyond 8.3
    # sigma + 3.
    step, last = 2 * math.pi / (17 * sigma + 6), (1.6 + math.sqrt(2.5 + 78 * sigma**2)) / sigma**2
    w = np.arange(0, last + step, step)
    transform = np.exp(-((sigma * w) ** 2) / 2 - special.loggamma(1 - 1j * w))
    transform[0] /= 2
    return np.concatenate(
        [by_saddle, (np.exp(-1j * np.outer(right, w)) @ transform).real * (step / math.pi)]
    )


def _survival_bound(
    laws: Sequence[NormalLaw], counts: Sequence[float], group: int, log_ratio: float
) -> float:
    """An upper limit of n P(S < c X), which two scores reach: S exceeds each term, and their number
    e^(their mean).
    """
    others = [count - (place == group) for place, count in enumerate(counts)]
    of_x, number = laws[group], sum(others)
    mean = sum(count * law.mean for count, law in zip(others, laws, strict=True)) / number
    variance = (
        sum(count * law.deviation**2 for count, law in zip(others, laws, strict=True)) / number**2
    )
    limits = [(mean + math.log(number), variance)]
    limits += [
        (law.mean, law.deviation**2) for count, law in zip(others, laws, strict=True) if count
    ]
    gaps = [
        (of_x.mean + log_ratio - above)
        / max(math.hypot(of_x.deviation, math.sqrt(spread)), _MIN_SIGMA)
        for above, spread in limits
    ]
    return counts[group] * float(special.ndtr(min(gaps)))


def _by_inversion(
    laws: Sequence[NormalLaw], counts: Sequence[float], group: int, log_ratio: float
) -> float:
    """P(S < c X), for X of a narrow law and whole counts."""
    others = [
        (law, count - (place == group))
        for place, (law, count) in enumerate(zip(laws, counts, strict=True))
    ]
    others = [(law, count) for law, count in others if count]
    if any(count != int(count) for _, count in others):
        raise ValueError(
            f"expected a whole number of keys below a deviation of {FEW_SIGMA}, got {sum(counts)}"
        )
    centre, width = _log_mean_and_width(others)
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


def _log_mean_and_width(others: Sequence[tuple[NormalLaw, float]]) -> tuple[float, float]:
    """ln E S of a sum of e^s, and the standard deviation of S over its mean, at most 1."""
    logs = [math.log(count) + law.mean + law.deviation**2 / 2 for law, count in others]
    centre = float(special.logsumexp(logs))
    variance = sum(
        math.exp(2 * (log - centre)) / count * math.expm1(min(law.deviation, 10.0) ** 2)
        for log, (law, count) in zip(logs, others, strict=True)
    )
    return centre, min(math.sqrt(variance), 1.0)
