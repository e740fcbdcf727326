"""The measurement in the style of an article: one trial at a time, in plain NumPy, from the formulas.

No line is tuned for or against the suite.
"""

import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def with_powers(scaled, weights):
    """Means of the scores' powers and of the metrics of rows, with powers written as in the formulas."""
    s2, s3 = np.sum(weights**2, axis=-1), np.sum(weights**3, axis=-1)
    return {
        "score_mean": np.mean(scaled),
        "score_square": np.mean(scaled**2),
        "score_cube": np.mean(scaled**3),
        "score_fourth": np.mean(scaled**4),
        "max_weight": np.mean(np.max(weights, axis=-1)),
        "entropy": np.mean(-np.sum(weights * np.log(weights + 1e-300), axis=-1)),
        "jacobian_trace": np.mean(1 - s2),
        "saturated_rows": np.mean(np.max(weights, axis=-1) > 0.99),
    }, np.sqrt(np.maximum(s2 - 2 * s3 + s2**2, 0))


def with_products(scaled, weights):
    """The same with products instead of powers, because NumPy computes products faster."""
    squared, w2 = scaled * scaled, weights * weights
    s2, s3 = np.sum(w2, axis=-1), np.sum(w2 * weights, axis=-1)
    return {
        "score_mean": np.mean(scaled),
        "score_square": np.mean(squared),
        "score_cube": np.mean(squared * scaled),
        "score_fourth": np.mean(squared * squared),
        "max_weight": np.mean(np.max(weights, axis=-1)),
        "entropy": np.mean(-np.sum(weights * np.log(weights + 1e-300), axis=-1)),
        "jacobian_trace": np.mean(1 - s2),
        "saturated_rows": np.mean(np.max(weights, axis=-1) > 0.99),
    }, np.sqrt(np.maximum(s2 - 2 * s3 + s2 * s2, 0))


def query_gradient_norms(weights, keys, divisor):
    """The root mean square of |dL/dq| over standard normal gradients to the weights, of every row."""
    means = weights @ keys
    squares = np.sum(keys**2, axis=-1) - 2 * means @ keys.T + np.sum(means**2, axis=-1, keepdims=True)
    return np.sqrt(np.maximum(np.sum(weights**2 * squares, axis=-1), 0)) / divisor


def measure(d_k, n_keys, n_queries, exponents, trials, gradients, metrics=with_powers, randn=np.random.randn):
    """For every exponent the mean of each metric over the trials, its standard error, and the medians of norms."""
    found = {p: [] for p in exponents}
    norms = {p: {"jacobian_norm": [], "query_gradient_norm": []} for p in exponents}
    for _ in range(trials):
        queries = randn(n_queries, d_k)
        keys = randn(n_keys, d_k)
        scores = queries @ keys.T
        for p in exponents:
            divisor = d_k**p
            scaled = scores / divisor
            weights = softmax(scaled)
            means, jacobian_norms = metrics(scaled, weights)
            norms[p]["jacobian_norm"].append(jacobian_norms)
            if gradients:
                norms[p]["query_gradient_norm"].append(query_gradient_norms(weights, keys, divisor))
            found[p].append(means)
    return {p: summary(found[p], norms[p]) for p in exponents}


def summary(trials, norms):
    """Means and standard errors over trials; root mean squares, their errors, and medians of the norms."""
    values = {}
    for name in trials[0]:
        series = np.array([trial[name] for trial in trials])
        values[name], values[f"{name}_se"] = np.mean(series), np.std(series) / np.sqrt(len(series))
    for name, rows in norms.items():
        if rows:
            squares = np.mean(np.array(rows) ** 2, axis=-1)
            values[name] = np.sqrt(np.mean(squares))
            values[f"{name}_se"] = np.std(squares) / np.sqrt(len(squares)) / (2 * values[name])
            values[f"{name}_median"] = np.median(rows)
    return values
