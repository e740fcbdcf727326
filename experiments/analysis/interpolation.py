"""Curves through measured points with intervals, and the place where a curve falls through 0."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEPS = 64  # between neighbours, for the ends of the interval


def interpolated(
    x: Floats, y: Floats, low: Floats, high: Floats, exact: Floats, *, same_draws: bool = False
) -> list[Floats]:
    """Places x at and between the points, and at each place y, the ends of its 95% interval, and the exact curve.

    If neighbours are independent draws, a curve sum_j A_j y_j has the reach sqrt(sum_j (A_j reach_j)^2); for values of
    the same draws, sum_j |A_j| reach_j holds for any correlation. The function adds a bound of the cubics' error
    between the points: their distance from parabolas.

    Args:
        x: increasing, (points,).
        y, low, high: a value and the ends of its interval, (points,).
        exact: the exact value, NaN where unknown, (points,).
        same_draws: True if the values at different x come from the same draws.

    Returns:
        Five arrays over 64 (points - 1) + 1 places: places, curve, lower end, upper end and exact curve.
    """
    at, weights = _local_polynomials(x, 4)
    _, coarser = _local_polynomials(x, 3)
    missed = np.abs((weights - coarser) @ y)
    if same_draws:
        below, above = (np.abs(weights) @ reach + missed for reach in (y - low, high - y))
    else:
        below, above = (np.sqrt(weights**2 @ reach**2) + missed for reach in (y - low, high - y))
    return [at, weights @ y, weights @ y - below, weights @ y + above, weights @ exact]


def _local_polynomials(x: Floats, size: int) -> tuple[Floats, Floats]:
    """Places at and between the points, and the weight of each point there, (places, points).

    The weights are those of Lagrange's polynomial through that many neighbours: one below the interval if it exists,
    the others above. Straight lines would put the crossing of a concave curve 1 to 2% too low at steps of a factor
    sqrt(2).

    Args:
        x: increasing, (points,).
        size: number of neighbours, 4 for cubics; all points if there are fewer.

    >>> x = np.array([0.0, 1.0, 2.0, 4.0])
    >>> places, weights = _local_polynomials(x, 4)
    >>> bool(np.allclose(weights @ x**3, places**3))  # cubics are exact
    True
    """
    size = min(size, len(x))
    places, weights = [], []
    for i in range(len(x) - 1):
        first = min(max(i - 1, 0), len(x) - size)
        nodes = x[first : first + size]
        at = x[i] + (x[i + 1] - x[i]) * np.arange(_STEPS) / _STEPS
        block = np.zeros((_STEPS, len(x)))
        for j, node in enumerate(nodes):
            others = np.delete(nodes, j)
            block[:, first + j] = ((at[:, None] - others) / (node - others)).prod(axis=1)
        places.append(at)
        weights.append(block)
    return np.concatenate([*places, x[-1:]]), np.concatenate([*weights, np.eye(len(x))[-1:]])


def fall_through_zero(x: Floats, y: Floats) -> float:
    """The x at which the polygon through (x, y) last falls through 0; NaN if it never does.

    A fall goes from above 0 to 0 or below.

    >>> fall_through_zero(np.array([0.0, 1.0, 2.0]), np.array([-1.0, 3.0, -1.0]))
    1.75
    """
    falls, *_ = np.nonzero((y[:-1] > 0) & (y[1:] <= 0))
    if not len(falls):
        return np.nan
    i = falls[-1]
    return float(x[i] + (x[i + 1] - x[i]) * y[i] / (y[i] - y[i + 1]))
