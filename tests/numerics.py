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
