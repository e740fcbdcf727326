"""The laws from which the entries of q and k are drawn: independent, mean 0, variance 1.

A law is a sampler with its moments; `@input_law` registers it under its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa._names import did_you_mean, nearest
from sdpa.box_muller import single_normals

Sampler = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]
LAWS: dict[str, InputLaw] = {}


@dataclass(frozen=True)
class InputLaw:
    """A law with mean 0 and variance 1: its name, its sampler, and its moments E x^3 to E x^8.

    The kurtosis of q.k depends on the first two of these moments, the spread of its estimates on all. A moment that
    does not exist is infinite.

    >>> InputLaw.parse("gaussian").sample(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    name: str
    sample: Sampler = field(repr=False)
    moments: tuple[float, ...] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> InputLaw:
        """The law of that name; ValueError if `LAWS` does not contain it."""
        if text not in LAWS:
            hint = did_you_mean("gaussian" if text == "normal" else nearest(text, LAWS))
            raise ValueError(f"expected one of {', '.join(LAWS)}, got {text!r}{hint}")
        return LAWS[text]

    def __str__(self) -> str:
        return self.name

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Independent entries of that shape, in double or in single precision.

        The two precisions give different numbers from the same generator. In single precision, Gaussian entries come
        from `single_normals`; all others are drawn in double precision and rounded.
        """
        if np.dtype(dtype) == np.float32 and draws_single(self):
            return single_normals(rng, shape)
        return self.sample(rng, shape).astype(dtype, copy=False)


# A function, because a stored result records the code of `InputLaw.draw` and of the functions that it calls.
def draws_single(law: InputLaw) -> bool:
    """True if a law draws in single precision; the entries of any other are drawn in double precision and rounded."""
    return law.sample is gaussian


def input_law(*moments: float) -> Callable[[Sampler], Sampler]:
    """Register a sampler in `LAWS` under its name, with its moments E x^3, E x^4, E x^5, E x^6, E x^7 and E x^8.

    Raises:
        ValueError: the number of moments is not six, or the name is taken.
    """
    if len(moments) != 6:
        raise ValueError(f"expected the six moments E x^3 to E x^8, got {len(moments)}")

    def enter(sample: Sampler) -> Sampler:
        name = sample.__name__
        if name in LAWS:
            raise ValueError(f"expected a single law called {name}, got a second one")
        LAWS[name] = InputLaw(name, sample, moments)
        return sample

    return enter


def _lognormal_moment(order: int) -> float:
    """E x^n = sum_j C(n, j) (-1)^(n-j) e^(j (j-1) / 2) / (e - 1)^(n/2) for x = (e^z - e^(1/2)) / sqrt(e (e - 1)).

    From E e^(j z) = e^(j^2 / 2) of a standard normal z.

    >>> round(_lognormal_moment(3), 6)  # the skewness (e + 2) sqrt(e - 1)
    6.184877
    """
    terms = (math.comb(order, j) * (-1) ** (order - j) * math.exp(j * (j - 1) / 2) for j in range(order + 1))
    return math.fsum(terms) / math.pow(math.e - 1, order / 2)


@input_law(0.0, 3.0, 0.0, 15.0, 0.0, 105.0)
def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x ~ N(0, 1), independent entries of the given shape."""
    return rng.standard_normal(shape)


@input_law(0.0, 9 / 5, 0.0, 27 / 7, 0.0, 9.0)
def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x ~ U(-sqrt(3), sqrt(3)), whose variance is 1; independent entries of the given shape."""
    return rng.uniform(-math.sqrt(3), math.sqrt(3), shape)


@input_law(0.0, 1.0, 0.0, 1.0, 0.0, 1.0)
def rademacher(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = -1 or 1 with equal probability; independent entries of the given shape."""
    return 2.0 * rng.integers(0, 2, shape) - 1.0


@input_law(0.0, 6.0, 0.0, 90.0, 0.0, 2520.0)
def laplace(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x of the density e^(-sqrt(2) |x|) / sqrt(2), whose variance is 1; independent entries of the given shape.

    E x^n = n! / 2^(n/2) for even n.
    """
    return rng.laplace(0.0, math.sqrt(0.5), shape)


@input_law(0.0, 9.0, math.inf, math.inf, math.inf, math.inf)
def student_t(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = sqrt(3/5) t, t of Student's law of 5 degrees of freedom and variance 5/3; independent entries of that shape.

    Its tails fall like |x|^-6, so that no moment from the fifth exists.
    """
    return rng.standard_t(5, shape) * math.sqrt(3 / 5)


@input_law(*map(_lognormal_moment, range(3, 9)))
def lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = (e^z - e^(1/2)) / sqrt(e (e - 1)), z ~ N(0, 1): skewed, mean 0, variance 1; independent entries."""
    return (np.exp(rng.standard_normal(shape)) - math.sqrt(math.e)) / math.sqrt(math.e * (math.e - 1))
