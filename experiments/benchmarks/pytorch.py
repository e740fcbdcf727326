"""The measurement in eager PyTorch, in double or single precision, with the suite's number of trials per batch.

Its metrics are the formulas of `experiments.benchmarks.article` on whole batches. `compare` of
`experiments.benchmarks.ways` tests that they agree with the suite.
"""

import importlib.util
from typing import Any


def is_installed() -> bool:
    """True if PyTorch is installed; no lock file includes it."""
    return importlib.util.find_spec("torch") is not None


def measure(keys: Any, queries: Any, divisors: list[float], *, gradients: bool = True) -> list[dict[str, Any]]:
    """For every divisor the means over trials and rows of the suite's metrics, and the medians of norms.

    Args:
        keys, queries: tensors (trials, n_keys, d_k), (trials, n_queries, d_k).
        divisors: the divisors of the scores, applied one after the other.
        gradients: measure the metrics of the query gradient too.

    Returns:
        One dictionary for each divisor. PyTorch's median of an even number of values is the lower of the two in the
        middle.
    """
    import torch

    scores = queries @ keys.mT
    key_squares = keys.square().sum(dim=-1).unsqueeze(-2)
    found = []
    for divisor in divisors:
        scaled = scores / divisor
        weights = torch.softmax(scaled, dim=-1)
        squares, largest = weights.square(), weights.amax(dim=-1)
        s2, s3 = squares.sum(dim=-1), (squares * weights).sum(dim=-1)
        norms = {"jacobian_norm": (s2 - 2 * s3 + s2.square()).clamp(min=0).sqrt()}
        if gradients:
            means = weights @ keys
            distances = key_squares - 2 * means @ keys.mT + means.square().sum(dim=-1, keepdim=True)
            norms["query_gradient_norm"] = (squares * distances).sum(dim=-1).clamp(min=0).sqrt() / divisor
        scaled_squares = scaled.square()
        values = {
            "score_mean": scaled.mean(),
            "score_square": scaled_squares.mean(),
            "score_cube": (scaled_squares * scaled).mean(),
            "score_fourth": scaled_squares.square().mean(),
            "max_weight": largest.mean(),
            "entropy": torch.special.entr(weights).sum(dim=-1).mean(),
            "jacobian_trace": (1 - s2).mean(),
            "saturated_rows": (largest > 0.99).double().mean(),
        }
        for name, rows in norms.items():
            values |= {name: rows.square().mean().sqrt(), f"{name}_median": rows.median()}
        found.append({name: float(value) for name, value in values.items()})
    return found


def draw_and_measure(
    d_k: int,
    n_keys: int,
    n_queries: int,
    divisors: list[float],
    trials: int,
    batch: int,
    *,
    gradients: bool,
    dtype: str,
) -> None:
    """Draw and measure this many trials, a batch at a time, and discard the numbers; only the time matters.

    Args:
        d_k, n_keys, n_queries: sizes of a draw.
        divisors: as in `measure`.
        trials: in all.
        batch: trials drawn and measured at once.
        gradients: as in `measure`.
        dtype: `float64` or `float32`, of draws and of all that follows from them.
    """
    import torch

    for first in range(0, trials, batch):
        count = min(batch, trials - first)
        keys, queries = (torch.randn(count, n, d_k, dtype=getattr(torch, dtype)) for n in (n_keys, n_queries))
        measure(keys, queries, divisors, gradients=gradients)


def use_one_thread() -> None:
    """Keep PyTorch on one core, like every timed task."""
    import torch

    torch.set_num_threads(1)
