"""The metrics of the rows of a draw from their definitions: loops, and the softmax's Jacobian as a
matrix; and the two rules that most tests compare.
"""

import math

import numpy as np

from experiments.measuring.row_metrics import METRICS
from sdpa import Scaling
from tests.plain_attention import dot, entropy, softmax_of_row

RULES = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2")))


def rows_of_draw(q, k, divisor, g=None, *, causal=False):
    """The numbers per row of every metric, squared for a root mean square; of gradients to keys
    and values their mean; as `drawn`, the squares of |dL/dq| for gradients g to the weights. And
    all visible scores.
    """
    n_queries, n_keys = len(q), len(k)
    found = {metric.name: [] for metric in METRICS if metric.kind != "quantile"} | {"drawn": []}
    scores = []
    key_square = value_square = 0.0
    for i in range(n_queries):
        own = (n_keys - n_queries + i) % n_keys
        seen = own + 1 if causal else n_keys
        row = [dot(q[i], key) / divisor for key in k[:seen]]
        w = softmax_of_row(row)
        jacobian = np.diag(w) - np.outer(w, w)
        # A column for a gradient of 1 to one weight.
        to_weights = np.array(k[:seen]).T @ jacobian / divisor
        scores += row
        found["row_variance"].append(sum((s - sum(row) / seen) ** 2 for s in row) / seen)
        found["max_weight"].append(max(w))
        found["own_weight"].append(w[own])
        found["entropy"].append(entropy(w))
        found["effective_keys"].append(math.exp(entropy(w)))
        squares = dot(w, w)
        found["participation"].append(1 / squares)
        found["output_std"].append(squares)
        found["jacobian_trace"].append(np.trace(jacobian))
        found["jacobian_norm"].append((jacobian**2).sum())
        found["query_gradient_norm"].append((to_weights**2).sum())
        if g is not None:
            to_query = sum(g[i][j] * to_weights[:, j] for j in range(seen))
            found["drawn"].append(dot(to_query, to_query))
        found["saturated_rows"].append(max(w) > 0.99)
        key_square += np.trace(jacobian @ jacobian) * dot(q[i], q[i]) / divisor**2 / n_keys
        value_square += squares / n_keys
    found["key_gradient_norm"] = [key_square]
    found["value_gradient_norm"] = [value_square]
    return found, scores


def score_variance(scores):
    """The variance of scores (n_draws, n) about their mean, whose square is that of the mean of all
    less what chance between draws adds to it.
    """
    means = np.mean(scores, axis=1)
    square_of_mean = np.mean(means) ** 2 - np.var(means, ddof=1) / len(means)
    return np.mean(np.square(scores)) - square_of_mean
