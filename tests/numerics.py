"""Integrals, normal numbers, and the distance of drawn rows from exact values."""

import itertools
from math import sqrt

import numpy as np
from scipy.integrate import quad


def is_mean(values, expected, within=0.0):
    """Within five standard errors: one false alarm in 1.7 million, if reseeded."""
    error = 5 * values.std(ddof=1) / sqrt(values.size)
    return abs(values.mean() - expected) < error + within


def integral(function, ends, **tolerances):
    """The adaptive integral over pieces between neighbouring ends."""
    pieces = itertools.pairwise(ends)
    return sum(quad(function, low, high, **tolerances)[0] for low, high in pieces)


def normals(*shape, seed=0):
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def in_bfloat16(values):
    """The nearest numbers of bfloat16, in single precision."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).view(np.float32)
