"""Derivatives, normal numbers, and the distance of drawn rows from exact values."""

from math import sqrt

import numpy as np


def is_mean(values, expected, within=0.0):
    """Within five standard errors: one false alarm in 1.7 million, if reseeded."""
    error = 5 * values.std(ddof=1) / sqrt(values.size)
    return abs(values.mean() - expected) < error + within


def derivative(function, at, along):
    """The derivative along a direction, by differences of fourth order."""
    near, far = (function(at + h * along) - function(at - h * along) for h in (2e-5, 4e-5))
    return (8 * near - far) / 24e-5


def normals(*shape, seed=0):
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


class Tensor:
    """As PyTorch's: NumPy does not read one with a gradient, or of bfloat16."""

    def __init__(self, values, dtype="torch.bfloat16", *, has_gradient=True):
        self.values, self.dtype, self.has_gradient = values, dtype, has_gradient

    def detach(self):
        return Tensor(self.values, self.dtype, has_gradient=False)

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.values, "torch.float32", has_gradient=self.has_gradient)

    def __array__(self, *_, **__):
        assert (self.dtype, self.has_gradient) == ("torch.float32", False)
        return self.values
