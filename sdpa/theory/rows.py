"""The softmax of a Gaussian row: n scores s_i = sigma z_i with independent standard normal z_i, exactly.

Powers of the partition sum Z = sum_i e^(s_i) are Laplace transforms, 1/Z^m = int t^(m-1) e^(-t Z) dt / (m-1)!, under
which the scores separate. With t = e^u, G(u) = E exp(-e^(u + sigma z)) and

    M_kp(u) = E[z^p e^(k (u + sigma z)) exp(-e^(u + sigma z))],

an expectation over the row becomes one integral over u of products of M and powers of G: for different i, j, ...

    E[w_i^k z_i^p w_j^l z_j^q ...] = int M_kp M_lq ... G^(n - number of indices) du / (k + l + ... - 1)!

All integrands are analytic and vanish at both ends, so the trapezoidal rule converges exponentially (Trefethen and
Weideman 2014): for sigma of 1 and more M and G are integrals over y = u + sigma z, on whose scale e^(-e^y) varies;
below over z itself. The steps here are those at which halving them changes no result by more than 1e-9.

In metrics that a shift of all scores leaves as they are, z may be replaced by x = y / sigma, which does not grow with
sigma; M_kq are the moments of x for sigma from 1, and of z below.
"""

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

from sdpa.theory import largest
from sdpa.theory._grids import HIGHEST, RANGE, STEP, log_g, row_nodes, smoothing, trapezoid
from sdpa.theory.expansion import Index, metric_expansion

FloatArray = npt.NDArray[np.float64]

_MAX_KEYS = 1e9  # times e^-RANGE is still negligible


class GaussianRow:
    """Expectations of a softmax row over n_keys independent N(0, sigma^2) scores; sigma and n_keys are real numbers.

    >>> row = GaussianRow(sigma=1.0, n_keys=64)
    >>> round(row.entropy(), 6), round(row.max_weight(), 6)
    (3.684746, 0.107274)
    """

    def __init__(self, sigma: float, n_keys: float) -> None:
        if not (0 <= sigma < math.inf and 2 <= n_keys <= _MAX_KEYS):
            raise ValueError(
                f"expected sigma of at least 0 and n_keys from 2 to {_MAX_KEYS:g}, got {sigma} and {n_keys}"
            )
        self.sigma, self.n_keys = float(sigma), float(n_keys)
        self._moments: dict[Index, FloatArray] = {}
        self._kernels: dict[int, FloatArray] = {}
        self._powers: dict[int, FloatArray] = {}

    def log_partition(self) -> float:
        """E ln Z = -gamma - c + int (Phi(-(u - c) / tau) - G^n) du, with any c and tau.

        G^n(u) = P(ln E - ln Z > u) for an exponential E, whose E ln E is -gamma, so that int (1[u < 0] - G^n) du =
        gamma + E ln Z; a normal law of mean c in the place of the step keeps the integrand smooth.
        """
        u, step = self._u
        below = np.exp(self.n_keys * self._log_g)
        centre = float(u[np.searchsorted(-below, -0.5)])
        reference = special.ndtr(-(u - centre) / smoothing(self.sigma, self.n_keys))
        return float(-np.euler_gamma - centre + step * (reference - below).sum())

    def power_sum(self, k: int) -> float:
        """E sum_i w_i^k = n int M_k0 G^(n-1) du / (k-1)!, for k from 1 to 8; 1 for k = 1."""
        return self._integral((k, 0))

    def squared_collision(self) -> float:
        """E (sum_i w_i^2)^2 = E sum_i w_i^4 + n (n-1) int M_20^2 G^(n-2) du / 3!."""
        return self.power_sum(4) + self._integral((2, 0), (2, 0))

    def jacobian_trace(self) -> float:
        """E tr J = 1 - E sum_i w_i^2 = E sum w_i w_j over i != j, in which nothing cancels."""
        return self.metric_mean("tr J")

    def jacobian_square(self) -> float:
        """E |J|_F^2 = E sum w_i w_j w_k^2 + 2 E sum w_i^2 w_j^2, over different indices."""
        return self.metric_mean("|J|^2")

    def score_gradient_square(self) -> float:
        """E |J z|^2 = E sum_i w_i^2 (z_i - sum_j w_j z_j)^2, expanded by which of the indices coincide."""
        return self.metric_mean("|Jx|^2")

    def metric_mean(self, name: str) -> float:
        """The expectation of a metric of `sdpa.theory.expansion.metrics`, with x = z.

        Those of degree 8 in w need a whole number of keys: the integral of a term over more different indices than
        there are keys may not exist, and only for whole numbers it has the coefficient 0.

        >>> round(GaussianRow(sigma=1.0, n_keys=64).metric_mean("tr J^4"), 9)
        0.000232074
        """
        return math.fsum(coefficient * self._integral(*term) for term, coefficient in metric_expansion(name))

    def entropy(self) -> float:
        """E H = n int E[(psi(1) - y) e^(y - e^y)] G^(n-1) du, y = u + sigma z, in nats.

        H = sum w_i (ln Z - s_i), and ln Z / Z^m = int (psi(m) - u) t^(m-1) e^(-t Z) dt / (m-1)!, the derivative of
        1/Z^m by m. No term grows with sigma: the relative error is below 1e-9 to sigma = 1e6.
        """
        _, distance, _ = self._shifted(1, special.digamma(1.0))
        return -self.n_keys * self._sum(distance, 1)

    def entropy_variance(self) -> float:
        """Var H = E (sum w_i (ln Z - s_i - E H))^2, from the second derivative of 1/Z^m by m, at m = 2.

        (ln Z)^2 / Z^2 is int ((u - psi(2))^2 - psi'(2)) t^2 e^(-t Z) du, so that with a = psi(2) - E H the terms of
        equal indices are n int E[((y - a)^2 - psi'(2)) e^(2y - e^y)] G^(n-1) du, those of different ones
        n (n-1) int (E[(y - a) e^(y - e^y)]^2 - psi'(2) M_10^2) G^(n-2) du. 0 where it is below 1e-11 of E H^2, which
        rounding errors reach.
        """
        n, mean = self.n_keys, self.entropy()
        centre, spread = special.digamma(2.0) - mean, special.polygamma(1, 2.0)
        m_1, y_1, _ = self._shifted(1, centre)
        m_2, _, yy_2 = self._shifted(2, centre)
        same = n * self._sum(yy_2 - spread * m_2, 1)
        variance = same + n * (n - 1) * self._sum(y_1**2 - spread * m_1**2, 2)
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

    def _integral(self, *indices: Index) -> float:
        """Sum over different row entries of E[w_i^k x_i^q w_j^l x_j^r ...], for indices (k, q), (l, r), ..."""
        count = len(indices)
        tuples = math.prod(self.n_keys - i for i in range(count))
        if tuples == 0:
            return 0.0
        product = self._moment(*indices[0])
        for index in indices[1:]:
            product = product * self._moment(*index)
        return float(tuples * self._sum(product, count) / math.factorial(sum(k for k, _ in indices) - 1))

    def _sum(self, values: FloatArray, count: int) -> float:
        """Int values G^(n - count) du."""
        return float(self._u[1] * (values @ self._power(count)))

    def _power(self, count: int) -> FloatArray:
        """G^(n - count) at every u."""
        if count not in self._powers:
            self._powers[count] = np.exp((self.n_keys - count) * self._log_g)
        return self._powers[count]

    def _moment(self, k: int, q: int) -> FloatArray:
        """M_kq = E[x^q e^(k y - e^y)] at every u."""
        if (k, q) not in self._moments:
            y, x, weights = self._nodes
            if k not in self._kernels:
                self._kernels[k] = np.exp(k * y - np.exp(y)) * (weights if len(weights) == 1 else 1.0)
            kernel = self._kernels[k]
            self._moments[k, q] = weights @ (kernel[0] * x**q) if len(kernel) == 1 else kernel @ x**q
        return self._moments[k, q]

    def _shifted(self, k: int, centre: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """E[(y - centre)^q e^(k y - e^y)] at every u, for q = 0, 1, 2."""
        m_0, m_1, m_2 = (self._moment(k, q) * self.sigma**q for q in range(3))
        origin = (0.0 if self.sigma >= 1 else self._u[0]) - centre
        return m_0, m_1 + origin * m_0, m_2 + 2 * origin * m_1 + origin**2 * m_0

    @cached_property
    def _u(self) -> tuple[FloatArray, float]:
        """Nodes u and their step."""
        n, width = self.n_keys, smoothing(self.sigma, self.n_keys)
        lowest = self.sigma * special.ndtri(1e-17 / n) - math.log(n) - RANGE - 9 * width
        highest = -self.sigma * special.ndtri_exp(-RANGE / max(n - 3, 1)) + HIGHEST + 9 * width
        return trapezoid(lowest, highest, STEP * width)

    @cached_property
    def _log_g(self) -> FloatArray:
        return log_g(self._u[0], self.sigma)

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return row_nodes(self._u[0], self.sigma)
