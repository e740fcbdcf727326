"""Integrals, and the distance of drawn rows from exact values."""

import itertools
from math import sqrt

from scipy.integrate import quad


def standard_errors(values, expected):
    """The distance of a mean from its expectation, over its standard error."""
    return abs(values.mean() - expected) / (values.std(ddof=1) / sqrt(len(values)))


def integral(function, ends, **tolerances):
    """The adaptive integral over pieces between neighbouring ends."""
    pieces = itertools.pairwise(ends)
    return sum(quad(function, low, high, **tolerances)[0] for low, high in pieces)
