"""The laws from which the entries of q and k are drawn: independent, mean 0, variance 1.

A law is a sampler with its even moments; `@input_law` registers it under its name.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from sdpa._arrays import FloatArray

Sampler = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]
LAWS: "dict[str, InputLaw]" = {}


@dataclass(frozen=True)
class InputLaw:
    """A law with mean 0 and variance 1: its name, its sampler, and E x^4, E x^6 and E x^8.

    The kurtosis of q.k depends on the first of these moments, the spread of its estimates on all. Odd ones are 0.

    >>> InputLaw.parse("gaussian").sample(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    name: str
    sample: Sampler
    moments: tuple[float, float, float]

    @classmethod
    def parse(cls, text: str) -> "InputLaw":
        """The law of that name; ValueError if `LAWS` does not contain it."""
        if text not in LAWS:
            near = ["gaussian"] if text == "normal" else get_close_matches(text.lower(), LAWS, n=1)
            hint = "".join(f"; did you mean {name}?" for name in near)
            raise ValueError(f"expected one of {', '.join(LAWS)}, got {text!r}{hint}")
        return LAWS[text]

    def __str__(self) -> str:
        return self.name


def input_law(*moments: float) -> Callable[[Sampler], Sampler]:
    """Register a sampler in `LAWS` under its name, with E x^4, E x^6 and E x^8.

    Raises:
        ValueError: the number of moments is not three, or the name is taken.
    """
    if len(moments) != 3:
        raise ValueError(f"expected E x^4, E x^6 and E x^8, got {len(moments)} moments")

    def enter(sample: Sampler) -> Sampler:
        name = sample.__name__
        if name in LAWS:
            raise ValueError(f"expected a single law called {name}, got a second one")
        LAWS[name] = InputLaw(name, sample, (moments[0], moments[1], moments[2]))
        return sample

    return enter


@input_law(3.0, 15.0, 105.0)
def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x ~ N(0, 1), independent entries of the given shape."""
    return rng.standard_normal(shape)


@input_law(9 / 5, 27 / 7, 9.0)
def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x ~ U(-sqrt(3), sqrt(3)), whose variance is 1; independent entries of the given shape."""
    return rng.uniform(-math.sqrt(3), math.sqrt(3), shape)
