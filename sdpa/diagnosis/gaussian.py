"""Exact values for Gaussian rows like those of a head: of the same lengths, mask and mean variance within rows."""

from __future__ import annotations

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.theory.gaussian_rows import gaussian_rows

# Rows of a larger deviation are one-hot within 1e-5, and integrals over them lose digits.
_LARGEST_SIGMA = 1e6


def gaussian_values(
    n_visible: FloatArray, lengths: FloatArray, sees_first: FloatArray, *, variance: float
) -> dict[str, float]:
    """Means over rows of independent normal scores, of variances proportional to `lengths` with a given mean.

    If keys lie in independent random directions, the variance of a row is proportional to |q|^2 and to the mean of
    |k|^2, as here. The variance found in a row would be no better: among few keys it varies by chance, and rows in
    which it happens to be large are also those with a large weight.

    Args:
        n_visible: number of keys of each row.
        lengths: |q|^2 times the mean of |k|^2 over them, of each row.
        sees_first: 1 for each row that sees the first key, else 0.
        variance: mean over rows of the variance of their scores, with 1/(n-1).

    Returns:
        By the names of quantities: means over rows, and the root mean square of |J|_F; NaN without rows.

    >>> found = gaussian_values(np.array([64.0, 64.0]), np.ones(2), np.ones(2), variance=1.0)
    >>> round(found["max_weight"], 6), found["first_key_weight"]
    (0.107274, 0.015625)
    """
    if not len(n_visible):
        return {}
    mean = lengths.mean()
    sigma = np.sqrt(variance * (lengths / mean)) if mean > 0 else np.zeros_like(lengths)
    sigma = np.minimum(sigma, _LARGEST_SIGMA)
    max_weight, entropy, square, saturated = gaussian_rows(np.asarray(sigma, np.float64), n_visible.astype(int)).T
    return {
        "max_weight": float(max_weight.mean()),
        "entropy": float(entropy.mean()),
        "entropy_share": float((entropy / np.log(n_visible)).mean()),
        "saturated_rows": float(saturated.mean()),
        "jacobian_norm": float(np.sqrt(square.mean())),
        "first_key_weight": float((sees_first / n_visible).mean()),
    }
