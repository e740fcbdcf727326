"""Rows of Gaussian queries that correlate with their own key: one score of another law than the others."""

import math

import numpy as np
import numpy.typing as npt

from sdpa.metrics import SATURATED
from sdpa.pairs import PairLaw
from sdpa.theory import largest_of_groups
from sdpa.theory._grids import STEP, trapezoid
from sdpa.theory.groups import NormalGroup
from sdpa.theory.queries import query_lengths
from sdpa.theory.rows import Row
from sdpa.theory.unknown import UnknownError

FloatArray = npt.NDArray[np.float64]

_COARSENESS = 1.5  # of the nodes of |q|, each of which has a row of its own
_SHORTEST = 1e-14  # almost all unsaturated rows of a strong correlation are those of short queries


def correlated_means(d_k: float, n_keys: float, divisor: float, law: PairLaw) -> FloatArray:
    """The means of `attention.OF_ROWS` with a correlation rho of a query and its own key, entry by entry.

    Given q, in units of sigma = key_std |q| / divisor and up to a shift of all, the scores of other keys are N(0, 1),
    and that of the own key is N(rho |q| / query_std, 1 - rho^2). Across the query, the entries of the own key have the
    variance (1 - rho^2) key_std^2, so that with c = 1 - rho^2 for it and 1 for the others

        E |dL/dq|^2 = (E |J x|^2 + (d_k - 1) E sum_j (J^2)_jj c_j) key_std^2 / divisor^2.

    Args:
        d_k, divisor, law: as in `attention_expectations`.
        n_keys: a whole number.

    Raises:
        UnknownError: the law has a spectrum.
        ValueError: n_keys is not whole.
    """
    if law.spectrum:
        raise UnknownError("softmax rows are unknown for entries of unequal variance")
    if n_keys != int(n_keys):
        raise ValueError(f"expected a whole number of keys beside a correlation, got {n_keys}")
    lengths = query_lengths(d_k, coarseness=_COARSENESS, shortest=_SHORTEST)
    sigma = law.query_std * law.key_std / divisor * lengths.length
    rows = np.array([_row_means(*pair, law.correlation, n_keys) for pair in zip(sigma, lengths.length, strict=True)])
    max_weight, entropy, trace, square, along, across, saturated, collision, own = lengths.share @ rows
    gradient = (along + (d_k - 1) * across) * (law.key_std / divisor) ** 2
    of_keys = (lengths.share * lengths.length**2) @ rows[:, 3] * (law.query_std / divisor) ** 2
    return np.array([max_weight, entropy, trace, square, gradient, saturated, collision, of_keys, own])


def _row_means(sigma: float, length: float, rho: float, n_keys: float) -> list[float]:
    """Means of max w, H, tr J, |J|_F^2, |J x|^2, sum_j (J^2)_jj c_j, saturation, sum w^2 and own weight, given |q|."""
    rest = 1 - rho**2
    own = NormalGroup(1, sigma, rho * length, math.sqrt(rest), rest)
    groups = [own, NormalGroup(n_keys - 1, sigma)]
    low, high, width = np.array([group.ends() for group in groups]).T
    row = Row(groups, sigma, *trapezoid(low.min(), high.min(), STEP * width.min()))
    return [
        largest_of_groups.max_weight(groups),
        row.entropy(),
        row.jacobian_trace(),
        row.jacobian_square(),
        row.score_gradient_square(),
        row.across_square(),
        largest_of_groups.max_weight_survival(groups, SATURATED),
        row.power_sum(2),
        row.group_weight(0),
    ]
