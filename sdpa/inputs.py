"""The laws from which the entries of q and k are drawn: independent, mean 0, variance 1."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sdpa._arrays import FloatArray


def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x ~ N(0, 1), independent entries of the given shape."""
    return rng.standard_normal(shape)


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x ~ U(-sqrt(3), sqrt(3)), whose variance is 1; independent entries of the given shape."""
    return rng.uniform(-math.sqrt(3), math.sqrt(3), shape)


@dataclass(frozen=True)
class InputLaw:
    """A law with mean 0 and variance 1: its name, its sampler, and E x^4, E x^6 and E x^8.

    The kurtosis of q.k depends on the first of these moments, the spread of its estimates on all. Odd ones are 0.

    >>> InputLaw.parse("gaussian").sample(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    name: str
    sample: Callable[[np.random.Generator, tuple[int, ...]], FloatArray]
    moments: tuple[float, float, float]

    @classmethod
    def parse(cls, text: str) -> "InputLaw":
        """The law of that name; ValueError for a name that is not in `LAWS`."""
        if text not in LAWS:
            raise ValueError(f"expected one of {', '.join(LAWS)}, got {text!r}")
        return LAWS[text]

    def __str__(self) -> str:
        return self.name


LAWS = {
    law.name: law
    for law in (
        InputLaw("gaussian", gaussian, moments=(3.0, 15.0, 105.0)),
        InputLaw("uniform", uniform, moments=(9 / 5, 27 / 7, 9.0)),
    )
}
