"""The metrics of the rows of a draw from their definitions: loops, and the softmax's Jacobian as a
matrix.
"""

import math

import numpy as np

from experiments.measuring.row_metrics import METRICS


def softmax_of(scores):
    exponentials = [math.exp(s) for s in scores]
    return [e / sum(exponentials) for e in exponentials]


def metrics_of_draw(q, k, divisor, *, causal=False):
    """The mean over the rows of a draw of every metric, squared for a root mean square; and all
    visible scores.
    """
    n_queries, n_keys = len(q), len(k)
    found = {metric.name: [] for metric in METRICS if metric.kind != "quantile"}
    scores, key_square, value_square = [], 0.0, 0.0
    for i in range(n_queries):
        own = (n_keys - n_queries + i) % n_keys
        seen = own + 1 if causal else n_keys
        row = [sum(x * y for x, y in zip(q[i], k[j], strict=True)) / divisor for j in range(seen)]
        w = softmax_of(row)
        jacobian = np.diag(w) - np.outer(w, w)
        gradients = (
            np.array(k[:seen]).T @ jacobian / divisor
        )  # a column for a gradient of 1 to one weight
        scores += row
        found["row_variance"].append(sum((s - sum(row) / seen) ** 2 for s in row) / seen)
        found["max_weight"].append(max(w))
        found["own_weight"].append(w[own])
        entropy = -sum(x * math.log(x) for x in w)
        found["entropy"].append(entropy)
        found["effective_keys"].append(math.exp(entropy))
        squares = sum(x * x for x in w)
        found["participation"].append(1 / squares)
        found["output_std"].append(squares)
        found["jacobian_trace"].append(np.trace(jacobian))
        found["jacobian_norm"].append((jacobian**2).sum())
        found["query_gradient_norm"].append((gradients**2).sum())
        found["saturated_rows"].append(max(w) > 0.99)
        length = sum(x * x for x in q[i])
        key_square += (
            sum((jacobian @ jacobian)[j, j] for j in range(seen)) * length / divisor**2 / n_keys
        )
        value_square += squares / n_keys
    found["key_gradient_norm"], found["value_gradient_norm"] = [key_square], [value_square]
    return {name: np.mean(values) for name, values in found.items() if values}, scores
