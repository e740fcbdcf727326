"""The metrics of the rows of a draw from their definitions: loops, and the softmax's Jacobian as a
matrix; and the two rules that most tests compare.
"""

import math
from statistics import pvariance

import numpy as np

from sdpa import Scaling
from tests.plain_attention import dot, entropy, softmax_of_row

RULES = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2")))


def of_row(scores):
    """The metrics of a row of scaled scores, squared for a root mean square; its Jacobian."""
    w = softmax_of_row(scores)
    jacobian = np.diag(w) - np.outer(w, w)
    squares = dot(w, w)
    return {
        "row_variance": pvariance(scores),
        "max_weight": max(w),
        "entropy": entropy(w),
        "effective_keys": math.exp(entropy(w)),
        "participation": 1 / squares,
        "output_std": squares,
        "jacobian_trace": np.trace(jacobian),
        "jacobian_norm": (jacobian**2).sum(),
        "saturated_rows": max(w) > 0.99,
    }, jacobian


def rows_of_draw(q, k, divisor, g=None, *, causal=False, window=None):
    """The numbers per row of every metric, squared for a root mean square; as `drawn`, the squares
    of |dL/dq| for gradients g to the weights. And all visible scores. A window shows the last keys
    of the causal ones.
    """
    rows, scores = [], []
    of_keys = len(q) / len(k)  # of the rows that add to the gradient of a key or value
    for i, query in enumerate(q):
        own = (len(k) - len(q) + i) % len(k)
        first = max(own + 1 - window, 0) if window else 0
        keys = np.array(k[first : own + 1] if causal else k)
        row = [dot(query, key) / divisor for key in keys]
        scores += row
        row_metrics, jacobian = of_row(row)
        # A column for a gradient of 1 to one weight.
        to_weights = keys.T @ jacobian / divisor
        row_metrics["own_weight"] = softmax_of_row(row)[own - first]
        row_metrics["query_gradient_norm"] = (to_weights**2).sum()
        row_metrics["key_gradient_norm"] = (
            of_keys * row_metrics["jacobian_norm"] * dot(query, query) / divisor**2
        )
        row_metrics["value_gradient_norm"] = of_keys * row_metrics["output_std"]
        if g is not None:
            row_metrics["drawn"] = ((to_weights @ g[i]) ** 2).sum()
        rows.append(row_metrics)
    return {name: [row[name] for row in rows] for name in rows[0]}, scores


def score_variance(scores):
    """The variance of scores (n_draws, n) about their mean, whose square is that of the mean of all
    less what chance between draws adds to it.
    """
    means = np.mean(scores, axis=1)
    square_of_mean = np.mean(means) ** 2 - np.var(means, ddof=1) / len(means)
    return np.mean(np.square(scores)) - square_of_mean
