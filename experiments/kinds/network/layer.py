"""What is measured in a layer of a network: its input from the residual stream, its attention rows,
and the gradients of its parts.
"""

import numpy as np

from experiments.measuring.columns import Column
from sdpa import network
from sdpa._arrays import FloatArray
from sdpa.metrics import collision, entropy, max_weight, row_variance

LAYER_VALUES = (
    Column("stream", "float", "mean square of the entries of the stream before the layer"),
    Column("cosine", "float", "mean cosine of two tokens before the layer"),
    Column("collision", "float", "sum of the squared weights of a row", "sum_j w_j^2"),
    Column("max_weight", "float", "largest weight of a row"),
    Column("entropy", "float", "entropy of a row", "-sum_j w_j ln w_j", "nats"),
    Column("row_variance", "float", "variance of the scaled scores within a row"),
    Column(
        "stream_gradient",
        "float",
        "mean square of the entries of the gradient to the stream before the layer, over that above",
    ),
    Column("gradient_cosine", "float", "mean product of the gradients to two tokens, over it"),
    Column("query_gradient", "float", "mean of |dL/dq|^2 of a head"),
    Column("key_gradient", "float", "mean of |dL/dk|^2 of a head"),
    Column("value_gradient", "float", "mean of |dL/dv|^2 of a head"),
    Column("query_gradient_median", "float", "median of |dL/dq| of all rows of a stack"),
)


def values_of_layer(step: network.Steps, gradient: network.BlockGradients) -> list[float]:
    """The values of a layer, in the order of `LAYER_VALUES`."""
    return [*stream_values(step.x), *_row_values(step), *_gradient_values(gradient)]


def stream_values(x: FloatArray) -> tuple[float, float]:
    """The mean square of the entries of a stream, and the mean cosine of two tokens."""
    directions = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return _mean_square(x), _mean_product(directions)


def _mean_square(x: FloatArray) -> float:
    return float(np.vdot(x, x)) / x.size


def _mean_product(vectors: FloatArray) -> float:
    """The mean product of two different vectors, (n, width)."""
    n, total = len(vectors), vectors.sum(axis=0)
    pair_sum = total @ total - np.vdot(vectors, vectors)
    return float(pair_sum) / (n * (n - 1))


def _row_values(step: network.Steps) -> list[float]:
    """Means over the rows of all heads."""
    w = step.weights
    rows = collision(w), max_weight(w), entropy(w), row_variance(step.scaled)
    return [float(values.mean()) for values in rows]


def _gradient_values(gradients: network.BlockGradients) -> list[float]:
    """The last six of `LAYER_VALUES`: the gradients to the stream, and to queries, keys and values."""
    norms = [np.vecdot(x, x) for x in (gradients.q, gradients.k, gradients.v)]
    square = _mean_square(gradients.x)
    cosine = _mean_product(gradients.x) / (square * gradients.x.shape[-1])
    means = (float(norm.mean()) for norm in norms)
    median = float(np.median(np.sqrt(norms[0])))
    return [square, cosine, *means, median]
