"""Weights of rows behind caps, beside sinks and under the sigmoid, by the definitions."""

import math

import numpy as np

from tests.numerics import derivative


def plain_weights(scores, row_map, bias=0.0):
    """The weights of one row of scaled scores, by the definitions."""
    cap = row_map.softcap
    z = (cap * np.tanh(scores / cap) if cap else scores) + bias
    if row_map.normalizer == "sigmoid":
        return 1 / (1 + len(z) * np.exp(-z))
    total = np.exp(z).sum()
    if row_map.sink is not None:
        total += math.exp(row_map.sink)
    return np.exp(z) / total


def plain_jacobian(scores, row_map, bias=0.0):
    """dw_i / ds_j by differences of the definitions."""

    def weights(scores):
        return plain_weights(scores, row_map, bias)

    return np.transpose([derivative(weights, scores, axis) for axis in np.eye(len(scores))])
