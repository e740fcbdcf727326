"""The laws from which the entries of q and k are drawn: independent, mean 0, variance 1.

A law is a sampler with its moments, listed in `LAWS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sdpa._arrays import FloatArray
from sdpa._names import not_among

Sampler = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]


@dataclass(frozen=True)
class InputLaw:
    """A law with mean 0 and variance 1: its name, its sampler, and its moments E x^3 and
    E x^4, infinite if they do not exist.

    >>> InputLaw.parse("gaussian").sample(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    name: str
    sample: Sampler = field(repr=False)
    moments: tuple[float, float] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> InputLaw:
        """The law of that name; ValueError if `LAWS` does not contain it."""
        if text not in LAWS:
            raise ValueError(not_among(text, LAWS, "gaussian" if text == "normal" else None))
        return LAWS[text]

    def __str__(self) -> str:
        return self.name


def _lognormal_moment(order: int) -> float:
    """E x^n = sum_j C(n, j) (-1)^(n-j) e^(j (j-1) / 2) / (e - 1)^(n/2) of `lognormal`, from E e^(j
    z) = e^(j^2 / 2).
    """
    terms = (
        math.comb(order, j) * (-1) ** (order - j) * math.exp(j * (j - 1) / 2)
        for j in range(order + 1)
    )
    return math.fsum(terms) / math.pow(math.e - 1, order / 2)


def _gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x ~ N(0, 1), independent entries of the given shape."""
    return rng.standard_normal(shape)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x ~ U(-sqrt(3), sqrt(3)), whose variance is 1; independent entries of the given shape."""
    return rng.uniform(-math.sqrt(3), math.sqrt(3), shape)


def _rademacher(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = -1 or 1 with equal probability; independent entries of the given shape."""
    return 2.0 * rng.integers(0, 2, shape) - 1.0


def _laplace(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x of the density e^(-sqrt(2) |x|) / sqrt(2), whose variance is 1; independent entries of the
    given shape.
    """
    return rng.laplace(0.0, math.sqrt(0.5), shape)


def _student_t(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = sqrt(3/5) t, t of Student's law of 5 degrees of freedom and variance 5/3; independent
    entries of that shape.

    Its tails fall like |x|^-6, so that no moment from the fifth exists.
    """
    return rng.standard_t(5, shape) * math.sqrt(3 / 5)


def _lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = (e^z - e^(1/2)) / sqrt(e (e - 1)), z ~ N(0, 1): skewed, mean 0, variance 1; independent
    entries.
    """
    return (np.exp(rng.standard_normal(shape)) - math.sqrt(math.e)) / math.sqrt(
        math.e * (math.e - 1)
    )


def _sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = 0 with probability 7/8, else -sqrt(8) or sqrt(8) with equal probability, so that its
    variance is 1; independent entries of the given shape.
    """
    drawn = rng.integers(0, 16, shape)
    return math.sqrt(8) * (np.equal(drawn, 1) - 1.0 * np.equal(drawn, 0))


LAWS = {
    law.name: law
    for law in (
        InputLaw("gaussian", _gaussian, (0.0, 3.0)),
        InputLaw("uniform", _uniform, (0.0, 9 / 5)),
        InputLaw("rademacher", _rademacher, (0.0, 1.0)),
        InputLaw("laplace", _laplace, (0.0, 6.0)),
        InputLaw("student_t", _student_t, (0.0, 9.0)),
        InputLaw("lognormal", _lognormal, (_lognormal_moment(3), _lognormal_moment(4))),
        InputLaw("sparse", _sparse, (0.0, 8.0)),
    )
}


class NormalSource(Protocol):
    """A source of standard normal numbers: NumPy's Generator, or its legacy RandomState for
    published seeds.
    """

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Independent standard normal numbers of that shape."""
        ...


def normal_source(seed: int | None, rng: NormalSource | None) -> NormalSource:
    """The given rng, or NumPy's default Generator with the given seed (default 0); global state
    stays untouched.

    Raises:
        ValueError: both seed and rng are given, or the seed is below 0.
        TypeError: the seed is not an integer, or the rng cannot draw normal numbers.

    >>> normal_source(None, None).standard_normal((2,)).round(4)
    array([ 0.1257, -0.1321])
    """
    if rng is not None and seed is not None:
        raise ValueError(f"expected seed or rng, got both: seed {seed!r} and an rng")
    if rng is not None:
        if not hasattr(rng, "standard_normal"):
            raise TypeError(
                f"rng: expected a NumPy Generator or RandomState, got {rng!r} (pass an integer as "
                "seed)"
            )
        return rng
    seed = 0 if seed is None else seed
    if not isinstance(seed, int | np.integer):
        raise TypeError(f"seed: expected a non-negative integer, got {seed!r}")
    if seed < 0:
        raise ValueError(f"seed: expected a non-negative integer, got {seed}")
    return np.random.default_rng(int(seed))
