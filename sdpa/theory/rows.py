"""The softmax of a row of independent scores, exactly.

Powers of the partition sum Z = sum_i e^(s_i) are Laplace transforms, 1/Z^m = int t^(m-1) e^(-t Z) dt / (m-1)!, under
which the scores separate. With t = e^u and the transforms G and M of `groups`, an expectation over the row becomes one
integral over u of products of M and powers of G: for different i, j, ... of a row of equally distributed scores

    E[w_i^k x_i^p w_j^l x_j^q ...] = int M_kp M_lq ... G^(n - number of indices) du / (k + l + ... - 1)!

and for scores of several laws each index is in one of the groups, the power of whose G it lowers.

All integrands are analytic and vanish at both ends, so the trapezoidal rule converges exponentially (Trefethen and
Weideman 2014): for normal scores with a deviation sigma of 1 and more M and G are integrals over y = u + s, on whose
scale e^(-e^y) varies; below over z itself. The steps here are those at which halving them changes no result by more
than 1e-9.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory import largest
from sdpa.theory._grids import STEP, smoothing, trapezoid
from sdpa.theory.expansion import Index, metric_expansion
from sdpa.theory.groups import Group, Nodes, NormalGroup

FloatArray = npt.NDArray[np.float64]

_MAX_KEYS = 1e9  # times e^-RANGE is still negligible


class Row:
    """Expectations of a softmax row of groups of scores.

    Args:
        groups: of the scores, which share a unit.
        unit: of x, above 0.
        u: nodes of the integral over ln t.
        step: between the nodes; or their weights, if they are not equally spaced.
    """

    def __init__(self, groups: Sequence[Group], unit: float, u: FloatArray, step: float | FloatArray) -> None:
        self.groups, self.unit = tuple(groups), float(unit)
        self.n_keys = float(sum(group.count for group in groups))
        self._u = u
        self._step = step if isinstance(step, float) else 1.0
        self._weights = None if isinstance(step, float) else step
        self._moments: dict[tuple[int, Index], FloatArray] = {}
        self._kernels: dict[tuple[int, int], FloatArray] = {}
        self._powers: dict[tuple[int, int], FloatArray] = {}

    def power_sum(self, k: int) -> float:
        """E sum_i w_i^k = n int M_k0 G^(n-1) du / (k-1)!, for k from 1 to 8; 1 for k = 1."""
        return self._integral((k, 0, 0))

    def group_weight(self, group: int) -> float:
        """E of the sum of the weights of a group, n int M_10 G^(n-1) du."""
        return self.groups[group].count * self._sum(self._moment(group, (1, 0, 0)), Counter([group]))

    def squared_collision(self) -> float:
        """E (sum_i w_i^2)^2 = E sum_i w_i^4 + n (n-1) int M_20^2 G^(n-2) du / 3!."""
        return self.power_sum(4) + self._integral((2, 0, 0), (2, 0, 0))

    def jacobian_trace(self) -> float:
        """E tr J = 1 - E sum_i w_i^2 = E sum w_i w_j over i != j, in which nothing cancels."""
        return self.metric_mean("tr J")

    def jacobian_square(self) -> float:
        """E |J|_F^2 = E sum w_i w_j w_k^2 + 2 E sum w_i^2 w_j^2, over different indices."""
        return self.metric_mean("|J|^2")

    def score_gradient_square(self) -> float:
        """E |J x|^2 = E sum_i w_i^2 (x_i - sum_j w_j x_j)^2, expanded by which of the indices coincide."""
        return self.metric_mean("|Jx|^2")

    def across_square(self) -> float:
        """E sum_i (J^2)_ii c_i: the mean square of what K^T J g has across the query."""
        return self.metric_mean("JJ.c")

    def metric_mean(self, name: str) -> float:
        """The expectation of a metric of `sdpa.theory.expansion.metrics`.

        Those of degree 8 in w need a whole number of keys: the integral of a term over more different indices than
        there are keys may not exist, and only for whole numbers it has the coefficient 0.

        >>> round(GaussianRow(sigma=1.0, n_keys=64).metric_mean("tr J^4"), 9)
        0.000232074
        """
        return math.fsum(coefficient * self._integral(*term) for term, coefficient in metric_expansion(name))

    def entropy(self) -> float:
        """E H = n int E[(psi(1) - y) e^(y - e^y)] G^(n-1) du, y = u + s, in nats.

        H = sum w_i (ln Z - s_i), and ln Z / Z^m = int (psi(m) - u) t^(m-1) e^(-t Z) dt / (m-1)!, the derivative of
        1/Z^m by m. No term grows with the scores: the relative error is below 1e-9 to sigma = 1e6.
        """
        total = 0.0
        for place, group in enumerate(self.groups):
            _, distance, _ = self._shifted(place, 1, special.digamma(1.0))
            total -= group.count * self._sum(distance, Counter([place]))
        return total

    def _integral(self, *indices: Index) -> float:
        """Sum over different row entries of E[w_i^k x_i^q c_i^a w_j^l x_j^r ...], for indices (k, q, a), ..."""
        total = 0.0
        for places in itertools.product(range(len(self.groups)), repeat=len(indices)):
            taken = Counter(places)
            tuples = math.prod(self.groups[place].count - i for place in taken for i in range(taken[place]))
            if tuples:
                product = self._moment(places[0], indices[0])
                for place, index in zip(places[1:], indices[1:], strict=True):
                    product = product * self._moment(place, index)
                total += tuples * self._sum(product, taken)
        return total / math.factorial(sum(k for k, _, _ in indices) - 1)

    def _sum(self, values: FloatArray, taken: Counter[int]) -> float:
        """Int values G^(n - taken) du, over all groups."""
        power = self._power(0, taken[0])
        for place in range(1, len(self.groups)):
            power = power * self._power(place, taken[place])
        return float(self._step * (values @ power))

    def _power(self, place: int, taken: int) -> FloatArray:
        """G^(n - taken) of a group at every u; that of the first one times the weights of unequal steps."""
        if (place, taken) not in self._powers:
            power = np.exp((self.groups[place].count - taken) * self._log_g[place])
            self._powers[place, taken] = power if place or self._weights is None else power * self._weights
        return self._powers[place, taken]

    def _moment(self, place: int, index: Index) -> FloatArray:
        """M_kqa = E[x^q c^a e^(k y - e^y)] of a group at every u."""
        if (place, index) not in self._moments:
            k, q, a = index
            y, x, weights, across = self._nodes[place]
            if (place, k) not in self._kernels:
                self._kernels[place, k] = np.exp(k * y - np.exp(y)) * (1.0 if len(weights) > len(y) else weights)
            kernel, factor = self._kernels[place, k], x**q * across**a
            if len(weights) > len(y):
                moment = weights @ (kernel[0] * factor)
            elif factor.ndim == 1:
                moment = kernel @ factor
            else:
                moment = np.vecdot(kernel, factor)
            self._moments[place, index] = moment
        return self._moments[place, index]

    def _shifted(self, place: int, k: int, centre: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """E[(y - centre)^q e^(k y - e^y)] at every u, for q = 0, 1, 2."""
        m_0, m_1, m_2 = (self._moment(place, (k, q, 0)) * self.unit**q for q in range(3))
        origin = (0.0 if self.unit >= 1 else self._u) - centre
        return m_0, m_1 + origin * m_0, m_2 + 2 * origin * m_1 + origin**2 * m_0

    @cached_property
    def _log_g(self) -> list[FloatArray]:
        return [group.log_g(self._u) for group in self.groups]

    @cached_property
    def _nodes(self) -> list[Nodes]:
        return [group.nodes(self._u) for group in self.groups]


class GaussianRow(Row):
    """A softmax row over n_keys independent N(0, sigma^2) scores; sigma and n_keys are real numbers.

    >>> row = GaussianRow(sigma=1.0, n_keys=64)
    >>> round(row.entropy(), 6), round(row.max_weight(), 6)
    (3.684746, 0.107274)
    """

    def __init__(self, sigma: float, n_keys: float) -> None:
        if not (0 <= sigma < math.inf and 2 <= n_keys <= _MAX_KEYS):
            raise ValueError(
                f"expected sigma of at least 0 and n_keys from 2 to {_MAX_KEYS:g}, got {sigma} and {n_keys}"
            )
        self.sigma = float(sigma)
        group = NormalGroup(float(n_keys), self.sigma)
        low, high, width = group.ends()
        super().__init__([group], self.sigma, *trapezoid(low, high, STEP * width))

    def log_partition(self) -> float:
        """E ln Z = -gamma - c + int (Phi(-(u - c) / tau) - G^n) du, with any c and tau.

        G^n(u) = P(ln E - ln Z > u) for an exponential E, whose E ln E is -gamma, so that int (1[u < 0] - G^n) du =
        gamma + E ln Z; a normal law of mean c in the place of the step keeps the integrand smooth.
        """
        below = np.exp(self.n_keys * self._log_g[0])
        centre = float(self._u[np.searchsorted(-below, -0.5)])
        reference = special.ndtr(-(self._u - centre) / smoothing(self.sigma, self.n_keys))
        return float(-np.euler_gamma - centre + self._step * (reference - below).sum())

    def entropy_variance(self) -> float:
        """Var H = E (sum w_i (ln Z - s_i - E H))^2, from the second derivative of 1/Z^m by m, at m = 2.

        (ln Z)^2 / Z^2 is int ((u - psi(2))^2 - psi'(2)) t^2 e^(-t Z) du, so that with a = psi(2) - E H the terms of
        equal indices are n int E[((y - a)^2 - psi'(2)) e^(2y - e^y)] G^(n-1) du, those of different ones
        n (n-1) int (E[(y - a) e^(y - e^y)]^2 - psi'(2) M_10^2) G^(n-2) du. 0 where it is below 1e-11 of E H^2, which
        rounding errors reach.
        """
        n, mean = self.n_keys, self.entropy()
        centre, spread = special.digamma(2.0) - mean, special.polygamma(1, 2.0)
        m_1, y_1, _ = self._shifted(0, 1, centre)
        m_2, _, yy_2 = self._shifted(0, 2, centre)
        same = n * self._sum(yy_2 - spread * m_2, Counter([0]))
        variance = same + n * (n - 1) * self._sum(y_1**2 - spread * m_1**2, Counter([0, 0]))
        return float(variance) if variance > 1e-11 * mean**2 else 0.0

    def max_weight(self) -> float:
        """E max_i w_i."""
        return largest.max_weight_moments(self.sigma, self.n_keys)[0]

    def max_weight_square(self) -> float:
        """E (max_i w_i)^2."""
        return largest.max_weight_moments(self.sigma, self.n_keys)[1]

    def max_weight_survival(self, threshold: float) -> float:
        """P(max_i w_i > threshold), for a threshold from 1/2, which no second weight can exceed, to below 1.

        Within 1e-12 of the closed form of two keys; from sigma = 0.5, where that is above 1e-30, also within 1e-9
        relatively.

        >>> round(GaussianRow(sigma=8.0, n_keys=64).max_weight_survival(0.99), 6)
        0.1943
        """
        return largest.max_weight_survival(self.sigma, self.n_keys, threshold)
