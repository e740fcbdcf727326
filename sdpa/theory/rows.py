"""The softmax of a row of independent scores, exactly.

Powers of the partition sum Z = sum_i e^(s_i) are Laplace transforms, under which scores separate:

    1/Z^m = int t^(m-1) e^(-t Z) dt / (m-1)!

With t = e^u and the transforms G and M of `sdpa.theory.integrands`, an expectation over a row of n
equally distributed scores becomes one integral, for different i, j, ...

    E[w_i^k x_i^p w_j^l x_j^q ...] = int M_kp M_lq ... G^(n - indices) du / (k + l + ... - 1)!

For scores of several laws, each index belongs to a group g, and turns its G_g^n into G_g^(n-1).

Letters: s are scores in nats, w = e^s / Z weights, n keys, u = ln t of the Laplace variable t, a
real number. No contour is needed, because no pole or cancellation occurs:

      1 |------.  G^(n-1)           u far below -ln Z: t^m is 0, a row counts as empty
        |       '.    .-. M         u near -ln Z: the integrand
        |         '.-'   '-.        u far above -ln Z: e^(-t Z) is 0
        +-----------'-------'--> u

All integrands are analytic and vanish at both ends, so that the trapezoidal rule converges
exponentially (Trefethen and Weideman 2014). Halving the steps changes no result by more than 1e-9.
"""

from collections.abc import Sequence
from math import exp, factorial, fsum, inf, log, log1p, prod

import numpy as np
from scipy.special import digamma

from sdpa._arrays import FloatArray
from sdpa.theory.cosine_rows import CosineRows
from sdpa.theory.integrals import span
from sdpa.theory.integrands import Taken
from sdpa.theory.largest_weight import largest_mean
from sdpa.theory.normal_law import NormalLaw
from sdpa.theory.normal_rows import NormalRows, normal_rows

_MAX_KEYS = 1e9  # times e^-RANGE is still negligible


class Row:
    """Expectations of a softmax row: `counts` scores of each law."""

    def __init__(self, laws: NormalRows | CosineRows, counts: Sequence[float]) -> None:
        self.counts = np.array(counts, dtype=float)
        self.n_keys = float(self.counts.sum())
        self._laws = laws
        self._groups = range(len(self.counts))
        self._powers: dict[Taken, FloatArray] = {}

    def power_sum(self, k: int, group: int | None = None) -> float:
        """E sum_i w_i^k = n int M_k0 G^(n-1) du / (k-1)!, k from 1 to 4, of a group or of all."""
        if group is None:
            return fsum(self.power_sum(k, i) for i in self._groups)
        moment = self._laws.integrands.moment(group, (k, 0, 0))
        return self._group_integral(group, moment) / factorial(k - 1)

    def jacobian_trace(self) -> float:
        """E tr J = 1 - E sum_i w_i^2."""
        return self.metric_mean("tr J")

    def jacobian_square(self) -> float:
        """E |J|_F^2."""
        return self.metric_mean("|J|^2")

    def score_gradient_square(self) -> float:
        """E |J x|^2 = E sum_i w_i^2 (x_i - sum_j w_j x_j)^2."""
        return self.metric_mean("|Jx|^2")

    def metric_mean(self, name: str) -> float:
        """The mean of a metric of `sdpa.theory.integrands.METRICS`."""
        total = 0.0
        for taken, values in self._laws.integrands.metric(name).items():
            tuples = prod(
                count - i
                for count, indices in zip(self.counts, taken, strict=True)
                for i in range(indices)
            )
            if tuples:  # the integral of a term over more different indices than keys may not exist
                total += float(tuples) * self._integral(values, taken)
        return total

    def entropy(self) -> float:
        """E H = n int E[(psi(1) - y) e^(y - e^y)] G^(n-1) du, y = u + s, in nats.

        H = sum w_i (ln Z - s_i), and ln Z / Z^m = int (psi(m) - u) t^(m-1) e^(-t Z) dt / (m-1)!,
        the derivative of 1/Z^m by m. No term grows with the scores: the relative error is below
        1e-9 up to sigma = 1e6.
        """
        total = 0.0
        for group in self._groups:
            total -= self._group_integral(group, self._laws.integrands.shifted(group, digamma(1.0)))
        return total

    def max_weight(self) -> float:
        """E max_i w_i."""
        return largest_mean(self._laws.candidates, self.counts.tolist())

    def remainder_below(self, log_remainder: float, group: int | None = None) -> float:
        """P(1 - w < r) for the largest weight, or one of a group, and r up to 1/2, from ln r.

        No second weight can exceed 1/2, and r may be below 2^-53. The error is below 1e-12 for
        normal scores of a deviation from 0.4. For smaller deviations it is below 1e-10, and n_keys
        must be whole.

        >>> round(GaussianRow(sigma=8.0, n_keys=64).remainder_below(log(0.01)), 6)
        0.1943
        """
        if log_remainder > -log(2):
            raise ValueError(f"expected a remainder up to 1/2, got {exp(log_remainder)}")
        log_ratio = log_remainder - log1p(-exp(log_remainder))
        counts = self.counts.tolist()
        groups = [i for i in self._groups if counts[i] and group in (None, i)]
        terms = (self._laws.survival(i, counts, log_ratio) for i in groups)
        return min(max(fsum(terms), 0.0), 1.0)  # without rounding errors

    def _group_integral(self, group: int, values: FloatArray) -> float:
        """n int values G^(n-1) du over the n scores of a group, with the G^n of other groups."""
        taken = tuple(int(i == group) for i in self._groups)
        return float(self.counts[group]) * self._integral(values, taken)

    def _integral(self, values: FloatArray, taken: Taken) -> float:
        """int values G^(n - taken) du, over all groups."""
        if taken not in self._powers:
            integrands = self._laws.integrands
            powers = np.exp((self.counts - taken) @ integrands.log_g)
            self._powers[taken] = integrands.weights * powers
        return float(values @ self._powers[taken])


class GaussianRow(Row):
    """A softmax row over n_keys independent N(0, sigma^2) scores, of real sigma and n_keys.

    >>> row = GaussianRow(sigma=1.0, n_keys=64)
    >>> round(row.entropy(), 6), round(row.max_weight(), 6)
    (3.684746, 0.107274)
    """

    def __init__(self, sigma: float, n_keys: float) -> None:
        if not (0 <= sigma < inf and 2 <= n_keys <= _MAX_KEYS):
            expected = f"sigma of at least 0 and n_keys from 2 to {_MAX_KEYS:g}"
            raise ValueError(f"expected {expected}, got {sigma} and {n_keys}")
        self.sigma = float(sigma)
        laws = normal_rows((NormalLaw(self.sigma),), (span(n_keys),))
        super().__init__(laws, (n_keys,))
