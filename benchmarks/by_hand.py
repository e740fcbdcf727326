"""The measurement of a trial as a person writes it in NumPy or PyTorch: whole arrays, in double
precision, without tiles of rows, masks or other laws.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from experiments.kinds.saturation.cell import Cell

Array = Any  # of NumPy or PyTorch
_TINY = 1e-300  # a smaller weight has a logarithm, too
_SHARES = (0.1, 0.5, 0.9)


def by_hand(
    xp: ModuleType, normal: Callable[..., Array], cell: Cell, trials: int
) -> dict[str, list[Array]]:
    """Metrics by name, a value for each divisor: of each trial, (trials,), or quantiles of all rows.

    Args:
        xp: numpy or torch.
        normal: gives standard normal numbers in a shape.
        cell: of standard normal entries.
        trials: draws of (Q, K).
    """
    queries = normal(trials, cell.n_queries, cell.d_k)
    keys = normal(trials, cell.n_keys, cell.d_k)
    g = normal(trials, cell.n_queries, cell.n_keys)
    scores = queries @ keys.swapaxes(-1, -2)
    key_squares = (keys**2).sum(-1)[:, None]
    lengths = xp.sqrt((queries**2).sum(-1))
    metrics: dict[str, list[Array]] = {}
    for divisor in cell.divisors():
        s = scores / divisor
        mean = s.mean((-1, -2))
        centred = s - mean[:, None, None]
        w = xp.exp(s - xp.amax(s, -1)[..., None])
        w = w / w.sum(-1)[..., None]
        square = w**2
        collision = square.sum(-1)
        max_weight = xp.amax(w, -1)
        jacobian_square = collision - 2 * (square * w).sum(-1) + collision**2
        # |K^T J|^2 = sum_j w_j^2 |k_j - m|^2, with m the mean key
        m = w @ keys
        to_keys = (square * (key_squares - 2 * m @ keys.swapaxes(-1, -2))).sum(-1)
        to_query = to_keys + collision * (m**2).sum(-1)
        gradient = (w * (g - (w * g).sum(-1)[..., None])) @ keys / divisor
        entropy = -(w * xp.log(w + _TINY)).sum(-1)
        norms = {
            "jacobian_norm": xp.sqrt(abs(jacobian_square)),
            "weight_jacobian_norm": xp.sqrt(abs(to_query)) / divisor,
            "query_gradient_norm": xp.sqrt((gradient**2).sum(-1)),
        }
        row_values = {
            "max_weight": max_weight,
            "entropy": entropy,
            "effective_keys": xp.exp(entropy),
            "participation": 1 / collision,
            "jacobian_trace": 1 - collision,
            "saturated_rows": 1.0 * (max_weight > 0.99),
            "own_weight": xp.diagonal(w, 0, -2, -1),
            "key_gradient_norm_square": jacobian_square * (lengths / divisor) ** 2,
            **{f"{name}_square": norm**2 for name, norm in norms.items()},
        }
        values = {
            "score_mean": mean,
            "score_variance": (centred**2).mean((-1, -2)),
            "score_fourth_moment": (centred**4).mean((-1, -2)),
            **{name: metric.mean(-1) for name, metric in row_values.items()},
        }
        for name, norm in norms.items():
            values |= {f"{name}_{q}": xp.quantile(norm, q) for q in _SHARES}
        for name, value in values.items():
            metrics.setdefault(name, []).append(value)
    return metrics
