"""The softmax of a Gaussian row: n scores s_i = sigma z_i with independent standard normal z_i, exactly.

Powers of the partition sum Z = sum_i e^(s_i) are Laplace transforms, 1/Z^m = int t^(m-1) e^(-t Z) dt / (m-1)!, under
which the scores separate. With t = e^u, G(u) = E exp(-e^(u + sigma z)) and

    M_kp(u) = E[z^p e^(k (u + sigma z)) exp(-e^(u + sigma z))],

an expectation over the row becomes one integral over u of products of M and powers of G: for different i, j, ...

    E[w_i^k z_i^p w_j^l z_j^q ...] = int M_kp M_lq ... G^(n - number of indices) du / (k + l + ... - 1)!

All integrands are analytic and vanish at both ends, so the trapezoidal rule converges exponentially (Trefethen and
Weideman 2014): for sigma of 1 and more M and G are integrals over y = u + sigma z, on whose scale e^(-e^y) varies;
below over z itself. The steps here are those at which halving them changes no result by more than 1e-9.
"""

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

FloatArray = npt.NDArray[np.float64]

# e^-_RANGE is where integrands are cut off; 1 / e^-38 is below the precision of a double.
_RANGE = 38.0
# In u and v; in y, where e^(4 y - e^y) has the slowest Fourier tail, |Gamma(4 + i omega)|, the step is finer.
_STEP, _FINE_STEP = 0.28, 0.22
_HIGHEST = 4.2  # exp(-e^4.2) is below 1e-28
_MOST_KEYS = 1e9  # e^-_RANGE of them is still nothing
_LEAST_SIGMA = 1e-9  # below it a row is uniform to the precision of a double


class GaussianRow:
    """Expectations of a softmax row over n_keys independent N(0, sigma^2) scores; both are real numbers.

    >>> row = GaussianRow(sigma=1.0, n_keys=64)
    >>> round(row.entropy(), 6), round(row.max_weight(), 6)
    (3.684746, 0.107274)
    """

    def __init__(self, sigma: float, n_keys: float) -> None:
        if not (0 <= sigma < math.inf and 2 <= n_keys <= _MOST_KEYS):
            raise ValueError(f"expected sigma from 0 and n_keys from 2 to {_MOST_KEYS:g}, got {sigma} and {n_keys}")
        self.sigma, self.n_keys = float(sigma), float(n_keys)

    def log_partition(self) -> float:
        """E ln Z = -gamma - c + int (Phi(-(u - c) / tau) - G^n) du, with any c and tau.

        G^n(u) = P(ln E - ln Z > u) for an exponential E, whose E ln E is -gamma, so that int (1[u < 0] - G^n) du =
        gamma + E ln Z; a normal law of mean c in the place of the step keeps the integrand smooth.
        """
        u, step, _, log_g = self._grid
        below = np.exp(self.n_keys * log_g)
        centre = float(u[np.searchsorted(-below, -0.5)])
        reference = special.ndtr(-(u - centre) / self._smoothing)
        return float(-np.euler_gamma - centre + step * (reference - below).sum())

    def power_sum(self, k: int) -> float:
        """E sum_i w_i^k = n int M_k0 G^(n-1) du / (k-1)!, for k from 1 to 4; 1 for k = 1."""
        return self._integral((k, 0))

    def squared_collision(self) -> float:
        """E (sum_i w_i^2)^2 = E sum_i w_i^4 + n (n-1) int M_20^2 G^(n-2) du / 3!."""
        return self.power_sum(4) + self._integral((2, 0), (2, 0))

    def jacobian_trace(self) -> float:
        """E tr J = 1 - E sum_i w_i^2."""
        return 1 - self.power_sum(2)

    def jacobian_square(self) -> float:
        """E |J|_F^2 = E sum w^2 - 2 E sum w^3 + E (sum w^2)^2."""
        return self.power_sum(2) - 2 * self.power_sum(3) + self.squared_collision()

    def entropy(self) -> float:
        """E H = E ln Z - sigma^2 (1 - E sum w^2), in nats.

        H = ln Z - sum w s, and E sum w_i s_i = sigma^2 E sum dw_i/ds_i = sigma^2 E sum w_i (1 - w_i) by Gaussian
        integration by parts.
        """
        return self.log_partition() - self.sigma**2 * self.jacobian_trace()

    def score_gradient_square(self) -> float:
        """E |J z|^2 = E sum_i w_i^2 (z_i - sum_j w_j z_j)^2, expanded by which of the indices coincide."""
        quadratic = self._integral((2, 2))
        cross = self._integral((3, 2)) + self._integral((2, 1), (1, 1))
        square = (
            self._integral((4, 2))
            + 2 * self._integral((3, 1), (1, 1))
            + self._integral((2, 0), (2, 2))
            + self._integral((2, 0), (1, 1), (1, 1))
        )
        return quadratic - 2 * cross + square

    def max_weight(self) -> float:
        """E max_i w_i = n int phi(m) int e^(v - e^v) A(v, m)^(n-1) dv dm, given that the largest z is m.

        Then 1 / (1 + sum of e^(sigma (z - m)) over the others) is int e^-t e^(-t sum) dt, t = e^v, and each of the
        others, below m, gives A(v, m) = int_(z < m) phi(z) exp(-e^(v + sigma (z - m))) dz, which is Phi(m) minus the
        same integral of 1 - exp(...), over x = sigma (z - m).
        """
        n, sigma = self.n_keys, max(self.sigma, _LEAST_SIGMA)
        low = max(special.ndtri_exp(-_RANGE / (n - 1)), -9.5)
        high = -special.ndtri(1e-17 / n)
        m, m_step = _trapezoid(low, high, _STEP / math.sqrt(1 + math.log(n) / 1.5))
        v, v_step = _trapezoid(-_RANGE, _HIGHEST, _STEP)
        x, x_weights = _graded_panels(min(_RANGE + 5, 20 * sigma))
        missing = -np.expm1(-np.exp(v[:, None] + x))
        density = _normal_density(m[:, None] + x / sigma) * (x_weights / sigma)
        others = np.maximum(special.ndtr(m) - missing @ density.T, 1e-300)
        inner = np.exp((n - 1) * np.log(others)) @ (n * _normal_density(m) * m_step)
        return float((np.exp(v - np.exp(v)) * v_step) @ inner)

    def _integral(self, *indices: tuple[int, int]) -> float:
        """Sum over different row entries of E[w_i^k z_i^p w_j^l z_j^q ...], for indices (k, p), (l, q), ..."""
        n, count = self.n_keys, len(indices)
        tuples = math.prod(n - i for i in range(count))
        if tuples == 0:
            return 0.0
        _, step, moments, log_g = self._grid
        product = np.exp((n - count) * log_g)
        for index in indices:
            product = product * moments[index]
        order = sum(k for k, _ in indices)
        return float(tuples * step * product.sum() / math.factorial(order - 1))

    @property
    def _smoothing(self) -> float:
        """A width on which no integrand over u varies faster than e^(-e^u) does on 1."""
        return 1 + 0.5 * self.sigma / math.sqrt(2 * math.log(self.n_keys) + 2)

    @cached_property
    def _grid(self) -> tuple[FloatArray, float, dict[tuple[int, int], FloatArray], FloatArray]:
        """u, its step, M_kp(u) and ln G(u)."""
        n, margin = self.n_keys, 9 * self._smoothing
        lowest = self.sigma * special.ndtri(1e-17 / n) - math.log(n) - _RANGE - margin
        highest = -self.sigma * special.ndtri_exp(-_RANGE / max(n - 3, 1)) + _HIGHEST + margin
        u, step = _trapezoid(lowest, highest, _STEP * self._smoothing)
        k = np.arange(1, 5)
        if self.sigma >= 1:
            y, y_step = _trapezoid(-_RANGE - 1, _HIGHEST, _FINE_STEP)
            z = (y - u[:, None]) / self.sigma
            weights = _normal_density(z) * (y_step / self.sigma)
            kernel = np.exp(k * y[:, None] - np.exp(y)[:, None])
            moments = [(weights * z**p) @ kernel for p in range(3)]
            # -d exp(-e^y)/dy = e^(y - e^y) is a density: 1 - G(u) is the mean over it of P(u + sigma z > y).
            missing = special.ndtr(-z) @ (y_step * kernel[:, 0])
        else:
            z, z_step = _trapezoid(-10.0, 10.0 + 4 * self.sigma, min(0.35, _FINE_STEP / max(self.sigma, _LEAST_SIGMA)))
            weights = _normal_density(z) * z_step
            exponential = np.exp(u[:, None] + self.sigma * z)
            kernels = [exponential**power * np.exp(-exponential) for power in k]
            moments = [np.stack([kernel @ (weights * z**p) for kernel in kernels], axis=1) for p in range(3)]
            missing = -np.expm1(-exponential) @ weights
        # Where G vanishes, so do the moments that its powers multiply.
        log_g = np.log1p(-np.minimum(missing, 1 - 1e-16))
        return u, step, {(int(i), p): moments[p][:, i - 1] for p in range(3) for i in k}, log_g


def _trapezoid(low: float, high: float, step: float) -> tuple[FloatArray, float]:
    """Equally spaced nodes from low to high and their step, at most the one asked for."""
    nodes, spacing = np.linspace(low, high, math.ceil((high - low) / step) + 1, retstep=True)
    return nodes, float(spacing)


def _graded_panels(length: float) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [-length, 0], in panels that narrow towards 0."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = -length * np.array([1, 0.5, 0.22, 0.1, 0.04, 0.015, 0])
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()


def _normal_density(z: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
